"""The network: one encoder per role a node can have, and the offset of each proximity."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from glace.gaussian.dissimilarity import Gaussian, concatenated, named
from glace.model.config import ModelConfig
from glace.model.encoders import DenseInput, InputShape, NodeNumbers, input_layer
from glace.model.heads import GaussianHead, PointHead
from glace.rng import Streams

ENCODE_ROWS = 4096
"""Rows encoded at a time where all nodes are: bounds memory, and keeps bits apart from the number of nodes."""


OFFSET_START = 4.0
"""Where the learned offset of Gaussians starts: KL and Wasserstein are never negative, and from 0 it takes long to
get away from the floor of log 2 an edge. A dot product has both signs and starts at 0. See docs/concepts.md."""


class Encoder(nn.Module):
    """Attributes of a node to its Gaussian: input layer, activation, head."""

    def __init__(self, source: nn.Module, head: nn.Module, relu: bool) -> None:
        super().__init__()
        self.input, self.head, self.relu = source, head, relu

    def forward(self, attributes: Any, rows: NodeNumbers) -> Gaussian:
        """The Gaussians of the wanted rows of the attributes."""
        u = self.input(attributes, rows)
        gaussian: Gaussian = self.head(torch.relu(u) if self.relu else u)
        return gaussian


class Network(nn.Module):
    """Encoders by role: `first`, and for second-order proximity `second` with its `context`."""

    def __init__(self, shape: InputShape, config: ModelConfig, dissimilarity: str, streams: Streams) -> None:
        super().__init__()
        self.shape, self.config, self.measure = shape, config, named(dissimilarity)
        self.gaussian = self.measure.needs_variance
        self.parts = ("first", "second") if config.proximity == "both" else (config.proximity,)
        roles = [*self.parts, "context"] if "second" in self.parts else self.parts
        self.encoders = nn.ModuleDict({role: self._encoder(shape, role, streams) for role in roles})
        learned = config.offset == "learned"
        start = (OFFSET_START if self.gaussian else 0.0) if learned else float(config.offset)
        self.offsets = nn.ParameterDict(
            {part: nn.Parameter(torch.tensor(start), requires_grad=learned) for part in self.parts}
        )

    def _encoder(self, shape: InputShape, role: str, streams: Streams) -> Encoder:
        generator = streams.numpy(f"weights {role}")
        source = input_layer(shape, self.config.hidden, self.config.normalize, generator)
        head = (GaussianHead if self.gaussian else PointHead)(self.config.hidden, self.config.dim, generator)
        return Encoder(source, head, relu=self.config.activation == "relu")

    def standardize(self, attributes: Any) -> None:
        """Take the scale of dense attributes from the training nodes; sparse rows are scaled one by one."""
        for module in self.modules():
            if isinstance(module, DenseInput) and self.config.normalize:
                module.standardize(attributes)

    def encode(self, role: str, attributes: Any, rows: NodeNumbers) -> Gaussian:
        """The Gaussians of the wanted rows in one role."""
        gaussian: Gaussian = self.encoders[role](attributes, rows)
        return gaussian

    def embed(self, attributes: Any, rows: NodeNumbers) -> tuple[Gaussian, Gaussian | None]:
        """Numpy Gaussians of the wanted rows, (R, parts * dim), and their context for second-order proximity.

        The parts of several proximities are concatenated; first order is its own context.
        """
        by_role = {role: self._embed(role, attributes, rows) for role in self.encoders}
        own = [by_role[part] for part in self.parts]
        if "second" not in self.parts:
            return concatenated(own), None
        return concatenated(own), concatenated([*own[:-1], by_role["context"]])

    def _embed(self, role: str, attributes: Any, rows: NodeNumbers) -> Gaussian:
        mean = np.empty((len(rows), self.config.dim), dtype=np.float32)
        variance = np.empty_like(mean) if self.gaussian else None
        with torch.no_grad():
            for start in range(0, len(rows), ENCODE_ROWS):
                place = slice(start, start + ENCODE_ROWS)
                gaussian = self.encode(role, attributes, rows[place])
                mean[place] = gaussian.mean.numpy()
                if variance is not None and gaussian.variance is not None:
                    variance[place] = gaussian.variance.numpy()
        return Gaussian(mean, variance)

    def offset(self) -> float:
        """b of the concatenated dissimilarity: the parts' log-odds b - d add up."""
        return float(sum(float(offset.detach()) for offset in self.offsets.values()))

    def weights(self) -> dict[str, npt.NDArray[Any]]:
        """Every weight by name, as arrays that share the network's memory."""
        state: dict[str, Tensor] = self.state_dict()
        return {name: value.numpy() for name, value in state.items()}

    def set_weights(self, weights: dict[str, npt.NDArray[Any]]) -> None:
        """Copy weights of the same names and shapes into the network."""
        self.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in weights.items()})
