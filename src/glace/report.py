"""The report of a fitted model: what was learned, how well, and what to beware of, as blocks of a document."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from glace.config.config import METHODS
from glace.drawing.document import Block, Cell, Column, Heading, Picture, Table, text_column
from glace.drawing.plots import Line, draw_lines, draw_map
from glace.fitted.model import FittedModel
from glace.queries.clusters import Clusters
from glace.queries.links import Links

EXAMPLES, NEIGHBORS, LINKS = 5, 5, 10
"""Nodes whose neighbours are shown, neighbours of each, and proposed links."""
LARGEST_SEARCH = 20_000
"""Number of nodes up to which the links of the whole graph are searched; above, those of the examples."""
COLOURS = 12
"""Categories with a colour of their own on the map."""
FEW_PAIRS, LOW_AUC, HIGH_ERROR, MANY_ISOLATED = 200, 0.75, 0.05, 0.05
"""Limits of what is worth a warning: validation edges, validation AUC, calibration error, share of nodes without
edges."""
DEGREES = (0, 1, 2, 4, 8, 16, 64)
"""Where the groups of nodes by their number of edges begin."""


@dataclass(frozen=True)
class MapOfNodes:
    """Positions (n, 2) of the nodes on the map, and their clusters."""

    positions: npt.NDArray[np.floating]
    clusters: Clusters


def model_report(
    model: FittedModel, drawn: MapOfNodes, title: str, progress: Callable[[float], None] | None = None
) -> list[Block]:
    """Return the report of a model, results before details.

    Parameters
    ----------
    model : FittedModel
        The model.
    drawn : MapOfNodes
        Its map.
    title : str
        What the model is called.
    progress : callable, optional
        Is called with the share of the search for links that is done.
    """
    nodes = drawn.clusters.central_node[:EXAMPLES].tolist()
    return [
        Heading(title, 1),
        _summary(model),
        *_warnings(model),
        *_measures(model),
        *_map(model, drawn),
        *_neighbors(model, nodes),
        *_links(model, nodes, progress),
        *_certainty(model),
        *_facts(model),
    ]


def _summary(model: FittedModel) -> str:
    kind, (nodes, dimensions) = "point" if model.embedding.variance is None else "Gaussian", model.embedding.shape
    edges = "" if model.graph is None else f" and {model.graph.num_edges:,} edges"
    best = model.history.best
    told = (
        ""
        if best is None
        else f" Edges that training did not see are told from random pairs with an AUC of {best.auc:.3f}."
    )
    return (
        f"One {kind} with {dimensions} dimensions for each of {nodes:,} nodes{edges}, "
        f"trained by {model.method} in {model.history.step:,} steps.{told}"
    )


def _warnings(model: FittedModel) -> list[Block]:
    """What a reader should beware of, as far as the model tells."""
    best, graph, calibration = model.history.best, model.graph, model.calibration
    auc, error = 0.0 if best is None else best.auc, 0.0 if calibration is None else calibration.error
    pairs = 0 if model.validation is None else len(model.validation.edges)
    alone = 0.0 if graph is None else float((np.diff(graph.neighborhoods().indptr) == 0).mean())
    found = {
        "No edges were held out: nothing is known about how well the model predicts.": best is None,
        f"Only {pairs:,} edges were held out: the measures below are rough.": best is not None and pairs < FEW_PAIRS,
        f"The validation AUC is {auc:.2f}: attributes and edges hardly predict other edges.": 0 < auc < LOW_AUC,
        f"Probabilities are off by {error:.1%} on average.": error > HIGH_ERROR,
        f"{alone:.0%} of the nodes have no edge: their positions come from their attributes alone.": alone
        > MANY_ISOLATED,
        "The model was trained without attributes: it cannot embed new nodes.": not any(
            each.width for each in model.node_types
        ),
        "Links are ranked by the Gaussians alone, without a link model.": (
            model.link_model is None and METHODS[model.method].link_model
        ),
        "The model keeps no edges, as its graph is too large: links cannot be proposed here.": graph is None,
    }
    always = (
        f"Probabilities of links assume that {model.missing_edge_fraction:.1%} of all edges are missing; how many are, "
        "no graph can tell. Alike is not linked: most pairs of very similar nodes have no edge. The variance of a node "
        "is not its certainty."
    )
    return [Heading("What to beware of", 2), *(text for text, is_so in found.items() if is_so), always]


def _measures(model: FittedModel) -> list[Block]:
    """Validation AUC, ranking of links, and whether probabilities hold, with curves."""
    best, links, calibration = model.history.best, model.link_model, model.calibration
    rows: list[tuple[str, str]] = []
    if best is not None:
        rows += [("Validation AUC of the Gaussians", f"{best.auc:.4f}"), ("Average precision", f"{best.ap:.4f}")]
    if links is not None and links.validation is not None and links.gaussian_validation is not None:
        for name, each in (("link model", links.validation), ("Gaussians alone", links.gaussian_validation)):
            rows.append(
                (f"Validation edges ranked by the {name}", f"MRR {each.mrr:.3f}, Hits@10 {each.hits_at_10:.3f}")
            )
    if calibration is not None:
        rows += [
            ("Mean error of probabilities", f"{calibration.error:.4f}"),
            ("Brier score", f"{calibration.brier:.4f}"),
        ]
    if not rows:
        return []
    blocks: list[Block] = [Heading("How well it predicts", 2), _two_columns("Measure", "Value", rows)]
    return [*blocks, *_training_curve(model), *_calibration_curve(model)]


def _training_curve(model: FittedModel) -> list[Block]:
    points = [(float(point.step), point.auc) for point in model.history.validation_points]
    if not points:
        return []
    png = draw_lines({"Training": [Line("validation edges", "glace", points)]}, "step", "validation AUC")
    return [Picture("training", png, "Validation AUC in the course of the training")]


def _calibration_curve(model: FittedModel) -> list[Block]:
    if model.calibration is None:
        return []
    held = [(100 * each.predicted, each.observed) for each in model.calibration.bins if each.pairs]
    lines = [Line("validation pairs", "glace", held), Line("exact", "attributes-first", [(0.0, 0.0), (100.0, 1.0)])]
    png = draw_lines({"Calibration": lines}, "predicted probability (%)", "share of edges")
    guide = (
        "Calibration: of the validation pairs with about this predicted probability, the share that are edges. On the "
        "dashed line, probabilities are what they say. Half of these pairs are edges."
    )
    return [Picture("calibration", png, "Calibration of the probabilities"), guide]


def _map(model: FittedModel, drawn: MapOfNodes) -> list[Block]:
    """The map, coloured by labels or else by clusters, and the clusters."""
    graph, found = model.graph, drawn.clusters
    by_label = graph is not None and graph.labels is not None
    categories = graph.labels if graph is not None and graph.labels is not None else found.categories()
    codes, names = _most_frequent(categories.codes, categories.names)
    title = f"{len(codes):,} nodes by {'label' if by_label else 'cluster'}"
    columns = (
        text_column("Cluster", (str(each) for each in found.name)),
        Column("Nodes", tuple(Cell(f"{each:,}") for each in found.size.tolist())),
        text_column("Central nodes", (str(each) for each in found.examples)),
    )
    caption = "Each point is a node; nodes with similar Gaussians are close. Distances between far regions mean little."
    return [
        Heading("Map and clusters", 2),
        Picture("map", draw_map(drawn.positions, codes, names, title), title),
        caption,
        Table(columns),
    ]


def _most_frequent(codes: npt.NDArray[np.integer], names: Sequence[str]) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Codes of the most frequent categories, and one for all others and for none."""
    counts = np.bincount(codes[codes >= 0], minlength=len(names))
    kept = np.argsort(-counts, kind="stable")[:COLOURS]
    rank = np.full(len(names) + 1, len(kept))
    rank[kept] = np.arange(len(kept))
    found = rank[codes]
    rest = [f"{max(len(names) - len(kept), 0):,} others, or none"] if (found == len(kept)).any() else []
    return found, [*(names[each] for each in kept.tolist()), *rest]


