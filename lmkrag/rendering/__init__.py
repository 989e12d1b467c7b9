"""Show text as its author meant it: one tree of a passage for the page, notebooks and the
terminal.
"""
