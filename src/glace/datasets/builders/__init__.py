"""Graphs made from what is on the user's own machine: WordNet's files, apt's package lists."""
