"""`glace info`: what a graph is made of."""

from typing import TYPE_CHECKING, Any

from glace.cli.arguments import Json, Quiet, check_outputs
from glace.cli.screen import Screen
from glace.cli.source import GraphSource, takes_graph

if TYPE_CHECKING:
    from glace.graph.graph import Graph


@takes_graph
def info(source: GraphSource, json: Json = None, quiet: Quiet = False) -> None:
    """Show the size of a graph and what was found in it."""
    from glace.records import Record, provenance

    check_outputs(json, inputs=source.files())
    found = source.load()
    screen = Screen(quiet)
    facts = graph_facts(found)
    screen.say(source.name)
    screen.facts((name, value) for name, value in facts.items() if value is not None)
    for line in found.findings.lines():
        screen.say(f"  {line}")
    if json:
        Record("info", facts, provenance(data=found.fingerprint())).write(json)


def graph_facts(graph: "Graph") -> dict[str, Any]:
    """The figures of a graph, by name."""
    import numpy as np

    degrees = np.diff(graph.adjacency.indptr)
    entries = getattr(graph.attributes, "nnz", None)
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "direction": "directed" if graph.directed else "undirected",
        "attributes": 0 if graph.attributes is None else graph.num_attributes,
        "attributes_are": "sparse" if entries is not None else None if graph.attributes is None else "dense",
        "nonzeros_a_row": None if entries is None else float(entries / max(graph.num_nodes, 1)),
        "labels": len(graph.labels.names) if graph.labels else None,
        "node_types": len(graph.node_types.names) if graph.node_types else None,
        "mean_degree": float(degrees.mean()) if len(degrees) else 0.0,
        "highest_degree": int(degrees.max()) if len(degrees) else 0,
    }
