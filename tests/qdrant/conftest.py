"""What needs Qdrant's engine is not collected where it is not installed."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("qdrant_edge") else ["edge_client.py"]
