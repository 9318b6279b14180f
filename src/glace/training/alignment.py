"""Aligns a changed graph with a fitted model: its attributes in the model's order, the weights in the new shape."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.errors import InputError
from glace.features.column_kinds import Text
from glace.features.pipeline import FeaturePipeline
from glace.features.text import TextVocabulary
from glace.fitted.model import FittedModel
from glace.graph.graph import Graph
from glace.graph.node_types import NodeType
from glace.model.network import Network
from glace.sparse import narrowed
from glace.storage.container import Arrays

MIXED = "mixed columns"

Columns = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Aligned:
    """A graph whose first attributes are those of the model, in the model's order.

    `columns` holds, for each node type, the new column (old width,) of each old attribute. Without attributes every
    node is its own column, and a removed node is -1.
    """

    graph: Graph
    columns: tuple[Columns, ...]


def aligned(graph: Graph, fitted: FittedModel) -> Aligned:
    """Return the graph with the model's attributes first and new ones after them, matched by name if possible."""
    given, known = graph.by_type().types, fitted.node_types
    if [each.name for each in given] != [each.name for each in known]:
        expected, found = (", ".join(each.name or "one type" for each in types) for types in (known, given))
        raise InputError(f"the model's node types with attributes are {expected}, but the graph's are {found}")
    types = tuple(_aligned(each, schema, graph.mapped is not None) for each, schema in zip(given, known, strict=True))
    whole = graph.with_types(types)
    columns = (
        _node_columns(whole, fitted, code) if each.width is None else np.arange(schema.width or 0)
        for code, (each, schema) in enumerate(zip(types, known, strict=True))
    )
    return Aligned(whole, tuple(columns))


def _node_columns(graph: Graph, fitted: FittedModel, code: int) -> Columns:
    """Return the row of each old node of a type among its new nodes, both sorted by id as for training."""
    ordered, _ = graph.in_id_order()
    old, types = np.asarray(fitted.embedding.ids.to_numpy()), ordered.by_type()
    if len(types.types) == 1:
        return ordered.ids.find(np.sort(old))
    assert fitted.graph is not None, "a graph with several node types is in memory"
    assert fitted.graph.node_types is not None
    positions = ordered.ids.find(np.sort(old[fitted.graph.node_types.codes == code]))
    codes, rows = types.locate(positions)
    return np.where((positions >= 0) & (codes == code), rows, -1)


def _aligned(node_type: NodeType, schema: NodeType, mapped: bool) -> NodeType:
    """Return the attributes of a node type in the order of the model's schema."""
    if (node_type.width is None) != (schema.width is None):
        had, has = ("without", "with") if schema.width is None else ("with", "without")
        which = f" of type {node_type.name!r}" if node_type.name else ""
        raise InputError(f"the model was trained {had} attributes{which}, but the graph comes {has} them")
    if node_type.width is None or schema.width is None:
        return node_type
    _check_same_kind(node_type, schema)
    old, new = _names(schema), _names(node_type)
    if old is not None and new is None:
        node_type = _named_as(node_type, old)
    elif old is not None and new is not None and old != new:
        node_type = _by_name(node_type, schema, old, new, mapped)
    if (node_type.width or 0) < schema.width:
        raise InputError(
            f"the model knows {schema.width:,} attributes, but the graph has {node_type.width:,}; give all of them"
        )
    return node_type


def _check_same_kind(node_type: NodeType, schema: NodeType) -> None:
    expected, found = _kind(schema.pipeline), _kind(node_type.pipeline)
    if expected != found:
        raise InputError(f"the model was trained on {expected}, but the graph has {found}; give {expected}")
    if expected == MIXED and not (schema.pipeline and schema.pipeline.same_as(node_type.pipeline)):
        raise InputError(
            "the attributes of the graph come from another feature pipeline than the model's; use the model's: "
            "from_tables(..., pipeline=fitted.pipeline), or give the tables to `glace update`"
        )
    if node_type.sparse != schema.sparse:
        kind = "sparse" if schema.sparse else "dense"
        raise InputError(f"the attributes must be {kind}, as in training")


