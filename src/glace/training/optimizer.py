"""How weights change: dense ones by Adam; rows of a sparse input layer only in the steps whose batch touches them.

Rows are updated by lazy Adam, or by a row-wise RMSprop: the gradient of a row divided by the running size of that row's
gradients. It keeps one number per row where Adam keeps two per weight, and a step moves a third of the bytes.
"""

from typing import Protocol

import numpy as np
import torch
from torch import nn

from glace.kernels import sparse_layer
from glace.kernels.sparse_layer import SMALL
from glace.model.layers import SparseInput, TorchSparseInput, sparse_inputs
from glace.storage.container import Arrays

BETAS = (0.9, 0.999)


class RowOptimizer(Protocol):
    """Updates the touched rows of one layer."""

    def step(self, number: int, learning_rate: float, /) -> None:
        """Take step `number`, counted from 1, along the gradient of the last backward pass."""

    def state(self) -> Arrays:
        """Return everything that the next steps depend on; shared, not copied."""

    def set_state(self, state: Arrays) -> None:
        """Restore the result of `state`."""


class Optimizer:
    """Takes the steps of a network: Adam for dense weights, a `RowOptimizer` for each sparse input layer."""

    def __init__(self, network: nn.Module, scaled: bool = False) -> None:
        layers = list(sparse_inputs(network))
        self.layers = dict(layers)
        # A row that belongs to one node sees few edges per step and needs Adam's momentum: with it the AUC of LINE on
        # Cora-ML is 95.2, without 93.3. A row of an attribute does as well without.
        self.rows: dict[str, RowOptimizer] = {
            name: row_optimizer(layer, scaled and not layer.one_hot) for name, layer in layers
        }
        by_rows = {id(layer.weight) for _, layer in layers}
        self.dense = {
            name: weight
            for name, weight in network.named_parameters()
            if weight.requires_grad and id(weight) not in by_rows
        }
        self.weights = list(network.parameters())
        self.adam = torch.optim.Adam(self.dense.values(), betas=BETAS, fused=True)

    def zero_grad(self) -> None:
        """Discard the gradients of the last step."""
        for weight in self.weights:
            weight.grad = None

    def step(self, number: int, learning_rate: float) -> None:
        """Take step `number`, counted from 1, along the gradients of the last backward pass."""
        for group in self.adam.param_groups:
            group["lr"] = learning_rate
        self.adam.step()
        for name, rows in self.rows.items():
            if self.layers[name].was_used():
                rows.step(number, learning_rate)

    def state(self) -> Arrays:
        """Return the moments of all weights by name; the caller keeps the number of steps."""
        found = {}
        for name, weight in self.dense.items():
            for key, value in self.adam.state[weight].items():
                found[f"{name}/{key}"] = value.cpu().numpy()
        for name, rows in self.rows.items():
            found |= {f"{name}/{key}": value for key, value in rows.state().items()}
        return found

    def set_state(self, state: Arrays) -> None:
        """Restore the result of `state`."""
        parts: dict[str, Arrays] = {}
        for name, value in state.items():
            owner, _, key = name.rpartition("/")
            parts.setdefault(owner, {})[key] = np.array(value)
        for name, weight in self.dense.items():
            # Adam's step count, a scalar, stays on the CPU.
            self.adam.state[weight].update(
                {
                    key: torch.from_numpy(value).to(weight.device if value.ndim else "cpu")
                    for key, value in parts.get(name, {}).items()
                }
            )
        for name, rows in self.rows.items():
            rows.set_state(parts[name])


def row_optimizer(layer: SparseInput | TorchSparseInput, scaled: bool) -> RowOptimizer:
    """Return the optimizer of a layer's rows: RMSprop if `scaled`, otherwise lazy Adam."""
    if isinstance(layer, TorchSparseInput):
        return TorchRowwiseRMSprop(layer) if scaled else TorchLazyAdam(layer)
    return RowwiseRMSprop(layer) if scaled else LazyAdam(layer)


