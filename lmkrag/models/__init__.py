"""Transformers as the encoder and the re-ranker run them: weights, graphs, int8, sessions."""
