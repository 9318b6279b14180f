"""Columns of the node table beside the ids of an answer (`--show`)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from glace.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from glace.graph.graph import Graph
    from glace.ids import NodeId, NodeIds

Answer = dict[str, list[object]]
"""Columns by name."""


def with_columns(
    answer: Answer,
    beside: Mapping[str, "Sequence[NodeId]"],
    graph: "Graph | None",
    show: Sequence[str] | None,
    *,
    of_pairs: bool = False,
) -> Answer:
    """Return the answer with columns of the graph's node table after each column `beside` that is named with its ids.

    The new columns keep their names; in an answer about pairs, the name of the ids comes first, such as target_title. A
    node that is not in the graph has None.
    """
    if not show:
        return answer
    if graph is None or not graph.node_columns:
        raise InputError("has nothing to show: the model keeps no text columns of a node table", option="show")
    for name in show:
        if name not in graph.node_columns:
            known = ", ".join(graph.node_columns)
            raise InputError(f"must be a text column of the node table, {known}, not {name!r}", option="show")
    found: Answer = {}
    for name, column in answer.items():
        found[name] = column
        if name in beside:
            rows = _rows(graph.ids, beside[name])
            for each in show:
                shown = f"{name}_{each}" if of_pairs else each
                found[shown] = [None if row < 0 else graph.node_columns[each][row].as_py() for row in rows]
    return found


def _rows(known: "NodeIds", ids: "Sequence[NodeId]") -> list[int]:
    """The positions of ids, -1 for those of new nodes, which may be texts among integers or the other way round."""
    import numpy as np

    typed = [known.parse(each) if isinstance(each, str) else each for each in ids]
    like_known = np.array([isinstance(each, str) == known.are_strings for each in typed], np.bool_)
    rows = np.full(len(ids), -1)
    if like_known.any():
        rows[like_known] = known.find([each for each, alike in zip(typed, like_known, strict=True) if alike])
    return list(map(int, rows))


def pairs_with_columns(
    table: "pa.Table", graph: "Graph | None", show: Sequence[str] | None, *, sources_are_new: bool = False
) -> "pa.Table":
    """Return a table of pairs, source and target first, with columns of the graph's node table after each."""
    import pyarrow as pa

    if not show:
        return table
    answer = table.to_pydict()
    ends = {name: answer[name] for name in ("source", "target") if name == "target" or not sources_are_new}
    return pa.table(with_columns(answer, ends, graph, show, of_pairs=True))
