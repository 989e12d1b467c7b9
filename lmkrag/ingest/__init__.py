"""From sources to committed documents: what changed, reading, encoding, commits."""
