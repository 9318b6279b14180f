"""Estimates of memory and file size before training: resident memory without the pages of mapped files.

Training has four phases with high memory: holding out edges, training, encoding all nodes, fitting the link model. The
peak is the highest of the four. Figures marked "measured" come from the runs that tests/training/test_estimate.py
compares with.
"""

from collections.abc import Mapping
from typing import Any

import scipy.sparse as sp

from glace.blocks import BLOCK
from glace.config.config import Config, method_named
from glace.fitted.model import LARGE
from glace.graph.graph import Graph
from glace.model.inputs import MAX_NEIGHBORS
from glace.model.network import ENCODE_ROWS
from glace.queries.link_model import SAMPLED_NODES
from glace.queries.pair_features import WALK_K
from glace.training.loop import MAX_VALIDATION_PAIRS
from glace.training.train import initial_options

LIBRARIES = 560_000_000
"""Resident memory of Python with torch, scikit-learn, table readers and compiled kernels, without data; measured."""
HOLDING_OUT = 150
"""Bytes per edge while edges of a graph in memory are held out: pairs, their order, the new matrix; measured."""
A_BLOCK = 24
"""Bytes per number of a block while edges of a mapped graph are held out."""
ENTRY = 12
"""Bytes of an entry of a sparse row: its column and its value."""

A_CANDIDATE = 130
"""Bytes per candidate while the sample of the link model is drawn: features, and the arrays they come from."""
CANDIDATES = 110
"""Candidates of a node, of which there may be `3 * WALK_K`; measured: 52 on Cora-ML, 100 to 150 on small graphs."""
FEATURES = {False: 8, True: 10}
"""Features of a candidate by whether edges have a direction."""
COPIES = 4
"""Copies of the features, their squares and products, while a regression is fitted to them; measured."""
FACTORS = 8
"""Size of the factors of all dissimilarities, relative to the Gaussians: of sources and targets, with the validation
edges and without them."""


def estimate(
    graph: Graph, config: Config | Mapping[str, object] | None = None, method: str = "glace"
) -> dict[str, float]:
    """Estimate the memory of training and the size of the model file, without training.

    Parameters
    ----------
    graph : Graph
        The graph to train on.
    config : Config or mapping, optional
        The configuration, or the options that differ from the defaults of the method.
    method : {"glace", "glace-published", "lace", "lace-published", "line"}
        The method to train.

    Returns
    -------
    dict
        Bytes by name: the parts of the memory, its peak, and the model file with what is stored beside it.

    Examples
    --------
    >>> import glace
    >>> sizes = glace.estimate(glace.datasets.planted(200, communities=4, attributes=80, words=8))
    >>> sizes["model file"] < sizes["peak memory, about"]
    True
    """
    chosen = method_named(method)
    given = config if isinstance(config, Config) else chosen.config(**(config or {}))
    graph = graph if chosen.uses_attributes else graph.without_attributes()
    has_attributes = graph.has_attributes
    config = given.replace(**initial_options(given.model, has_attributes))
    held, sizes = _GraphSizes(graph), _NetworkSizes(config, graph, chosen.gaussian)
    validated = config.training.validation_fraction > 0
    # The weights themselves, with validation the best so far. Only rows that belong to nodes have Adam's two moments.
    copies = 1 + 2 * (not has_attributes) + validated
    gaussians = 0.0 if graph.mapped else sizes.gaussians
    links = _sample_of_links(graph, config) if chosen.link_model and validated else 0.0
    peak = held.graph + max(
        held.holding_out if validated else 0.0,
        held.rest + copies * sizes.weights + max(sizes.batch, sizes.weights if validated else 0.0),
        held.rest + copies * sizes.weights + sizes.encoding + gaussians,
        held.rest + copies * sizes.weights + links + (2 + FACTORS) * gaussians if links else 0.0,
    )
    parts = {
        "libraries": float(LIBRARIES),
        "graph": held.graph + held.rest,
        "weights": sizes.weights,
        "optimizer and best weights": (copies - 1) * sizes.weights,
        "one batch": sizes.batch,
        "nodes encoded at a time": sizes.encoding,
        "Gaussians": gaussians,
        "link model": links + FACTORS * gaussians if links else 0.0,
    }
    if graph.mapped:
        parts["temporary files"] = held.scratch * validated + (2 + FACTORS if links else 1) * sizes.gaussians
    else:
        parts["while edges are held out"] = held.holding_out * validated
    words = sum(_bytes(each.attributes) for each in graph.by_type().types if each.has_words)
    kept = _bytes(graph.adjacency) + words
    file = sizes.weights + sizes.gaussians + (kept if graph.mapped is None or kept <= LARGE else 0.0)
    return {**parts, "peak memory, about": LIBRARIES + peak, "model file": file}


