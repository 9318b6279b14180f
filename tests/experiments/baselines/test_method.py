"""Training by steps until a limit; raw attributes as points."""

import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import glace
from glace.errors import InputError, TooLarge, TrainingDiverged
from glace.experiments.baselines.method import Descent, RawAttributes
from glace.gaussian.embedding import Embedding
from glace.metrics import LinkScores
from glace.rng import Streams


class Bare(Descent):
    """Training alone, which nothing embeds."""

    def embed(self, *_: Any, **__: Any) -> Embedding:
        raise NotImplementedError


def test_what_is_not_finite_at_a_look_ends_training():
    network = torch.nn.Linear(2, 1)
    descent = Bare(max_steps=10, validate_every=3)
    with pytest.raises(TrainingDiverged, match="not finite at step 3 with learning rate 0.01; try a smaller"):
        descent.train(network, lambda step: network(torch.ones(2)).sum(), lambda: LinkScores(math.nan, math.nan))


def test_each_step_is_asked_for_by_its_number():
    network = torch.nn.Linear(2, 1)
    asked = []

    def loss(step):
        asked.append(step)
        return network(torch.ones(2)).sum()

    assert Bare(max_steps=4).train(network, loss, None).step == 4
    assert asked == [0, 1, 2, 3]


# Raw attributes as points: untouched, and only where they fit into memory.


EDGES = np.array([[0, 1], [1, 2]])
ROWS = np.array([[0, 2.5, 0], [1, 0, 0], [0, 0, 0], [0, 0, 3]])


def embed(graph, unseen=None, **options):
    return RawAttributes(**options).embed(graph, Streams(0), unseen)


@pytest.mark.parametrize("dense", [False, True])
def test_points_are_the_attributes(dense):
    graph = glace.from_arrays(EDGES, ROWS if dense else sp.csr_array(ROWS), ids=list("abcd"))
    embedding = embed(graph)
    np.testing.assert_array_equal(embedding.mean, ROWS.astype(np.float32))
    assert (embedding.mean.dtype, embedding.variance, embedding.dissimilarity) == (np.float32, None, "dot")
    assert list(embedding.ids) == list("abcd")


@pytest.mark.parametrize("dense", [False, True])
def test_unseen_rows_are_appended(dense):
    graph = glace.from_arrays(EDGES, sp.csr_array(ROWS), ids=list("abcd"))
    new = np.array([[7, 0, 0.5]], np.float32)
    embedding = embed(graph, new if dense else sp.csr_array(new))
    np.testing.assert_array_equal(embedding.mean, np.vstack([ROWS, new]).astype(np.float32))
    assert list(embedding.ids) == [*"abcd", "unseen 0"]


def test_the_graph_keeps_its_own_numbers():
    graph = glace.from_arrays(EDGES, ROWS)
    before = graph.fingerprint()
    assert embed(graph).mean.flags.owndata
    assert graph.fingerprint() == before


def test_a_node_without_attributes_is_its_own_number():
    bare = glace.from_arrays(EDGES, ROWS).without_attributes()
    np.testing.assert_array_equal(embed(bare).mean, np.eye(4))


def test_too_many_numbers_are_refused_before_they_are_made():
    wide = sp.csr_array(([1.0], ([0], [10**7])), shape=(4, 10**7 + 1), dtype=np.float32)
    message = r"raw attributes of 4 nodes are 0\.2 GB as points, more than most_gigabytes=0\.1; allow more, or choose"
    with pytest.raises(TooLarge, match=message):
        embed(glace.from_arrays(EDGES, wide, ids=range(4)), most_gigabytes=0.1)
    with pytest.raises(TooLarge, match="of 5 nodes are 0.2 GB"):
        embed(glace.from_arrays(EDGES, wide, ids=range(4)), wide[[0]], most_gigabytes=0.18)
    with pytest.raises(TooLarge, match="most_gigabytes=1e-08"):
        embed(glace.from_arrays(EDGES, ROWS), most_gigabytes=1e-8)


def test_options_are_checked():
    with pytest.raises(InputError, match="most_gigabytes must be a number above 0, not -1"):
        RawAttributes(most_gigabytes=-1)
