"""Adam for a network whose widest matrices are trained by rows."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from glace.kernels import sparse_layer
from glace.model.encoders import SparseInput, TorchSparseInput, sparse_inputs

BETAS = (0.9, 0.999)


class RowwiseAdam:
    """torch's Adam for what autograd gives gradients to, lazy Adam for sparse input layers: by kernels, or torch's."""

    def __init__(self, network: nn.Module) -> None:
        bags = [module.weight for module in network.modules() if isinstance(module, TorchSparseInput)]
        self.named = [(name, p) for name, p in network.named_parameters() if p.requires_grad]
        others = [p for _, p in self.named if not any(p is weight for weight in bags)]
        self.by_torch: list[torch.optim.Optimizer] = [torch.optim.Adam(others, betas=BETAS, fused=True)]
        if bags:
            self.by_torch.append(torch.optim.SparseAdam(bags, betas=BETAS))
        self.sparse = list(sparse_inputs(network))
        self.moments = {
            name: (np.zeros_like(layer.weight.numpy()), np.zeros_like(layer.weight.numpy()))
            for name, layer in self.sparse
        }

    def zero_grad(self) -> None:
        """Forget the gradients of the last step."""
        for optimizer in self.by_torch:
            optimizer.zero_grad()

    def step(self, number: int, learning_rate: float) -> None:
        """Take the `number`-th step, counted from 1, along the gradients of the last backward pass."""
        for optimizer in self.by_torch:
            for group in optimizer.param_groups:
                group["lr"] = learning_rate
            optimizer.step()
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

    def _kept(self, parameter: Tensor) -> dict[str, Any]:
        """What torch's optimizers keep of a parameter; SparseAdam counts steps with a plain number."""
        (optimizer,) = (
            each for each in self.by_torch if any(parameter is p for p in each.param_groups[0]["params"])
        )
        kept: dict[str, Any] = optimizer.state[parameter]
        return kept

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """All moments by name, as arrays; the step count is the caller's."""
        found = {}
        for name, parameter in self.named:
            for key, value in self._kept(parameter).items():
                found[f"{name}/{key}"] = value.cpu().numpy() if torch.is_tensor(value) else np.array(value)
        for name, pair in self.moments.items():
            found[f"{name}/first"], found[f"{name}/second"] = pair
        return found

    def set_state(self, state: dict[str, npt.NDArray[Any]]) -> None:
        """Put back what `state` gave."""
        for name, parameter in self.named:
            keys = [key for key in state if key.rpartition("/")[0] == name]
            self._kept(parameter).update(
                {key.rpartition("/")[2]: _restored(state[key], parameter) for key in keys}
            )
        for name in self.moments:
            self.moments[name] = (np.array(state[f"{name}/first"]), np.array(state[f"{name}/second"]))


def _restored(value: npt.NDArray[Any], parameter: Tensor) -> Any:
    if value.ndim == 0 and value.dtype.kind == "i":
        return int(value)
    kept = torch.from_numpy(np.array(value))
    return kept if kept.ndim == 0 else kept.to(parameter.device)
