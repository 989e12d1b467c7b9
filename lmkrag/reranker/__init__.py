"""Re-ranking: read a question and a found passage together, and order what a search found by that."""
