"""Transformers as the encoder and the re-ranker run them."""
