"""Errors carry the names of options as data."""

import pickle

import pytest

from glace.errors import GlaceError, InputError, TooLarge


def test_the_option_starts_and_the_hint_ends_the_message():
    problem = InputError("must be at least 1, not 0", option="n_jobs", hint=("n_jobs", 1))
    assert str(problem) == "n_jobs must be at least 1, not 0 (n_jobs=1)"
    assert (
        problem.text(lambda name, *value: f"<{name}{value}>") == "<n_jobs()> must be at least 1, not 0 (<n_jobs(1,)>)"
    )


def test_a_plain_message_stays_as_it_is():
    assert str(InputError("{braces} stay")) == "{braces} stay"


@pytest.mark.parametrize("kind", [InputError, TooLarge])
def test_errors_pass_between_processes(kind):
    problem = pickle.loads(pickle.dumps(kind("must be small", option="dim", hint=("dim", 8))))
    assert (str(problem), problem.option, problem.hint) == ("dim must be small (dim=8)", "dim", ("dim", 8))
    assert isinstance(problem, GlaceError)
