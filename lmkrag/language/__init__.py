"""What a language knows: words, numbers, dates, names, and what a question says."""
