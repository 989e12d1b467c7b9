"""From the bytes of a file to its text: one module a format."""