def _neighbors(model: FittedModel, nodes: Sequence[str | int]) -> list[Block]:
    found = model.neighbors(list(nodes), NEIGHBORS)
    listed = [
        ", ".join(str(each) for each, query in zip(found.id, found.query, strict=True) if str(query) == str(node))
        for node in nodes
    ]
    table = _two_columns("Node", "Most like it", list(zip(map(str, nodes), listed, strict=True)))
    return [Heading("Neighbours", 2), "The central nodes of the largest clusters, and the nodes most like them.", table]


def _links(model: FittedModel, nodes: Sequence[str | int], progress: Callable[[float], None] | None) -> list[Block]:
    if model.graph is None or model.graph.num_edges == 0:
        return []
    whole = len(model.embedding) <= LARGEST_SEARCH
    found = [model.links(k=LINKS, why=True, progress=progress)] if whole else []
    found = found or [model.links(node, k=2, why=True) for node in nodes]
    scope = "of the whole graph" if whole else "of the central nodes above"
    return [
        Heading("Proposed links", 2),
        f"The most probable edges {scope} that it does not have, if {model.missing_edge_fraction:.1%} of all edges are "
        "missing.",
        _link_table(found),
    ]


def _link_table(found: Sequence[Links]) -> Table:
    rows = [row for each in found for row in each.rows()]
    columns = [text_column(name.capitalize(), (str(row[name]) for row in rows)) for name in ("source", "target")]
    chances = Column("Probability", tuple(Cell(f"{row['probability']:.1%}") for row in rows))
    return Table((*columns, chances, text_column("Why", (str(row["why"]) for row in rows))))


