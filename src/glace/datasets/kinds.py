"""The bundled graph with two node types: things that WordNet's nouns name, and the kinds they belong to.

A thing is a noun without hyponyms; a kind is a noun above at least 100 things. An edge says that the thing is of this
kind, or a part of it: a poodle is a dog, a mammal, an animal. Each type has the words of its definitions as attributes.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp

from glace.datasets import tables
from glace.graph.graph import Graph
from glace.io.tables import from_tables

LEAST = 100
"""Least number of things below a kind."""


def things_and_kinds(folder: Path, *, directed: bool = False) -> Graph:
    """Build the graph from the files of "wordnet-nouns" in a folder."""
    nouns = tables.read(folder, "wordnet-nouns")
    ids = np.array(nouns.nodes["id"].to_pylist())
    above = _above(nouns, ids)
    has_below = np.bincount(above.indices, minlength=len(ids)) > 0
    of_things = sp.csr_array(above[~has_below])
    is_kind = np.bincount(of_things.indices, minlength=len(ids)) >= LEAST
    things, kinds = np.flatnonzero(~has_below), np.flatnonzero(is_kind)
    pairs = sp.coo_array(of_things[:, kinds])
    edges = pa.table({"source": ids[things[pairs.row]], "target": ids[kinds[pairs.col]]})
    texts = {
        "thing": nouns.nodes.take(np.unique(things[pairs.row])),
        "kind": nouns.nodes.take(kinds).drop_columns("label"),
    }
    return from_tables({("thing", "kind"): edges}, texts=texts, directed=directed)


def _above(nouns: tables.Tables, ids: npt.NDArray[np.str_]) -> sp.csr_array:
    """Return the transitive closure (n, n) of the edges: 1 where the column is above the row."""
    place = {name: number for number, name in enumerate(ids.tolist())}
    ends = [[place[name] for name in nouns.edges[side].to_pylist()] for side in ("source", "target")]
    shape = (len(ids), len(ids))
    step = sp.csr_array((np.ones(len(ends[0]), np.int32), tuple(ends)), shape=shape)
    found = step
    while True:
        more = sp.csr_array(((found @ step + step) > 0).astype(np.int32))
        if more.nnz == found.nnz:
            return found
        found = more
