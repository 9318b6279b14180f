"""Maps: clusters that are far apart stay apart, the main axes are those that were planted."""

import numpy as np
import pytest

from glace.gaussian.embedding import Embedding
from glace.ids import NodeIds
from glace.queries import layout as module
from glace.queries.layout import layout, main_axes, principal


def points(mean):
    mean = np.asarray(mean, dtype=np.float32)
    return Embedding(NodeIds(list(range(len(mean)))), mean, None, "dot")


def two_clusters(count):
    rng = np.random.default_rng(0)
    return points(np.repeat([[0.0] * 4, [9.0] * 4], count, axis=0) + 0.1 * rng.normal(size=(2 * count, 4)))


def test_clusters_stay_apart_and_the_same_seed_draws_the_same_map(monkeypatch):
    pytest.importorskip("openTSNE")
    monkeypatch.setattr(module, "EARLY", 20)
    monkeypatch.setattr(module, "LATE", 40)
    embedding = two_clusters(12)
    told: list[tuple[float, str]] = []
    found = layout(embedding, random_state=1, progress=lambda *what: told.append(what))
    assert found.shape == (24, 2)
    gaps = np.linalg.norm(found[:, None] - found[None, :], axis=2)
    assert gaps[:12, :12].max() < gaps[:12, 12:].min()
    np.testing.assert_array_equal(layout(embedding, random_state=1), found)
    assert not np.array_equal(layout(embedding, random_state=2), found)
    heard = [share for share, _ in told]
    assert heard == sorted(heard)
    assert told[:2] == [(0, "finding neighbours"), (module.NEIGHBORS_DONE, "moving nodes")]
    assert len(heard) == 2 + 60 / module.BETWEEN_REPORTS
    assert heard[-1] == 1


@pytest.mark.parametrize(
    ("count", "perplexity", "method"), [(4, 1.0, "bh"), (31, 10.0, "bh"), (4999, 30.0, "bh"), (5000, 10.0, "fft")]
)
def test_perplexity_and_method_depend_on_the_number_of_nodes(monkeypatch, count, perplexity, method):
    opentsne = pytest.importorskip("openTSNE")
    seen: dict[str, object] = {}

    class Recorder:
        def __init__(self, start, affinities, **options):
            seen.update(options, start=start, perplexity=affinities)

        def optimize(self, *_, **__):
            pass

        def __array__(self, dtype=None, copy=None):
            return np.asarray(seen["start"], dtype=dtype, copy=copy)

    monkeypatch.setattr(opentsne, "TSNEEmbedding", Recorder)
    monkeypatch.setattr("openTSNE.affinity.PerplexityBasedNN", lambda _points, perplexity, **_: perplexity)
    mean = np.random.default_rng(0).normal(size=(count, 3))
    assert layout(points(mean)).shape == (count, 2)
    assert (seen["perplexity"], seen["negative_gradient_method"]) == (perplexity, method)


def test_the_principal_axes_are_those_along_which_points_vary_most():
    steps = np.array([-2.0, -1.0, 1.0, 2.0])
    mean = np.vstack([np.outer(steps, [0, 0, -3.0]), np.outer(steps, [0, 1.0, 0])]) + 5
    np.testing.assert_allclose(main_axes(mean), [[0, 0], [0, 1], [1, 0]], atol=1e-12)
    found = principal(points(mean))
    np.testing.assert_allclose(found[:4], np.outer(steps, [-3, 0]), atol=1e-5)
    np.testing.assert_allclose(found[4:], np.outer(steps, [0, 1]), atol=1e-5)
    line = principal(points([[1.0], [4.0]]))
    np.testing.assert_allclose(line, [[-1.5, 0], [1.5, 0]], err_msg="one dimension lies on the first axis")
