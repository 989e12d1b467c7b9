"""The index on disk: a catalog, immutable segments, one writer and any number of readers.

``store`` writes and commits, ``pool`` gives readers their snapshots, ``snapshot`` searches one
committed state, ``segments`` are its files, ``catalog`` has all SQL.
"""
