"""One Gaussian per node of an attributed graph: a mean and a variance, from attributes and edges.

>>> import glace
>>> glace.datasets.load("wordnet-nouns")  # doctest: +ELLIPSIS
Graph(... nodes, ... undirected edges, ... sparse attributes...)
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glace import datasets
    from glace.config.encoders import MLP, Identity, Image
    from glace.errors import FormatError, GlaceError, InputError, TrainingDiverged
    from glace.estimators import GLACE, LACE, LINE, PublishedGLACE
    from glace.fitted.model import FittedModel, load, load_embedding
    from glace.gaussian.embedding import Embedding
    from glace.gaussian.embedding_file import write_embedding
    from glace.graph.arrays import from_arrays
    from glace.graph.graph import Graph
    from glace.graph.interop import from_networkx, from_pyg
    from glace.graph.split import hold_out
    from glace.io.convert import convert_tables
    from glace.io.folder import read_folder, write_folder
    from glace.io.npz import read_npz, write_npz
    from glace.io.read import read_graph, read_tables
    from glace.io.tables import from_tables
    from glace.rng import Streams
    from glace.training.estimate import estimate
    from glace.training.train import train
    from glace.training.update import DriftReport, compare, update

__version__ = "0.1.0"

# Each public name and where it lives; imported when first used, so that `import glace` does not wait for torch.
_HOME = {
    "MLP": "glace.config.encoders:MLP",
    "Image": "glace.config.encoders:Image",
    "Identity": "glace.config.encoders:Identity",
    "GLACE": "glace.estimators:GLACE",
    "LACE": "glace.estimators:LACE",
    "LINE": "glace.estimators:LINE",
    "PublishedGLACE": "glace.estimators:PublishedGLACE",
    "FittedModel": "glace.fitted.model:FittedModel",
    "train": "glace.training.train:train",
    "update": "glace.training.update:update",
    "compare": "glace.training.update:compare",
    "DriftReport": "glace.training.update:DriftReport",
    "estimate": "glace.training.estimate:estimate",
    "load": "glace.fitted.model:load",
    "load_embedding": "glace.fitted.model:load_embedding",
    "Embedding": "glace.gaussian.embedding:Embedding",
    "write_embedding": "glace.gaussian.embedding_file:write_embedding",
    "Graph": "glace.graph.graph:Graph",
    "from_arrays": "glace.graph.arrays:from_arrays",
    "from_tables": "glace.io.tables:from_tables",
    "from_networkx": "glace.graph.interop:from_networkx",
    "from_pyg": "glace.graph.interop:from_pyg",
    "convert_tables": "glace.io.convert:convert_tables",
    "read_folder": "glace.io.folder:read_folder",
    "write_folder": "glace.io.folder:write_folder",
    "read_graph": "glace.io.read:read_graph",
    "read_tables": "glace.io.read:read_tables",
    "read_npz": "glace.io.npz:read_npz",
    "write_npz": "glace.io.npz:write_npz",
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
    "MLP",
    "DriftReport",
    "Embedding",
    "FittedModel",
    "FormatError",
    "GlaceError",
    "Graph",
    "Identity",
    "Image",
    "InputError",
    "PublishedGLACE",
    "Streams",
    "TrainingDiverged",
    "compare",
    "convert_tables",
    "datasets",
    "estimate",
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
    "train",
    "update",
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
