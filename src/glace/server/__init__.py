"""Answers over HTTP, and the page to explore an embedding."""
