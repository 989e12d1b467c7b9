"""What answers a question from spans."""

READERS = ("extractive", "openai", "vllm", "transformers")
"""What can answer, by name."""
