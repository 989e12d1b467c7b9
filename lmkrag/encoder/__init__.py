"""From sentences to vectors."""
