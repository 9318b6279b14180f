"""The result of a builder before it becomes a graph: a table of nodes with texts, and a table of edges."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from glace.graph.graph import Graph
from glace.io.tables import from_tables
from glace.storage.files import existing, replacing


@dataclass(frozen=True)
class Tables:
    """`nodes` has the columns id, label and text; `edges` has source and target, each pair once."""

    nodes: pa.Table
    edges: pa.Table

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
