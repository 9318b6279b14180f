"""The paper's experiments: datasets, methods, tasks and seeds to records."""
