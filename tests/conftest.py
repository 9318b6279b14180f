"""Small planted graphs and a fitted model that many tests share; hypothesis settings."""

import pytest
from hypothesis import HealthCheck, settings

import glace
from glace.model.input_layers import SparseInput

settings.register_profile(
    "glace", deadline=None, max_examples=30, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("glace")


LONG = ("test_examples.py", "test_resume.py", "test_page.py")
"""Files whose tests wait for other programs."""


def pytest_collection_modifyitems(items):
    """Long files first: where files are shared out among processes, none is left alone with one at the end."""
    items.sort(key=lambda item: item.path.name not in LONG)


def small(**options):
    """An estimator's options for a fit of a second or two, the same bits every time."""
    return {
        "dim": 8,
        "hidden": 32,
        "batch_size": 128,
        "negative_pool_size": 64,
        "max_steps": 120,
        "n_jobs": 1,
        "random_state": 0,
        # Nothing left to be tried out first; tests of the trials say so.
        "ensemble_size": 1,
        "neighbor_features": "none",
        "neighbor_dropout": 0.0,
        "dropout": 0.0,
        "offset": "learned",
    } | options


@pytest.fixture(scope="session")
def planted():
    return glace.datasets.planted(400, communities=10, degree=8, attributes=120, words=12, mixing=0.05, random_state=3)


@pytest.fixture(scope="session")
def fitted(planted):
    return glace.GLACE(**small()).fit(planted)


@pytest.fixture
def model_file(fitted, tmp_path):
    path = tmp_path / "model.glace"
    fitted.save(path)
    return path


@pytest.fixture
def encoded_rows(monkeypatch):
    """The number of rows of every call of a sparse input layer, as they come."""
    seen: list[int] = []
    forward = SparseInput.forward

    def counted(self, attributes, rows):
        seen.append(len(rows))
        return forward(self, attributes, rows)

    monkeypatch.setattr(SparseInput, "forward", counted)
    return seen
