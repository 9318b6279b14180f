"""The network: one encoder per role a node can have, the offset of each proximity, the scale of its input."""

import itertools
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from glace.errors import InputError
from glace.gaussian.dissimilarity import Gaussian, concatenated, named, stacked
from glace.model.config import ModelConfig
from glace.model.encoders import InputShape, NodeNumbers, input_layer
from glace.model.heads import GaussianHead, PointHead
from glace.model.inputs import Inputs, Scaling, Veil
from glace.model.scaling import column_moments
from glace.rng import Streams

ENCODE_ROWS = 4096
"""Rows encoded at a time where all nodes are: bounds memory, and keeps bits apart from the number of nodes."""


OFFSET_START = 4.0
"""Where the learned offset of Gaussians starts: KL and Wasserstein are never negative, and from 0 it takes long to
get away from the floor of log 2 an edge. A dot product has both signs and starts at 0. See docs/concepts.md."""


class Encoder(nn.Module):
    """Attributes of a node to its Gaussian: input layer, activation, and a head on each share of the hidden numbers.

    Shares have nothing in common but the call that computes them: they are encoders side by side.
    """

    def __init__(self, source: nn.Module, heads: list[nn.Module], shares: list[int], relu: bool) -> None:
        super().__init__()
        self.input, self.heads, self.shares, self.relu = source, nn.ModuleList(heads), shares, relu

    def forward(self, inputs: Any, rows: NodeNumbers) -> Gaussian:
        """The Gaussians of the wanted rows of the input."""
        u = self.input(inputs, rows)
        pieces = (torch.relu(u) if self.relu else u).split(self.shares, dim=1)
        parts = [head(piece) for head, piece in zip(self.heads, pieces, strict=True)]
        return parts[0] if len(parts) == 1 else concatenated(parts)


