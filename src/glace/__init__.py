"""One Gaussian per node of an attributed graph: a mean and a variance, from attributes and edges.

>>> import glace
>>> glace.datasets.load("wordnet-nouns")  # doctest: +ELLIPSIS
Graph(... nodes, ... undirected edges, ... sparse attributes...)
"""

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

# The public names by the module that defines them, which is imported when a name is first used: `import glace` does not
# wait for torch. Type checkers read the same names below.
_PUBLIC: dict[str, tuple[str, ...]] = {
    "glace.config.config": ("Identity", "Image", "MLP"),
    "glace.errors": ("DistributedError", "FormatError", "GlaceError", "InputError", "TrainingDiverged"),
    "glace.estimators": ("GLACE", "LACE", "LINE", "PublishedGLACE", "PublishedLACE"),
    "glace.features.layout": ("TableLayout",),
    "glace.fitted.batches": ("embed_batches",),
    "glace.fitted.model": ("FittedModel", "load", "load_embedding"),
    "glace.gaussian.embedding": ("Embedding",),
    "glace.gaussian.embedding_file": ("write_embedding",),
    "glace.graph.arrays": ("from_arrays",),
    "glace.graph.graph": ("Graph",),
    "glace.graph.interop": ("from_networkx", "from_pyg"),
    "glace.graph.split": ("hold_out",),
    "glace.io.convert": ("convert_tables",),
    "glace.io.folder": ("read_folder", "write_folder"),
    "glace.io.npz": ("read_npz", "write_npz"),
    "glace.io.read": ("read_graph", "read_tables"),
    "glace.io.tables": ("from_tables",),
    "glace.rng": ("Streams",),
    "glace.training.estimate": ("estimate",),
    "glace.training.train": ("train",),
    "glace.training.update": ("DriftReport", "compare", "update"),
}
_HOME = {"datasets": "glace.datasets"} | {name: module for module, names in _PUBLIC.items() for name in names}

if TYPE_CHECKING:
    # One line per module, where isort would make it one per name.
    # isort: off
    from glace import datasets as datasets
    from glace.config.config import MLP as MLP, Identity as Identity, Image as Image
    from glace.errors import (
        DistributedError as DistributedError,
        FormatError as FormatError,
        GlaceError as GlaceError,
        InputError as InputError,
        TrainingDiverged as TrainingDiverged,
    )
    from glace.estimators import (
        GLACE as GLACE,
        LACE as LACE,
        LINE as LINE,
        PublishedGLACE as PublishedGLACE,
        PublishedLACE as PublishedLACE,
    )
    from glace.features.layout import TableLayout as TableLayout
    from glace.fitted.batches import embed_batches as embed_batches
    from glace.fitted.model import FittedModel as FittedModel, load as load, load_embedding as load_embedding
    from glace.gaussian.embedding import Embedding as Embedding
    from glace.gaussian.embedding_file import write_embedding as write_embedding
    from glace.graph.arrays import from_arrays as from_arrays
    from glace.graph.graph import Graph as Graph
    from glace.graph.interop import from_networkx as from_networkx, from_pyg as from_pyg
    from glace.graph.split import hold_out as hold_out
    from glace.io.convert import convert_tables as convert_tables
    from glace.io.folder import read_folder as read_folder, write_folder as write_folder
    from glace.io.npz import read_npz as read_npz, write_npz as write_npz
    from glace.io.read import read_graph as read_graph, read_tables as read_tables
    from glace.io.tables import from_tables as from_tables
    from glace.rng import Streams as Streams
    from glace.training.estimate import estimate as estimate
    from glace.training.train import train as train
    from glace.training.update import DriftReport as DriftReport, compare as compare, update as update
else:
    __all__ = [*_HOME]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'glace' has no attribute {name!r}")
    module = importlib.import_module(_HOME[name])
    return module if name == "datasets" else getattr(module, name)


def __dir__() -> list[str]:
    return [*_HOME, "__version__"]