class KernelRowOptimizer:
    """Base of the optimizers by compiled kernels: a layer, and moments by name."""

    def __init__(self, layer: SparseInput, moments: Arrays) -> None:
        self.layer, self.moments = layer, moments

    def state(self) -> Arrays:
        """Return the moments."""
        return self.moments

    def set_state(self, state: Arrays) -> None:
        """Restore the moments."""
        self.moments = state


class RowwiseRMSprop(KernelRowOptimizer):
    """Divides the gradient of a row by the running root mean square of the row's gradients."""

    def __init__(self, layer: SparseInput) -> None:
        rows = len(layer.weight)
        super().__init__(layer, {"squares": np.zeros(rows, np.float64), "touches": np.zeros(rows, np.int64)})

    def step(self, _number: int, learning_rate: float) -> None:
        """Update the touched rows; each row counts its own steps."""
        weight, moments = self.layer.weight.numpy(), (self.moments["squares"], self.moments["touches"])
        sparse_layer.rmsprop_rows(*self.layer.touched(), weight, *moments, learning_rate, BETAS[1])


class LazyAdam(KernelRowOptimizer):
    """Adam that updates the moments of a row only when a batch touches it."""

    def __init__(self, layer: SparseInput) -> None:
        super().__init__(layer, {name: np.zeros_like(layer.weight.numpy()) for name in ("first", "second")})

    def step(self, number: int, learning_rate: float) -> None:
        """Update the touched rows, with the bias corrections of this step."""
        rate = np.float32(learning_rate / (1 - BETAS[0] ** number))
        damping = np.float32((1 - BETAS[1] ** number) ** 0.5)
        weight, betas = self.layer.weight.numpy(), np.array(BETAS, dtype=np.float32)
        moments = self.moments["first"], self.moments["second"]
        sparse_layer.adam_rows(*self.layer.touched(), weight, *moments, rate, damping, betas)


class TorchRowwiseRMSprop:
    """`RowwiseRMSprop` in torch, for any device."""

    def __init__(self, layer: TorchSparseInput) -> None:
        self.weight = layer.weight
        self.squares = torch.zeros(len(self.weight), device=self.weight.device)
        self.touches = torch.zeros_like(self.squares)

    def step(self, _number: int, learning_rate: float) -> None:
        """Update the touched rows; each row counts its own steps."""
        assert self.weight.grad is not None, "a backward pass comes first"
        gradient = self.weight.grad.coalesce()  # each touched row once
        rows, values = gradient.indices()[0], gradient.values()
        self.touches[rows] += 1
        mean = BETAS[1] * self.squares[rows] + (1 - BETAS[1]) * values.square().mean(1)
        self.squares[rows] = mean
        size = (mean / (1 - BETAS[1] ** self.touches[rows])).sqrt()
        with torch.no_grad():
            self.weight.index_add_(0, rows, -learning_rate * values / (size + SMALL)[:, None])

    def state(self) -> Arrays:
        """Return the running mean square and the number of steps of each row."""
        return {"squares": self.squares.cpu().numpy(), "touches": self.touches.cpu().numpy()}

    def set_state(self, state: Arrays) -> None:
        """Restore the result of `state`."""
        for name, values in state.items():
            setattr(self, name, torch.from_numpy(values).to(self.weight.device))


class TorchLazyAdam:
    """`LazyAdam` in torch, for any device."""

    def __init__(self, layer: TorchSparseInput) -> None:
        self.weight = layer.weight
        self.adam = torch.optim.SparseAdam([self.weight], betas=BETAS)

    def step(self, _number: int, learning_rate: float) -> None:
        """Update the touched rows; SparseAdam counts the steps itself."""
        self.adam.param_groups[0]["lr"] = learning_rate
        self.adam.step()  # type: ignore[no-untyped-call]

    def state(self) -> Arrays:
        """Return the moments and the number of steps."""
        state = self.adam.state[self.weight]
        return {key: value.cpu().numpy() if torch.is_tensor(value) else np.array(value) for key, value in state.items()}

    def set_state(self, state: Arrays) -> None:
        """Restore the result of `state`."""
        device = self.weight.device
        self.adam.state[self.weight].update(
            {key: torch.from_numpy(value).to(device) if value.ndim else int(value) for key, value in state.items()}
        )
