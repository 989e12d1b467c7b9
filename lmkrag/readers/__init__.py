"""What answers a question from spans."""

READERS = ("extractive", "openai", "vllm", "transformers")  # what can answer, by name
