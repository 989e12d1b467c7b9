"""From files and documents to commits: find changes, read, encode, commit in batches.

``walk`` finds files, ``changes`` compares them with the index, ``sources`` reads them, ``pipeline``
encodes and commits, ``report`` counts.
"""
