"""Searches: from the vector and the words of a query to spans."""
