"""Gaussians as arrays: the embedding and its file, how unlike two Gaussians are, and exact search."""
