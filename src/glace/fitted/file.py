"""The model file: configuration, weights, pipeline of the attributes and the Gaussians of the training nodes."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from torch import nn

from glace.categories import Categories
from glace.config.config import Config
from glace.config.encoders import CustomEncoder, format_encoder
from glace.errors import FormatError, GlaceError, InputError
from glace.estimators.glace import GLACE
from glace.estimators.variants import ESTIMATORS
from glace.fitted.history import History
from glace.fitted.type_arrays import of_type, pack_type, types_of, under, under_type
from glace.gaussian.embedding import Embedding, PlattScaling
from glace.gaussian.embedding_file import (
    from_matrices,
    is_embedding_file,
    platt_scaling_from,
    read_embedding,
    write_embedding,
)
from glace.graph.graph import Graph
from glace.graph.node_types import NodeAttributes, NodeType
from glace.graph.split import HeldOut
from glace.ids import NodeIds
from glace.model.custom_encoders import Modules
from glace.model.network import Network
from glace.model.node_types import Kind, empty_of, joined, kind_of_columns, kinds_of
from glace.queries.calibration import Calibration
from glace.queries.certainty import CertaintyModel
from glace.queries.novelty import NoveltyModel
from glace.sparse import bad_weights, check_sparse
from glace.storage import container
from glace.storage.container import Arrays, pack_strings, unpack_strings
from glace.storage.files import sha256_of
from glace.storage.mapped import is_mapped
from glace.training.selection import Selection
from glace.training.task import shape_of

KIND, VERSION = "glace-model", 2
LARGE = 1 << 29
"""Bytes of Gaussians from which on they are put beside the model file instead of into it."""


def save_model(model: GLACE, path: str | Path, embedding: str = "auto") -> None:
    """Write a fitted model; the same model gives the same bytes."""
    check_model_name(path)
    if embedding not in ("auto", "inside", "beside"):
        raise InputError(f"embedding must be 'auto', 'inside' or 'beside', not {embedding!r}")
    size = sum(matrix.nbytes for matrix in model.embedding_.matrices().values())
    arrays = {f"weights|{name}": array for name, array in model.network_.weights().items()}
    for kind, part in enumerate(model.types_):
        arrays |= {of_type(kind) + name: array for name, array in pack_type(part).items()}
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
        raise InputError(f"a model file cannot be called {path}: that ending is for `glace export`; use .glace")


def load_model(path: str | Path, encoder: Any = None, new_nodes: bool = True) -> GLACE:
    """Read a model file; nothing in it is executed, and damage raises `FormatError`.

    Of a model with an encoder of the user's own, a `torch.nn.Module`, the file has the weights only: `encoder` is such
    a module made as it was for the fit, or a dict of them by type of node, and gets these. It is not needed for what
    is known of the training nodes, without `new_nodes`.
    """
    metadata, arrays = container.read(path, KIND, VERSION)
    with _usable(path):
        model = ESTIMATORS[metadata["method"]](**metadata["options"])
        model.config_ = Config.of(model.get_params())
        model.selection_ = Selection.from_json(metadata["choice"])
        settings = model.config_.replace(**model.selection_.options)
        model.types_ = types_of(metadata, arrays)
    if new_nodes:
        modules = _modules(settings, encoder)
        model.set_params(encoder=_with_modules(settings, modules))
        with _usable(path):
            network = _network(settings, metadata["dissimilarity"], model.types_, modules, arrays)
        _fill(network, arrays, path)
        model.network_ = network
    with _usable(path):
        model.directed_ = bool(metadata["directed"])
        model.history_ = History.from_json(metadata["history"])
        model.platt_scaling_ = _odds(metadata, arrays)
        model.calibration_ = _calibration(metadata)
        model.embedding_ = _embedding(path, metadata, arrays)
        model.graph_ = _graph(model.embedding_.ids, metadata, arrays)
        model.held_out_ = _held_out(len(model.embedding_), arrays)
        _set_certainty(model, arrays)
    return model


@contextmanager
def _usable(path: str | Path) -> Iterator[None]:
    """Whatever is wrong with the contents is said of the file."""
    try:
        yield
    except (GlaceError, KeyError, TypeError, ValueError, RuntimeError, IndexError) as problem:
        if isinstance(problem, FormatError):
            raise
        raise FormatError(f"{path} is not a usable model file: {problem}") from problem


def _fill(network: Network, arrays: Arrays, path: str | Path) -> None:
    """Put the weights of the file into the network."""
    has_modules = any(kind.module is not None for kind in network.kinds)
    try:
        network.set_weights(_weights(arrays))
    except RuntimeError as problem:
        if has_modules:
            raise InputError(
                f"the weights in {path} do not fit the encoder that is given; make it as it was for the fit"
            ) from problem
        raise FormatError(f"{path} is not a usable model file: its weights do not fit") from problem
    network.check_modules([empty_of(kind.shape, rows=1) for kind in network.kinds])


def _with_modules(settings: Config, modules: Modules) -> Any:
    """The encoder as it was given for the fit: its words, with modules in the places of these."""
    parts = settings.model.encoders()
    if not modules:
        return settings.model.encoder
    if set(parts) == {""}:
        return modules[""]
    return {name: modules.get(name, format_encoder(part)) for name, part in parts.items()}


def _modules(settings: Config, encoder: Any) -> Modules:
    """The user's modules that a model needs, which must be those that are given."""
    wanted = {name: part for name, part in settings.model.encoders().items() if isinstance(part, CustomEncoder)}
    listed = encoder if isinstance(encoder, dict) else {} if encoder is None else {"": encoder}
    given = {name: each for name, each in listed.items() if isinstance(each, nn.Module)}
    for name, part in wanted.items():
        if name in given and type(given[name]).__name__ != part.name:
            raise InputError(
                f"the model was fitted with an encoder of the class {part.name}, not {type(given[name]).__name__}"
            )
        if name not in given:
            shown = f"{part.name}(...)" if name == "" else f"{{{name!r}: {part.name}(...)}}"
            raise InputError(
                f"the model was fitted with an encoder of your own, {part.name}, whose code is not in the file; give "
                f"it again, made as it was, in Python: {shown} as the encoder of glace.load"
            )
    if set(listed) != set(wanted):
        raise InputError("encoder= is for the modules that a model was fitted with; leave the rest out")
    return given


