"""Raw attributes as an embedding: the baseline that uses no edges."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from glace.errors import TooLarge
from glace.experiments.baselines.method import all_attributes, with_unseen
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph
from glace.graph.split import HeldOut
from glace.options import Configuration, option
from glace.rng import Streams
from glace.sparse import Matrix


@dataclass(frozen=True)
class RawAttributes(Configuration):
    """The unchanged attributes of a node, as a point."""

    most_gigabytes: float = option(4.0, "Most memory for the points, which are dense.", above=0)

    name: ClassVar[str] = "attributes"
    inductive: ClassVar[bool] = True

    def embed(
        self,
        graph: Graph,
        streams: Streams,  # noqa: ARG002 - nothing is random
        unseen: Matrix | None = None,
        validation: HeldOut | None = None,  # noqa: ARG002 - nothing is trained
    ) -> Embedding:
        """Return the rows of the graph's attributes, then the unseen ones."""
        rows = all_attributes(graph, unseen)
        gigabytes = 4e-9 * rows.shape[0] * rows.shape[1]
        if gigabytes > self.most_gigabytes:
            raise TooLarge(
                f"raw attributes of {rows.shape[0]:,} nodes are {gigabytes:.1f} GB as points, more than "
                f"most_gigabytes={self.most_gigabytes:g}; allow more, or choose another method"
            )
        mean = rows.toarray() if isinstance(rows, sp.csr_array) else np.array(rows)
        return Embedding(with_unseen(graph.ids, len(mean)), mean, None, "dot")
