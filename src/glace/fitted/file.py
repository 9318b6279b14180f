"""The model file: a whole `FittedModel` as arrays with JSON metadata. Nothing in a file is executed."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glace.config.config import Config, method_named
from glace.errors import FormatError, GlaceError, InputError
from glace.fitted.history import History, Selection
from glace.fitted.network import NetworkState
from glace.gaussian.embedding import Embedding
from glace.gaussian.embedding_file import (
    from_matrices,
    is_embedding_file,
    platt_scaling_from,
    read_embedding,
    write_embedding,
)
from glace.graph import codec
from glace.graph.graph import Graph
from glace.graph.node_types import NodeType
from glace.graph.split import HeldOut
from glace.queries.calibration import Calibration
from glace.queries.certainty import CertaintyModel
from glace.queries.novelty import NoveltyModel
from glace.storage import container
from glace.storage.container import Arrays
from glace.storage.files import sha256_of

if TYPE_CHECKING:
    from glace.fitted.model import FittedModel
    from glace.fitted.network import EncoderModules

KIND, VERSION = "glace-model", 3
LARGE = 1 << 29
"""Size in bytes above which Gaussians are stored beside the model file, and edges of a graph on disk are not kept."""

Metadata = dict[str, Any]


def save(fitted: "FittedModel", path: str | Path, embedding: str = "auto") -> None:
    """Write a fitted model; the same model gives the same bytes. See `FittedModel.save`."""
    check_model_name(path)
    if embedding not in ("auto", "inside", "beside"):
        raise InputError(f"must be 'auto', 'inside' or 'beside', not {embedding!r}", option="embedding")
    metadata, arrays = _encode(fitted)
    size = sum(matrix.nbytes for matrix in fitted.embedding.matrices().values())
    digest = ""
    if embedding == "beside" or (embedding == "auto" and size > LARGE):
        metadata["embedding_sha256"] = digest = _write_sidecar(fitted.embedding, path)
    else:
        arrays |= _encode_embedding(fitted.embedding)
    container.write(path, KIND, VERSION, metadata, arrays)
    _remove_other_sidecars(path, digest)


def read(path: str | Path, encoder: "EncoderModules | None" = None) -> dict[str, Any]:
    """Read a model file and return the fields of its `FittedModel` by name; see `glace.load`."""
    metadata, arrays = container.read(path, KIND, VERSION)
    with _usable(path):
        return _decode(metadata, arrays, _embedding(path, metadata, arrays), encoder, str(path))


def load_embedding(path: str | Path) -> Embedding:
    """Read the Gaussians of a model file or of an embedding file.

    Parameters
    ----------
    path : str or Path
        A model file, or an embedding written by `write_embedding` or `glace export` (.parquet, .arrow, .npz).

    Returns
    -------
    Embedding
        The Gaussians of the training nodes.
    """
    return load_with_graph(path)[0]


def load_with_graph(path: str | Path) -> tuple[Embedding, Graph | None]:
    """Read an embedding, or the embedding and the graph of a model file; a model may keep no graph."""
    if Path(path).suffix == ".csv":
        raise InputError(f"{path}: a .csv export is for other programs and cannot be read back; use .parquet")
    if is_embedding_file(path):
        return read_embedding(path), None
    fields = read(path)
    return fields["embedding"], fields["graph"]


def check_model_name(path: str | Path) -> None:
    """Raise if the name of a model file would make it look like an embedding file."""
    if is_embedding_file(path):
        raise InputError(f"a model file cannot be named {path}: that ending is for `glace export`; use .glace")


@contextmanager
def _usable(path: str | Path) -> Iterator[None]:
    """Turn any problem with the contents into a FormatError that names the file."""
    try:
        yield
    except (GlaceError, KeyError, TypeError, ValueError, RuntimeError, IndexError) as problem:
        if isinstance(problem, FormatError) and str(path) in str(problem):
            raise
        raise FormatError(f"{path} is not a usable model file: {problem}") from problem


def _encode(fitted: "FittedModel") -> tuple[Metadata, Arrays]:
    """Return the metadata and the arrays of everything but the Gaussians."""
    from glace import __version__

    types, arrays = codec.encode_types(fitted.node_types, rows=False)
    metadata = {
        "glace_version": __version__,
        "method": fitted.method,
        "options": fitted.config.to_dict(),
        "selection": fitted.selection.to_json(),
        "dissimilarity": fitted.embedding.dissimilarity,
        "directed": fitted.directed,
        "node_types": types,
        # Without the training time: the same run must give the same bytes.
        "history": {**fitted.history.to_json(), "seconds": 0.0},
        **fitted.embedding.platt_scaling._asdict(),
        "calibration": None if fitted.calibration is None else fitted.calibration.to_json(),
    }
    arrays |= _with_prefix("weights", fitted.state.weights)
    arrays |= _with_prefix("certainty", vars(fitted.certainty_model))
    if fitted.graph is not None:
        metadata["graph"], edges = codec.encode(fitted.graph, ids=False, attributes=False)
        arrays |= _with_prefix("graph", edges)
    if fitted.validation is not None:
        arrays |= _with_prefix("validation", vars(fitted.validation))
    for code, novelty in enumerate(fitted.novelty_models):
        arrays |= {} if novelty is None else _with_prefix(f"novelty{code}", novelty.to_arrays())
    return metadata, arrays


def _decode(
    metadata: Metadata, arrays: Arrays, embedding: Embedding, encoder: "EncoderModules | None", source: str
) -> dict[str, Any]:
    """Return the fields of a model from the result of `_encode` and its Gaussians."""
    config = Config.of(metadata["options"])
    node_types = codec.decode_types(metadata["node_types"], arrays, rows=False)
    graph = None
    if "graph" in metadata:
        graph = codec.decode(metadata["graph"], _group("graph", arrays), ids=embedding.ids)
    weights = _group("weights", arrays)
    _check_finite(weights)
    state = NetworkState(weights, config, embedding.dissimilarity, node_types, encoder, source)
    calibration = metadata["calibration"]
    return {
        "method": method_named(metadata["method"]).name,
        "config": config,
        "selection": Selection.from_json(metadata["selection"]),
        "node_types": node_types,
        "directed": bool(metadata["directed"]),
        "embedding": embedding,
        "graph": graph,
        "validation": _decode_validation(len(embedding), _group("validation", arrays)),
        "history": History.from_json(metadata["history"]),
        "calibration": None if calibration is None else Calibration.from_json(calibration),
        "certainty_model": CertaintyModel.from_arrays(_group("certainty", arrays), embedding.mean.shape[1]),
        "novelty_models": tuple(
            None if schema.width is None else _decode_novelty(_group(f"novelty{code}", arrays), schema)
            for code, schema in enumerate(node_types)
        ),
        "state": state,
    }


def _with_prefix(name: str, arrays: Arrays) -> Arrays:
    return {f"{name}/{key}": array for key, array in arrays.items()}


def _group(name: str, arrays: Arrays) -> Arrays:
    """Return the arrays that were stored under this prefix."""
    return {key.partition("/")[2]: array for key, array in arrays.items() if key.startswith(f"{name}/")}


def _check_finite(weights: Arrays) -> None:
    for name, array in weights.items():
        # Weights of a custom encoder are the user's: a mask may well be infinite.
        if ".module." not in name and not np.isfinite(array).all():
            raise FormatError(f"the weights {name} are not all finite")


def _decode_novelty(arrays: Arrays, schema: NodeType) -> NoveltyModel | None:
    # A type without nodes has attributes but nothing to learn from.
    return NoveltyModel.from_arrays(arrays, schema.width or 0, schema.sparse) if arrays else None


def _decode_validation(count: int, arrays: Arrays) -> HeldOut | None:
    if not arrays:
        return None
    validation = HeldOut(arrays["edges"], arrays["non_edges"])
    pairs = validation.pairs()
    if pairs.dtype != np.int64 or pairs.shape[1:] != (2,) or not ((pairs >= 0) & (pairs < count)).all():
        raise FormatError("the validation pairs are not pairs of nodes")
    return validation


def _encode_embedding(embedding: Embedding) -> Arrays:
    certainty = {} if embedding.certainty is None else {"certainty": embedding.certainty}
    return codec.encode_ids(embedding.ids) | _with_prefix("embedding", embedding.matrices() | certainty)


def _embedding(path: str | Path, metadata: Metadata, arrays: Arrays) -> Embedding:
    """Return the Gaussians, from the model file or from the file beside it."""
    if "embedding_sha256" not in metadata:
        parts = _group("embedding", arrays)
        ids = codec.decode_ids(arrays, len(parts["mean"]))
        return from_matrices(ids, parts, metadata["dissimilarity"], platt_scaling_from(metadata))
    sidecar = sidecar_of(path, metadata["embedding_sha256"])
    if not sidecar.exists():
        raise FormatError(f"{path} needs the file {sidecar} beside it, which does not exist")
    if sha256_of(sidecar) != metadata["embedding_sha256"]:
        raise FormatError(f"{sidecar} is damaged or belongs to another model than {path}")
    return read_embedding(sidecar)


def sidecar_of(path: str | Path, digest: str) -> Path:
    """Return the name of the file beside a model that holds its Gaussians: it ends in part of their checksum.

    Because of the checksum, a new file never replaces one that an older model file still needs.
    """
    return Path(f"{path}.{digest[:12]}.arrow")


def _write_sidecar(embedding: Embedding, path: str | Path) -> str:
    temporary = Path(f"{path}.new.arrow")
    write_embedding(embedding, temporary)
    digest = sha256_of(temporary)
    temporary.replace(sidecar_of(path, digest))
    return digest


def _remove_other_sidecars(path: str | Path, digest: str) -> None:
    name = re.compile(re.escape(Path(path).name) + r"\.[0-9a-f]{12}\.arrow")
    for other in Path(path).parent.iterdir():
        if name.fullmatch(other.name) and other != sidecar_of(path, digest):
            other.unlink()