def _certainty(model: FittedModel) -> list[Block]:
    """Certainty by the number of edges, and the nodes with the least."""
    certainty, graph = model.embedding.certainty, model.graph
    if certainty is None or graph is None:
        return []
    degrees = np.diff(graph.neighborhoods().indptr)
    groups = np.searchsorted(DEGREES, degrees, side="right") - 1
    rows = []
    for group, begin in enumerate(DEGREES):
        here = groups == group
        if here.any():
            end = DEGREES[group + 1] - 1 if group + 1 < len(DEGREES) else None
            name = f"{begin} or more" if end is None else str(begin) if begin == end else f"{begin} to {end}"
            rows.append((name, f"{int(here.sum()):,}", f"{float(certainty[here].mean()):.2f}"))
    names, counts, means = zip(*rows, strict=True)
    table = Table(
        (
            text_column("Edges", names),
            Column("Nodes", tuple(map(Cell, counts))),
            Column("Mean certainty", tuple(map(Cell, means))),
        )
    )
    least = np.argsort(certainty, kind="stable")[:EXAMPLES]
    listed = ", ".join(str(model.embedding.ids[node]) for node in least.tolist())
    guide = "The certainty of a node is a rank: the share of the nodes that the model is less certain of."
    return [Heading("Certainty", 2), guide, table, f"Least certain: {listed}."]


def _facts(model: FittedModel) -> list[Block]:
    selected = ", ".join(f"{name} = {value}" for name, value in model.selection.options.items())
    trials = len(model.selection.trials)
    attributes = ", ".join(
        f"{each.name + ': ' if each.name else ''}{each.width:,}" for each in model.node_types if each.width is not None
    )
    rows = [
        ("Method", model.method),
        ("Dissimilarity", model.embedding.dissimilarity),
        ("Direction", "directed" if model.directed else "undirected"),
        ("Attributes", attributes or "none"),
        ("Selected options", f"{selected} ({trials} trials)" if selected else "none"),
        ("Purpose", model.config.model.purpose),
        ("Random state", str(model.config.run.random_state)),
    ]
    return [Heading("What was trained", 2), _two_columns("", "", rows)]


def _two_columns(first: str, second: str, rows: Sequence[tuple[str, str]]) -> Table:
    names, values = zip(*rows, strict=True)
    return Table((text_column(first, names), text_column(second, values)))
