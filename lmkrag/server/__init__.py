"""``lmkrag serve`` and ``lmkrag mcp``: indexes behind HTTP and the Model Context Protocol."""
