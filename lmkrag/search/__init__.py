"""From a query's vector and words to spans."""
