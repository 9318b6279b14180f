"""The loss of a batch: Eq. 12 and 13 of the paper with an offset b, over the distinct nodes of the batch."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx
from torch.nn import functional

from glace.gaussian.dissimilarity import Dissimilarity, Factor, Gaussian, products
from glace.kernels import losses
from glace.model.inputs import InputRows, NodeIndex
from glace.model.network import Encoder, Group, Network

Allowed = npt.NDArray[np.bool_]


def batch_loss(
    network: Network,
    inputs: InputRows,
    anchors: NodeIndex,
    targets: NodeIndex,
    negatives: NodeIndex,
    allowed: Allowed,
    n_negatives: int,
    penalty: Callable[[str, Gaussian], Tensor] | None = None,
) -> Tensor:
    """Return the mean loss per edge, summed over proximities and ensemble members.

    Shapes are those of `glace.sampling.edges.Batch`; anchors, targets and negatives are rows of `inputs`. `penalty` is
    called with a proximity and the anchors' Gaussians, and its result is added.
    """
    terms = []
    for proximity in network.proximities:
        own = network.encoders[proximity]
        other = network.encoders["context"] if proximity == "second" else own
        if other is own:
            gaussians = _encode(own, inputs, anchors, targets, negatives)
        else:
            gaussians = [*_encode(own, inputs, anchors), *_encode(other, inputs, targets, negatives)]
        if penalty is not None:
            terms.append(penalty(proximity, gaussians[0]))
        for group in network.groups:
            anchor, target, negative = (_members(gaussian, group) for gaussian in gaussians)
            offset = network.offsets[proximity][group.members, None]
            logit = offset - network.measure.direct(anchor, target)
            negated = _negated_logits(network.measure, anchor, negative, offset, negatives.ndim == 1)
            term = negative_loss if network.compiled else torch_negative_loss
            terms.append(edge_loss(logit, term(negated, allowed, n_negatives)))
    return torch.stack(terms).sum()


def edge_loss(logit: Tensor, negatives: Tensor) -> Tensor:
    """Return the mean over edges, summed over members, of -log sigmoid(logit) plus the loss of all negatives.

    `logit` is (members, B) with b - d of each edge.
    """
    return (negatives - functional.logsigmoid(logit).sum()) / logit.shape[-1]


def torch_negative_loss(negated_logit: Tensor, allowed: Allowed, n_negatives: int) -> Tensor:
    """Return -K * mean over allowed negatives of log sigmoid(d - b), summed over edges and members.

    `negated_logit` is (members, B, M) with d - b of the negatives of each edge. The mean times K gives the negatives
    the weight of the paper's K negatives, whatever the size of the pool. An anchor without an allowed negative, because
    it is joined to the whole pool, adds nothing.
    """
    share = allowed / np.maximum(allowed.sum(axis=1, keepdims=True), 1).astype(np.float32)
    weight = torch.from_numpy(share).to(negated_logit.device)
    return -n_negatives * (weight * functional.logsigmoid(negated_logit)).sum()


def negative_loss(negated_logit: Tensor, allowed: Allowed, n_negatives: int) -> Tensor:
    """Return the same by a compiled kernel, which overwrites `negated_logit`."""
    total: Tensor = _NegativeLoss.apply(negated_logit, allowed, n_negatives)  # type: ignore[no-untyped-call]
    return total


class _Context(FunctionCtx):
    """The gradient, which the forward pass computes along with the loss."""

    gradient: Tensor


class _NegativeLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: _Context, negated_logit: Tensor, allowed: Allowed, n_negatives: int) -> Tensor:
        ctx.gradient = negated_logit.detach().contiguous()
        sums = torch.empty(negated_logit.shape[:-1])
        losses.log_sigmoids(ctx.gradient.numpy(), allowed, np.float32(n_negatives), sums.numpy())
        return sums.sum()

    @staticmethod
    def backward(ctx: _Context, *upstream: Tensor) -> tuple[Tensor, None, None]:
        return ctx.gradient.mul_(upstream[0]), None, None


def _members(gaussian: Gaussian, group: Group) -> Gaussian:
    """Return (members, ..., dim) Gaussians, one for each member of the group, from (..., all dimensions)."""
    arrays = (None if each is None else _split(each, group) for each in (gaussian.mean, gaussian.variance))
    return Gaussian(*arrays)


def _split(values: Tensor, group: Group) -> Tensor:
    shape = (*values.shape[:-1], -1, group.dim)
    return values[..., group.dims].reshape(shape).movedim(-2, 0)


def _negated_logits(
    measure: Dissimilarity, anchor: Gaussian, negative: Gaussian, offset: Tensor, shared: bool
) -> Tensor:
    """Return d - b: (members, B, M) to a shared pool as one matrix product, or (members, B, K) to each anchor's own."""
    if shared:
        left = measure.left(anchor)
        pairs: Tensor = products(Factor(left.vector, left.bias - offset), measure.right(negative))
        return pairs
    own: Tensor = measure.direct(anchor[:, :, None], negative) - offset[..., None]
    return own


def _encode(encoder: torch.nn.Module, inputs: InputRows, *groups: NodeIndex) -> list[Gaussian]:
    """Return the Gaussians of several groups of nodes; a node that occurs more than once is encoded once."""
    assert isinstance(encoder, Encoder)
    sizes = np.cumsum([0, *(group.size for group in groups)])
    distinct, places = np.unique(np.concatenate([group.ravel() for group in groups]), return_inverse=True)
    encoded = encoder(inputs, distinct)
    index = torch.from_numpy(places).to(encoded.mean.device)
    return [_rows(encoded, index[sizes[g] : sizes[g + 1]].reshape(group.shape)) for g, group in enumerate(groups)]


def _rows(gaussian: Gaussian, index: Tensor) -> Gaussian:
    # functional.embedding gathers rows like indexing does, but accumulates its gradient in a fixed order.
    variance = None if gaussian.variance is None else functional.embedding(index, gaussian.variance)
    return Gaussian(functional.embedding(index, gaussian.mean), variance)
