"""An index on Qdrant: the same store and snapshots, for several machines."""
