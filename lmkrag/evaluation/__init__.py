"""Measure retrieval on sets of questions with evidence, against chunk-based retrievers."""
