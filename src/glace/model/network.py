"""The network: one encoder per role a node can have, the offset of each proximity, the scale of its input."""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from glace.config.config import ModelConfig
from glace.config.encoders import Image
from glace.gaussian.dissimilarity import Gaussian, concatenated, named, stacked
from glace.model.encoders import check_own, draws_or_has_modes, tower
from glace.model.heads import GaussianHead, PointHead
from glace.model.input_layers import NodeIndex, input_layer
from glace.model.inputs import InputMask, Inputs, NodeInputs
from glace.model.node_types import Kind, empty_of, is_plain, joined
from glace.model.scaling import StandardScaling
from glace.model.typed import Codes, TypedEncoder, TypedInputs
from glace.rng import Streams

ENCODE_ROWS = 4096
"""Rows encoded at a time where all nodes are: bounds memory, and keeps bits apart from the number of nodes."""
TRIED = 4
"""Rows that a user's module is tried on."""

OFFSET_START = 4.0
"""Where the learned offset of Gaussians starts: KL and Wasserstein are never negative, and from 0 it takes long to
get away from the floor of log 2 an edge. A dot product has both signs and starts at 0. See docs/concepts.md."""


class Encoder(nn.Module):
    """Attributes of a node to its Gaussian: a part's module, activation, a head on each share of the hidden numbers.

    Shares have nothing in common but the call that computes them: they are encoders side by side.
    """

    def __init__(self, source: nn.Module, heads: list[nn.Module], shares: list[int], relu: bool) -> None:
        super().__init__()
        self.input, self.heads, self.shares, self.relu = source, nn.ModuleList(heads), shares, relu

    def forward(self, inputs: Any, rows: NodeIndex) -> Gaussian:
        """The Gaussians of the wanted rows of the input."""
        u = self.input(inputs, rows)
        pieces = (torch.relu(u) if self.relu else u).split(self.shares, dim=1)
        parts = [head(piece) for head, piece in zip(self.heads, pieces, strict=True)]
        return parts[0] if len(parts) == 1 else concatenated(parts)


