"""One file a format family. Each has ``read(data, name) -> Loaded`` and raises ``DocumentError``."""
