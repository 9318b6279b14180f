"""A graph that has changed, its attributes brought into the order a model knows, and the model's weights into that."""

from dataclasses import dataclass, replace
from typing import Any

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

MIXED = "mixed columns"

Columns = npt.NDArray[np.int64]
Weights = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Aligned:
    """A graph whose first attributes are those the model knows, in its order.

    `columns` has for each type where each of the old attributes is, (old width,). Without attributes a node is its
    own column, and one that is gone is -1.
    """

    graph: Graph
    columns: tuple[Columns, ...]

    def new_attributes(self) -> int:
        """How many the model did not know."""
        widths = [part.width for part in self.graph.by_type().types]
        known = zip(widths, self.columns, strict=True)
        return sum(width - len(columns) for width, columns in known if width is not None)


def aligned(graph: Graph, fitted: FittedModel) -> Aligned:
    """The graph with the model's attributes first and new ones after them; by name where both have names."""
    given, known = graph.by_type().types, fitted.node_types
    if [part.name for part in given] != [part.name for part in known]:
        wanted, came = (", ".join(part.name or "one" for part in parts) for parts in (known, given))
        raise InputError(f"the model's types of nodes with attributes are {wanted}, but this graph's {came}")
    parts = tuple(_aligned(part, before, graph.mapped is not None) for part, before in zip(given, known, strict=True))
    whole = graph.with_types(parts)
    columns = (
        _places(whole, fitted, kind) if part.width is None else np.arange(before.width or 0)
        for kind, (part, before) in enumerate(zip(parts, known, strict=True))
    )
    return Aligned(whole, tuple(columns))


def _places(graph: Graph, fitted: FittedModel, kind: int) -> Columns:
    """Where the old nodes of a type are among the new ones of it, both sorted by id as they are for training."""
    ordered, _ = graph.in_id_order()
    old = np.asarray(fitted.embedding.ids.to_numpy())
    types = ordered.by_type()
    if len(types.types) == 1:
        return ordered.ids.find(np.sort(old))
    assert fitted.graph is not None, "graphs with attributes by type are in memory"
    assert fitted.graph.node_types is not None
    found = ordered.ids.find(np.sort(old[fitted.graph.node_types.codes == kind]))
    codes, rows = types.locate(found)
    return np.where((found >= 0) & (codes == kind), rows, -1)


def _aligned(part: NodeType, known: NodeType, mapped: bool) -> NodeType:
    """The attributes of one type in the order the model knows."""
    if (part.width is None) != (known.width is None):
        kinds = ("without", "with") if known.width is None else ("with", "without")
        whose = f" of type {part.name!r}" if part.name else ""
        raise InputError(f"the model was fitted {kinds[0]} attributes{whose}, but this graph comes {kinds[1]}")
    if part.width is None or known.width is None:
        return part
    _check_kind(part, known)
    old, new = _names(known), _names(part)
    if old is not None and old != new:
        part = _named_as(part, old) if new is None else _by_name(part, old, new, known.pipeline, mapped)
    if (part.width or 0) < known.width:
        raise InputError(f"the model knows {known.width:,} attributes, but these are {part.width:,}; give all")
    return part


def _check_kind(part: NodeType, known: NodeType) -> None:
    kinds = [_kind(each.pipeline) for each in (known, part)]
    if kinds[0] != kinds[1]:
        raise InputError(f"the model was fitted on {kinds[0]}, but this graph has {kinds[1]}; give it as that")
    if kinds[0] == MIXED and not (known.pipeline and known.pipeline.same_as(part.pipeline)):
        raise InputError(
            "the attributes of this graph come from another pipeline than the model's; make it with that one: "
            "from_tables(..., pipeline=model.type_of(...).pipeline), or give `glace update` the tables"
        )
    if part.sparse != known.sparse:
        raise InputError("the attributes must be sparse or dense as those of the training were")


def _kind(pipeline: FeaturePipeline | None) -> str:
    if pipeline is None:
        return "attributes"
    return MIXED if pipeline.vocabulary is None else "texts"


def _named_as(part: NodeType, names: tuple[str, ...]) -> NodeType:
    """Columns without names are taken for those of the model, and must be as many."""
    if part.width != len(names):
        raise InputError(
            f"the model's {len(names):,} attributes have names, and these {part.width:,} do not; name them"
        )
    return replace(part, feature_names=names)


def _names(part: NodeType) -> tuple[str, ...] | None:
    """Of attributes or words; mixed columns have those of the model anyhow."""
    if part.pipeline is None or part.pipeline.vocabulary is None:
        return part.feature_names
    return part.pipeline.vocabulary.words


def _by_name(
    part: NodeType, old: tuple[str, ...], new: tuple[str, ...], pipeline: FeaturePipeline | None, mapped: bool
) -> NodeType:
    """The attributes with their columns under the old names first, and those that are new after them."""
    if mapped:
        raise InputError("the attributes of a graph folder must be those of the model, in the same order")
    known = set(old)
    names = (*old, *(name for name in new if name not in known))
    place = {name: column for column, name in enumerate(names)}
    to = np.array([place[name] for name in new], np.int64)
    if not sp.issparse(part.attributes):
        dense = np.zeros((part.count, len(names)), np.float32)
        dense[:, to] = part.attributes
        return replace(part, attributes=dense, feature_names=names)
    rows = sp.coo_array(part.attributes)
    values, wider = rows.data, part.pipeline
    if pipeline is not None and wider is not None:
        was, now = pipeline.vocabulary, wider.vocabulary
        assert was is not None
        assert now is not None
        # A word weighs what it weighed in training, however often the new texts have it.
        idf = np.concatenate([was.idf, now.idf[[name not in known for name in new]]])
        values = values * (idf[to] / now.idf)[rows.col]
        wider = replace(pipeline, columns=(Text(pipeline.columns[0].name, TextVocabulary(names, idf)),))
    moved = sp.csr_array((values.astype(np.float32), (rows.row, to[rows.col])), shape=(part.count, len(names)))
    moved.sort_indices()
    if wider is not None:
        moved = _of_unit_length(moved)
    return replace(part, attributes=narrowed(moved), feature_names=part.feature_names and names, pipeline=wider)


def _of_unit_length(rows: sp.csr_array) -> sp.csr_array:
    from sklearn.preprocessing import normalize

    return sp.csr_array(normalize(rows))


def widened(old: Network, new: Network, columns: tuple[Columns, ...]) -> Weights:
    """Return the weights of the old network in the shape of the new one, which keeps its own where the old has none."""
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
