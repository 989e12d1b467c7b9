"""The machine that lmkrag runs on: its files, processes, the user's cache, connections."""
