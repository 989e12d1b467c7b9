"""What the server answers, one file for each group of routes."""
