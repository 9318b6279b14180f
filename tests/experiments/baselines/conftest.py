"""What the tests of the baselines share."""

import pytest

import glace
from glace.model.network import using_threads


@pytest.fixture(autouse=True)
def one_thread():
    """Steps this small take longer with more."""
    with using_threads(1):
        yield


@pytest.fixture(scope="module")
def graph():
    return glace.datasets.planted(150, communities=3, degree=8, attributes=60, words=10)
