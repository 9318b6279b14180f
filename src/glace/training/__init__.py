"""Training: the loop, early stopping and progress, checkpoints."""
