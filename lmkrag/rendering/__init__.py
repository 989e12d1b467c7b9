"""Show text as its author meant it: one tree of elements for the web page, notebooks and the
terminal.
"""
