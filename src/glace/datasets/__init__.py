"""Graphs by name, and synthetic graphs with known communities.

>>> from glace import datasets
>>> datasets.load("wordnet-nouns")  # doctest: +ELLIPSIS
Graph(... nodes, ... undirected edges, ... sparse attributes...)
"""

from glace.datasets.builders.build import build
from glace.datasets.download import get
from glace.datasets.planted import planted
from glace.datasets.registry import Dataset, find, load, names

__all__ = ["Dataset", "build", "find", "get", "load", "names", "planted"]
