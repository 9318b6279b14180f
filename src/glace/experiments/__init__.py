"""The paper's experiments: baselines, tasks, tables and figures."""
