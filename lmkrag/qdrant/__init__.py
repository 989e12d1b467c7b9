"""An index on Qdrant: the same store and snapshots as of a folder, for more than one machine."""
