"""Configurations check themselves."""

from dataclasses import dataclass

import numpy as np
import pytest

from glace.config.config import Config, ModelConfig, TrainingConfig
from glace.errors import InputError
from glace.options import Configuration, option


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": 0}, "dim must be a whole number of at least 1, not 0"),
        ({"dim": 2.5}, "dim must be a whole number of at least 1, not 2.5"),
        ({"dim": None}, "dim must be"),
        ({"dim": "8"}, "dim must be"),
        ({"dim": True}, "dim must be"),
        ({"dim": 10**400}, "dim must be a whole number"),
        ({"learning_rate": 10**400}, "learning_rate must be a number above 0"),
        ({"hidden": -3}, "hidden must be a whole number of at least 1, not -3"),
        ({"proximity": "third"}, "proximity must be 'first', 'second' or 'both', not 'third'"),
        ({"dissimilarity": "l2"}, "dissimilarity must be 'kl', 'symmetric_kl', .*'dot' or None, not 'l2'"),
        ({"offset": "high"}, "offset must be 'learned' or a number, not 'high'"),
        ({"offset": float("nan")}, "offset must be 'learned' or a number, not nan"),
        ({"scaling": "auto"}, "scaling must be 'values', 'unit', 'standard' or 'none', not 'auto'"),
        ({"batch_size": 0}, "batch_size must be"),
        ({"n_negatives": 0}, "negatives must be"),
        ({"negative_sampling": "all"}, "negative_sampling must be 'shared' or 'independent'"),
        ({"negative_pool_size": 0}, "negative_pool_size must be"),
        ({"negative_power": -1}, "negative_power must be a number of at least 0"),
        ({"learning_rate": 0}, "learning_rate must be a number above 0, not 0"),
        ({"lr_schedule": "step"}, "lr_schedule must be 'cosine' or 'constant'"),
        ({"max_steps": 0}, "max_steps must be a whole number of at least 1 or None, not 0"),
        ({"max_epochs": 0}, "max_epochs must be a number above 0 or None"),
        ({"max_seconds": float("inf")}, "max_seconds must be a number above 0 or None"),
        ({"validation_fraction": 1}, "validation_fraction must be a number of at least 0 below 1, not 1"),
        ({"validate_every": 0}, "validate_every must be"),
        ({"patience": 0}, "patience must be"),
        ({"activation": "tanh"}, "activation must be 'relu' or 'linear'"),
        ({"random_state": -1}, "random_state must be a whole number of at least 0"),
        ({"n_jobs": 0}, "n_jobs must be at least 1, or -1 for all cores, not 0"),
        ({"dimension": 3}, "unknown option 'dimension'; known: dim, hidden,"),
    ],
)
def test_each_bad_value_gets_one_clear_error(options, message):
    with pytest.raises(InputError, match=message):
        Config.of(options)


def test_settings_are_flat_and_back():
    settings = Config.of({"dim": 5, "batch_size": 5, "random_state": 9})
    assert Config.of(settings.to_dict()) == settings
    assert (settings.model.dim, settings.sampling.batch_size, settings.run.random_state) == (5, 5, 9)


def test_the_measure_follows_the_direction_of_the_graph():
    assert ModelConfig().resolved_dissimilarity(directed=True, gaussian=True) == "kl"
    assert ModelConfig().resolved_dissimilarity(directed=False, gaussian=True) == "symmetric_kl"
    assert ModelConfig().resolved_dissimilarity(directed=False, gaussian=False) == "dot"


@pytest.mark.parametrize(("name", "gaussian"), [("dot", True), ("kl", False)])
def test_a_measure_must_fit_the_kind_of_node(name, gaussian):
    with pytest.raises(InputError, match=f"dissimilarity '{name}' does not fit"):
        ModelConfig(dissimilarity=name).resolved_dissimilarity(directed=False, gaussian=gaussian)


def test_values_are_kept_as_plain_python():
    settings = Config.of({"dim": np.int64(8), "batch_size": 64.0, "learning_rate": np.float32(0.5)})
    values = (
        settings.model.dim,
        settings.sampling.batch_size,
        settings.training.learning_rate,
        Switch(np.True_).on,  # type: ignore[arg-type]  # converted to a bool
    )
    assert values == (8, 64, 0.5, True)
    assert [type(value) for value in values] == [int, int, float, bool]


@dataclass(frozen=True)
class Switch(Configuration):
    on: bool = option(True, "Whether it is on.")


def test_a_switch_is_true_or_false():
    with pytest.raises(InputError, match="on must be true or false, not 1"):
        Switch(1)  # type: ignore[arg-type]  # refused


def test_no_limit_is_a_choice():
    assert TrainingConfig(max_steps=None).max_steps is None
