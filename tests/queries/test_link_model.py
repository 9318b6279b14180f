"""The link model beside formulas, planted probabilities and planted graphs."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from glace.errors import FormatError, InputError
from glace.gaussian.embedding import Embedding, PlattScaling
from glace.graph.arrays import from_arrays
from glace.graph.split import hold_out
from glace.ids import NodeIds
from glace.queries import link_model
from glace.queries.link_model import (
    LARGEST,
    LARGEST_PROBABILITY,
    LARGEST_SHIFT,
    POPULARITY,
    LinkModel,
    RankingScores,
    Regression,
    Sample,
    draw_sample,
    fit_link_model,
    log_density,
    matched_to,
    missing_edges,
    popularity_model,
    ranking_scores,
    sample_nodes,
)
from glace.queries.pair_features import LARGEST_LOGIT, PairFeatures


def sample_of(source, truth, features=None, weight=None, recall=1.0):
    rows = len(source)
    features = np.zeros((rows, 3)) if features is None else features
    weight = np.ones(rows) if weight is None else weight
    return Sample(
        np.asarray(source),
        features,
        np.asarray(truth, bool),
        weight,
        np.arange(rows) % 2,
        recall,
        np.array([0, 0, 1], bool),
        np.empty(0),
    )


def model_with(knots, reference_edges=100):
    """A model whose score is its only feature."""
    return LinkModel(("a",), Regression.standard(1)._replace(linear=np.ones(1)), knots, reference_edges)


def of_communities(nodes=200, directed=False, random_state=0):
    """Ten communities of 20 and some popular nodes: common neighbours and degrees tell who is joined."""
    rng = np.random.default_rng(random_state)
    appeal = rng.pareto(2, nodes) + 0.5
    same = np.arange(nodes)[:, None] % 10 == np.arange(nodes) % 10
    rate = np.minimum(np.outer(appeal, appeal) * np.where(same, 0.25, 0.004), 1)
    drawn = np.triu(rng.random((nodes, nodes)) < rate, 1)
    return from_arrays(np.argwhere(drawn), np.ones((nodes, 1), np.float32), directed=directed)


def noise(nodes=200, random_state=1):
    """Gaussians that know nothing."""
    rng = np.random.default_rng(random_state)
    mean = rng.normal(size=(nodes, 4)).astype(np.float32)
    return Embedding(NodeIds.numbered(nodes), mean, np.ones_like(mean), "symmetric_kl", PlattScaling(2.0, 1.0))


@pytest.fixture(scope="module", params=[False, True], ids=["undirected", "directed"])
def split(request):
    return hold_out(of_communities(directed=request.param), 0.1, np.random.default_rng(0))


@pytest.fixture(scope="module")
def pairs(split):
    return PairFeatures(noise(), split[0])


@pytest.fixture(scope="module")
def learned(pairs, split):
    found = fit_link_model(pairs, split[1].edges, np.random.default_rng(0))
    assert found is not None
    return found


def test_features_enter_as_standardized_logarithms():
    features = np.array([[2.0, 3.0, 1e9], [-5.0, -1.0, 0.0]])
    scaling = Regression.standard(3)._replace(
        offsets=np.array([0, 0.5, 2.0]), center=np.array([1.0, 0, 0]), scale=np.array([2.0, 1, 0.1])
    )
    expected = [[0.5, np.log(3.5), LARGEST], [-3, np.log(0.5), LARGEST]]
    np.testing.assert_allclose(scaling.transformed(features), expected)


def test_scores_are_linear_and_quadratic_in_the_features():
    rng = np.random.default_rng(0)
    linear, quadratic = rng.normal(size=3), rng.normal(size=(3, 3))
    plain = Regression.standard(3)._replace(linear=linear, quadratic=quadratic)
    features = rng.normal(size=(2, 5, 3)).clip(-LARGEST, LARGEST)
    expected = [[linear @ x + x @ quadratic @ x for x in row] for row in features]
    np.testing.assert_allclose(plain.scores(features), expected)


def test_below_the_lowest_logit_scores_fall_with_it():
    """A square that rises again on the far side must not put strangers first."""
    plain = Regression.standard(2)._replace(quadratic=np.diag([1.0, 0.5]), lowest=np.array(-1.0))
    features = np.array([[2.0, 1.0], [-1.0, 1.0], [-1.5, 1.0], [-20.0, 1.0]])
    np.testing.assert_allclose(plain.scores(features), [4.5, 1.5, 1.0, -17.5])


def test_strangers_stand_below_all_candidates(learned, pairs):
    _, features = pairs.candidates(np.arange(20))
    near = np.quantile(features[..., 0], 0.5)
    strangers = np.where(np.arange(features.shape[-1]) == 0, -LARGEST_LOGIT, features)
    assert learned.regression.lowest < near
    assert (learned.scores(strangers) < learned.scores(features) - 1).mean() > 0.99


def test_ranking_beside_counting():
    rng = np.random.default_rng(0)
    source = rng.permutation(np.repeat(np.arange(12), 25))
    scores = rng.integers(0, 9, len(source)).astype(float)
    truth = rng.random(len(source)) < 0.1
    ranks = []
    for row in np.flatnonzero(truth):
        own = scores[source == source[row]]
        ranks.append((own > scores[row]).sum() + ((own == scores[row]).sum() + 1) / 2)
    reciprocal, first = 1 / np.array(ranks), np.array(ranks) <= 10
    expected = RankingScores(0.8 * float(reciprocal.mean()), 0.8 * float(first.mean()))
    assert ranking_scores(scores, sample_of(source, truth, recall=0.8)) == pytest.approx(expected)


def rates(knots, scores):
    """The share of held-out edges among all rows at these scores."""
    return expit(np.interp(scores, *knots))


def test_stated_probabilities_are_the_shares_that_are_found():
    rng = np.random.default_rng(0)
    scores = rng.normal(-4, 2, size=200_000)
    edge = rng.random(200_000) < expit(scores - 1)
    # A third of the edges is held out, two thirds are missing without anybody's knowing.
    held_out = edge & (rng.random(200_000) < 1 / 3)
    knots = link_model._calibration(scores, sample_of(np.zeros(200_000, int), held_out))
    said = model_with(knots).probabilities(scores[~held_out], 200)
    found = edge[~held_out]
    for low, high in ((0.0, 0.01), (0.01, 0.05), (0.05, 0.2), (0.2, 0.5), (0.5, 1.0)):
        inside = (said >= low) & (said < high)
        assert inside.sum() > 100
        assert said[inside].mean() == pytest.approx(found[inside].mean(), rel=0.2)
    assert said.sum() == pytest.approx(found.sum(), rel=0.1)


@pytest.mark.parametrize("edges", [30, 39, 400, 405])
def test_one_edge_at_the_top_is_not_certainty(edges):
    # Scores say nothing; the highest is that of an edge.
    truth = np.zeros(4 * edges, bool)
    truth[3::4] = True
    knots = link_model._calibration(np.arange(4 * edges, dtype=float), sample_of(np.zeros(4 * edges, int), truth))
    assert (np.diff(knots) >= 0).all()
    assert expit(knots[1]).max() < 0.4
    assert expit(knots[1]).min() > 0.15


def test_weights_count_as_repeated_rows():
    rng = np.random.default_rng(0)
    scores, truth = rng.normal(size=3000), rng.random(3000) < 0.2
    sample = sample_of(np.zeros(3000, int), truth, weight=np.where(truth, 1.0, 50.0))
    expected = truth.sum() / (truth.sum() + 50 * (~truth).sum())
    assert rates(link_model._calibration(scores, sample), scores).mean() == pytest.approx(expected, rel=0.15)
    unused = sample._replace(weight=np.where(truth | (np.arange(3000) % 2 == 0), 1.0, 0.0))
    assert rates(link_model._calibration(scores, unused), scores).mean() == pytest.approx(1 / 3, rel=0.1)


def test_probabilities_are_proportional_to_the_number_of_missing_edges():
    calibrated = model_with(np.array([[-1.0, 0, 2], [-3, -2, -1]]), reference_edges=50)
    scores = np.array([-4.0, -1, 1, 2, 9])
    base = calibrated.probabilities(scores, 50)
    np.testing.assert_allclose(np.log(base), [-6, -3, -1.5, -1, -1])
    np.testing.assert_allclose(calibrated.probabilities(scores, 100), 2 * base)
    assert calibrated.probabilities(scores, 500).max() == LARGEST_PROBABILITY


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_lists_promise_what_as_long_a_list_of_the_fit_held(share):
    """Probabilities go by the rank: scores that are higher by a constant change nothing."""
    rng = np.random.default_rng(0)
    scores = np.sort(rng.normal(size=40_000))[::-1]
    truth = rng.random(40_000) < expit(2 * scores - 5)
    sample = sample_of(np.zeros(40_000, int), truth, weight=np.where(truth, 1.0, 5.0))
    calibrated = model_with(link_model._calibration(scores, sample), reference_edges=round(share * truth.sum()))
    by_rank = link_model._calibration_by_rank(calibrated, scores, sample, share)
    calibrated = replace(calibrated, rank_knots=by_rank)
    for length in (500, 2_000, 10_000):
        # So many of the best candidates stand for a list of this length.
        stood_for = np.cumsum(share * sample.weight * ~truth) <= length
        said = calibrated.probabilities_in_list(np.sort(rng.normal(9, 1, length))[::-1], calibrated.reference_edges)
        assert (np.diff(said) <= 0).all()
        assert said.sum() == pytest.approx(share * truth[stood_for].sum(), rel=0.1)


def test_missing_edges_are_a_fraction_of_all_edges():
    assert missing_edges(90, 0.1) == pytest.approx(10)
    for wrong in (0.0, 1.0, -0.1, 1.5, np.nan):
        with pytest.raises(InputError, match=f"missing_edge_fraction must be above 0 and below 1, not {wrong}"):
            missing_edges(90, wrong)


def test_density_is_the_share_of_all_pairs():
    edges = np.array([[0, 1], [1, 2]])
    for directed, count in ((False, 6), (True, 12)):
        graph = from_arrays(edges, np.ones((4, 1), np.float32), directed=directed)
        assert log_density(graph, 3) == pytest.approx(np.log(3 / count))


def test_without_ranks_a_list_goes_by_scores():
    calibrated, scores = model_with(np.array([[-1.0, 0, 2], [-3, -2, -1]])), np.array([2.0, 1, 0])
    np.testing.assert_array_equal(calibrated.probabilities_in_list(scores, 50), calibrated.probabilities(scores, 50))


def test_the_file_has_the_same_bits(learned):
    again = LinkModel.from_parts(learned.to_json(), learned.to_arrays())
    assert again.to_json() == learned.to_json()
    for name, array in learned.to_arrays().items():
        np.testing.assert_array_equal(again.to_arrays()[name], array)
    assert isinstance(again.validation, RankingScores)


def test_parts_that_do_not_fit_are_refused(learned):
    values, arrays = learned.to_json(), learned.to_arrays()
    wrong = [
        (values, {**arrays, "linear": arrays["linear"][1:]}),
        (values, {**arrays, "quadratic": arrays["linear"]}),
        (values, {**arrays, "knots": arrays["knots"][:1]}),
        (values, {**arrays, "scale": np.full_like(arrays["scale"], np.nan)}),
        ({**values, "names": ["logit"]}, arrays),
        ({**values, "reference_edges": 0}, arrays),
    ]
    for changed, parts in wrong:
        with pytest.raises(FormatError, match="the weights of the link model do not fit its features"):
            LinkModel.from_parts(changed, parts)


def test_without_validation_edges_it_is_the_logit_and_popularity(pairs):
    found = popularity_model(pairs)
    assert found.validation is None
    some = np.random.default_rng(0).integers(0, 200, (50, 2))
    features = pairs.of_pairs(some[some[:, 0] != some[:, 1]])
    degrees = features[:, 1 : 3 if pairs.graph.directed else 2].sum(axis=1)
    score = features[:, 0] + POPULARITY * (degrees - 2 * np.log1p(pairs.degrees).mean())
    np.testing.assert_allclose(found.scores(features), score, rtol=1e-9)
    # With as many missing edges as there are edges, even odds among edges and as many non-edges are the density.
    edges = pairs.graph.num_edges
    said = found.probabilities(found.scores(features), edges)
    expected = np.exp(np.minimum(score, 8) + log_density(pairs.graph, edges))
    np.testing.assert_allclose(said, np.minimum(expected, LARGEST_PROBABILITY))


def test_it_finds_held_out_edges_where_the_gaussians_know_nothing(learned, pairs, split):
    assert learned.validation.mrr > 2 * learned.gaussian_validation.mrr
    assert learned.validation.hits_at_10 > 2 * learned.gaussian_validation.hits_at_10
    assert 0.5 < learned.candidate_recall <= 1
    assert learned.reference_edges == len(split[1].edges)
    assert learned.names == pairs.names
    # If as many edges are missing as were held out, they are as many of the other candidates.
    sample = draw_sample(pairs, split[1].edges, np.random.default_rng(0))
    said = learned.probabilities(learned.scores(sample.features[~sample.truth]), len(split[1].edges))
    assert said.sum() == pytest.approx(sample.truth.sum(), rel=0.35)


def test_it_is_left_out_where_the_gaussians_are_better():
    """A held-out edge joins twins, who are alike and have nothing else in common."""
    nodes = 120
    mean = np.random.default_rng(0).normal(size=(nodes // 2, 4)).repeat(2, axis=0).astype(np.float32)
    twins = Embedding(NodeIds.numbered(nodes), mean, np.ones_like(mean), "symmetric_kl", PlattScaling(2.0, 1.0))
    drawn = np.argwhere(np.triu(np.random.default_rng(1).random((nodes, nodes)) < 0.05, 1))
    drawn = drawn[(drawn[:, 0] // 2) != (drawn[:, 1] // 2)]
    graph = from_arrays(drawn, np.ones((nodes, 1), np.float32), ids=list(range(nodes)))
    held_out = np.arange(nodes).reshape(-1, 2)
    assert fit_link_model(PairFeatures(twins, graph), held_out, np.random.default_rng(0)) is None


def test_few_held_out_edges_teach_nothing(pairs, split):
    found = fit_link_model(pairs, split[1].edges[:5], np.random.default_rng(0))
    fixed = popularity_model(pairs)
    assert found is not None
    assert found.validation is None
    np.testing.assert_array_equal(found.regression.linear, fixed.regression.linear)


def test_each_pair_of_types_has_weights_of_its_own():
    """Popular a and b are joined; a and c are joined within their group, the less popular the more."""
    rng, size, groups = np.random.default_rng(0), 80, np.arange(240) % 8
    appeal = np.repeat([0.3, 1.0, 3.0], 80)[rng.permutation(240)]
    rate = np.zeros((240, 240))
    rate[:size, size : 2 * size] = 0.04 * np.outer(appeal[:size], appeal[size : 2 * size])
    same = groups[:size, None] == groups[2 * size :]
    rate[:size, 2 * size :] = np.where(same, 0.5, 0.0)
    drawn = np.argwhere(rng.random(rate.shape) < rate)
    graph = from_arrays(drawn, np.ones((240, 1), np.float32), node_types=[*"a" * size, *"b" * size, *"c" * size])
    rest, held_out = hold_out(graph, 0.2, np.random.default_rng(0))
    typed = PairFeatures(noise(240), rest)
    found = fit_link_model(typed, held_out.edges, np.random.default_rng(0))
    assert found is not None
    of_popularity, of_groups = (np.arange(80)[:, None] + start for start in (80, 160))
    slopes = []
    for ends in (of_popularity, of_groups):
        features = typed.of_pairs(np.concatenate([np.zeros_like(ends), ends], axis=1)).mean(axis=0)
        raised = features.copy()
        raised[typed.names.index("second_degree")] += 1
        slopes.append(found.scores(raised) - found.scores(features))
    assert slopes[0] > slopes[1] + 0.3


def test_the_shift_to_the_whole_graph_is_limited(learned, split):
    whole = PairFeatures(noise(), of_communities(directed=split[0].directed))
    sure = replace(learned, candidate_recall=1e-6)
    shifted = matched_to(sure, whole, np.random.default_rng(0)).knots - sure.knots
    np.testing.assert_allclose(shifted, [[0.0] * shifted.shape[1], [-LARGEST_SHIFT] * shifted.shape[1]])


def test_a_sample_stands_for_all_candidates(pairs, split, monkeypatch):
    edges = split[1].edges
    whole = draw_sample(pairs, edges, np.random.default_rng(0))
    monkeypatch.setattr(link_model, "SAMPLED_NODES", 80)
    part = draw_sample(pairs, edges, np.random.default_rng(0))
    assert (whole.weight == 1).all(), "all nodes are drawn"
    assert part.weight[~part.truth].sum() == pytest.approx(whole.weight[~whole.truth].sum(), rel=0.15)
    assert (part.weight[part.truth] == 1).all()
    assert part.truth.sum() == whole.truth.sum(), "all held-out edges are there"
    ends = edges if pairs.graph.directed else np.concatenate([edges, edges[:, ::-1]])
    assert whole.recall == pytest.approx(whole.truth.sum() / len(ends))


def test_nodes_with_many_edges_are_always_drawn(monkeypatch):
    monkeypatch.setattr(link_model, "SAMPLED_NODES", 100)
    degrees = np.concatenate([np.full(5, 4000), np.arange(5000) % 7])
    drawn = np.array([sample_nodes(degrees, np.random.default_rng(state)) for state in range(200)])
    assert (drawn[:, :5] == 1).all(), "each stands for itself"
    assert 50 < (drawn > 0).sum(axis=1).mean() < 110
    # On average, the drawn nodes stand for all: for their number, and for that of each degree.
    assert drawn.sum(axis=1).mean() == pytest.approx(len(degrees), rel=0.03)
    assert drawn[:, degrees == 6].sum(axis=1).mean() == pytest.approx((degrees == 6).sum(), rel=0.1)
    assert (sample_nodes(degrees[:100], np.random.default_rng(0)) == 1).all(), "there are no more nodes than are drawn"
    assert sample_nodes(np.zeros(500, np.int64), np.random.default_rng(0)).any(), "nodes without any edge"


def test_both_directions_of_an_edge_are_in_one_fold(pairs, split):
    edges = split[1].edges
    seen: dict[str, Any] = {}

    def recorded(sources):
        found = candidates_of(sources)
        seen["sources"], seen["targets"] = sources, found[0]
        return found

    candidates_of = pairs.candidates
    watched = PairFeatures(pairs.embedding, pairs.graph)
    watched.candidates = recorded  # type: ignore[method-assign, assignment]
    sample = draw_sample(watched, edges, np.random.default_rng(0))
    target = seen["targets"][seen["targets"] >= 0]
    fold: dict[tuple[int, ...], set[int]] = {}
    for row in np.flatnonzero(sample.truth):
        fold.setdefault(tuple(sorted((sample.source[row], target[row]))), set()).add(int(sample.fold[row]))
    assert all(len(each) == 1 for each in fold.values())
    assert set.union(*fold.values()) == {0, 1}
    if not pairs.graph.directed:
        assert sample.truth.sum() > len(fold), "most are found from both ends"


def test_a_fold_is_scored_by_a_fit_to_the_other(pairs, split):
    sample = draw_sample(pairs, split[1].edges, np.random.default_rng(0))
    scores = link_model._cross_validated(sample)
    first = sample.fold == 0
    # Truth and features of the first fold may not change its own scores.
    flipped = sample._replace(truth=np.where(first, ~sample.truth, sample.truth))
    other = link_model._cross_validated(flipped)
    np.testing.assert_array_equal(other[first], scores[first])
    assert not np.allclose(other[~first], scores[~first])


def test_the_same_draw_has_the_same_bits(learned, pairs, split):
    again = fit_link_model(pairs, split[1].edges, np.random.default_rng(0))
    assert again is not None
    for name, array in learned.to_arrays().items():
        np.testing.assert_array_equal(again.to_arrays()[name], array)
    assert again.to_json() == learned.to_json()


def test_probabilities_of_the_whole_graph_add_up_to_the_held_out_edges(learned, split):
    graph = of_communities(directed=split[0].directed)
    whole = PairFeatures(noise(), graph)
    matched = matched_to(learned, whole, np.random.default_rng(0))
    sources = np.arange(graph.num_nodes)
    targets, features = whole.candidates(sources)
    scores = matched.scores(features[targets >= 0])
    assert learned.candidate_recall is not None
    expected = learned.candidate_recall * len(split[1].edges) * (1 if graph.directed else 2)
    said = matched.probabilities(scores, matched.reference_edges).sum()
    shift = matched.knots[1] - learned.knots[1]
    if graph.directed:  # more would be needed than is allowed
        assert shift == pytest.approx(link_model.LARGEST_SHIFT)
        assert said < expected
    else:
        assert np.ptp(shift) == pytest.approx(0, abs=1e-12)
        assert 0 < abs(shift[0]) < link_model.LARGEST_SHIFT
        assert said == pytest.approx(expected, rel=0.02)
    np.testing.assert_array_equal(matched.knots[0], learned.knots[0])
    fixed = popularity_model(whole)
    assert matched_to(fixed, whole, np.random.default_rng(0)) is fixed
