"""Answers of a model as plain values, for HTTP and for the standalone page."""

import threading
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from glace.errors import InputError
from glace.fitted.model import FittedModel
from glace.gaussian.dissimilarity import Gaussian
from glace.gaussian.embedding import Embedding
from glace.gaussian.tables import Table
from glace.queries.layout import main_axes
from glace.queries.new_links import links_of_new_nodes
from glace.queries.pair_features import link_types
from glace.server.described import attributes_of, takes
from glace.sparse import row_of

LARGEST_K = 1000
"""Limit for the answers to a question, the pairs of a request, and the new nodes of a request."""
LARGEST_SEARCH = 20_000
"""Number of nodes up to which the links of the whole graph are searched while the client waits."""
Answer = dict[str, Any]


class UnknownNode(InputError):
    """The embedding has no such node."""


class Answers:
    """Answers questions about a fitted model; several threads may ask at once."""

    def __init__(self, model: FittedModel, title: str = "glace") -> None:
        self.model, self.embedding, self.graph = model, model.embedding, model.graph
        self.title = title
        # Encoding changes the number of threads of the process while it runs.
        self._encoding = threading.Lock()

    def health(self) -> Answer:
        """Status, version and facts."""
        from glace import __version__

        return {"status": "ok", "glace": __version__, **self.facts()}

    def facts(self) -> Answer:
        """Size of the model, its labels and node types, and how new nodes are described to it."""
        embedding, graph, types = self.embedding, self.graph, self.model.node_types
        return {
            "title": self.title,
            "nodes": len(embedding),
            "dimensions": int(embedding.mean.shape[1]),
            "dissimilarity": embedding.dissimilarity,
            "edges": None if graph is None else graph.num_edges,
            "missing_edge_fraction": self.model.missing_edge_fraction,
            "labels": list(graph.labels.names) if graph and graph.labels else [],
            "types": list(graph.node_types.names) if graph and graph.node_types else [],
            "takes": takes(types[0]) if len(types) == 1 else None,
            "takes_by_type": {each.name: takes(each) for each in types if each.name},
            "width": self.model.n_features,
        }

    def position(self, id: str) -> int:
        """The position of a node, given its id as text."""
        try:
            return self.embedding.ids.position(self.embedding.ids.parse(id))
        except InputError as problem:
            raise UnknownNode(str(problem)) from problem

    def complete(self, q: str, k: int = 10) -> list[str]:
        """Ids that contain the text `q`: those that start with it first, then by length; then nodes whose texts do."""
        if not q:
            return []
        matching = np.flatnonzero(pc.match_substring(self._names, q, ignore_case=True).to_numpy(False))
        names = self._names.take(pa.array(matching))
        starts = pc.starts_with(names, q, ignore_case=True).to_numpy(False)
        order = np.lexsort((pc.utf8_length(names).to_numpy(), ~starts))[: _count(k)]
        found = matching[order].tolist()
        for column in [] if self.graph is None else self.graph.node_columns.values():
            texts = np.flatnonzero(pc.match_substring(column, q, ignore_case=True).to_numpy(False))
            found += [place for place in texts[:k].tolist() if place not in found]
        return self._ids(found[:k])

    @cached_property
    def _names(self) -> pa.Array:
        return self.embedding.ids.array.cast(pa.large_string())

    def node(self, id: str) -> Answer:
        """Id, label, type, certainty and doubts of a node, as far as known, and the nodes it has an edge with."""
        position = self.position(id)
        answer: Answer = {"id": self._ids([position])[0], "edges": None, "joined": []}
        answer |= {name: float(shares[position]) for name, shares in self.embedding.shares().items()}
        if self.graph is None:
            return answer
        answer["doubt"] = self.model.doubts([self.embedding.ids[position]])[0]
        for name, categories in (("label", self.graph.labels), ("type", self.graph.node_types)):
            if categories is not None:
                answer[name] = categories[position]
        joined = row_of(self.graph.neighborhoods(), position)
        return {**answer, "edges": len(joined), "joined": self._ids(joined)}

    def _ids(self, positions: Iterable[int]) -> list[str]:
        return [str(self.embedding.ids[position]) for position in positions]

    def neighbors(
        self,
        id: str,
        k: int = 10,
        dissimilarity: str | None = None,
        exclude_known: bool = False,
        label: str | None = None,
        node_type: str | None = None,
    ) -> list[Answer]:
        """The nodes most similar to a node; see `FittedModel.neighbors`."""
        node = self.embedding.ids[self.position(id)]
        found = self.model.neighbors(
            node, _count(k), dissimilarity=dissimilarity, exclude_known=exclude_known, label=label, node_type=node_type
        )
        return [_without(row, "query") for row in _plain(found)]

    def score(self, pairs: list[tuple[str, str]], missing_edge_fraction: float | None = None) -> list[Answer]:
        """Scores of pairs of nodes, from the first to the second; see `FittedModel.score_pairs`."""
        if len(pairs) > LARGEST_K:
            raise InputError(f"at most {LARGEST_K:,} pairs per request, not {len(pairs):,}")
        positions = [[self.position(node) for node in pair] for pair in pairs]
        found = np.array(positions, np.int64).reshape(-1, 2)
        return _plain(self.model.score_positions(found, missing_edge_fraction=missing_edge_fraction))

    def links(
        self,
        id: str | None = None,
        k: int = 10,
        node_type: str | None = None,
        missing_edge_fraction: float | None = None,
        why: bool = False,
    ) -> list[Answer]:
        """The most probable missing edges of a node or of the whole graph; see `FittedModel.links`."""
        if id is None and len(self.embedding) > LARGEST_SEARCH:
            raise InputError(
                f"searching the links of all {len(self.embedding):,} nodes takes too long here; name a node, or use "
                "`glace links`"
            )
        node = None if id is None else self.embedding.ids[self.position(id)]
        found = self.model.links(
            node, _count(k), node_type=node_type, missing_edge_fraction=missing_edge_fraction, why=why
        )
        return _plain(found)

    def embed(self, k: int = 10, node_type: str | None = None, **described: Any) -> list[Answer]:
        """Gaussian, certainty, novelty, neighbours and links of new nodes.

        They are described by texts, attributes, names or rows. Without a graph there are no links.
        """
        given = {how: nodes for how, nodes in described.items() if nodes is not None}
        if len(given) != 1:
            raise InputError(f"give exactly one of texts, attributes, names and rows, not {len(given)}")
        ((how, nodes),) = given.items()
        if not 1 <= len(nodes) <= LARGEST_K:
            raise InputError(f"give 1 to {LARGEST_K:,} new nodes, not {len(nodes):,}")
        new_nodes = attributes_of(nodes, how, self.model.node_type(node_type))
        with self._encoding:
            new = self.model.transform(new_nodes, node_type=node_type)
            novelty = self.model.novelty(new_nodes, node_type) if self.model.has_novelty else None
        answers = [_gaussian(new, row) | {"neighbors": [], "links": []} for row in range(len(new))]
        for row in _plain(self.model.neighbors(new, _count(k))):
            answers[int(row["query"])]["neighbors"].append(_without(row, "query", "novel"))
        for row in [] if self.graph is None else _plain(self._links_of(new, node_type, k)):
            answers[int(row["source"])]["links"].append(_without(row, "source", "novel"))
        if novelty is not None:
            for position, answer in enumerate(answers):
                answer |= {"unseen": float(novelty.unseen[position]), "novelty": float(novelty.rank[position])}
                answer["is_novel"] = bool(novelty.is_high()[position])
        return answers

    def _links_of(self, new: Embedding, node_type: str | None, k: int) -> Table:
        """Links of new nodes, to the types that edges lead to from theirs."""
        among, symmetric = None, self.embedding.measure.symmetric
        types = None if self.graph is None else link_types(self.graph, symmetric)
        if types is not None and node_type is not None and node_type in types.names:
            among = types.allowed[types.names.index(node_type)][types.codes]
        return links_of_new_nodes(self.embedding, self.graph, new, k, among)

    def ellipses(self, id: str, others: list[str]) -> list[Answer]:
        """A node and others as ellipses of one standard deviation, in the plane in which their means differ most."""
        positions = np.array([self.position(each) for each in [id, *others[:LARGEST_K]]])
        found = ellipses(self.embedding.gaussian[positions])
        return [{"id": name, **each} for name, each in zip(self._ids(positions), found, strict=True)]


