"""What `glace fit --estimate` foretells is what a fit takes, to a fifth, in memory and on a mapped graph."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import glace
from benchmarks.planted_stream import planted_folder
from glace.io.folder import read_folder, write_folder
from glace.training.estimate import estimate

SETTLED = {"hidden_length": "bounded", "neighbor_features": "mean", "neighbor_dropout": 0.5, "dropout": 0.5}
GRAPHS: dict[str, dict[str, Any]] = {
    "edges": {"nodes": 20_000, "communities": 20, "edges": 400_000, "attributes": 2000, "words": 10},
    "attributes": {"nodes": 4000, "communities": 20, "edges": 20_000, "attributes": 20_000, "words": 15},
}

CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("edges", "memory", {"max_steps": 5, "validation_fraction": 0.002, **SETTLED}),
    ("edges", "mapped", {"max_steps": 5, "validation_fraction": 0.002, **SETTLED}),
    ("attributes", "memory", {"max_steps": 20, **SETTLED}),
    ("attributes", "mapped", {"max_steps": 8}),
]

# A process of its own: a first small fit loads libraries and kernels, then the memory of one more is watched, for each
# case in a fork. With one thread, nothing that a fork would lose is running. File pages are counted as they were
# before, when they were those of the libraries.
PROGRAM = """
import json, os, re, sys, threading
from pathlib import Path
import glace
from glace.training.estimate import estimate

def resident(kind):
    return 1024 * int(re.search(rf"{kind}:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

def measure(path, kind, options):
    graph, peak, done = glace.read_folder(path), 0, threading.Event()
    if kind == "memory":
        edges, weights = graph.edges_and_weights()
        graph = glace.from_arrays(edges, graph.attributes.copy())
        del edges, weights

    def watch():
        nonlocal peak
        while not done.wait(0.002):
            peak = max(peak, resident("RssAnon") + libraries)

    watcher = threading.Thread(target=watch)
    watcher.start()
    glace.GLACE(**options, n_jobs=1).fit(graph)
    done.set()
    watcher.join()
    print(json.dumps([peak, estimate(graph, options)["peak memory, about"]]), flush=True)

cases = json.loads(sys.argv[1])
small = {"dim": 4, "hidden": 8, "ensemble_size": 1, "max_steps": 2, "n_jobs": 1}
glace.GLACE(**cases[0][2] | small).fit(glace.datasets.planted(300, communities=4, attributes=40))
libraries = resident("RssFile")
for case in cases:
    process = os.fork()
    if not process:
        measure(*case)
        os._exit(0)
    os.waitpid(process, 0)
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Measured and estimated peak of each case."""
    folder = tmp_path_factory.mktemp("estimate")
    for name, sizes in GRAPHS.items():
        planted_folder(folder / name, **sizes)
    cases = json.dumps([(str(folder / name), kind, options) for name, kind, options in CASES])
    ran = subprocess.run([sys.executable, "-c", PROGRAM, cases], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc to read memory from")
@pytest.mark.parametrize("case", range(len(CASES)), ids=[f"{name}-{kind}" for name, kind, _ in CASES])
def test_the_peak_is_foretold_to_a_fifth(measured, case):
    assert len(measured) == len(CASES)
    peak, expected = measured[case]
    assert expected == pytest.approx(peak, rel=0.2)


def test_a_mapped_graph_takes_no_memory_for_edges_attributes_and_gaussians(planted, tmp_path, monkeypatch):
    write_folder(planted, tmp_path / "g.graph")
    here, there = (estimate(graph) for graph in (planted, read_folder(tmp_path / "g.graph")))
    assert there["graph"] == 8 * planted.num_nodes < here["graph"]
    assert there["Gaussians"] == 0 < here["Gaussians"]
    assert there["temporary files"] > here["Gaussians"]
    assert there["model file"] == here["model file"]
    monkeypatch.setattr("glace.training.estimate.LARGE", 1)
    matrices = planted.adjacency, planted.attributes
    kept = sum(each.indptr.nbytes + each.indices.nbytes + each.data.nbytes for each in matrices)
    large = estimate(read_folder(tmp_path / "g.graph"))
    assert large["model file"] == here["model file"] - kept, "too large to keep"


def test_weights_and_directions_are_counted(planted):
    plain = estimate(planted)["graph"]
    pairs = planted.edges()
    weighted = glace.from_arrays(pairs, planted.attributes, weights=pairs[:, 0] + 1.0)
    assert estimate(weighted)["graph"] == plain + 16 * planted.adjacency.nnz
    directed = glace.from_arrays(pairs, planted.attributes, directed=True)
    assert estimate(directed)["graph"] > 0


def test_no_held_out_edges_and_no_attributes_take_less(planted):
    judged, to_the_end = (
        estimate(planted, {"validation_fraction": share})["optimizer and best weights"] for share in (0.05, 0.0)
    )
    assert to_the_end < judged
    alone = estimate(planted.without_attributes())
    assert alone["weights"] < estimate(planted.without_attributes(), {"neighbor_features": "mean"})["weights"]
