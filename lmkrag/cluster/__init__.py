"""Beyond one process and one directory: blocks encoded apart, resharding, snapshots stored elsewhere."""
