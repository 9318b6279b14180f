"""Which nodes a training step looks at: positive edges and negatives."""
