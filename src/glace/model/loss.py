"""The loss of a batch: Eq. 12 and 13 of the paper with an offset, over the distinct nodes of the batch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from glace.gaussian.dissimilarity import Dissimilarity, Factor, Gaussian, products
from glace.kernels import losses
from glace.model.input_layers import NodeIndex
from glace.model.network import Encoder, Group, Network


def batch_loss(
    network: Network,
    inputs: Any,
    anchors: NodeIndex,
    targets: NodeIndex,
    negatives: NodeIndex,
    allowed: npt.NDArray[np.bool_],
    negatives_an_edge: int,
    penalty: Callable[[str, Gaussian], Tensor] | None = None,
) -> Tensor:
    """Mean loss an edge, summed over proximities and members; shapes as in `glace.sampling.edges.Batch`.

    Anchors, targets and negatives are rows of `inputs`. `penalty` adds something for a proximity and the anchors'
    Gaussians in it.
    """
    parts = []
    for part in network.parts:
        own = network.encoders[part]
        other = network.encoders["context"] if part == "second" else own
        if other is own:
            nodes = _encode(own, inputs, anchors, targets, negatives)
        else:
            nodes = [*_encode(own, inputs, anchors), *_encode(other, inputs, targets, negatives)]
        if penalty is not None:
            parts.append(penalty(part, nodes[0]))
        for group in network.groups:
            anchor, target, negative = (_members(gaussian, group) for gaussian in nodes)
            offset = network.offsets[part][group.members, None]
            near = offset - network.measure.direct(anchor, target)
            far = _to_negatives(network.measure, anchor, negative, offset, negatives.ndim == 1)
            pushed = _pushed if network.compiled else _pushed_by_torch
            parts.append(edge_loss(near, pushed(far, allowed, negatives_an_edge)))
    return torch.stack(parts).sum()


def edge_loss(near: Tensor, pushed: Tensor) -> Tensor:
    """Mean over edges, and sum over members, of -log sigmoid(near) and of what the negatives add in all.

    `near` is (members, B) with b - d of each edge.
    """
    return (pushed - functional.logsigmoid(near).sum()) / near.shape[-1]


def _pushed_by_torch(far: Tensor, allowed: npt.NDArray[np.bool_], negatives_an_edge: int) -> Tensor:
    """-K * mean over allowed negatives of log sigmoid(far), summed over edges and members.

    `far` is (members, B, M) with d - b of the negatives of each edge. The mean times K keeps the weight of the paper's
    K negatives whatever the pool holds. An anchor with no allowed negative, one that is joined to the whole
    pool, adds nothing.
    """
    share = allowed / np.maximum(allowed.sum(axis=1, keepdims=True), 1).astype(np.float32)
    weight = torch.from_numpy(share).to(far.device)
    return -negatives_an_edge * (weight * functional.logsigmoid(far)).sum()


def _pushed(far: Tensor, allowed: npt.NDArray[np.bool_], negatives_an_edge: int) -> Tensor:
    """The same by a compiled kernel; `far` is used up."""
    total: Tensor = _Pushed.apply(far, allowed, negatives_an_edge)  # type: ignore[no-untyped-call]
    return total


class _Pushed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, far: Tensor, allowed: npt.NDArray[np.bool_], negatives_an_edge: int) -> Tensor:
        ctx.gradient = far.detach().contiguous()
        sums = torch.empty(far.shape[:-1])
        losses.log_sigmoids(ctx.gradient.numpy(), allowed, np.float32(negatives_an_edge), sums.numpy())
        return sums.sum()

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        return ctx.gradient.mul_(upstream[0]), None, None


def _members(gaussian: Gaussian, group: Group) -> Gaussian:
    """(members, ..., dim): the Gaussians of each member of the group, of the whole ones (..., all dimensions)."""
    parts = (None if each is None else _apart(each, group) for each in (gaussian.mean, gaussian.variance))
    return Gaussian(*parts)


def _apart(values: Tensor, group: Group) -> Tensor:
    shape = (*values.shape[:-1], -1, group.dim)
    return values[..., group.dims].reshape(shape).movedim(-2, 0)


def _to_negatives(measure: Dissimilarity, anchor: Gaussian, negative: Gaussian, offset: Tensor, shared: bool) -> Tensor:
    """d - b: (members, B, M) to a shared pool as one matrix product, or (members, B, K) to each anchor's own."""
    if shared:
        left = measure.left(anchor)
        pairs: Tensor = products(Factor(left.vector, left.bias - offset), measure.right(negative))
        return pairs
    own: Tensor = measure.direct(anchor[:, :, None], negative) - offset[..., None]
    return own


def _encode(encoder: Any, inputs: Any, *groups: NodeIndex) -> list[Gaussian]:
    """The Gaussians of several groups of nodes; a node that occurs more than once is encoded once."""
    assert isinstance(encoder, Encoder)
    sizes = np.cumsum([0, *(group.size for group in groups)])
    distinct, places = np.unique(np.concatenate([group.ravel() for group in groups]), return_inverse=True)
    encoded = encoder(inputs, distinct)
    index = torch.from_numpy(places).to(encoded.mean.device)
    return [_rows(encoded, index[sizes[g] : sizes[g + 1]].reshape(group.shape)) for g, group in enumerate(groups)]


def _rows(gaussian: Gaussian, index: Tensor) -> Gaussian:
    # functional.embedding gathers rows like indexing does, but adds its gradient up in a fixed order.
    variance = None if gaussian.variance is None else functional.embedding(index, gaussian.variance)
    return Gaussian(functional.embedding(index, gaussian.mean), variance)
