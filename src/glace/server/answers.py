"""What can be asked of a model, as plain values: the same for HTTP and for a page that stands alone."""

import threading
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from glace.errors import InputError
from glace.estimators.glace import GLACE
from glace.gaussian.dissimilarity import Gaussian
from glace.gaussian.embedding import Embedding
from glace.queries.layout import main_axes
from glace.server.described import described, takes
from glace.sparse import row_of

MOST = 1000
"""Most answers to one question, pairs in one request, and new nodes at once."""
SEARCHED = 20_000
"""Nodes up to which the likeliest links of the whole graph are found while the asker waits."""
Answer = dict[str, Any]


class UnknownNode(InputError):
    """A node that the embedding does not have."""


class Answers:
    """A fitted model and what it is asked; safe to be asked by several threads."""

    def __init__(self, model: GLACE) -> None:
        self.model, self.embedding, self.graph = model, model.embedding_, model.graph_
        # Encoding sets the number of threads for the process, and puts it back.
        self._encoding = threading.Lock()

    def health(self) -> Answer:
        """That there is somebody, and of what."""
        from glace import __version__

        return {"status": "ok", "glace": __version__, **self.facts()}

    def facts(self) -> Answer:
        """What the model is and can be asked."""
        embedding = self.embedding
        return {
            "nodes": len(embedding),
            "dimensions": int(embedding.mean.shape[1]),
            "dissimilarity": embedding.dissimilarity,
            "edges": None if self.graph is None else self.graph.num_edges,
            "labels": list(self.graph.labels.names) if self.graph and self.graph.labels else [],
            "types": list(self.graph.node_types.names) if self.graph and self.graph.node_types else [],
            "takes": self.takes,
            "takes_by_type": self.takes_by_type(),
            "width": self.model.n_features_in_,
        }

    @property
    def takes(self) -> str | None:
        """How new nodes can be described, where they are of one type; of several, `takes_by_type` tells."""
        return takes(self.model.types_[0]) if len(self.model.types_) == 1 else None

    def takes_by_type(self) -> dict[str, str | None]:
        """How new nodes of each type that has attributes of its own can be described."""
        return {part.name: takes(part) for part in self.model.types_ if part.name}

    def place(self, node: str) -> int:
        """The position of a node, by its id as text."""
        parsed = self.embedding.ids.parse(node)
        try:
            return self.embedding.ids.position(parsed)
        except InputError as problem:
            raise UnknownNode(str(problem)) from problem

    def complete(self, text: str, limit: int = 10) -> list[str]:
        """Ids that hold the text, those that start with it first, shorter ones first."""
        if not text:
            return []
        held = np.flatnonzero(pc.match_substring(self._names, text, ignore_case=True).to_numpy(False))
        names = self._names.take(pa.array(held))
        starts = pc.starts_with(names, text, ignore_case=True).to_numpy(False)
        order = np.lexsort((pc.utf8_length(names).to_numpy(), ~starts))[: _count(limit, "limit")]
        return [self._id(place) for place in held[order].tolist()]

    @cached_property
    def _names(self) -> Any:
        return self.embedding.ids.array.cast(pa.large_string())

    def node(self, node: str) -> Answer:
        """What is known of one node."""
        place = self.place(node)
        if self.graph is None:
            return {**self._named(place), "edges": None, "joined": []}
        joined = row_of(self.graph.neighborhoods(), place).tolist()
        return {**self._named(place), "edges": len(joined), "joined": [self._id(other) for other in joined]}

    def neighbors(
        self,
        node: str,
        k: int = 10,
        by: str = "edge",
        measure: str | None = None,
        unknown: bool = False,
        label: str | None = None,
        node_type: str | None = None,
    ) -> list[Answer]:
        """The nodes nearest to one, nearest first, with this label and of this type; see `Embedding.nearest_to`."""
        place = self.place(node)
        if (unknown or label or node_type) and self.graph is None:
            raise InputError("the model keeps no edges, labels and types; ask without `unknown`, `label` and `type`")
        joined = self._known(place) if unknown else []
        among = None if self.graph is None else self.graph.among(label or None, node_type or None)
        own = self.embedding.take(np.array([place]))
        places, far = self.embedding.nearest_to(own, _count(k, "k"), by, measure, [[place, *joined]], among)
        return self._nearest(place, places[0], far[0], measure is None and by == "edge")

    def _nearest(self, place: int, places: Any, far: Any, trained: bool) -> list[Answer]:
        """Answers with their parts, where the measure is the one that was trained for."""
        found = places >= 0
        places, far = places[found], far[found]
        answers = [
            {**self._named(other), "dissimilarity": value}
            for other, value in zip(places.tolist(), far.tolist(), strict=True)
        ]
        if trained:
            pairs = np.column_stack([np.full(len(places), place), places])
            for answer, spread, chance in zip(
                answers, self.embedding.variance_terms_at(pairs), self.embedding.probabilities(far), strict=True
            ):
                answer |= {"variance_term": float(spread), "probability": float(chance)}
        if self.graph is not None:
            joined = set(self._known(place))
            for answer, other in zip(answers, places.tolist(), strict=True):
                answer["known"] = other in joined
        return answers

    def score(self, pairs: list[tuple[str, str]]) -> list[Answer]:
        """How near pairs of nodes are, and how likely an edge from the first to the second."""
        if len(pairs) > MOST:
            raise InputError(f"at most {MOST:,} pairs at once, not {len(pairs):,}")
        places = np.array([[self.place(node) for node in pair] for pair in pairs], np.int64).reshape(-1, 2)
        far = self.embedding.dissimilarities_at(places)
        columns = (far, self.embedding.variance_terms_at(places), self.embedding.probabilities(far))
        return [
            {
                "source": self._id(source),
                "target": self._id(target),
                "dissimilarity": float(value),
                "variance_term": float(spread),
                "probability": float(chance),
            }
            for (source, target), value, spread, chance in zip(places.tolist(), *columns, strict=True)
        ]

    def links(self, node: str | None = None, top: int = 10, node_type: str | None = None) -> list[Answer]:
        """The most probable edges that are missing, of a node or of the whole graph; see `GLACE.links`."""
        if node is None and len(self.embedding) > SEARCHED:
            raise InputError(
                f"the links of all {len(self.embedding):,} nodes take too long here; name a node, or use `glace links`"
            )
        place = None if node is None else self.embedding.ids[self.place(node)]
        found = self.model.links(place, _count(top, "top"), node_type=node_type or None)
        columns = {
            "source": map(str, found.source),
            "target": map(str, found.target),
            "dissimilarity": found.dissimilarity.tolist(),
            "probability": found.probability.tolist(),
        }
        if found.source_type is not None:
            columns |= {"source_type": found.source_type, "target_type": found.target_type}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def embed(
        self,
        texts: list[str] | None = None,
        attributes: list[list[float]] | None = None,
        names: list[list[str]] | None = None,
        rows: list[dict[str, Any]] | None = None,
        k: int = 10,
        node_type: str | None = None,
    ) -> list[Answer]:
        """New nodes by what describes them: Gaussian, certainty, novelty, and the known nodes nearest to each."""
        given = [each for each in (texts, attributes, names, rows) if each is not None]
        if len(given) != 1:
            raise InputError(f"give one of texts, attributes, names and rows; {len(given)} came")
        if not 1 <= len(given[0]) <= MOST:
            raise InputError(f"give 1 to {MOST:,} new nodes, not {len(given[0]):,}")
        new_nodes = described(self.model.type_of(node_type), texts, attributes, names, rows)
        with self._encoding:
            new = self.model.transform(new_nodes, node_type=node_type)
            novelty = self.model.novelty(new_nodes, node_type) if self.model.judges_novelty else None
        places, far = self.embedding.nearest_to(new, _count(k, "k"))
        answers = []
        for row in range(len(new)):
            answer = {"nearest": self._new_nearest(places[row], far[row]), **_gaussian(new, row)}
            if novelty is not None:
                answer |= {"unseen": float(novelty.unseen[row]), "novelty": float(novelty.rank[row])}
                answer["unlike"] = bool(novelty.is_high()[row])
            answers.append(answer)
        return answers

    def _new_nearest(self, places: Any, far: Any) -> list[Answer]:
        chances = self.embedding.probabilities(far)
        return [
            {**self._named(place), "dissimilarity": float(far[rank]), "probability": float(chances[rank])}
            for rank, place in enumerate(places.tolist())
        ]

    def ellipses(self, node: str, others: list[str]) -> list[Answer]:
        """A node and others as ellipses, one standard deviation, in the plane in which their means differ most."""
        places = np.array([self.place(each) for each in [node, *others[:MOST]]])
        found = ellipses(self.embedding.gaussian[places])
        names = [self._id(place) for place in places.tolist()]
        return [{"id": name, **each} for name, each in zip(names, found, strict=True)]

    def _known(self, place: int) -> list[int]:
        """The positions that edges lead to from this one, as `GLACE.links` sees it."""
        assert self.graph is not None
        found: list[int] = row_of(self.graph.known_edges(self.embedding.measure.symmetric), place).tolist()
        return found

    def _id(self, place: int) -> str:
        """An id as text: many readers of JSON, browsers among them, would round a large number."""
        return str(self.embedding.ids[place])

    def _named(self, place: int) -> Answer:
        """A node's id with its label, type and certainty, where there are any."""
        answer: Answer = {"id": self._id(place)}
        if self.graph is not None and self.graph.labels is not None:
            answer["label"] = self.graph.labels[place]
        if self.graph is not None and self.graph.node_types is not None:
            answer["type"] = self.graph.node_types[place]
        if self.embedding.certainty is not None:
            answer["certainty"] = float(self.embedding.certainty[place])
        return answer


