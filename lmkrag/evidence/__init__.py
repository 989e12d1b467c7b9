"""Evidence: what marks and orders the results of a search, and checks what was quoted from them."""
