"""Builders of graphs from files on this machine: WordNet's files, apt's package lists, AMiner's citation texts."""
