"""Attributes of nodes never seen, as the network was trained on those of its own."""

from typing import Any

import scipy.sparse as sp

from glace.errors import InputError
from glace.graph.attributes import checked_matrix
from glace.graph.node_types import NodeAttributes, NodeType

Types = tuple[NodeType, ...]


def chosen_type(types: Types, name: str | None) -> tuple[int, NodeType]:
    """Which type new nodes are of, and what is known of its attributes."""
    names = [part.name for part in types]
    if name is None and len(names) > 1:
        able = ", ".join(part.name for part in types if part.width is not None)
        raise InputError(f"the model has several types of nodes; say of which these are, by node_type: {able}")
    wanted = names[0] if name is None else name
    if wanted not in names:
        there = "its nodes have no types" if names == [""] else f"there are {', '.join(names)}"
        raise InputError(f"the model has no type {wanted!r} with attributes of its own; {there}")
    return names.index(wanted), types[names.index(wanted)]


def rows_by_type(attributes: NodeAttributes, types: Types) -> list[Any]:
    """A matrix for each type of the model; types of which no node came need not have attributes."""
    if [part.name for part in attributes.types] != [part.name for part in types]:
        known = ", ".join(part.name for part in types) or "none"
        raise InputError(f"the model's types of nodes with attributes of their own are {known}")
    return [
        part.features()[:0] if new.count == 0 else rows_as_trained(new.attributes, part)
        for new, part in zip(attributes.types, types, strict=True)
    ]


def rows_as_trained(attributes: Any, part: NodeType) -> Any:
    """Attributes or texts of nodes of a type, as the network was trained on them."""
    matrix = _as_trained(_vectors(attributes, part), part)
    if matrix.shape[0] == 0:
        raise InputError("no rows of attributes came; give at least one node to embed")
    return matrix


def _vectors(attributes: Any, part: NodeType) -> Any:
    if attributes is None:
        raise InputError(f"nodes of type {part.name!r} come without attributes, and new ones need them")
    if not are_texts(attributes):
        return checked_matrix(attributes)
    vocabulary = None if part.pipeline is None else part.pipeline.vocabulary
    if vocabulary is None:
        wanted = "a matrix of attributes" if part.pipeline is None else "a table with the columns of the training"
        raise InputError(f"the model was not fitted on texts; give {wanted}")
    return vocabulary.attributes(list(attributes))


def check_described(part: NodeType) -> None:
    """Raise unless nodes of a type have attributes to be embedded from."""
    if part.width is None:
        whose = "" if part.name == "" else f" of type {part.name!r}"
        raise InputError(
            f"the model was fitted without attributes{whose}: a node is known to it by its identity alone, "
            "and new nodes cannot be embedded; fit on a graph with attributes"
        )


def _as_trained(matrix: Any, part: NodeType) -> Any:
    check_described(part)
    assert part.width is not None
    if matrix.shape[1] != part.width:
        raise InputError(
            f"the model was fitted on {part.width:,} attributes, but these have {matrix.shape[1]:,}; "
            "give the same columns in the same order"
        )
    if part.sparse:
        return sp.csr_array(matrix)
    return matrix.toarray() if sp.issparse(matrix) else matrix


def are_texts(attributes: Any) -> bool:
    """Whether they are a list of texts, and no matrix."""
    if isinstance(attributes, str):
        raise InputError("give a list of texts, not one string")
    return isinstance(attributes, list | tuple) and all(isinstance(each, str) for each in attributes)
