"""Measuring retrieval, ours and that of chunk-based peers."""
