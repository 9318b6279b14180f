"""Columns of tables to attribute matrices, and new rows to the same columns."""
