"""Pairs of which one or both nodes are new, beside the answers for known nodes and for links of new nodes."""

import numpy as np
import pandas as pd
import pytest

from glace.errors import InputError


@pytest.fixture(scope="module")
def new(fitted, planted):
    return fitted.transform(planted.attributes[:5], ids=[1000, 1001, 1002, 1003, 1004])


def test_a_new_node_has_the_probabilities_of_its_links(fitted, new):
    model = fitted.model_
    found = model.links(new, k=400)
    pairs = [(int(a), int(b)) for a, b in zip(found.source, found.target, strict=True)]
    scores = model.score_pairs(pairs, new)
    np.testing.assert_allclose(scores.probability, found.probability, rtol=1e-6)
    np.testing.assert_allclose(scores.dissimilarity, found.dissimilarity, rtol=1e-6)
    np.testing.assert_array_equal(scores.source, found.source)
    assert not scores.known.any()
    turned = model.score_pairs([(b, a) for a, b in pairs[:9]], new)
    np.testing.assert_allclose(turned.probability, scores.probability[:9], rtol=1e-6)


def test_known_pairs_keep_their_scores(fitted, new, planted):
    model = fitted.model_
    pairs = [(7, 9), tuple(planted.edges()[0].tolist())]
    alone, among = model.score_pairs(pairs), model.score_pairs([*pairs, (1000, 7)], new)
    np.testing.assert_array_equal(among.probability[:2], alone.probability)
    assert among.known.tolist() == [False, True, False]


def test_two_new_nodes(fitted, new):
    found = fitted.score_pairs([(1000, 1001)], new)
    assert found.dissimilarity[0] == pytest.approx(new.dissimilarities_at(np.array([[0, 1]]))[0], rel=1e-6)
    assert 0 < found.probability[0] < 1


def test_rows_serve_as_well_as_what_transform_returned(fitted, new, planted):
    rows = planted.attributes[:5]
    wanted = fitted.score_pairs([(1001, 30)], new).probability
    with pytest.raises(InputError, match="0 is the id of a known node and of a new one; give the new nodes other ids"):
        fitted.score_pairs([(0, 30)], rows)
    frame = pd.DataFrame(rows.toarray()).rename(columns=str)
    frame.insert(0, "id", [f"new {row}" for row in range(5)])
    found = fitted.score_pairs([("new 1", 30)], frame)
    np.testing.assert_array_equal(found.probability, wanted)
    assert found.to_arrow().to_pylist()[0]["source"] == "new 1"
    assert found.to_arrow().to_pylist()[0]["target"] == 30


def test_a_novel_node_has_the_density_of_the_graph(fitted, planted):
    row = np.zeros((1, 120))
    odd = fitted.transform(row, ids=["odd"])
    odd.novel[:] = True
    found = fitted.score_pairs([("odd", 3), ("odd", 4)], odd)
    assert found.novel.all()
    density = planted.num_edges / (400 * 399 / 2)
    np.testing.assert_allclose(found.probability, density, rtol=0.01)


def test_unknown_ids(fitted, new):
    with pytest.raises(InputError, match="no node 5000"):
        fitted.score_pairs([(1000, 5000)], new)
    with pytest.raises(InputError, match="give a list of pairs of ids"):
        fitted.score_pairs(["ab"], new)
