"""Train a landmark encoder."""