def ellipses(gaussians: Gaussian) -> list[Answer]:
    """Center, half-axes and angle of each, in the plane in which the means differ most; points have no width."""
    mean = np.asarray(gaussians.mean, dtype=np.float64)
    axes = main_axes(mean)
    centers = (mean - mean.mean(axis=0)) @ axes
    found = []
    for row, (x, y) in enumerate(centers.tolist()):
        shape = np.zeros((2, 2)) if gaussians.variance is None else (axes.T * gaussians.variance[row]) @ axes
        lengths, directions = np.linalg.eigh(shape)
        half = np.sqrt(np.maximum(lengths, 0))
        angle = float(np.degrees(np.arctan2(directions[1, 1], directions[0, 1])))
        found.append({"x": x, "y": y, "long": float(half[1]), "short": float(half[0]), "angle": angle})
    return found


def _gaussian(embedding: Embedding, row: int) -> Answer:
    variance = None if embedding.variance is None else embedding.variance[row].tolist()
    certainty = None if embedding.certainty is None else float(embedding.certainty[row])
    return {"mean": embedding.mean[row].tolist(), "variance": variance, "certainty": certainty}


def _count(value: int, name: str) -> int:
    if not 1 <= value <= MOST:
        raise InputError(f"{name} must be from 1 to {MOST:,}, not {value:,}")
    return value
