"""An index on Qdrant, for several machines: the same store and snapshots.

``log`` has the commits, ``store`` writes and keeps a local copy, ``snapshot`` searches,
``connection`` calls the server.
"""
