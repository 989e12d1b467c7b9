"""Reading a question and a found passage together: a second look at what a search found."""
