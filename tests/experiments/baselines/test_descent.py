import math
from typing import Any

import pytest
import torch

from glace.errors import TrainingDiverged
from glace.experiments.baselines.method import Descent
from glace.gaussian.embedding import Embedding
from glace.metrics import LinkScores


class Bare(Descent):
    """Training alone, which nothing embeds."""

    def embed(self, *_: Any, **__: Any) -> Embedding:
        raise NotImplementedError


def test_what_is_not_finite_at_a_look_ends_training():
    network = torch.nn.Linear(2, 1)
    descent = Bare(max_steps=10, validate_every=3)
    with pytest.raises(TrainingDiverged, match="not finite at step 3 with learning rate 0.01; try a smaller"):
        descent.train(network, lambda step: network(torch.ones(2)).sum(), lambda: LinkScores(math.nan, math.nan))


def test_each_step_is_asked_for_by_its_number():
    network = torch.nn.Linear(2, 1)
    asked = []

    def loss(step):
        asked.append(step)
        return network(torch.ones(2)).sum()

    assert Bare(max_steps=4).train(network, loss, None).step == 4
    assert asked == [0, 1, 2, 3]
