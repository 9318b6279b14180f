"""What a fit will take, before anything is done."""

import scipy.sparse as sp

from glace.estimator.estimator import GLACE
from glace.graph.graph import Graph

LIBRARIES = 590_000_000
"""Resident memory of Python with torch, scikit-learn and compiled kernels, before any data; measured."""


def estimate(model: GLACE, graph: Graph) -> dict[str, float]:
    """Bytes by name: parts of the memory, their sum, and the size of the model file."""
    settings = model.settings()
    first, second = (settings.model.proximity in (part, "both") for part in ("first", "second"))
    width = settings.model.hashed_width or graph.num_attributes
    columns = width * (1 if settings.model.neighbors == "none" else 2)
    hidden, dim = settings.model.hidden, settings.model.dim
    parts, heads = first + second, 1 + model.gaussian
    weights = 4.0 * (first + 2 * second) * ((columns + 1) * hidden + heads * (hidden + 1) * dim)
    gaussians = 4.0 * graph.num_nodes * parts * heads * dim * (1 + second)
    batch, pool = settings.sampling.batch, settings.sampling.pool
    rows = (2 * batch + pool) * (hidden * 4 + heads * dim * 8) * 4.0
    scores = 8 * batch * pool * 4.0 * parts * settings.model.members
    sizes = {
        "libraries": float(LIBRARIES),
        "graph": _graph_bytes(graph),
        "weights": weights,
        "optimizer and best weights": 3 * weights,
        "one batch": rows + scores,
        "Gaussians": gaussians,
    }
    return {**sizes, "peak memory, about": sum(sizes.values()), "model file": weights + gaussians}


def _graph_bytes(graph: Graph) -> float:
    matrices = [graph.adjacency, graph.features()]
    sizes = [
        each.indptr.nbytes + each.indices.nbytes + each.data.nbytes if sp.issparse(each) else each.nbytes
        for each in matrices
    ]
    # The edges are held twice: with and without the held-out ones.
    return float(2 * sizes[0] + sizes[1])
