"""Readers answer a question from spans."""

READERS = ("extractive", "openai", "vllm", "transformers")  # by name