def load_embedding(path: str | Path) -> Embedding:
    """The Gaussians of a model file or of an embedding file."""
    return load_with_graph(path)[0]


def load_with_graph(path: str | Path) -> tuple[Embedding, Graph | None]:
    """The Gaussians of a model file or of an embedding file and, of a model that keeps them, edges and labels."""
    if Path(path).suffix == ".csv":
        raise InputError(f"{path}: a .csv export is for other programs and is not read back; use .parquet")
    if is_embedding_file(path):
        return read_embedding(path), None
    # Without the network: its encoder may be a module of the user's, which is not needed here.
    metadata, arrays = container.read(path, KIND, VERSION)
    with _usable(path):
        embedding = _embedding(path, metadata, arrays)
        return embedding, _graph(embedding.ids, metadata, arrays)


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
        "options": model.config_.to_dict(),
        "choice": model.selection_.to_json(),
        "dissimilarity": model.network_.measure.name,
        "directed": model.directed_,
        "types": [
            {"name": part.name, "nodes": part.count, "width": part.width, "sparse": part.sparse}
            for part in model.types_
        ],
        "history": history,
        **model.platt_scaling_._asdict(),
        "calibration": None if model.calibration_ is None else model.calibration_.to_json(),
    }


def _weights(arrays: Arrays) -> Arrays:
    found = {name.partition("|")[2]: array for name, array in arrays.items() if name.startswith("weights|")}
    for part in ("shift", "scale"):  # as they were called before nodes had types
        if part in found:
            found[f"scales.0.{part}"] = found.pop(part)
    return found


def _network(settings: Config, measure: str, types: tuple[NodeType, ...], modules: Modules, arrays: Arrays) -> Network:
    kinds = kinds_of({part.name: shape_of(part) for part in types}, settings.model, modules)
    neighbors = settings.model.neighbor_features == "mean"
    _check_weights(_weights(arrays), joined(kinds) if neighbors else kinds, neighbors)
    return Network(kinds, settings.model, measure, settings.streams)


