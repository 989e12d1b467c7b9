"""Reading a question and a found place together: a second look at what a search found."""
