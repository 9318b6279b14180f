"""GLACE as published, and its relatives with points in place of Gaussians: other defaults of the same estimator."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from glace.estimators.glace import GLACE, check_graph
from glace.graph.graph import Graph
from glace.training.update import Update


@dataclass(repr=False, eq=False)
class PublishedGLACE(GLACE):
    """GLACE as the paper and its authors' code have it: attributes alone, both proximities, no offset."""

    ensemble_size: int = 1
    proximity: str = "both"
    neighbor_features: str = "none"
    dropout: float | str = 0.0
    offset: float | str = 0.0
    negative_power: float = 0.75
    learning_rate: float = 3e-3
    patience: int = 5

    method: ClassVar[str] = "glace-published"


@dataclass(repr=False, eq=False)
class LACE(GLACE):
    """The same with a point instead of a Gaussian per node, the paper's LACE: no variance, dot product."""

    hidden: int = 256
    ensemble_size: int = 1
    neighbor_features: str = "none"
    dropout: float | str = 0.0
    offset: float | str = "learned"
    patience: int = 5

    method: ClassVar[str] = "lace"
    gaussian: ClassVar[bool] = False


@dataclass(repr=False, eq=False)
class LINE(LACE):
    """LACE that looks at edges only, each node having its own number as its one attribute: LINE."""

    proximity: str = "both"
    activation: str = "linear"
    n_negatives: int = 1
    # Each node learns from its own edges only, so training is as long as the edges are many.
    max_epochs: float | None = 60.0

    method: ClassVar[str] = "line"

    def fit(self, graph: Graph, **options: Any) -> Self:
        """Learn from the edges of a graph; see `GLACE.fit`."""
        check_graph(graph)
        return super().fit(graph.without_attributes(), **options)

    def update(self, graph: Graph, **options: Any) -> Update:
        """Go on with the edges of a graph; see `GLACE.update`."""
        check_graph(graph)
        return super().update(graph.without_attributes(), **options)


ESTIMATORS: dict[str, type[GLACE]] = {each.method: each for each in (GLACE, PublishedGLACE, LACE, LINE)}
