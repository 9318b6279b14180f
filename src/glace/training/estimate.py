"""What a fit will take, before anything is done: resident memory without the pages of mapped files, and file sizes.

A fit has three high tides: edges are held out, the network is trained, all nodes are encoded. The peak is the
highest. Figures "measured" are those of the fits that tests.estimators/test_estimate.py compares with.
"""

from typing import Any

import scipy.sparse as sp

from glace.blocks import BLOCK
from glace.config.config import Config
from glace.estimators.glace import GLACE
from glace.graph.graph import Graph
from glace.model.inputs import NEIGHBORS_A_STEP
from glace.model.network import ENCODE_ROWS
from glace.training.selection import first_choice, rivals

LIBRARIES = 590_000_000
"""Resident memory of Python with torch, scikit-learn and compiled kernels, before any data; measured."""
HOLDING_OUT = 150
"""Bytes an edge while edges are held out of a graph in memory: pairs, their order, the new matrix; measured."""
A_BLOCK = 24
"""Bytes for each number of a block while edges are held out of a mapped graph."""
ENTRY = 12
"""Bytes of an entry of sparse rows: its column and its value."""


def estimate(model: GLACE, graph: Graph) -> dict[str, float]:
    """Bytes by name: the parts of the memory, its peak, and the size of the model file with what lies beside it."""
    settings, held = _settled(model, graph), _Held(graph)
    sizes = _Sizes(settings, graph, model.gaussian)
    validated = settings.training.validation_fraction > 0
    trials = validated and bool(rivals(model.settings().model, graph.has_attributes))
    # Weights, where training is judged the best so far, and with trials those of the best one; Adam's two moments only
    # where rows belong to nodes.
    copies = 1 + 2 * (not graph.has_attributes) + validated + trials
    gaussians = 0.0 if graph.mapped else sizes.gaussians
    peak = held.graph + max(
        held.holding_out if validated else 0.0,
        held.rest + copies * sizes.weights + max(sizes.batch, sizes.weights if validated else 0.0),
        held.rest + copies * sizes.weights + sizes.encoding + gaussians,
    )
    parts = {
        "libraries": float(LIBRARIES),
        "graph": held.graph + held.rest,
        "weights": sizes.weights,
        "optimizer and best weights": (copies - 1) * sizes.weights,
        "one batch": sizes.batch,
        "nodes encoded at a time": sizes.encoding,
        "Gaussians": gaussians,
    }
    if graph.mapped:
        parts["temporary files"] = held.scratch * validated + sizes.gaussians
    else:
        parts["while edges are held out"] = held.holding_out * validated
    edges = 0.0 if graph.mapped else _bytes(graph.adjacency)
    file = sizes.weights + sizes.gaussians + edges
    return {**parts, "peak memory, about": LIBRARIES + peak, "model file": file}


def _settled(model: GLACE, graph: Graph) -> Config:
    """The settings with `auto` as the first trial has it, which is the largest."""
    settings = model.settings()
    return settings.replace(**first_choice(settings.model, graph.has_attributes))


class _Held:
    """Bytes of a graph: `graph` itself, the `rest` after edges were held out, and what that takes in passing."""

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


class _Sizes:
    """Bytes of what grows with the network: its `weights`, a `batch`, rows at the `encoding`, the `gaussians`."""

    def __init__(self, settings: Config, graph: Graph, gaussian: bool) -> None:
        model, batch, pool = settings.model, settings.sampling.batch_size, settings.sampling.negative_pool_size
        first, second = (model.proximity in (part, "both") for part in ("first", "second"))
        heads, encoders = 1 + gaussian, first + 2 * second
        width = model.n_hashed_features or sum(part.width or part.count for part in graph.by_type().types)
        columns = width * (1 if model.neighbor_features == "none" else 2)
        self.weights = 4.0 * encoders * ((columns + 1) * model.hidden + heads * (model.hidden + 1) * model.dim)
        self.gaussians = 4.0 * graph.num_nodes * (first + second) * heads * model.dim * (1 + second)
        rows = min(2 * batch + pool, graph.num_nodes)
        degree = 0.0 if model.neighbor_features == "none" else 2 * graph.num_edges / graph.num_nodes
        entries = rows * (1 + min(degree, NEIGHBORS_A_STEP)) * _entries_a_row(graph)
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
