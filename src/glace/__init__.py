"""One Gaussian per node of an attributed graph: a mean and a variance, from attributes and edges.

>>> import glace
>>> glace.datasets.load("wordnet-nouns")  # doctest: +ELLIPSIS
Graph(... nodes, ... undirected edges, ... sparse attributes)
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glace import datasets
    from glace.errors import FormatError, GlaceError, InputError, TrainingDiverged
    from glace.estimator.estimator import GLACE
    from glace.estimator.model_file import load_embedding
    from glace.estimator.model_file import load_model as load
    from glace.estimator.variants import LACE, LINE, PublishedGLACE
    from glace.gaussian.embedding import Embedding
    from glace.gaussian.embedding_file import write_embedding
    from glace.graph.arrays import from_arrays
    from glace.graph.convert import convert_tables
    from glace.graph.folder import read_folder, write_folder
    from glace.graph.graph import Graph
    from glace.graph.interop import from_networkx, from_pyg
    from glace.graph.io import read_graph, read_tables
    from glace.graph.npz import read_npz, write_npz
    from glace.graph.split import hold_out
    from glace.graph.tables import from_tables
    from glace.rng import Streams

__version__ = "0.1.0"

# Each public name and where it lives; imported when first used, so that `import glace` does not wait for torch.
_HOME = {
    "GLACE": "glace.estimator.estimator:GLACE",
    "LACE": "glace.estimator.variants:LACE",
    "LINE": "glace.estimator.variants:LINE",
    "PublishedGLACE": "glace.estimator.variants:PublishedGLACE",
    "load": "glace.estimator.model_file:load_model",
    "load_embedding": "glace.estimator.model_file:load_embedding",
    "Embedding": "glace.gaussian.embedding:Embedding",
    "write_embedding": "glace.gaussian.embedding_file:write_embedding",
    "Graph": "glace.graph.graph:Graph",
    "from_arrays": "glace.graph.arrays:from_arrays",
    "from_tables": "glace.graph.tables:from_tables",
    "from_networkx": "glace.graph.interop:from_networkx",
    "from_pyg": "glace.graph.interop:from_pyg",
    "convert_tables": "glace.graph.convert:convert_tables",
    "read_folder": "glace.graph.folder:read_folder",
    "write_folder": "glace.graph.folder:write_folder",
    "read_graph": "glace.graph.io:read_graph",
    "read_tables": "glace.graph.io:read_tables",
    "read_npz": "glace.graph.npz:read_npz",
    "write_npz": "glace.graph.npz:write_npz",
    "hold_out": "glace.graph.split:hold_out",
    "Streams": "glace.rng:Streams",
    "GlaceError": "glace.errors:GlaceError",
    "InputError": "glace.errors:InputError",
    "FormatError": "glace.errors:FormatError",
    "TrainingDiverged": "glace.errors:TrainingDiverged",
    "datasets": "glace.datasets:",
}

__all__ = [
    "GLACE",
    "LACE",
    "LINE",
    "Embedding",
    "FormatError",
    "GlaceError",
    "Graph",
    "InputError",
    "PublishedGLACE",
    "Streams",
    "TrainingDiverged",
    "convert_tables",
    "datasets",
    "from_arrays",
    "from_networkx",
    "from_pyg",
    "from_tables",
    "hold_out",
    "load",
    "load_embedding",
    "read_folder",
    "read_graph",
    "read_npz",
    "read_tables",
    "write_embedding",
    "write_folder",
    "write_npz",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'glace' has no attribute {name!r}")
    module, _, attribute = _HOME[name].partition(":")
    found = importlib.import_module(module)
    return getattr(found, attribute) if attribute else found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
