"""The model file: configuration, weights, recipe of the attributes and the Gaussians of the training nodes."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from glace import container
from glace.container import Arrays, pack_strings, unpack_strings
from glace.disk import is_mapped
from glace.errors import FormatError, GlaceError, InputError
from glace.estimator.choice import Choice
from glace.estimator.estimator import GLACE
from glace.estimator.novelty import Common
from glace.estimator.settings import Settings
from glace.estimator.variants import ESTIMATORS
from glace.files import sha256_of
from glace.gaussian.certainty import Reference
from glace.gaussian.embedding import Embedding
from glace.gaussian.embedding_file import (
    from_matrices,
    is_embedding_file,
    matrices,
    odds_of,
    read_embedding,
    write_embedding,
)
from glace.graph.categories import Categories
from glace.graph.graph import Graph
from glace.graph.recipe import Recipe
from glace.graph.sparse import bad_weights, check_sparse
from glace.graph.split import HeldOut
from glace.graph.text import TextVocabulary
from glace.ids import NodeIds
from glace.metrics import Calibration
from glace.model.network import Network, shape_of
from glace.training.history import History

KIND, VERSION = "glace-model", 2
LARGE = 1 << 29
"""Bytes of Gaussians from which on they are put beside the model file instead of into it."""


def save_model(model: GLACE, path: str | Path, embedding: str = "auto") -> None:
    """Write a fitted model; the same model gives the same bytes."""
    check_model_name(path)
    if embedding not in ("auto", "inside", "beside"):
        raise InputError(f"embedding must be 'auto', 'inside' or 'beside', not {embedding!r}")
    size = sum(matrix.nbytes for matrix in matrices(model.embedding_).values())
    arrays = {f"weights|{name}": array for name, array in model.network_.weights().items()}
    if model.recipe_ is not None:
        arrays |= model.recipe_.to_arrays()
    if model.attribute_names_ is not None:
        arrays |= pack_strings("columns", model.attribute_names_)
    if model.graph_ is not None:
        arrays |= _pack_graph(model.graph_)
    if model.held_out_ is not None:
        arrays |= {f"held_out/{name}": pairs for name, pairs in vars(model.held_out_).items()}
    arrays |= _pack_certainty(model)
    # What lies on disk stays there: it may be more than memory holds.
    large = size > LARGE or is_mapped(model.embedding_.mean)
    if embedding == "beside" or (embedding == "auto" and large):
        digest = _write_sidecar(model.embedding_, path)
        container.write(path, KIND, VERSION, {**_metadata(model), "embedding_sha256": digest}, arrays)
    else:
        digest = ""
        container.write(path, KIND, VERSION, _metadata(model), arrays | _pack_embedding(model.embedding_))
    _remove_other_sidecars(path, digest)


def check_model_name(path: str | Path) -> None:
    """Raise if a model would be taken for an embedding by its name."""
    if is_embedding_file(path):
        raise InputError(
            f"a model file cannot be called {path}: that ending is for `glace export`; use .glace"
        )


def load_model(path: str | Path) -> GLACE:
    """Read a model file; nothing in it is executed, and damage raises `FormatError`."""
    metadata, arrays = container.read(path, KIND, VERSION)
    try:
        model = ESTIMATORS[metadata["method"]](**metadata["options"])
        model.choice_ = Choice.from_json(metadata["choice"])
        model.network_ = _network(model.settings().changed(model.choice_.options), metadata, arrays)
        model.directed_ = bool(metadata["directed"])
        model.width_ = metadata["width"] if metadata["has_attributes"] else None
        model.history_ = History.from_json(metadata["history"])
        model.recipe_ = _recipe(arrays, model.network_.shape.width)
        model.attribute_names_ = _attribute_names(arrays)
        # Models of before they were calibrated have the odds they were trained with.
        model.odds_ = odds_of({"offset": model.network_.offset(), **metadata})
        model.calibration_ = _calibration(metadata)
        model.embedding_ = _embedding(path, model, metadata, arrays)
        model.graph_ = _graph(model, arrays)
        model.held_out_ = _held_out(len(model.embedding_), arrays)
        _set_certainty(model, arrays)
    except (GlaceError, KeyError, TypeError, ValueError, RuntimeError) as problem:
        if isinstance(problem, FormatError):
            raise
        raise FormatError(f"{path} is not a usable model file: {problem}") from problem
    return model


def load_embedding(path: str | Path) -> Embedding:
    """The Gaussians of a model file or of an embedding file."""
    return load_with_graph(path)[0]


def load_with_graph(path: str | Path) -> tuple[Embedding, Graph | None]:
    """The Gaussians of a model file or of an embedding file and, of a model that keeps them, edges and labels."""
    if Path(path).suffix == ".csv":
        raise InputError(f"{path}: a .csv export is for other programs and is not read back; use .parquet")
    if is_embedding_file(path):
        return read_embedding(path), None
    model = load_model(path)
    return model.embedding_, model.graph_


def sidecar_of(path: str | Path, digest: str) -> Path:
    """Where the Gaussians of a large model lie: beside it, with some of their checksum and .arrow appended.

    The checksum makes the pair safe: a new file never replaces the one an older model file still needs.
    """
    return Path(f"{path}.{digest[:12]}.arrow")


def _write_sidecar(embedding: Embedding, path: str | Path) -> str:
    fresh = Path(f"{path}.new.arrow")
    write_embedding(embedding, fresh)
    digest = sha256_of(fresh)
    fresh.replace(sidecar_of(path, digest))
    return digest


def _remove_other_sidecars(path: str | Path, digest: str) -> None:
    name = re.compile(re.escape(Path(path).name) + r"\.[0-9a-f]{12}\.arrow")
    for other in Path(path).parent.iterdir():
        if name.fullmatch(other.name) and other != sidecar_of(path, digest):
            other.unlink()


def _metadata(model: GLACE) -> dict[str, Any]:
    from glace import __version__

    # How long it took is not written: the same run must give the same bytes.
    history = {**model.history_.to_json(), "seconds": 0.0}
    return {
        "glace_version": __version__,
        "method": model.method,
        "options": model.settings().flat(),
        "choice": model.choice_.to_json(),
        "dissimilarity": model.network_.measure.name,
        "directed": model.directed_,
        "sparse": model.network_.shape.sparse,
        "has_attributes": model.width_ is not None,
        "width": model.network_.shape.width,
        "history": history,
        **model.odds_._asdict(),
        "calibration": None if model.calibration_ is None else model.calibration_.to_json(),
    }


def _network(settings: Settings, metadata: dict[str, Any], arrays: Arrays) -> Network:
    weights = {name.partition("|")[2]: array for name, array in arrays.items() if name.startswith("weights|")}
    shape = shape_of(int(metadata["width"]), bool(metadata["sparse"]), settings.model)
    for name, array in weights.items():
        if not np.isfinite(array).all():
            raise FormatError(f"the weights {name} are not all finite")
        # Checked before anything of the stated size is allocated.
        if name.endswith("input.weight") and array.shape != (shape.columns, settings.model.hidden):
            raise FormatError(f"the weights {name} have the shape {array.shape}, not the stated one")
    network = Network(shape, settings.model, metadata["dissimilarity"], settings.streams)
    network.set_weights(weights)
    return network


def _recipe(arrays: Arrays, width: int) -> Recipe | None:
    if "recipe" in arrays:
        return Recipe.from_bytes(arrays["recipe"], width)
    if "idf" not in arrays:
        return None
    return Recipe.of_texts(TextVocabulary(tuple(unpack_strings("words", arrays).to_pylist()), arrays["idf"]))


def _attribute_names(arrays: Arrays) -> tuple[str, ...] | None:
    return tuple(unpack_strings("columns", arrays).to_pylist()) if "columns/bytes" in arrays else None


def _calibration(metadata: dict[str, Any]) -> Calibration | None:
    """None without held-out edges, and in files of before it was kept."""
    found = metadata.get("calibration")
    return None if found is None else Calibration.from_json(found)


def _pack_graph(graph: Graph) -> Arrays:
    edges = graph.adjacency
    arrays = {"edges/indptr": edges.indptr, "edges/indices": edges.indices, "edges/weights": edges.data}
    for name, categories in (("labels", graph.labels), ("types", graph.node_types)):
        if categories is not None:
            arrays |= {f"{name}/codes": categories.codes, **pack_strings(f"{name}/names", categories.names)}
    return arrays


def _graph(model: GLACE, arrays: Arrays) -> Graph | None:
    """The edges and categories; None where the graph was on disk, and in files of before they were kept."""
    if "edges/indptr" not in arrays:
        return None
    count = len(model.embedding_)
    edges = sp.csr_array((count, count), dtype=np.float32)
    edges.indptr, edges.indices, edges.data = (
        arrays[f"edges/{part}"] for part in ("indptr", "indices", "weights")
    )
    check_sparse(edges, "the edges")
    if edges.data.dtype != np.float32 or bad_weights(edges.data).any() or not edges.has_canonical_format:
        raise FormatError("the edges are not sorted, or their weights not finite and above 0")
    labels, types = (_categories(name, count, arrays) for name in ("labels", "types"))
    return Graph(edges, None, model.embedding_.ids, model.directed_, labels, types)


def _held_out(count: int, arrays: Arrays) -> HeldOut | None:
    """Which pairs training did not see; None where none were held out, and in files of before they were kept."""
    found = _under("held_out", arrays)
    if not found:
        return None
    held_out = HeldOut(found["edges"], found["non_edges"])
    pairs = held_out.pairs()
    if pairs.dtype != np.int64 or pairs.shape[1:] != (2,) or not ((pairs >= 0) & (pairs < count)).all():
        raise FormatError("the held-out pairs are not pairs of nodes")
    return held_out


def _categories(name: str, count: int, arrays: Arrays) -> Categories | None:
    if f"{name}/codes" not in arrays:
        return None
    codes, names = arrays[f"{name}/codes"], tuple(unpack_strings(f"{name}/names", arrays).to_pylist())
    if codes.shape != (count,) or codes.dtype != np.int32 or not np.isin(codes, range(-1, len(names))).all():
        raise FormatError(f"the {name} are not one for each node")
    return Categories(codes, names)


def _pack_certainty(model: GLACE) -> Arrays:
    reference = model.reference_
    arrays: Arrays = (
        {} if reference is None else {f"reference/{name}": each for name, each in vars(reference).items()}
    )
    common = {} if model.common_ is None else model.common_.to_arrays()
    return arrays | {f"common/{name}": array for name, array in common.items()}


def _set_certainty(model: GLACE, arrays: Arrays) -> None:
    """What certainty and novelty are told by; files of before they were have neither."""
    reference, common = (_under(name, arrays) for name in ("reference", "common"))
    model.reference_ = Reference.from_arrays(reference, model.embedding_.mean.shape[1]) if reference else None
    shape = model.network_.shape
    model.common_ = Common.from_arrays(common, shape.width, shape.sparse) if common and reference else None


def _under(name: str, arrays: Arrays) -> Arrays:
    return {key.partition("/")[2]: array for key, array in arrays.items() if key.startswith(f"{name}/")}


def _pack_embedding(embedding: Embedding) -> Arrays:
    ids = embedding.ids
    packed = pack_strings("ids", ids.array) if ids.are_strings else {"ids/numbers": ids.to_numpy()}
    packed |= {f"embedding/{name}": matrix for name, matrix in matrices(embedding).items()}
    return packed if embedding.certainty is None else {**packed, "embedding/certainty": embedding.certainty}


def _embedding(path: str | Path, model: GLACE, metadata: dict[str, Any], arrays: Arrays) -> Embedding:
    if "embedding_sha256" in metadata:
        sidecar = sidecar_of(path, metadata["embedding_sha256"])
        if not sidecar.exists():
            raise FormatError(f"{path} needs the file {sidecar} beside it, which is not there")
        if sha256_of(sidecar) != metadata["embedding_sha256"]:
            raise FormatError(f"{sidecar} is damaged or belongs to another model than {path}")
        return read_embedding(sidecar)
    ids = unpack_strings("ids", arrays) if "ids/bytes" in arrays else arrays["ids/numbers"]
    columns = {name.removeprefix("embedding/"): array for name, array in arrays.items()}
    return from_matrices(NodeIds(ids), columns, model.network_.measure.name, model.odds_)
