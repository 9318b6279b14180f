"""Approximate search for graphs of millions of nodes, with the recall it has."""
