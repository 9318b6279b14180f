"""Attributes of new nodes, in the form that the network was trained on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.errors import InputError
from glace.features.columns import Frame
from glace.features.pipeline import NewColumns, frame_rows
from glace.graph.graph import NodeAttributes, NodeType
from glace.ids import NodeIds
from glace.sparse import Matrix, checked_matrix
from glace.values import in_storage

if TYPE_CHECKING:
    from glace.model.inputs import NodeInputs
    from glace.model.network import Network

NewAttributes: TypeAlias = npt.ArrayLike | sp.sparray | sp.spmatrix | Frame | Sequence[str] | NodeAttributes
"""A matrix, a data frame, a sequence of texts, or `NodeAttributes`."""
NodeTypes = tuple[NodeType, ...]


@dataclass(frozen=True)
class NewNodes:
    """New nodes of one type or of several: ids, one matrix per type of the model, and unseen words of texts."""

    ids: NodeIds
    attributes: NodeAttributes
    unseen: npt.NDArray[np.float64] | None = None
    """(n,) the fraction of unknown words, if the nodes came as texts."""

    @property
    def count(self) -> int:
        """Number of nodes."""
        return len(self.attributes)

    def matrix(self, code: int) -> Matrix:
        """Return the attributes of the nodes of a type."""
        return self.attributes.types[code].features()

    def inputs(self, network: "Network") -> "NodeInputs":
        """Return the inputs of the network; new nodes have no edges."""
        return network.inputs(self.attributes.features(), None, self.attributes.locate)


def new_nodes(attributes: NewAttributes, node_types: NodeTypes, node_type: str | None) -> NewNodes:
    """Convert what describes new nodes into the matrices that the network takes."""
    if isinstance(attributes, NodeAttributes):
        return NewNodes(NodeIds.numbered(len(attributes)), _matched(attributes, node_types))
    code, schema = find_type(node_types, node_type)
    ids = None
    if hasattr(attributes, "__arrow_c_stream__"):
        ids, attributes, _ = frame_rows(attributes, new_columns(schema))
    matrix, unseen = _matrix(attributes, schema), _unseen_words(attributes, schema)
    count = matrix.shape[0]
    types = tuple(
        NodeType(each.name, count, matrix) if number == code else NodeType(each.name, 0, each.features()[:0])
        for number, each in enumerate(node_types)
    )
    return NewNodes(ids or NodeIds.numbered(count), NodeAttributes(types, np.full(count, code, np.int32)), unseen)


def find_type(node_types: NodeTypes, name: str | None) -> tuple[int, NodeType]:
    """Return the index and the schema of the node type of this name, or of the only one."""
    names = [each.name for each in node_types]
    if name is None and len(names) > 1:
        known = ", ".join(each.name for each in node_types if each.width is not None)
        raise InputError(f"must be given, as the model has several node types: {known}", option="node_type")
    wanted = names[0] if name is None else name
    if wanted not in names:
        known = "its nodes have no types" if names == [""] else f"its types are {', '.join(names)}"
        raise InputError(f"the model has no node type {wanted!r} with attributes of its own; {known}")
    return names.index(wanted), node_types[names.index(wanted)]


def new_columns(schema: NodeType) -> NewColumns:
    """Return what is known about the columns of new nodes of a type."""
    return NewColumns(schema.width, schema.feature_names, schema.pipeline)


def check_has_attributes(schema: NodeType) -> None:
    """Raise unless nodes of a type have attributes to compute a Gaussian from."""
    if schema.width is None:
        which = "" if schema.name == "" else f" of type {schema.name!r}"
        raise InputError(
            f"the model was trained without attributes{which}: it knows each node by its identity alone and cannot "
            "embed new nodes; train on a graph with attributes"
        )


def _matched(attributes: NodeAttributes, node_types: NodeTypes) -> NodeAttributes:
    """Check attributes by type against the model's types; a type without new nodes needs no attributes."""
    if [each.name for each in attributes.types] != [each.name for each in node_types]:
        known = ", ".join(each.name for each in node_types) or "none"
        raise InputError(f"the model's node types with attributes of their own are {known}")
    return attributes.with_types(
        [
            NodeType(new.name, new.count, schema.features()[:0] if new.count == 0 else _matrix(new.attributes, schema))
            for new, schema in zip(attributes.types, node_types, strict=True)
        ]
    )


def _matrix(attributes: NewAttributes, schema: NodeType) -> Matrix:
    """Return attributes or texts as a matrix with the columns and the storage of the training."""
    if attributes is None:
        raise InputError(f"nodes of type {schema.name!r} have no attributes, which new nodes need")
    matrix = _from_texts(attributes, schema) if are_texts(attributes) else checked_matrix(attributes)
    check_has_attributes(schema)
    if matrix.shape[1] != schema.width:
        raise InputError(
            f"the model was trained on {schema.width:,} attributes, but these have {matrix.shape[1]:,}; give the same "
            "columns in the same order"
        )
    if matrix.shape[0] == 0:
        raise InputError("there are no rows of attributes; give at least one node")
    return in_storage(matrix, schema.sparse)


def _from_texts(texts: Sequence[str], schema: NodeType) -> Matrix:
    vocabulary = None if schema.pipeline is None else schema.pipeline.vocabulary
    if vocabulary is None:
        expected = "a matrix of attributes" if schema.pipeline is None else "a table with the columns of the training"
        raise InputError(f"the model was not trained on texts; give {expected}")
    return vocabulary.attributes(list(texts))


def _unseen_words(attributes: NewAttributes, schema: NodeType) -> npt.NDArray[np.float64] | None:
    vocabulary = None if schema.pipeline is None else schema.pipeline.vocabulary
    if vocabulary is None or not are_texts(attributes):
        return None
    return np.array(vocabulary.unknown_shares(list(attributes)))


def are_texts(attributes: NewAttributes) -> TypeGuard[Sequence[str]]:
    """Return whether the attributes are a sequence of texts."""
    if isinstance(attributes, str):
        raise InputError("give a list of texts, not one string")
    return isinstance(attributes, list | tuple) and all(isinstance(each, str) for each in attributes)
