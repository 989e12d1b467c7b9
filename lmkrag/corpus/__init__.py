"""From files to documents to sentences."""