class Network(nn.Module):
    """Encoders by role: `first`, and for second-order proximity `second` with its `context`.

    With `compiled`, kernels for the CPU do what torch is slow at; without, torch does all of it, on any device.
    """

    shift: Tensor
    scale: Tensor

    def __init__(
        self,
        shape: InputShape,
        config: ModelConfig,
        dissimilarity: str,
        streams: Streams,
        device: str = "cpu",
        compiled: bool = True,
    ) -> None:
        super().__init__()
        self.shape, self.config, self.measure = shape, config, named(dissimilarity)
        self.device, self.compiled = torch.device(device), compiled
        self.gaussian = self.measure.needs_variance
        self.parts = ("first", "second") if config.proximity == "both" else (config.proximity,)
        roles = [*self.parts, "context"] if "second" in self.parts else self.parts
        self.dims = shared_out(config.dim, config.members)
        self.groups = equal_groups(self.dims)
        self.encoders = nn.ModuleDict({role: self._encoder(shape, role, streams) for role in roles})
        assert not config.left_open(), f"decide on {config.left_open()} first"
        learned = config.offset == "learned"
        start = (OFFSET_START if self.gaussian else 0.0) if learned else float(config.offset)
        self.offsets = nn.ParameterDict(
            {
                part: nn.Parameter(torch.full((config.members,), start), requires_grad=learned)
                for part in self.parts
            }
        )
        dense_width = 0 if shape.sparse else shape.width
        self.register_buffer("shift", torch.zeros(dense_width))
        self.register_buffer("scale", torch.ones(dense_width))
        self.to(self.device)

    def _encoder(self, shape: InputShape, role: str, streams: Streams) -> Encoder:
        generator = streams.numpy(f"weights {role}")
        source = input_layer(shape, self.config.hidden, generator, self.compiled)
        shares = shared_out(self.config.hidden, self.config.members)
        kind = GaussianHead if self.gaussian else PointHead
        heads: list[nn.Module] = [kind(*sizes, generator) for sizes in zip(shares, self.dims, strict=True)]
        return Encoder(source, heads, shares, relu=self.config.activation == "relu")

    def standardize(self, attributes: Any) -> None:
        """Take the scale of dense attributes from the training nodes; sparse rows are scaled one by one.

        A constant column is left unscaled.
        """
        if self.shape.sparse or not self.config.normalize:
            return
        mean, deviation = column_moments(attributes)
        deviation[deviation == 0] = 1
        self.shift.copy_(torch.from_numpy(mean))
        self.scale.copy_(torch.from_numpy(1 / deviation))

    def inputs(self, attributes: Any, adjacency: sp.csr_array | None) -> Inputs:
        """What the encoders are given of nodes with these attributes and edges."""
        if self.shape.sparse:
            scaling = Scaling(unit=self.config.normalize)
        else:
            scaling = Scaling(False, self.shift.cpu().numpy(), self.scale.cpu().numpy())
        return Inputs(self.shape, attributes, adjacency, scaling)

    def embed(
        self, inputs: Inputs, nodes: NodeNumbers, veil: Veil | None = None
    ) -> tuple[Gaussian, Gaussian | None]:
        """Numpy Gaussians of the wanted nodes, (R, parts * dim), and their context for second-order proximity.

        The parts of several proximities are concatenated; first order is its own context.
        """
        blocks = [
            self._block(inputs, nodes[at : at + ENCODE_ROWS], veil)
            for at in range(0, len(nodes), ENCODE_ROWS)
        ]
        by_role = {role: stacked([block[role] for block in blocks]) for role in self.encoders}
        own = [by_role[part] for part in self.parts]
        if "second" not in self.parts:
            return concatenated(own), None
        return concatenated(own), concatenated([*own[:-1], by_role["context"]])

    def _block(self, inputs: Inputs, nodes: NodeNumbers, veil: Veil | None) -> dict[str, Gaussian]:
        rows, every = inputs.rows(nodes, veil), np.arange(len(nodes))
        with torch.no_grad():
            return {role: _as_numpy(encoder(rows, every)) for role, encoder in self.encoders.items()}

    def offset(self) -> float:
        """b of the concatenated dissimilarity: the log-odds b - d of parts and members add up."""
        return float(sum(float(offset.detach().sum()) for offset in self.offsets.values()))

    def weights(self) -> dict[str, npt.NDArray[Any]]:
        """Every weight by name, as arrays; on the CPU they share the network's memory."""
        state: dict[str, Tensor] = self.state_dict()
        return {name: value.cpu().numpy() for name, value in state.items()}

    def set_weights(self, weights: dict[str, npt.NDArray[Any]]) -> None:
        """Copy weights of the same names and shapes into the network."""
        self.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in weights.items()})


def shape_of(width: int, sparse: bool, config: ModelConfig, by_node: bool = False) -> InputShape:
    """What nodes with so many attributes look like to a network of this configuration."""
    if config.hashed_width is not None and not sparse:
        raise InputError("hashed_width is for sparse attributes, but these are dense; leave it out")
    return InputShape(width, sparse, config.neighbors == "mean", config.hashed_width or 0, by_node)


class Group(NamedTuple):
    """Members that have `dim` dimensions each, and where these are among all."""

    members: slice
    dims: slice
    dim: int


def equal_groups(dims: list[int]) -> list[Group]:
    """The members in groups of equal size, which can be computed at once."""
    groups, member, begin = [], 0, 0
    for dim, equal in itertools.groupby(dims):
        count = len(list(equal))
        groups.append(Group(slice(member, member + count), slice(begin, begin + count * dim), dim))
        member, begin = member + count, begin + count * dim
    return groups


def shared_out(total: int, members: int) -> list[int]:
    """A number in as many parts, as equal as can be."""
    return [total // members + (member < total % members) for member in range(members)]


def _as_numpy(gaussian: Gaussian) -> Gaussian:
    variance = None if gaussian.variance is None else gaussian.variance.cpu().numpy()
    return Gaussian(gaussian.mean.cpu().numpy(), variance)
