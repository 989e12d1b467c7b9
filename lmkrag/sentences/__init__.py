"""From a text to its sentences, and the structure that they stand in."""
