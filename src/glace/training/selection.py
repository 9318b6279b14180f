"""Options left to `auto`: short runs on the graph itself decide, by its held-out edges.

No setting is best on every graph. The first trial has the settings that did well on most; each rival changes one
option of the best so far, and wins only if it tells held-out edges better by more than two standard errors of the
difference: on a small graph, where that cannot be known, the first settings stay. A rival that is as clearly behind
in the second half of its trial is given up there.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from glace.config.config import Config, ModelConfig
from glace.config.encoders import CustomEncoder, Image
from glace.metrics import auc_difference, link_scores

START: dict[str, Any] = {
    "neighbor_features": "mean",
    "dropout": 0.5,
    "offset": "learned",
}
RIVALS: tuple[tuple[str, Any], ...] = (
    ("dropout", 0.0),
    ("neighbor_features", "none"),
    ("offset", 0.0),
)
WITHOUT_ATTRIBUTES: dict[str, Any] = {"neighbor_features": "none", "dropout": 0.0}
"""What is hidden of a node that is known by its identity alone is all of it."""

WITHOUT_MEANS: dict[str, Any] = {"neighbor_features": "none", "dropout": 0.0}
"""For images and modules of the user's: a mean of images is no image, and one with holes is another. Digits never seen
are told with 95.5 % right so, and with 90.8 % with the means and holes that words are best with."""

KEPT_FOR_NODES = ("dropout",)
"""What held-out edges among known nodes cannot decide for other purposes. On DBLP and Pubmed they choose no dropout;
classes of DBLP then have a micro-F1 of 82.0 in place of 83.1, and links of nodes that were hidden, half of Pubmed's, an
AUC of 94.2 in place of 95.9."""

TRIAL_SHARE, MOST_TRIAL_STEPS = 0.75, 375
"""Length of a trial: a share of the steps of the run that follows, and so many at most."""
ERRORS = 2.0
"""Standard errors by which one AUC is clearly higher. With one, every sixth rival that is no better would win, and the
first settings are the ones that new nodes are embedded best with."""
GIVEN_UP = 0.5
"""Share of a trial after which a rival that is clearly behind is given up."""
TRIAL_SECONDS = 0.1
"""Where the run is limited in time, the share of it that a trial takes: four leave more than half to the run."""


@dataclass(frozen=True)
class TrialResult:
    """What a trial came to: its weights, how near they put held-out pairs, and which of these are edges.

    `on_the_way` is how near it put them after so many steps.
    """

    weights: dict[str, npt.NDArray[Any]]
    near: npt.NDArray[np.float64]
    truth: npt.NDArray[np.bool_]
    on_the_way: dict[int, npt.NDArray[np.float64]] = field(default_factory=dict)

    def auc(self) -> float:
        """How well it tells edges from non-edges."""
        return link_scores(self.near, self.truth).auc

    def is_better_than(self, other: "TrialResult") -> bool:
        """Whether its AUC is clearly higher."""
        return self._is_better(self.near, other.near)

    def is_far_ahead_of(self, near: npt.NDArray[np.float64], step: int) -> bool:
        """Whether its AUC was clearly higher after so many steps than that of a rival who puts pairs so near then."""
        return step in self.on_the_way and self._is_better(self.on_the_way[step], near)

    def _is_better(self, one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> bool:
        difference, error = auc_difference(one, other, self.truth)
        return difference > ERRORS * error


@dataclass(frozen=True)
class Trial:
    """One short run: the option that was changed, to what, the AUC it ended with, and whether it was kept."""

    option: str
    value: Any
    auc: float
    kept: bool


@dataclass(frozen=True)
class Selection:
    """What was decided, and the trials that decided it."""

    options: dict[str, Any]
    trials: tuple[Trial, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Selection":
        """Back from `to_json`."""
        return cls(dict(values["options"]), tuple(Trial(**trial) for trial in values["trials"]))


def first_choice(model: ModelConfig, has_attributes: bool) -> dict[str, Any]:
    """What the open options start with."""
    start = START if has_attributes else START | WITHOUT_ATTRIBUTES
    if any(isinstance(part, Image | CustomEncoder) for part in model.encoders().values()):
        start = START | WITHOUT_MEANS
    return {name: start[name] for name in model.open_options()}


def rivals(model: ModelConfig, has_attributes: bool) -> list[tuple[str, Any]]:
    """The changes to be tried, in order."""
    first = first_choice(model, has_attributes)
    settled = KEPT_FOR_NODES if model.purpose == "nodes" else ()
    return [(name, value) for name, value in RIVALS if name in first and first[name] != value and name not in settled]


def choose(
    settings: Config, has_attributes: bool, judge: Callable[[Config, TrialResult | None], TrialResult]
) -> tuple[Selection, TrialResult | None]:
    """Decide the open options by trials, and the trial that won.

    `judge` makes a short run with its settings against the best so far, if there is one.
    """
    options = first_choice(settings.model, has_attributes)
    changes = rivals(settings.model, has_attributes)
    if not changes:
        return Selection(options), None
    best = judge(settings.replace(**options), None)
    trials = [Trial("", None, best.auc(), True)]
    for name, value in changes:
        rival = judge(settings.replace(**options | {name: value}), best)
        trials.append(Trial(name, value, rival.auc(), rival.is_better_than(best)))
        if trials[-1].kept:
            options, best = options | {name: value}, rival
        del rival  # else its weights would be in memory during the next trial
    return Selection(options, tuple(trials)), best
