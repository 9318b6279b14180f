"""`glace demo`: training, evaluation and questions on the bundled graph, in a minute."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from glace.cli.arguments import Json, NJobs, Quiet
from glace.cli.screen import Screen, check_outputs, in_words, training_listener, write_record
from glace.errors import InputError
from glace.storage.files import make_folder

if TYPE_CHECKING:
    from glace.estimators import GLACE
    from glace.fitted.model import FittedModel
    from glace.gaussian.embedding import Embedding
    from glace.graph.graph import Graph
    from glace.graph.split import HeldOut

KNOWN = ("n:dog", "n:piano", "n:apple")
INVENTED = ("a small wild cat with spotted fur that hunts at night", "a sweet dessert of baked dough filled with fruit")
TEST_SHARE = 0.1
LINKS = 1000
STEPS = 1500
"""Half of the default: a demo should not take minutes, and the AUC is the same to a few thousandths."""


def demo(
    output: Annotated[Path, Option("--output", "-o", help="Folder for the files.")] = Path("glace-demo"),
    random_state: Annotated[int, Option(help="Seed of all random numbers.")] = 0,
    n_jobs: NJobs = -1,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Train on the bundled graph of nouns, predict held-out edges, and show neighbours of known and new nodes."""
    import glace
    from glace.experiments.evaluation.link_prediction import attribute_prediction, link_prediction

    screen, files = Screen(quiet), _files(output)
    check_outputs(*files, json)
    model = glace.GLACE(max_steps=STEPS, purpose="nodes", random_state=random_state, n_jobs=n_jobs)
    model.config()  # raises now if an option has a bad value
    graph = glace.datasets.load("wordnet-nouns")
    screen.say(f"wordnet-nouns: {graph!r}")
    known, held_out = glace.hold_out(graph, TEST_SHARE, glace.Streams(random_state).numpy("demo"))
    screen.say(f"{len(held_out.edges):,} edges are held out for the test; training on the rest")
    with screen.progress("training") as report:
        model.fit(known, listener=training_listener(report))
    screen.say("options: " + in_words(model.selection_.options))
    ours, raw = link_prediction(model.embedding_, held_out), attribute_prediction(known, held_out)
    rows = [("Gaussians of glace", *ours), ("raw words of the definitions", *raw)]
    screen.table(["held-out edges predicted by", "AUC", "AP"], rows)
    links = _show_links(model, held_out, screen)
    _show_neighbors(model.embedding_, screen)
    _show_certainty(model.model_, screen)
    _show_invented(model, screen)
    _write(model, graph, files, random_state, screen)
    values = {"auc": ours.auc, "ap": ours.ap, "attributes_auc": raw.auc, "attributes_ap": raw.ap}
    values |= {"seconds": model.history_.seconds, **links}
    write_record(json, "demo", values, dataset="wordnet-nouns", random_state=random_state)


def _show_links(model: "GLACE", held_out: "HeldOut", screen: Screen) -> dict[str, float]:
    """Count the held-out edges among the most probable links, beside what the probabilities promise."""
    found = model.model_.links(k=LINKS, missing_edge_fraction=TEST_SHARE)
    pairs = model.embedding_.positions_of(list(zip(found.source.tolist(), found.target.tolist(), strict=True)))
    hidden = {frozenset(pair) for pair in held_out.edges.tolist()}
    right, promised = sum(frozenset(pair) in hidden for pair in pairs.tolist()), float(found.probability.sum())
    screen.say(
        f"{right:,} of the {len(found):,} most probable links are held-out edges; by their probabilities it should be "
        f"{promised:,.0f}"
    )
    screen.say()
    return {"links_right": right, "links_promised": promised}


def _show_neighbors(embedding: "Embedding", screen: Screen) -> None:
    for node in KNOWN:
        found = embedding.neighbors(node, k=6)
        screen.say(f"most similar to {node}:  " + ", ".join(str(each) for each in found.id))
    screen.say()


def _show_certainty(model: "FittedModel", screen: Screen) -> None:
    """Show the nodes that the model knows best and least, with their expected errors and what speaks against them."""
    import numpy as np

    errors, graph = model.embedding.expected_error, model.graph
    assert errors is not None
    assert graph is not None
    order, edges = np.argsort(errors, kind="stable"), np.diff(graph.adjacency.indptr)
    doubts = model.doubts([model.embedding.ids[node] for node in order[-3:].tolist()])
    best = [f"{model.embedding.ids[node]} ({100 * errors[node]:.1f} %, {edges[node]} edges)" for node in order[:3]]
    worst = [
        f"{model.embedding.ids[node]} ({100 * errors[node]:.0f} %: {doubt})"
        for node, doubt in zip(order[-3:].tolist(), doubts, strict=True)
    ]
    screen.say(f"fewest wrong answers expected:  {', '.join(best)}")
    screen.say(f"most wrong answers expected:    {', '.join(worst[::-1])}")
    screen.say()


def _show_invented(model: "GLACE", screen: Screen) -> None:
    new = model.transform(INVENTED)
    rows, _ = model.embedding_.nearest_to(new, 5)
    screen.say("new nodes, embedded from their text alone:")
    for text, places in zip(INVENTED, rows, strict=True):
        screen.say(f'  "{text}"')
        screen.say("    is similar to " + ", ".join(str(model.embedding_.ids[place]) for place in places))
    screen.say()


def _files(folder: Path) -> list[Path]:
    make_folder(folder)
    return [folder / name for name in ("nouns.glace", "nouns.parquet", "map.png")]


def _write(model: "GLACE", graph: "Graph", files: list[Path], random_state: int, screen: Screen) -> None:
    from glace.gaussian.embedding_file import write_embedding

    model.save(files[0])
    write_embedding(model.embedding_, files[1])
    screen.say(f"wrote {files[0]}, {files[1]}")
    try:
        _draw(model, graph, files[2], random_state, screen)
    except InputError as problem:  # plotting libraries are not installed; the demo is complete without the map
        screen.say(f"no map: {problem}")


def _draw(model: "GLACE", graph: "Graph", path: Path, random_state: int, screen: Screen) -> None:
    from glace.drawing.plots import write_map
    from glace.queries.layout import layout

    assert graph.labels is not None
    screen.say("drawing the map (t-SNE of the means) ...")
    positions = layout(model.embedding_, random_state=random_state, n_jobs=model.n_jobs)
    marks = [(graph.ids.position(node), str(node).removeprefix("n:")) for node in KNOWN]
    title = f"{graph.num_nodes:,} noun synsets of WordNet: means of their Gaussians, by t-SNE"
    write_map(positions, graph.labels.codes, graph.labels.names, path, title, marks)
    screen.say(f"wrote {path}")
