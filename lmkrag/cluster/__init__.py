"""Indexing by several processes: blocks of documents are encoded apart, and adopted by an index."""