def _sample_of_links(graph: Graph, config: Config) -> float:
    """Bytes of the candidates that the link model is fitted to, while they are drawn or while it is fitted."""
    held_out = min(config.training.validation_fraction * graph.num_edges, MAX_VALIDATION_PAIRS / 2)
    sources = min(2 * held_out + SAMPLED_NODES, graph.num_nodes)
    features = FEATURES[graph.directed]
    terms = features + features * (features + 1) // 2
    fitted = min(SAMPLED_NODES, graph.num_nodes) * CANDIDATES * 8 * terms * COPIES
    return max(A_CANDIDATE * 3 * WALK_K * sources, sources * CANDIDATES * 8 * features + fitted)


class _GraphSizes:
    """Bytes of a graph: `graph` itself, the `rest` after holding out edges, and temporarily while `holding_out`."""

    def __init__(self, graph: Graph) -> None:
        adjacency, weights = _bytes(graph.adjacency), graph.adjacency.data
        entries = graph.adjacency.nnz
        if graph.mapped:
            self.scratch = adjacency + (_bytes(graph.neighborhoods()) if graph.directed else 0.0)
            self.graph = 0.0 if graph.ids.are_strings else 8.0 * graph.num_nodes
            self.rest, self.holding_out = 0.0, float(A_BLOCK * min(entries, BLOCK))
            return
        even = entries == 0 or bool((weights == weights[0]).all())
        tables = 0.0 if even else 16.0 * entries
        # Neighbours of a directed graph are a matrix of their own, as large as both directions.
        self.rest = adjacency * (3 if graph.directed else 1) + tables
        self.graph = adjacency + _bytes(graph.features())
        self.holding_out = float(HOLDING_OUT * graph.num_edges)


class _NetworkSizes:
    """Bytes of the network's `weights`, of a `batch`, of rows during the `encoding`, and of the `gaussians`."""

    def __init__(self, config: Config, graph: Graph, gaussian: bool) -> None:
        model, batch, pool = config.model, config.sampling.batch_size, config.sampling.negative_pool_size
        first, second = (model.proximity in (part, "both") for part in ("first", "second"))
        heads, encoders = 1 + gaussian, first + 2 * second
        width = model.n_hashed_features or sum(part.width or part.count for part in graph.by_type().types)
        columns = width * (1 if model.neighbor_features == "none" else 2)
        self.weights = 4.0 * encoders * ((columns + 1) * model.hidden + heads * (model.hidden + 1) * model.dim)
        self.gaussians = 4.0 * graph.num_nodes * (first + second) * heads * model.dim * (1 + second)
        rows = min(2 * batch + pool, graph.num_nodes)
        degree = 0.0 if model.neighbor_features == "none" else 2 * graph.num_edges / graph.num_nodes
        entries = rows * (1 + min(degree, MAX_NEIGHBORS)) * _entries_a_row(graph)
        self.batch = (
            rows * (model.hidden * 4 + heads * model.dim * 8) * 4.0
            + 4 * batch * pool * 4.0 * (first + second) * model.ensemble_size
            + 2 * entries * ENTRY  # as rows, and by column
        )
        encoded = min(ENCODE_ROWS, graph.num_nodes)
        self.encoding = encoded * ((1 + degree) * _entries_a_row(graph) * ENTRY + model.hidden * 8.0)


def _entries_a_row(graph: Graph) -> float:
    features: Any = graph.features()
    return float(features.nnz / graph.num_nodes if sp.issparse(features) else features.shape[1])


def _bytes(matrix: Any) -> float:
    parts = (matrix.indptr, matrix.indices, matrix.data) if sp.issparse(matrix) else (matrix,)
    return float(sum(part.nbytes for part in parts))
