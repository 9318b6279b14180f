"""Columns of the node table beside the ids of an answer (`--show`)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from glace.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from glace.graph.graph import Graph
    from glace.ids import NodeId

Answer = dict[str, list[object]]
"""Columns by name."""


def with_columns(
    answer: Answer, beside: Sequence[str], ids: "Sequence[NodeId]", graph: "Graph | None", show: Sequence[str] | None
) -> Answer:
    """Return the answer with columns of the graph's node table after its columns of ids, which hold `ids` in order.

    With one column of ids the new columns keep their names; with several, the name of the ids comes first, such as
    target_title. A node that is not in the graph has None.
    """
    if not show:
        return answer
    if graph is None or not graph.node_columns:
        raise InputError("has nothing to show: the model keeps no text columns of a node table", option="show")
    for name in show:
        if name not in graph.node_columns:
            known = ", ".join(graph.node_columns)
            raise InputError(f"must be a text column of the node table, {known}, not {name!r}", option="show")
    positions = graph.ids.find(list(ids)).tolist() if len(ids) else []
    found: Answer = {}
    for name, column in answer.items():
        found[name] = column
        if name in beside:
            part = positions[beside.index(name) * len(column) :][: len(column)]
            for each in show:
                shown = each if len(beside) == 1 else f"{name}_{each}"
                found[shown] = [None if row < 0 else graph.node_columns[each][row].as_py() for row in part]
    return found


def pairs_with_columns(table: "pa.Table", graph: "Graph | None", show: Sequence[str] | None) -> "pa.Table":
    """Return a table of pairs, source and target first, with columns of the graph's node table after each."""
    import pyarrow as pa

    if not show:
        return table
    answer = table.to_pydict()
    return pa.table(with_columns(answer, ["source", "target"], [*answer["source"], *answer["target"]], graph, show))
