"""Word search: terms, postings and BM25."""
