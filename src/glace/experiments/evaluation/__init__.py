"""How good an embedding is, on tasks with a known answer; sees embeddings, never models."""
