"""The retriever and the encoder inside other frameworks."""