def _check_weights(weights: Arrays, kinds: Sequence[Kind], neighbors: bool) -> None:
    """Raise unless all are finite, and of the stated sizes, before anything of such a size is allocated."""
    seen = set()
    for name, array in weights.items():
        # What is in a user's module is the user's: a mask may well be infinite.
        if ".module." not in name and not np.isfinite(array).all():
            raise FormatError(f"the weights {name} are not all finite")
        place = kind_of_columns(name)
        if place is None:
            continue
        shape = kinds[place].shape
        dense = 0 if shape.sparse else shape.width
        if array.shape[0] != (dense if name.startswith("scales.") else shape.columns):
            raise FormatError(f"the weights {name} have the shape {array.shape}, not the stated one")
        if len(array):
            seen.add(place)
    for number, kind in enumerate(kinds):
        # Of a user's module for sparse rows, nothing has a size that is stated.
        unsized = isinstance(kind.part, CustomEncoder) and kind.shape.sparse and not neighbors
        if number not in seen and not unsized:
            raise FormatError("the weights of some types of nodes are missing")


def _odds(metadata: dict[str, Any], arrays: Arrays) -> PlattScaling:
    """The probability of an edge; models of before they were calibrated have what they were trained with."""
    offsets = [array.sum() for name, array in _weights(arrays).items() if name.startswith("offsets.")]
    return platt_scaling_from({"offset": float(sum(float(each) for each in offsets)), "slope": 1.0, **metadata})


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


def _graph(ids: NodeIds, metadata: dict[str, Any], arrays: Arrays) -> Graph | None:
    """The edges and categories; None where the graph was on disk, and in files of before they were kept."""
    if "edges/indptr" not in arrays:
        return None
    count = len(ids)
    edges = sp.csr_array((count, count), dtype=np.float32)
    edges.indptr, edges.indices, edges.data = (arrays[f"edges/{part}"] for part in ("indptr", "indices", "weights"))
    check_sparse(edges, "the edges")
    if edges.data.dtype != np.float32 or bad_weights(edges.data).any() or not edges.has_canonical_format:
        raise FormatError("the edges are not sorted, or their weights not finite and above 0")
    labels, types = (_categories(name, count, arrays) for name in ("labels", "types"))
    return Graph(edges, NodeAttributes((NodeType("", count),)), ids, bool(metadata["directed"]), labels, types)


def _held_out(count: int, arrays: Arrays) -> HeldOut | None:
    """Which pairs training did not see; None where none were held out, and in files of before they were kept."""
    found = under("held_out", arrays)
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
    reference = model.certainty_model_
    arrays: Arrays = {} if reference is None else {f"reference/{name}": each for name, each in vars(reference).items()}
    for kind, common in enumerate(model.novelty_models_):
        found = {} if common is None else common.to_arrays()
        arrays |= {f"{of_type(kind)}common/{name}": array for name, array in found.items()}
    return arrays


def _set_certainty(model: GLACE, arrays: Arrays) -> None:
    """What certainty and novelty are told by; files of before they were have neither."""
    reference = under("reference", arrays)
    model.certainty_model_ = (
        CertaintyModel.from_arrays(reference, model.embedding_.mean.shape[1]) if reference else None
    )
    commons: list[NoveltyModel | None] = []
    for kind, part in enumerate(model.types_):
        found = under("common", under_type(kind, arrays)) if reference else {}
        commons.append(NoveltyModel.from_arrays(found, part.width or 0, part.sparse) if found else None)
    model.novelty_models_ = tuple(commons)


def _pack_embedding(embedding: Embedding) -> Arrays:
    ids = embedding.ids
    packed = pack_strings("ids", ids.array) if ids.are_strings else {"ids/numbers": ids.to_numpy()}
    packed |= {f"embedding/{name}": matrix for name, matrix in embedding.matrices().items()}
    return packed if embedding.certainty is None else {**packed, "embedding/certainty": embedding.certainty}


def _embedding(path: str | Path, metadata: dict[str, Any], arrays: Arrays) -> Embedding:
    if "embedding_sha256" in metadata:
        sidecar = sidecar_of(path, metadata["embedding_sha256"])
        if not sidecar.exists():
            raise FormatError(f"{path} needs the file {sidecar} beside it, which is not there")
        if sha256_of(sidecar) != metadata["embedding_sha256"]:
            raise FormatError(f"{sidecar} is damaged or belongs to another model than {path}")
        return read_embedding(sidecar)
    ids = unpack_strings("ids", arrays) if "ids/bytes" in arrays else arrays["ids/numbers"]
    columns = {name.removeprefix("embedding/"): array for name, array in arrays.items()}
    return from_matrices(NodeIds(ids), columns, metadata["dissimilarity"], _odds(metadata, arrays))
