"""Certainty: what makes a node more certain, and ranks among the training nodes."""

import numpy as np
import pytest

from glace.errors import FormatError, InputError
from glace.gaussian.dissimilarity import Gaussian
from glace.gaussian.embedding import Embedding
from glace.ids import NodeIds
from glace.queries import certainty
from glace.queries.certainty import STEPS, CertaintyModel, evidence


def nodes(count=500, dim=6, random_state=0):
    rng = np.random.default_rng(random_state)
    scale = np.exp(rng.normal(size=(count, 1)))
    return Gaussian((5 + scale * rng.normal(size=(count, dim))).astype(np.float32), np.full((count, dim), 0.5))


def known(values):
    return lambda rows: np.asarray(values, dtype=np.float64)[rows]


def test_it_is_the_formula_as_a_rank():
    some, rng = nodes(), np.random.default_rng(1)
    attributes, edges = rng.integers(1, 50, 500), rng.integers(0, 20, 500)
    reference = CertaintyModel.fit(some, known(evidence(attributes, edges)))
    found = reference.certainty(some, known(evidence(attributes, edges)))
    center, width = some.mean.mean(axis=0, dtype=np.float64), some.variance.mean(axis=0)
    formula = ((some.mean - center) ** 2 / width).sum(1) * (1 + attributes) ** 0.2 * (1 + edges) ** 0.3
    ranks = (formula[:, None] > formula).mean(axis=1)
    np.testing.assert_allclose(found, ranks, atol=2 / 500)
    assert (found.min(), found.max()) == (0, 1)


def test_less_evidence_is_less_certain_and_what_is_beyond_all_has_the_last_rank():
    some = nodes()
    many, few = (evidence(np.full(500, words), 9) for words in (20, 10))
    reference = CertaintyModel.fit(some, known(many))
    assert (reference.certainty(some, known(few)) <= reference.certainty(some, known(many))).all()
    here = Gaussian(np.array([reference.center, reference.center + 1e6]), np.ones((2, 6)))
    assert reference.certainty(here, known(np.zeros(2))).tolist() == [0, 1]


def test_points_are_ranked_by_their_distance_alone():
    points = Gaussian(np.arange(10.0)[:, None], None)
    found = CertaintyModel.fit(points, known(np.zeros(10))).certainty(points, known(np.zeros(10)))
    assert found.argmin() in (4, 5)
    assert found[0] == found[9] == found.max()


def test_blocks_and_a_sample_of_many_nodes(monkeypatch):
    some, zeros = nodes(), known(np.zeros(500))
    whole = CertaintyModel.fit(some, zeros)
    ranks = whole.certainty(some, zeros)
    monkeypatch.setattr(certainty, "ROWS", 7)
    np.testing.assert_array_equal(whole.certainty(some, zeros), ranks)
    monkeypatch.setattr(certainty, "SAMPLE", 100)
    sampled = CertaintyModel.fit(some, zeros)
    np.testing.assert_allclose(sampled.center, some.mean[::5].mean(axis=0), rtol=1e-5)
    assert np.corrcoef(sampled.certainty(some, zeros), ranks)[0, 1] > 0.95


def test_a_reference_from_a_file_must_fit():
    whole = vars(CertaintyModel.fit(nodes(), known(np.zeros(500))))
    assert vars(CertaintyModel.from_arrays(whole, 6)).keys() == whole.keys()
    with pytest.raises(FormatError, match="do not fit the embedding"):
        CertaintyModel.from_arrays(whole, 5)
    with pytest.raises(FormatError, match="must be finite, with widths above 0"):
        CertaintyModel.from_arrays({**whole, "width": np.zeros(6)}, 6)
    with pytest.raises(FormatError, match="must be finite"):
        CertaintyModel.from_arrays({**whole, "quantiles": np.full(STEPS + 1, np.nan)}, 6)


@pytest.mark.parametrize("measure", ["kl", "symmetric_kl", "wasserstein2"])
@pytest.mark.parametrize("context", [False, True])
def test_what_comes_from_unequal_spread(measure, context):
    rng = np.random.default_rng(0)
    gaussians = [Gaussian(rng.normal(size=(9, 3)), np.exp(rng.normal(size=(9, 3)))) for _ in range(2)]
    own, other = gaussians[0], gaussians[1] if context else None
    embedding = Embedding(NodeIds.numbered(9), own.mean, own.variance, measure, context=other)
    pairs = np.array([[0, 1], [3, 2], [5, 5]])
    spread, whole = embedding.variance_terms_at(pairs), embedding.dissimilarities_at(pairs)
    assert (spread <= whole + 1e-12).all()
    still = Gaussian(np.ones((9, 3)), own.variance)
    beside = None if other is None else Gaussian(np.ones((9, 3)), other.variance)
    moved = Embedding(NodeIds.numbered(9), still.mean, still.variance, measure, context=beside)
    np.testing.assert_allclose(spread, moved.dissimilarities_at(pairs), rtol=1e-9, atol=1e-12)


def test_points_have_no_spread():
    embedding = Embedding(NodeIds.numbered(3), np.ones((3, 2), np.float32), None, "dot")
    assert embedding.variance_terms_at(np.array([[0, 1]])).tolist() == [0]


def test_equals_have_the_share_of_what_is_below_all_of_them():
    points = Gaussian(np.array([[0.0]] * 6 + [[5.0], [-5.0], [7.0], [-7.0]]), None)
    found = CertaintyModel.fit(points, known(np.zeros(10))).certainty(points, known(np.zeros(10)))
    assert found[:6].tolist() == [0] * 6
    assert found[6] == pytest.approx(0.6, abs=0.1)
    same = Gaussian(np.ones((4, 2)), None)
    assert CertaintyModel.fit(same, known(np.zeros(4))).certainty(same, known(np.zeros(4))).tolist() == [0] * 4


@pytest.mark.parametrize("ranks", [[0.5, 1.5, 0], [0.5, -0.1, 0], [0.5, np.nan, 0]])
def test_certainties_are_shares(ranks):
    with pytest.raises(InputError, match="certainties must be from 0 to 1"):
        Embedding(NodeIds.numbered(3), np.ones((3, 2), np.float32), None, "dot", certainty=np.array(ranks, np.float32))


def test_certainties_are_one_for_each_node():
    with pytest.raises(InputError, match=r"3 ids need as many certainties, not the shape \(2,\)"):
        Embedding(NodeIds.numbered(3), np.ones((3, 2), np.float32), None, "dot", certainty=np.ones(2, np.float32))
