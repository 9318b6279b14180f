"""The Gaussians of all nodes, encoded block by block into memory or onto disk."""

from typing import Any

import numpy as np

from glace.blocks import blocks
from glace.gaussian.dissimilarity import Gaussian
from glace.model.inputs import NodeInputs
from glace.model.network import ENCODE_ROWS, Network
from glace.queries.certainty import Allocator


def embed_all(network: Network, inputs: NodeInputs, room: Allocator) -> tuple[Gaussian, Gaussian | None]:
    """Gaussians of all nodes and, for second-order proximity, their context, in arrays that `room` gives.

    A block is what `Network.embed` encodes at a time, so the bits are the same as all at once.
    """
    whole: list[Any] = []
    for part in blocks(len(inputs), ENCODE_ROWS):
        own, context = network.embed(inputs, np.arange(part.start, part.stop))
        matrices = [matrix for each in (own, context) if each for matrix in (each.mean, each.variance)]
        if not whole:
            whole = [_room_like(matrix, len(inputs), room) for matrix in matrices]
        for matrix, place in zip(matrices, whole, strict=True):
            if matrix is not None:
                place[part] = matrix
    return Gaussian(*whole[:2]), Gaussian(*whole[2:]) if len(whole) > 2 else None


def _room_like(matrix: Any, rows: int, room: Allocator) -> Any:
    return None if matrix is None else room((rows, matrix.shape[1]), matrix.dtype)
