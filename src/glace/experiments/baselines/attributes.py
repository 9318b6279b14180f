"""Raw attributes as an embedding: what edges add is measured against it."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from glace.errors import TooLarge
from glace.experiments.baselines.method import with_unseen
from glace.gaussian.embedding import Embedding
from glace.graph.graph import Graph
from glace.graph.split import HeldOut
from glace.options import Configuration, option
from glace.rng import Streams


@dataclass(frozen=True)
class RawAttributes(Configuration):
    """A node's attributes, untouched, as a point."""

    most_gigabytes: float = option(4.0, "Most memory for all points, which are dense.", above=0)

    name: ClassVar[str] = "attributes"
    inductive: ClassVar[bool] = True

    def embed(
        self,
        graph: Graph,
        streams: Streams,  # noqa: ARG002 - nothing is drawn
        unseen: Any = None,
        validation: HeldOut | None = None,  # noqa: ARG002 - nothing is trained
    ) -> Embedding:
        """The rows of the graph's attributes, then the unseen ones."""
        rows = [graph.features(), *([] if unseen is None else [unseen])]
        count = sum(each.shape[0] for each in rows)
        gigabytes = 4e-9 * count * rows[0].shape[1]
        if gigabytes > self.most_gigabytes:
            raise TooLarge(
                f"raw attributes of {count:,} nodes are {gigabytes:.1f} GB as points, more than "
                f"most_gigabytes={self.most_gigabytes:g}; allow more, or choose another method"
            )
        mean = np.concatenate([each.toarray() if sp.issparse(each) else each for each in rows])
        ids = with_unseen(graph.ids, 0 if unseen is None else unseen.shape[0])
        return Embedding(ids, mean.astype(np.float32, copy=False), None, "dot")
