"""Beyond one process and one directory: batches encoded apart, resharding, snapshots stored elsewhere."""