def _kind(pipeline: FeaturePipeline | None) -> str:
    if pipeline is None:
        return "attributes"
    return MIXED if pipeline.vocabulary is None else "texts"


def _names(node_type: NodeType) -> tuple[str, ...] | None:
    """Return the words of texts, or the names of attributes."""
    if node_type.pipeline is None or node_type.pipeline.vocabulary is None:
        return node_type.feature_names
    return node_type.pipeline.vocabulary.words


def _named_as(node_type: NodeType, names: tuple[str, ...]) -> NodeType:
    """Give columns without names the names of the model; there must be as many."""
    if node_type.width != len(names):
        mismatch = f"the model's {len(names):,} attributes have names, but the graph's {node_type.width:,} have none"
        raise InputError(f"{mismatch}; name them")
    return replace(node_type, feature_names=names)


def _by_name(
    node_type: NodeType, schema: NodeType, old: tuple[str, ...], new: tuple[str, ...], mapped: bool
) -> NodeType:
    """Return the attributes with the columns of the old names first and new ones after them."""
    if mapped:
        raise InputError("the attributes of a graph folder must be those of the model, in the same order")
    known = set(old)
    names = (*old, *(name for name in new if name not in known))
    column_of = {name: column for column, name in enumerate(names)}
    moved_to = np.array([column_of[name] for name in new], np.int64)
    if not sp.issparse(node_type.attributes):
        dense = np.zeros((node_type.count, len(names)), np.float32)
        dense[:, moved_to] = node_type.attributes
        return replace(node_type, attributes=dense, feature_names=names)
    entries = sp.coo_array(node_type.attributes)
    values, pipeline = entries.data, node_type.pipeline
    if schema.pipeline is not None and pipeline is not None:
        pipeline, weights = _wider(schema.pipeline, pipeline, names)
        values = values * weights[entries.col]
    shape = (node_type.count, len(names))
    rows = sp.csr_array((values.astype(np.float32), (entries.row, moved_to[entries.col])), shape=shape)
    rows.sort_indices()
    if pipeline is not None:
        rows = _of_unit_length(rows)
    feature_names = node_type.feature_names and names
    return replace(node_type, attributes=narrowed(rows), feature_names=feature_names, pipeline=pipeline)


def _wider(
    old: FeaturePipeline, new: FeaturePipeline, words: tuple[str, ...]
) -> tuple[FeaturePipeline, npt.NDArray[np.float64]]:
    """Return the old text pipeline with new words added, and the factors that turn new weights into old ones.

    A word keeps the inverse document frequency it had in training, whatever its frequency in the new texts.
    """
    was, now = old.vocabulary, new.vocabulary
    assert was is not None
    assert now is not None
    before, after = dict(zip(was.words, was.idf, strict=True)), dict(zip(now.words, now.idf, strict=True))
    idf = np.array([before[word] if word in before else after[word] for word in words])
    kept = dict(zip(words, idf, strict=True))
    factors = np.array([kept[word] for word in now.words]) / now.idf
    return replace(old, columns=(Text(old.columns[0].name, TextVocabulary(words, idf)),)), factors


def _of_unit_length(rows: sp.csr_array) -> sp.csr_array:
    from sklearn.preprocessing import normalize

    return sp.csr_array(normalize(rows))


def widened(old: Network, new: Network, columns: tuple[Columns, ...]) -> Arrays:
    """Return the old weights in the shape of the new network; where there are none, the new network's own.

    `columns` are those of `Aligned`.
    """
    found = {name: array.copy() for name, array in new.weights().items()}
    by_column = old.column_weights()
    for name, array in old.weights().items():
        code = by_column.get(name)
        if code is None or not len(array) or old.types[code].shape.hashed:
            found[name] = array
            continue
        kept = columns[code] >= 0
        found[name][columns[code][kept]] = array[: len(columns[code])][kept]
    return found
