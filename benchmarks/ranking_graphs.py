"""The two synthetic graphs of `benchmarks.ranking`, and the best order of the pairs of the first."""

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.graph.arrays import from_arrays
from glace.graph.graph import Graph
from glace.rng import Streams

NODES, COMMUNITIES, DEGREE = 3000, 15, 12.0
BETWEEN = 0.03
"""Affinity of nodes of different communities; that of nodes of one community is 1."""
WORDS, COLUMNS = 12, 600

USERS, ITEMS, RATINGS = 943, 1682, 100_000
GENRES, TASTES = 18, 6
TASTE = 1.4
"""Weight of taste beside the logarithm of popularity."""

Probabilities = npt.NDArray[np.float64]


def edge_probabilities(nodes: int = NODES, degree: float = DEGREE) -> tuple[Probabilities, npt.NDArray[np.int64]]:
    """Return the probability (n, n) of each edge of the popularity graph, and the communities (n,).

    It is proportional to the popularity of both nodes, which is log-normal, and to the affinity of their communities.
    A pair that is not joined in training is a hidden edge with a probability that grows with this one, so that the
    order by it is the best there can be.
    """
    streams = Streams(0)
    community = streams.numpy("communities").permutation(np.arange(nodes) % COMMUNITIES)
    popularity = streams.numpy("popularity").lognormal(0, 1, nodes)
    chance = np.outer(popularity, popularity) * np.where(community[:, None] == community, 1.0, BETWEEN)
    np.fill_diagonal(chance, 0)
    chance *= degree * nodes / chance.sum()
    return np.minimum(chance, 0.9), community


def popularity_graph(nodes: int = NODES, degree: float = DEGREE) -> Graph:
    """Draw each edge of the popularity graph; attributes are words, half of them of the community's own."""
    chance, community = edge_probabilities(nodes, degree)
    generator = Streams(0).numpy("edges")
    edges = np.argwhere(np.triu(generator.random(chance.shape) < chance))
    own = (
        generator.integers(COLUMNS // COMMUNITIES, size=(nodes, WORDS))
        + (community * (COLUMNS // COMMUNITIES))[:, None]
    )
    words = np.where(generator.random(own.shape) < 0.5, own, generator.integers(COLUMNS, size=own.shape))
    entries = (np.ones(words.size), (np.repeat(np.arange(nodes), WORDS), words.ravel()))
    return from_arrays(edges, sp.csr_array(entries, shape=(nodes, COLUMNS)), labels=[str(each) for each in community])


def user_item_graph(users: int = USERS, items: int = ITEMS, ratings: int = RATINGS) -> Graph:
    """Draw a graph in the shape of MovieLens: users, items with genres, and ratings from 1 to 5 as weights.

    A user rates items by their popularity, which follows a power law, and by the product of the user's tastes with
    those of the item, which are the mean of its genres' and noise. The rating depends on the tastes alone.
    """
    generator = Streams(0).numpy("ratings")
    genres = generator.random((items, GENRES)) < generator.dirichlet(np.ones(GENRES)) * 1.8
    genres[np.arange(items), generator.integers(GENRES, size=items)] = True
    of_genre = generator.normal(size=(GENRES, TASTES))
    of_item = genres @ of_genre / genres.sum(axis=1, keepdims=True) + 0.5 * generator.normal(size=(items, TASTES))
    affinity = generator.normal(size=(users, TASTES)) @ of_item.T / np.sqrt(TASTES)
    popularity = -0.9 * np.log(generator.permutation(np.arange(10, items + 10)))
    activity = generator.lognormal(0, 0.9, users)
    counts = np.clip(np.round(activity * ratings / activity.sum()), min(20, items // 4), items // 2).astype(int)
    # The highest of logarithms plus Gumbel noise are a draw without replacement.
    order = np.argsort(-(popularity + TASTE * affinity + generator.gumbel(size=affinity.shape)), axis=1)
    edges = np.array([(user, item) for user in range(users) for item in order[user, : counts[user]].tolist()])
    stars = np.round(3.5 + 0.8 * affinity[tuple(edges.T)] + 0.7 * generator.normal(size=len(edges)))
    return from_arrays(
        edges + np.array([0, users]),
        {"item": sp.csr_array(genres.astype(np.float32))},
        weights=np.clip(stars, 1, 5),
        node_types=["user"] * users + ["item"] * items,
    )
