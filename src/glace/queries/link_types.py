"""Which types of nodes missing edges may join."""

from glace.errors import InputError
from glace.graph.graph import Graph
from glace.queries.links import Types


def link_types(graph: Graph, symmetric: bool, wanted: str | None = None, node: int | None = None) -> Types | None:
    """Those that edges join, in their direction unless the measure is `symmetric`; None where nodes have no types.

    Of a `wanted` type, edges to it from the node at this position or, without one, all that have an end of it.
    """
    if graph.node_types is None:
        if wanted is not None:
            raise InputError(f"no type {wanted!r}; the graph has none")
        return None
    joined = graph.joined_types(symmetric)
    assert joined is not None
    types = Types(graph.node_types.codes, (*graph.node_types.names, None), joined)
    if wanted is None:
        return types
    kind = graph.node_types.code_of(wanted, "type")
    return _with_end(types, kind) if node is None else _leading_to(types, kind, node)


def _with_end(types: Types, kind: int) -> Types:
    left = types.with_end(kind)
    if not left.allowed.any():
        raise InputError(f"no node of type {types.names[kind]!r} has an edge, so none are proposed")
    return left


def _leading_to(types: Types, kind: int, node: int) -> Types:
    left, own = types.leading_to(kind), types.codes[node]
    if not left.allowed[own].any():
        source = "nodes without a type" if own < 0 else f"type {types.names[own]!r}"
        raise InputError(
            f"no edge leads from {source} to type {types.names[kind]!r}, so none are proposed; "
            f"ask without a type for the others of this node"
        )
    return left
