"""What a builder makes before it is a graph: a table of nodes with their texts, and a table of edges."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from glace.graph.graph import Graph
from glace.io.tables import from_tables
from glace.storage.files import existing, replacing


@dataclass(frozen=True)
class Tables:
    """`nodes` has the columns id, label, text; `edges` has source, target, each pair of ids once."""

    nodes: pa.Table
    edges: pa.Table

    def graph(self, *, directed: bool) -> Graph:
        """The graph of these tables; its attributes are the words of the texts."""
        return from_tables(self.edges, texts=self.nodes, directed=directed)

    def write(self, folder: Path, name: str) -> Path:
        """Write NAME.nodes.parquet and NAME.edges.parquet into `folder`; the path of the former."""
        nodes, edges = paths(folder, name)
        for table, path in ((self.nodes, nodes), (self.edges, edges)):
            with replacing(path) as temporary:
                pq.write_table(table, temporary, compression="zstd", compression_level=19)
        return nodes


def read(folder: Path, name: str) -> Tables:
    """The tables that `Tables.write` wrote under this name."""
    nodes, edges = paths(folder, name)
    return Tables(
        pq.read_table(existing(nodes, f"the nodes of {name}")),
        pq.read_table(existing(edges, f"the edges of {name}")),
    )


def paths(folder: Path, name: str) -> tuple[Path, Path]:
    """The files of the nodes and of the edges."""
    return folder / f"{name}.nodes.parquet", folder / f"{name}.edges.parquet"
