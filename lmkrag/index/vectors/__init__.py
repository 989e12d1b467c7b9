"""Vector search: FAISS files, and the recipes that choose their type."""
