"""Two node types on one map: things, and the kinds they belong to.

python examples/things_and_kinds.py [--picture FILE]
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import glace
from glace.experiments.evaluation.link_prediction import link_prediction
from glace.experiments.splits import split_edges

parser = argparse.ArgumentParser()
parser.add_argument("--picture", type=Path)
picture = parser.parse_args().picture

# Poodles are dogs, mammals and animals. Each node type has its own vocabulary; an edge connects a thing with a kind.
graph = glace.datasets.load("wordnet-kinds")
print(graph)

# Each node type has its own encoder, and negatives keep the node type of the target they replace. Two dimensions are
# few, but they can be drawn as a map.
split = split_edges(graph, np.random.default_rng(0))
options: dict[str, Any] = {"neighbor_features": "mean", "dropout": 0.0, "max_steps": 300}
models = {}
for name, train in (("one type", split.train.of_one_type()), ("two types", split.train)):
    models[name] = glace.GLACE(dim=2, ensemble_size=1, hidden=128, **options).fit(train)
    found = link_prediction(models[name].embedding_, split.test).auc
    print(f"with {name}: AUC of held-out edges {found:.3f}")

model, embedding = models["two types"], models["two types"].embedding_
kinds = embedding.neighbors("n:poodle", k=4, among=graph.has_type("kind"))
print("most probable kinds of a poodle:", ", ".join(str(each) for each in kinds.id))

# Embed a thing and a kind that WordNet does not have from their texts.
thing = model.transform(["a small dog with a long coat"], ids=["a new thing"], node_type="thing")
kind = model.transform(["any bony fish of the sea"], ids=["a new kind"], node_type="kind")
for new, wanted in ((thing, "kind"), (kind, "thing")):
    rows, _ = embedding.nearest_to(new, 4, among=graph.has_type(wanted))
    print(f"most similar to {new.ids[0]}:", ", ".join(str(embedding.ids[row]) for row in rows[0]))

if picture:
    from matplotlib import pyplot

    things = np.flatnonzero(graph.has_type("thing"))
    figure, panels = pyplot.subplots(2, 4, figsize=(11, 5), layout="constrained")
    names = ("animal", "bird", "fish", "body_part", "plant.2", "food", "artifact", "vehicle")
    for axes, name in zip(panels.flat, names, strict=True):
        pairs = np.column_stack([things, np.full(len(things), graph.ids.position(f"n:{name}"))])
        chance = embedding.probabilities(embedding.dissimilarities_at(pairs))
        x, y = embedding.mean[things].T
        axes.scatter(x, y, c=chance, cmap="viridis_r", vmin=0, vmax=1, s=3, linewidths=0)
        axes.set_title(f"{name.partition('.')[0]}?", loc="left")
        axes.set_axis_off()
    figure.suptitle("The map of all things, coloured by the probability of each kind (dark: likely)")
    figure.savefig(picture, dpi=110)