def ellipses(gaussians: Gaussian) -> list[Answer]:
    """Center, half-axes and angle of each Gaussian in the plane in which the means differ most; 0 for points."""
    mean = np.asarray(gaussians.mean, dtype=np.float64)
    variance = np.zeros_like(mean) if gaussians.variance is None else gaussians.variance
    axes = main_axes(mean)
    centers = (mean - mean.mean(axis=0)) @ axes
    lengths, directions = np.linalg.eigh(np.einsum("nl,lp,lq->npq", variance, axes, axes))
    short, long = np.sqrt(np.maximum(lengths, 0)).T
    angle = np.degrees(np.arctan2(directions[:, 1, 1], directions[:, 0, 1]))
    rows = np.column_stack([centers, long, short, angle]).tolist()
    return [dict(zip(("x", "y", "long", "short", "angle"), row, strict=True)) for row in rows]


def _gaussian(embedding: Embedding, row: int) -> Answer:
    variance = None if embedding.variance is None else embedding.variance[row].tolist()
    shares = {name: float(shares[row]) for name, shares in embedding.shares().items()}
    return {"mean": embedding.mean[row].tolist(), "variance": variance, **shares}


def _plain(table: Table) -> list[Answer]:
    """The rows of a table with ids as text: JSON readers such as browsers would round large integers."""
    ids = {"query", "id", "source", "target"}
    return [{name: str(value) if name in ids else value for name, value in row.items()} for row in table.rows()]


def _without(row: Answer, *names: str) -> Answer:
    return {key: value for key, value in row.items() if key not in names}


def _count(value: int) -> int:
    if not 1 <= value <= LARGEST_K:
        raise InputError(f"must be from 1 to {LARGEST_K:,}, not {value:,}", option="k")
    return value
