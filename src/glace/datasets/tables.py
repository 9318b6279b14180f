"""The result of a builder before it becomes a graph: a table of nodes with texts, and a table of edges."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from glace.graph.graph import Graph
from glace.io.tables import from_tables
from glace.storage.files import existing, replacing

MIN_THINGS = 100
"""Least number of things below a kind."""


@dataclass(frozen=True)
class Tables:
    """`nodes` has the columns id, label (if any) and text; `edges` has source and target, each pair once."""

    nodes: pa.Table
    edges: pa.Table

    @classmethod
    def of(
        cls,
        ids: Sequence[str],
        texts: Sequence[str],
        pairs: Iterable[tuple[str, str]],
        labels: Sequence[str] | None = None,
    ) -> "Tables":
        """Return the tables of these nodes and of pairs of their ids."""
        nodes = {"id": ids, **({} if labels is None else {"label": labels}), "text": texts}
        sources, targets = zip(*given, strict=True) if (given := list(pairs)) else ((), ())
        edges = {"source": pa.array(sources, pa.string()), "target": pa.array(targets, pa.string())}
        return cls(pa.table(nodes), pa.table(edges))

    def graph(self, *, directed: bool) -> Graph:
        """Return the graph of these tables; its attributes are the words of the texts."""
        return from_tables(self.edges, texts=self.nodes, directed=directed)

    def write(self, folder: Path, name: str) -> Path:
        """Write NAME.nodes.parquet and NAME.edges.parquet into `folder`, and return the path of the former."""
        nodes, edges = paths(folder, name)
        for table, path in ((self.nodes, nodes), (self.edges, edges)):
            with replacing(path) as temporary:
                pq.write_table(table, temporary, compression="zstd", compression_level=19)
        return nodes


def read(folder: Path, name: str) -> Tables:
    """Read the tables that `Tables.write` wrote under this name."""
    nodes, edges = paths(folder, name)
    return Tables(
        pq.read_table(existing(nodes, f"the nodes of {name}")), pq.read_table(existing(edges, f"the edges of {name}"))
    )


def paths(folder: Path, name: str) -> tuple[Path, Path]:
    """Return the paths of the node and the edge table."""
    return folder / f"{name}.nodes.parquet", folder / f"{name}.edges.parquet"


def things_and_kinds(folder: Path, *, directed: bool = False) -> Graph:
    """Build the graph "wordnet-kinds" with two node types from the files of "wordnet-nouns" in a folder.

    A thing is a noun without hyponyms; a kind is a noun above at least 100 things. An edge says that the thing is of
    this kind, or a part of it: a poodle is a dog, a mammal, an animal. The attributes are the words of the definitions.
    """
    nouns = read(folder, "wordnet-nouns")
    ids = np.array(nouns.nodes["id"].to_pylist())
    above = _above(nouns, ids)
    has_below = np.bincount(above.indices, minlength=len(ids)) > 0
    of_things = sp.csr_array(above[~has_below])
    is_kind = np.bincount(of_things.indices, minlength=len(ids)) >= MIN_THINGS
    things, kinds = np.flatnonzero(~has_below), np.flatnonzero(is_kind)
    pairs = sp.coo_array(of_things[:, kinds])
    edges = pa.table({"source": ids[things[pairs.row]], "target": ids[kinds[pairs.col]]})
    texts = {
        "thing": nouns.nodes.take(np.unique(things[pairs.row])),
        "kind": nouns.nodes.take(kinds).drop_columns("label"),
    }
    return from_tables({("thing", "kind"): edges}, texts=texts, directed=directed)


def _above(nouns: Tables, ids: npt.NDArray[np.str_]) -> sp.csr_array:
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
