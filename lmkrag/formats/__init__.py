"""From files to documents: one reader for each format, run in a sandboxed process.

``load`` chooses the reader by a file's name, ``isolated`` runs it under limits, ``base`` has what
readers return and share, ``pages`` draws pages.
"""
