"""Small planted graphs and a fitted model that many tests share; hypothesis settings."""

import mmap
from pathlib import Path, PurePosixPath

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

import glace
from glace.model.layers import SparseInput
from glace.model.network import EdgeBatch, branch_loss

settings.register_profile(
    "glace", deadline=None, max_examples=30, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("glace")


LONG = ("test_examples.py", "test_resume.py", "test_page.py")
"""Files whose tests wait for other programs."""

TESTS = Path(__file__).parent
SLOW = (
    "benchmarks",
    "cli/test_evaluate.py",
    "cli/test_reproduce.py",
    "cli/test_verbs.py::test_a_reader_who_leaves_does_not_stop_the_work",
    "cli/test_verbs.py::test_demo",
    "cli/test_verbs.py::test_demo_without_the_libraries_that_draw",
    "estimators/test_contract.py",
    "estimators/test_encoders.py",
    "estimators/test_scikit_learn.py",
    "experiments",
    "features/test_sentences.py",
    "fitted/test_certainty.py",
    "fitted/test_file.py::test_bytes_of_the_header_set_to_something_else_are_noticed",
    "fitted/test_file.py::test_flipped_bits_are_noticed",
    "fitted/test_file.py::test_no_file_is_ever_unpickled",
    "io/test_convert.py::test_a_stream_gives_what_reading_whole_gives",
    "io/test_convert.py::test_sparse_rows_too",
    "io/test_npz.py::test_a_flipped_byte_is_a_graph_or_an_error_of_ours",
    "training/test_calibration.py::test_scaling_that_pairs_were_drawn_with_are_found_again",
    "server/test_app.py::test_a_server_finishes_what_is_under_way",
    "server/test_app.py::test_many_clients_at_once",
    "server/test_page.py",
    "test_docs.py::test_python_blocks_run",
    "test_examples.py",
    "test_trace.py",
    "training/test_device.py",
    "training/test_estimate.py",
    "training/test_mapped.py",
    "training/test_resume.py",
    "training/test_update.py",
)
"""Folders, files and tests that `make test-fast` leaves out, by their path from this folder."""


def pytest_collection_modifyitems(items):
    """Mark slow tests, and put long files first, so that no process is left alone with one at the end."""
    for item in items:
        path = item.path.relative_to(TESTS).as_posix()
        names = {path, f"{path}::{item.originalname}", *(each.as_posix() for each in PurePosixPath(path).parents)}
        if not names.isdisjoint(SLOW):
            item.add_marker(pytest.mark.slow)
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
        "hidden_length": "free",
        "neighbor_features": "none",
        "neighbor_dropout": 0.0,
        "dropout": 0.0,
        "offset": "learned",
    } | options


@pytest.fixture(scope="session")
def planted():
    return glace.datasets.planted(400, communities=10, degree=8, attributes=120, words=12, mixing=0.05, random_state=3)


@pytest.fixture(scope="session")
def hubs():
    """Four hubs that are joined to each other, and twelve nodes with two hubs each."""
    pairs = [(a, b) for a in range(4) for b in range(a)]
    return glace.from_arrays(np.array(pairs + [(4 + row, (row + at) % 4) for row in range(12) for at in (0, 1)]))


@pytest.fixture(scope="session")
def fitted(planted):
    return glace.GLACE(**small(random_state=2)).fit(planted)


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

    def counted(self, attributes, rows, base=None):
        seen.append(len(rows))
        return forward(self, attributes, rows, base)

    monkeypatch.setattr(SparseInput, "forward", counted)
    return seen


def is_mapped(array: np.ndarray) -> bool:
    """Whether an array is mapped from a file."""
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, mmap.mmap)


def batch_loss(network, rows, batch, n_negatives):
    """The loss of all branches of a network; the batch holds positions in the input rows."""
    edges = EdgeBatch(batch.anchors, batch.targets, batch.negatives, batch.allowed, n_negatives)
    return torch.stack([branch_loss(network, branch, rows, edges) for branch in network.branches]).sum()
