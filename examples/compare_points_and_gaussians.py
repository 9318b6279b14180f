"""Compare Gaussians (GLACE) and points (LACE) by link prediction on a planted graph."""

from typing import Any

import numpy as np

import glace
from glace.experiments.evaluation.link_prediction import attribute_prediction, link_prediction

SEEDS = range(3)
# Both use the same encoder of the node's own attributes, so that only the variance differs.
PLAIN: dict[str, Any] = {
    "ensemble_size": 1,
    "neighbor_features": "none",
    "neighbor_dropout": 0.0,
    "dropout": 0.0,
    "offset": "learned",
}

graph = glace.datasets.planted(800, communities=8, degree=8, attributes=300, words=12, mixing=0.05, random_state=1)
print(graph)

scores: dict[str, list[tuple[float, float]]] = {"GLACE, Gaussians": [], "LACE, points": [], "attributes": []}
for seed in SEEDS:
    # Each seed holds out different edges; both methods use the same split.
    known, held_out = glace.hold_out(graph, 0.2, glace.Streams(seed).numpy("test"))
    for name, method in (("GLACE, Gaussians", glace.GLACE), ("LACE, points", glace.LACE)):
        # A Gaussian with 16 dimensions has 16 means and 16 variances; the point gets the same number of values.
        dim = 16 if method is glace.GLACE else 32
        model = method(dim=dim, hidden=64, max_steps=150, random_state=seed, **PLAIN).fit(known)
        scores[name].append(link_prediction(model.embedding_, held_out))
    scores["attributes"].append(attribute_prediction(known, held_out))

print(f"{'held-out edges by':20}{'AUC':>14}{'AP':>14}")
for name, found in scores.items():
    mean, deviation = np.mean(found, axis=0), np.std(found, axis=0, ddof=1)
    print(f"{name:20}" + "".join(f"{m:8.3f} ±{d:.3f}" for m, d in zip(mean, deviation, strict=True)))
print(f"mean and standard deviation over {len(SEEDS)} splits; chance level is 0.5")
