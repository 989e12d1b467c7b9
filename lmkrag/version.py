"""The version of lmkrag."""

__version__ = "0.1.0"
