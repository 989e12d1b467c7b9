"""Vector search: FAISS indexes and the recipes that choose their type."""
