"""Novelty sees rare and unseen attributes and means at the center; tampered statistics are refused."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from glace.errors import FormatError
from glace.gaussian.dissimilarity import Gaussian
from glace.queries.certainty import STEPS, Center
from glace.queries.novelty import HIGH, SAMPLE, UNSEEN, Novelty, NoveltyModel, reference_rows

CENTER = Center(np.zeros(2), np.ones(2))


def sparse(rows):
    return sp.csr_array(np.array(rows, np.float32))


def at(*means):
    mean = np.array(means, np.float32)
    return Gaussian(mean, np.ones_like(mean))


@pytest.fixture(scope="module")
def model():
    """Column 0 is in every row, column 1 in every second, column 2 in one of a hundred, column 3 nowhere."""
    rows = np.zeros((100, 4), np.float32)
    rows[:, 0], rows[::2, 1], rows[7, 2] = 1, 1, 1
    angles = np.linspace(0, 6, 100)
    means = 3 * np.column_stack([np.cos(angles), np.sin(angles)])
    return NoveltyModel.fit(
        sparse(rows), True, sparse(rows), at(*(means * np.linspace(0.9, 1.1, 100)[:, None])), CENTER
    )


def ranks(model, rows, means):
    return model.novelty(sparse(rows), sparse(rows), at(*means), CENTER)


def test_counts_and_statistics(model):
    assert model.column_counts.tolist() == [100, 50, 1, 0]
    assert model.nodes == 100
    assert (model.deviation > 0).all()
    # Rarity is the mean inverse document frequency over the entries of a row.
    frequencies = np.log(101 / (np.array([100, 50, 1]) + 1))
    rarity = np.where(np.arange(100) % 2, frequencies[0], frequencies[:2].mean())
    rarity[7] = frequencies[[0, 2]].mean()
    assert model.center[0] == pytest.approx(rarity.mean())
    assert model.deviation[0] == pytest.approx(rarity.std())
    assert np.all(np.diff(model.quantiles) >= 0)
    assert len(model.quantiles) == STEPS + 1


def test_rare_attributes_and_a_mean_at_the_center_are_novel(model):
    common, rare, central = ranks(model, [[1, 0, 0, 0], [0, 0, 1, 0], [1, 0, 0, 0]], [[3, 0], [3, 0], [0.01, 0]]).rank
    assert common < 0.9
    assert rare > HIGH
    assert central > HIGH


def test_unseen_is_the_share_of_attributes_that_no_training_node_has(model):
    found = ranks(model, [[1, 1, 0, 0], [1, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 0]], [[3, 0]] * 4)
    assert found.unseen.tolist() == [0, 0.5, 1, 0]
    assert found.rank[3] == 1, "a node without attributes"
    assert found.is_high().tolist()[2:] == [True, True]


def test_a_node_is_novel_by_its_rank_or_by_unseen_attributes():
    found = Novelty(np.array([0, 0, UNSEEN, UNSEEN + 0.01]), np.array([HIGH, HIGH + 0.001, 0, 0]))
    assert found.is_high().tolist() == [False, True, False, True]


def test_dense_attributes_are_novel_by_their_squares():
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(300, 5)).astype(np.float32)
    means = at(*generator.normal(size=(300, 2)))
    model = NoveltyModel.fit(rows, False, rows, means, CENTER)
    assert model.column_counts is None
    assert model.center[0] == pytest.approx((rows.astype(float) ** 2).mean(), rel=1e-5)
    new = np.array([[9] * 5, [0.5] * 5], np.float32)
    found = model.novelty(new, new, at([1, 1], [1, 1]), CENTER)
    assert found.rank[0] > HIGH > found.rank[1]
    assert found.unseen.tolist() == [0, 0]


def test_counts_do_not_depend_on_the_storage(model):
    rows = np.zeros((100, 4), np.float32)
    rows[:, 0], rows[::2, 1], rows[7, 2] = 1, 1, 1
    means = at(*np.random.default_rng(0).normal(size=(100, 2)))
    stored = [NoveltyModel.fit(each, True, each, means, CENTER) for each in (rows, sparse(rows))]
    for name in ("column_counts", "center", "deviation", "quantiles"):
        np.testing.assert_array_equal(getattr(stored[0], name), getattr(stored[1], name))
    whole = np.arange(1, 50_001, dtype=np.float32).reshape(2500, 20)
    drawn = [reference_rows(each, True, np.random.default_rng(1)) for each in (whole, sparse(whole))]
    assert isinstance(drawn[0], np.ndarray)
    np.testing.assert_array_equal(drawn[0], drawn[1].toarray())  # type: ignore[union-attr]


def test_equal_nodes_have_a_deviation_of_one():
    rows = sparse([[1, 0]] * 5)
    model = NoveltyModel.fit(rows, True, rows, at(*[[1, 1]] * 5), CENTER)
    assert model.deviation.tolist() == [1, 1]


def test_reference_rows_drop_half_of_the_entries():
    rows = sparse(np.arange(1, 50_001).reshape(2500, 20))
    found = reference_rows(rows, True, np.random.default_rng(1))
    assert isinstance(found, sp.csr_array)
    assert found.shape == (SAMPLE, 20)
    assert found.nnz == pytest.approx(SAMPLE * 20 / 2, rel=0.05)
    assert np.all(np.diff(found.max(axis=1).toarray().ravel()) > 0), "in the order of the nodes"
    dense = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.testing.assert_array_equal(reference_rows(dense, False, np.random.default_rng(1)), dense)


def test_arrays_and_back(model):
    again = NoveltyModel.from_arrays(model.to_arrays(), 4, counted=True)
    for name in ("nodes", "column_counts", "center", "deviation", "quantiles"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))


@pytest.mark.parametrize(
    "change",
    [
        {"nodes": 0},
        {"column_counts": np.zeros(3, np.int64)},
        {"column_counts": np.zeros(4, np.int32)},
        {"column_counts": np.array([1, 1, -1, 0])},
        {"column_counts": None},
        {"center": np.zeros(3)},
        {"center": np.array([np.nan, 0])},
        {"center": np.zeros(2, np.float32)},
        {"deviation": np.array([1.0, 0.0])},
        {"quantiles": np.zeros(STEPS)},
    ],
)
def test_tampered_statistics_are_refused(model, change):
    with pytest.raises(FormatError, match="statistics behind the novelty"):
        NoveltyModel.from_arrays(replace(model, **change).to_arrays(), 4, counted=True)


def test_statistics_of_the_other_kind_of_attributes_are_refused(model):
    with pytest.raises(FormatError, match="statistics behind the novelty"):
        NoveltyModel.from_arrays(model.to_arrays(), 4, counted=False)
