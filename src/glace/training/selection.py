"""Selection of options that are `auto`: short trials on the graph itself, compared by its validation edges.

No setting is best on every graph. The first trial has the settings that did well on most graphs.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from glace.config.config import Config, ModelConfig
from glace.fitted.state import Listener, OptionValue, Selection, Trial, part_of
from glace.metrics import auc_difference, link_scores
from glace.model.layers import column_weight
from glace.storage.container import Arrays
from glace.training.loop import TrainingTask, total_steps

Scores = npt.NDArray[np.float64]
Candidate = tuple[str, OptionValue]

INITIAL: dict[str, OptionValue] = {"neighbor_features": "mean", "dropout": 0.5, "offset": "learned"}
CANDIDATES: tuple[Candidate, ...] = (("dropout", 0.0), ("neighbor_features", "none"), ("offset", 0.0))
"""Changes to try, in order of how often they help."""

WITHOUT_ATTRIBUTES: dict[str, OptionValue] = {"neighbor_features": "none", "dropout": 0.0}
"""Dropout would erase a one-hot node completely."""
WITHOUT_MEANS: dict[str, OptionValue] = {"neighbor_features": "none", "dropout": 0.0}
"""For images and custom encoders: the mean of images is no image, and dropout makes holes. On unseen handwritten digits
the accuracy is 95.5 % without both and 90.8 % with them."""

FIXED_FOR_NODES = ("dropout",)
"""Options that validation edges between known nodes cannot decide for other purposes. On DBLP and Pubmed they select no
dropout; that lowers the micro-F1 of node classes on DBLP from 83.1 to 82.0, and the link AUC of unseen nodes (half of
Pubmed's) from 95.9 to 94.2."""

TRIAL_FRACTION, MAX_TRIAL_STEPS = 0.75, 375
"""Length of a trial: a fraction of the run that follows, up to a maximum number of steps."""
TRIAL_SECONDS = 0.1
"""Length of a trial as a fraction of `max_seconds`, so that four trials leave more than half to the run."""
STANDARD_ERRORS = 2.0
"""Standard errors by which one AUC must exceed another. With 1, one in six candidates that are no better would win, and
the initial settings are the best ones for embedding new nodes."""
GIVE_UP_AFTER = 0.5
"""Fraction of a trial after which a candidate that is significantly behind is stopped."""


@dataclass(frozen=True)
class TrialResult:
    """The outcome of a trial: configuration, best weights, and the scores (P,) of the validation pairs.

    `scores_at` holds the scores at each validation during the trial, by step.
    """

    config: Config
    weights: Arrays
    scores: Scores
    truth: npt.NDArray[np.bool_]
    scores_at: dict[int, Scores]

    @property
    def auc(self) -> float:
        """Validation AUC."""
        return link_scores(self.scores, self.truth).auc


def select_options(task: TrainingTask, listener: Listener | None = None) -> tuple[Selection, TrialResult | None]:
    """Choose the options that are `auto` by short trials on validation edges.

    Every candidate changes one option of the current best and trains from the same initial weights for the same
    number of steps. It replaces the current best only if its validation AUC is higher by two standard errors
    (DeLong), because with few validation edges smaller differences are noise.

    Parameters
    ----------
    task
        The graph to train on, the configuration with options that are `auto`, and the validation pairs.
    listener
        Receives the progress of all trials as that of one stage.

    Returns
    -------
    Selection
        The selected options, with one `Trial` per candidate.
    TrialResult or None
        The trial of the selected options, whose weights training starts from; None if nothing was tried.
    """
    has_attributes = task.graph.has_attributes
    options = initial_options(task.config.model, has_attributes)
    candidates = candidate_changes(task.config.model, has_attributes)
    if task.validation is None or not candidates:
        return Selection(options), None
    best = run_trial(task, task.config.replace(**options), part_of(listener, 0, 1 + len(candidates)))
    trials = [Trial("", None, best.auc, kept=True)]
    for number, (name, value) in enumerate(candidates, start=1):
        part = part_of(listener, number, 1 + len(candidates))
        result = run_trial(task, best.config.replace(**{name: value}), part, stop_if_behind=best)
        better = is_significantly_better(result.scores, best.scores, result.truth)
        trials.append(Trial(name, value, result.auc, better))
        if better:
            options[name], best = value, result
        del result  # its weights would otherwise be in memory during the next trial
    return Selection(options, tuple(trials)), best


def run_trial(
    task: TrainingTask, config: Config, listener: Listener | None = None, stop_if_behind: TrialResult | None = None
) -> TrialResult:
    """Train briefly; stop in the second half as soon as another trial was significantly better at the same step."""
    assert task.validation is not None, "trials are compared by validation pairs"
    trainer, truth, scores_at = task.trainer(_shortened(config, task)), task.validation.truth, dict[int, Scores]()
    for scores in trainer.validations(listener):
        step = trainer.history.step
        scores_at[step] = scores
        other = None if stop_if_behind is None else stop_if_behind.scores_at.get(step)
        if other is not None and trainer.done() >= GIVE_UP_AFTER and is_significantly_better(other, scores, truth):
            break
    trainer.finish()
    scores = task.validation.scores(trainer.network, trainer.inputs)
    return TrialResult(config, trainer.network.weights(), scores, truth, scores_at)


def is_significantly_better(scores: Scores, others: Scores, truth: npt.NDArray[np.bool_]) -> bool:
    """Return whether the AUC of `scores` exceeds that of `others` by two standard errors of the difference."""
    difference, error = auc_difference(scores, others, truth)
    return difference > STANDARD_ERRORS * error


def initial_options(model: ModelConfig, has_attributes: bool) -> dict[str, OptionValue]:
    """Return the values that options which are `auto` have in the first trial."""
    initial = INITIAL if has_attributes else INITIAL | WITHOUT_ATTRIBUTES
    if not all(column_weight(spec) for spec in model.encoders().values()):
        initial = INITIAL | WITHOUT_MEANS
    return {name: initial[name] for name in model.open_options()}


def candidate_changes(model: ModelConfig, has_attributes: bool) -> list[Candidate]:
    """Return the changes of the initial options to try, in order."""
    initial = initial_options(model, has_attributes)
    fixed = FIXED_FOR_NODES if model.purpose == "nodes" else ()
    return [(name, value) for name, value in CANDIDATES if name not in fixed and initial.get(name, value) != value]


def _shortened(config: Config, task: TrainingTask) -> Config:
    """Return the configuration with the limits of a trial."""
    seconds = config.training.max_seconds
    steps = min(total_steps(config.training, task.sampler) * TRIAL_FRACTION, MAX_TRIAL_STEPS)
    return config.replace(
        max_seconds=None if seconds is None else seconds * TRIAL_SECONDS,
        max_steps=max(round(steps), 1),
        max_epochs=None,
    )
