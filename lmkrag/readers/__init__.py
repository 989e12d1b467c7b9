"""What answers a question from spans."""
