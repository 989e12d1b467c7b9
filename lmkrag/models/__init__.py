"""What runs a transformer, for the encoder and the re-ranker alike."""
