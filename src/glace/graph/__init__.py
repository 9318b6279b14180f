"""Graphs: what they are, how they are made, checked and split."""
