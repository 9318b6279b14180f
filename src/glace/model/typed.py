"""Nodes of several types: what their encoders are given, and how these are joined.

Each type has a matrix of attributes and an encoder of its own. What its neighbours tell is added to the hidden numbers
of a node, by one layer for each type of neighbours: they may have nothing in common with its own attributes.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from glace.model.input_layers import NodeIndex
from glace.model.inputs import InputMask, Inputs, Means, found_neighbours, no_edges

Codes = npt.NDArray[np.integer]


class TypedRows(NamedTuple):
    """Rows of input of R nodes: node r is row `places[r]` of `own[kinds[r]]`, and row r of each of `around`.

    `around` has the means of a node's neighbours, for each type; it is empty where these are not looked at.
    """

    kinds: Codes
    places: NodeIndex
    own: list[Any]
    around: list[Any]


class TypedInputs:
    """The rows of all nodes of a graph: node i is row `places[i]` of the inputs of type `kinds[i]`."""

    def __init__(
        self,
        parts: Sequence[Inputs],
        kinds: Codes,
        places: NodeIndex,
        neighbors: bool,
        adjacency: sp.csr_array | None,
    ) -> None:
        self.parts, self.kinds, self.places, self.neighbors = parts, kinds, places, neighbors
        self.adjacency = no_edges(len(kinds)) if adjacency is None else adjacency

    def __len__(self) -> int:
        return len(self.kinds)

    def rows(self, nodes: NodeIndex, mask: InputMask | None = None) -> TypedRows:
        """What the encoders are given of these nodes."""
        kinds, places, own = self.kinds[nodes], np.zeros(len(nodes), np.int64), []
        for kind, part in enumerate(self.parts):
            mine = np.flatnonzero(kinds == kind)
            places[mine] = np.arange(len(mine))
            own.append(part.own(self.places[nodes[mine]], *_hidden(mask, part, 2 * kind)))
        around = []
        if self.neighbors:
            found = found_neighbours(self.adjacency, nodes, mask)
            for kind, part in enumerate(self.parts):
                around.append(part.means(self._of_kind(found, kind), *_hidden(mask, None, 2 * kind + 1)))
        return TypedRows(kinds, places, own, around)

    def _of_kind(self, means: Means, kind: int) -> Means:
        """What the means are made of, of the neighbours of one type alone; shares add up to 1 again."""
        start, found, share = means
        kept = self.kinds[found] == kind
        row = np.repeat(np.arange(len(start) - 1), np.diff(start))[kept]
        counts = np.bincount(row, minlength=len(start) - 1)
        total = np.bincount(row, weights=share[kept], minlength=len(start) - 1)
        shares = (share[kept] / total[row]).astype(np.float32)
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), self.places[found[kept]], shares


def _hidden(mask: InputMask | None, part: Inputs | None, number: int) -> tuple[float, int]:
    """The share of attributes that is hidden, and the seed: other draws for each matrix.

    Of a node that is known by its identity alone nothing is: that would be all of it.
    """
    if mask is None or (part is not None and part.shape.by_node):
        return 0.0, 0
    return mask.dropout, (mask.seed + number * 0x9E3779B97F4A7C15) % 2**63


class TypedEncoder(nn.Module):
    """The encoders of all types as one: a module and, for its nodes as neighbours, an input layer for each type."""

    def __init__(self, own: Sequence[nn.Module], around: Sequence[nn.Module]) -> None:
        super().__init__()
        self.own, self.around = nn.ModuleList(own), nn.ModuleList(around)

    def forward(self, inputs: TypedRows, rows: NodeIndex) -> Tensor:
        """(R, hidden) for the wanted rows of input."""
        kinds, places = inputs.kinds[rows], inputs.places[rows]
        order, parts = np.argsort(kinds, kind="stable"), []
        for kind, module in enumerate(self.own):
            mine = places[order[kinds[order] == kind]]
            if len(mine):
                parts.append(module(inputs.own[kind], mine))
        together: Tensor = torch.cat(parts)
        back = torch.from_numpy(np.argsort(order)).to(together.device)
        hidden = together.index_select(0, back)
        for layer, means in zip(self.around, inputs.around, strict=True):
            hidden = hidden + layer(means, rows)
        return hidden
