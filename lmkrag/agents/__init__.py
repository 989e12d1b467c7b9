"""Tell coding agents and assistants of an index: entries in their own settings, which can be taken back."""
