"""Re-ranking: read a question together with each of the best passages, and order the results by
that.
"""
