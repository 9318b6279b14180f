"""The types of a model's nodes in its file: those of the first are called as if there were no other."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from glace.features.pipeline import FeaturePipeline
from glace.features.text import TextVocabulary
from glace.graph.node_types import NodeType
from glace.storage.container import Arrays, pack_strings, unpack_strings


def types_of(metadata: dict[str, Any], arrays: Arrays) -> tuple[NodeType, ...]:
    """What a model file says of the types of its nodes."""
    stated = metadata.get("types")
    if stated is None:  # files of before nodes had types
        width, has_attributes = int(metadata["width"]), bool(metadata["has_attributes"])
        stated = [
            {
                "name": "",
                "nodes": width,
                "width": width if has_attributes else None,
                "sparse": metadata["sparse"],
            }
        ]
    return tuple(_type(each, under_type(kind, arrays)) for kind, each in enumerate(stated))


def _type(stated: dict[str, Any], arrays: Arrays) -> NodeType:
    name, count, width = str(stated["name"]), int(stated["nodes"]), stated["width"]
    if width is None:
        return NodeType(name, count)
    size = (0, int(width))
    matrix = sp.csr_array(size, dtype=np.float32) if stated["sparse"] else np.empty(size, np.float32)
    return NodeType(name, count, matrix, _attribute_names(arrays), _recipe(arrays, int(width)))


def of_type(kind: int) -> str:
    """What the names of a type's arrays begin with."""
    return "" if kind == 0 else f"type{kind}/"


def under_type(kind: int, arrays: Arrays) -> Arrays:
    """The arrays of a type, without what their names begin with."""
    return under(f"type{kind}", arrays) if kind else arrays


def pack_type(part: NodeType) -> Arrays:
    """The pipeline and the names of a type's attributes."""
    arrays = {} if part.pipeline is None else part.pipeline.to_arrays()
    return arrays if part.feature_names is None else {**arrays, **pack_strings("columns", part.feature_names)}


def _recipe(arrays: Arrays, width: int) -> FeaturePipeline | None:
    if "pipeline" in arrays:
        return FeaturePipeline.from_bytes(arrays["pipeline"], width)
    if "idf" not in arrays:
        return None
    return FeaturePipeline.of_texts(TextVocabulary(tuple(unpack_strings("words", arrays).to_pylist()), arrays["idf"]))


def _attribute_names(arrays: Arrays) -> tuple[str, ...] | None:
    return tuple(unpack_strings("columns", arrays).to_pylist()) if "columns/bytes" in arrays else None


def under(name: str, arrays: Arrays) -> Arrays:
    """The arrays of a group, by the rest of their names."""
    return {key.partition("/")[2]: array for key, array in arrays.items() if key.startswith(f"{name}/")}