class Network(nn.Module):
    """Encoders by role: `first`, and for second-order proximity `second` with its `context`.

    With `compiled`, kernels for the CPU do what torch is slow at; without, torch does all of it, on any device.
    """

    def __init__(
        self,
        kinds: Sequence[Kind],
        config: ModelConfig,
        dissimilarity: str,
        streams: Streams,
        device: str = "cpu",
        compiled: bool = True,
    ) -> None:
        super().__init__()
        self.config, self.measure = config, named(dissimilarity)
        self.neighbors = config.neighbor_features == "mean"
        self.kinds = joined(kinds) if self.neighbors else tuple(kinds)
        self.device, self.compiled = torch.device(device), compiled
        self.gaussian = self.measure.needs_variance
        self.parts = ("first", "second") if config.proximity == "both" else (config.proximity,)
        roles = [*self.parts, "context"] if "second" in self.parts else self.parts
        self.dims = shared_out(config.dim, config.ensemble_size)
        self.groups = equal_groups(self.dims)
        self.encoders = nn.ModuleDict({role: self._encoder(role, streams) for role in roles})
        # What draws numbers, or computes otherwise in training, is told when that is.
        self.has_modes = any(draws_or_has_modes(kind.part) for kind in self.kinds)
        assert not config.open_options(), f"decide on {config.open_options()} first"
        learned = config.offset == "learned"
        start = (OFFSET_START if self.gaussian else 0.0) if learned else float(config.offset)
        self.offsets = nn.ParameterDict(
            {
                part: nn.Parameter(torch.full((config.ensemble_size,), start), requires_grad=learned)
                for part in self.parts
            }
        )
        self.scales = nn.ModuleList(StandardScaling(kind.shape) for kind in self.kinds)
        self.to(self.device)

    def _encoder(self, role: str, streams: Streams) -> Encoder:
        generator = streams.numpy(f"weights {role}")
        own = [self._tower(kind, generator) for kind in self.kinds]
        source = own[0] if is_plain(self.kinds) else TypedEncoder(own, self._around(generator))
        shares = shared_out(self.config.hidden, self.config.ensemble_size)
        kind = GaussianHead if self.gaussian else PointHead
        heads: list[nn.Module] = [kind(*sizes, generator) for sizes in zip(shares, self.dims, strict=True)]
        return Encoder(source, heads, shares, relu=self.config.activation == "relu")

    def _tower(self, kind: Kind, generator: np.random.Generator) -> nn.Module:
        return tower(kind.part, kind.shape, self.config.hidden, generator, self.compiled, kind.module)

    def _around(self, generator: np.random.Generator) -> list[nn.Module]:
        if not self.neighbors:
            return []
        return [input_layer(kind.shape, self.config.hidden, generator, self.compiled) for kind in self.kinds]

    def standardize(self, matrices: Sequence[Any]) -> None:
        """Take the scale of dense attributes from the training nodes; sparse rows are scaled one by one."""
        for kind, scale, matrix in zip(self.kinds, self.scales, matrices, strict=True):
            if not kind.shape.sparse and self.config.normalize and matrix.shape[0]:
                scale.learn(matrix, alike=isinstance(kind.part, Image))  # type: ignore[operator]

    def inputs(
        self,
        matrices: Sequence[Any],
        adjacency: sp.csr_array | None,
        kinds: Codes | None = None,
        places: NodeIndex | None = None,
    ) -> NodeInputs:
        """What the encoders are given of nodes with these edges: node i is row places[i] of matrix kinds[i].

        There is a matrix for each kind; of a single one, node i is row i.
        """
        parts = [self._inputs(number, matrix) for number, matrix in enumerate(matrices)]
        if is_plain(self.kinds):
            return Inputs(self.kinds[0].shape, matrices[0], adjacency, parts[0].scaling)
        if kinds is None or places is None:
            count = matrices[0].shape[0]
            kinds, places = np.zeros(count, np.int32), np.arange(count)
        return TypedInputs(parts, kinds, places, self.neighbors, adjacency)

    def inputs_of(self, kind: int, matrix: Any) -> NodeInputs:
        """What the encoders are given of nodes of this kind that have no edges."""
        matrices = [empty_of(each.shape) for each in self.kinds]
        matrices[kind] = matrix
        count = matrix.shape[0]
        return self.inputs(matrices, None, np.full(count, kind, np.int32), np.arange(count))

    def _inputs(self, number: int, matrix: Any) -> Inputs:
        scale: Any = self.scales[number]
        shape = self.kinds[number].shape._replace(neighbors=False)
        return Inputs(shape, matrix, None, scale.scaling(unit=self.config.normalize))

    def scaled(self, kind: int, matrix: Any) -> Any:
        """The attributes of nodes of this kind as its encoder is given them."""
        return self._inputs(kind, matrix).own(np.arange(matrix.shape[0]), 0.0, 0)

    def check_modules(self, matrices: Sequence[Any]) -> None:
        """Raise unless every module of the user's makes hidden numbers of attributes, tried on the first rows."""
        for number, (kind, matrix) in enumerate(zip(self.kinds, matrices, strict=True)):
            if kind.module is not None:
                rows = self.scaled(number, matrix[:TRIED])
                check_own(kind.module, rows, self.config.hidden, kind.whose())

    def embed(
        self, inputs: NodeInputs, nodes: NodeIndex, mask: InputMask | None = None
    ) -> tuple[Gaussian, Gaussian | None]:
        """Numpy Gaussians of the wanted nodes, (R, parts * dim), and their context for second-order proximity.

        The parts of several proximities are concatenated; first order is its own context.
        """
        blocks = [self._block(inputs, nodes[at : at + ENCODE_ROWS], mask) for at in range(0, len(nodes), ENCODE_ROWS)]
        by_role = {role: stacked([block[role] for block in blocks]) for role in self.encoders}
        own = [by_role[part] for part in self.parts]
        if "second" not in self.parts:
            return concatenated(own), None
        return concatenated(own), concatenated([*own[:-1], by_role["context"]])

    def _block(self, inputs: NodeInputs, nodes: NodeIndex, mask: InputMask | None) -> dict[str, Gaussian]:
        rows, every = inputs.rows(nodes, mask), np.arange(len(nodes))
        if self.has_modes:
            self.eval()
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
