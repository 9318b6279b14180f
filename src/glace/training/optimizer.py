"""Adam for a network whose widest matrices are trained by rows."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from glace.kernels import sparse_layer
from glace.model.encoders import SparseInput, sparse_inputs

BETAS = (0.9, 0.999)


class RowwiseAdam:
    """torch's Adam for what autograd gives gradients to, lazy Adam by kernels for sparse input layers."""

    def __init__(self, network: nn.Module) -> None:
        self.named = [(name, p) for name, p in network.named_parameters() if p.requires_grad]
        self.dense = torch.optim.Adam([p for _, p in self.named], betas=BETAS, fused=True)
        self.sparse = list(sparse_inputs(network))
        self.moments = {
            name: (np.zeros_like(layer.weight.numpy()), np.zeros_like(layer.weight.numpy()))
            for name, layer in self.sparse
        }

    def zero_grad(self) -> None:
        """Forget the gradients of the last step."""
        self.dense.zero_grad()

    def step(self, number: int, learning_rate: float) -> None:
        """Take the `number`-th step, counted from 1, along the gradients of the last backward pass."""
        for group in self.dense.param_groups:
            group["lr"] = learning_rate
        self.dense.step()
        for name, layer in self.sparse:
            self._step_rows(layer, *self.moments[name], number, learning_rate)

    def _step_rows(
        self, layer: SparseInput, first: Any, second: Any, number: int, learning_rate: float
    ) -> None:
        rate = np.float32(learning_rate / (1 - BETAS[0] ** number))
        damping = np.float32((1 - BETAS[1] ** number) ** 0.5)
        betas = np.array(BETAS, dtype=np.float32)
        weight = layer.weight.numpy()
        sparse_layer.adam_rows(*layer.touched(), weight, first, second, rate, damping, betas)

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """All moments by name, as arrays; the step count is the caller's."""
        found = {}
        for name, parameter in self.named:
            for key, value in self.dense.state[parameter].items():
                found[f"{name}/{key}"] = value.numpy()
        for name, pair in self.moments.items():
            found[f"{name}/first"], found[f"{name}/second"] = pair
        return found

    def set_state(self, state: dict[str, npt.NDArray[Any]]) -> None:
        """Put back what `state` gave."""
        for name, parameter in self.named:
            keys = [key for key in state if key.rpartition("/")[0] == name]
            self.dense.state[parameter] = {
                key.rpartition("/")[2]: torch.from_numpy(np.array(state[key])) for key in keys
            }
        for name in self.moments:
            self.moments[name] = (np.array(state[f"{name}/first"]), np.array(state[f"{name}/second"]))
