"""The loss of a batch: Eq. 12 and 13 of the paper with an offset, over the distinct nodes of the batch."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from glace.gaussian.dissimilarity import Dissimilarity, Gaussian
from glace.model.encoders import NodeNumbers
from glace.model.network import Encoder, Network


def batch_loss(
    network: Network,
    inputs: Any,
    anchors: NodeNumbers,
    targets: NodeNumbers,
    negatives: NodeNumbers,
    allowed: npt.NDArray[np.bool_],
    negatives_an_edge: int,
) -> Tensor:
    """Mean loss an edge, summed over proximities and members; shapes as in `glace.sampling.edges.Batch`.

    Anchors, targets and negatives are rows of `inputs`.
    """
    losses = []
    for part in network.parts:
        own = network.encoders[part]
        other = network.encoders["context"] if part == "second" else own
        if other is own:
            z_anchor, z_target, z_negative = _encode(own, inputs, anchors, targets, negatives)
        else:
            (z_anchor,) = _encode(own, inputs, anchors)
            z_target, z_negative = _encode(other, inputs, targets, negatives)
        begin = 0
        for dim, offset in zip(network.dims, network.offsets[part], strict=True):
            own_dims = (..., slice(begin, begin + dim))
            near = network.measure.direct(z_anchor[own_dims], z_target[own_dims])
            far = _to_negatives(
                network.measure, z_anchor[own_dims], z_negative[own_dims], negatives.ndim == 1
            )
            losses.append(edge_loss(near, far, allowed, negatives_an_edge, offset))
            begin += dim
    return torch.stack(losses).sum()


def edge_loss(
    near: Tensor, far: Tensor, allowed: npt.NDArray[np.bool_], negatives_an_edge: int, offset: Tensor
) -> Tensor:
    """-[log sigmoid(b - near) + K * mean over allowed negatives of log sigmoid(far - b)], mean over edges.

    The mean times K keeps the weight of the paper's K negatives whatever the pool holds. An anchor with
    no allowed negative, one that is joined to the whole pool, has its positive term alone.
    """
    share = torch.from_numpy(allowed / np.maximum(allowed.sum(axis=1, keepdims=True), 1).astype(np.float32))
    pushed = (share * functional.logsigmoid(far - offset)).sum(1)
    return -(functional.logsigmoid(offset - near) + negatives_an_edge * pushed).mean()


def _to_negatives(measure: Dissimilarity, anchor: Gaussian, negative: Gaussian, shared: bool) -> Tensor:
    """(B, M) to a shared pool as one matrix product, or (B, K) to each anchor's own negatives."""
    if shared:
        pairs: Tensor = measure.all_pairs(anchor, negative)
        return pairs
    own: Tensor = measure.direct(anchor[:, None], negative)
    return own


def _encode(encoder: Any, inputs: Any, *groups: NodeNumbers) -> list[Gaussian]:
    """The Gaussians of several groups of nodes; a node that occurs more than once is encoded once."""
    assert isinstance(encoder, Encoder)
    sizes = np.cumsum([0, *(group.size for group in groups)])
    distinct, places = np.unique(np.concatenate([group.ravel() for group in groups]), return_inverse=True)
    encoded = encoder(inputs, distinct)
    index = torch.from_numpy(places)
    return [
        _rows(encoded, index[sizes[g] : sizes[g + 1]].reshape(group.shape)) for g, group in enumerate(groups)
    ]


def _rows(gaussian: Gaussian, index: Tensor) -> Gaussian:
    # functional.embedding gathers rows like indexing does, but adds its gradient up in a fixed order.
    variance = None if gaussian.variance is None else functional.embedding(index, gaussian.variance)
    return Gaussian(functional.embedding(index, gaussian.mean), variance)
