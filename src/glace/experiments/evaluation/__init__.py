"""Evaluation of embeddings on tasks with a known answer; it sees embeddings, never models."""
