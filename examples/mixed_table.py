"""A table with numbers, categories and texts: shops whose trade depends on price, town and wares.

python examples/mixed_table.py [FOLDER] [--picture FILE]
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow.csv import write_csv

import glace

parser = argparse.ArgumentParser()
parser.add_argument("folder", nargs="?", type=Path, default=tempfile.mkdtemp())
parser.add_argument("--picture", type=Path)
options = parser.parse_args()
options.folder.mkdir(parents=True, exist_ok=True)

# 600 shops that trade if their price, town and wares are alike: predicting the trades well takes all three columns.
rng, goods = np.random.default_rng(0), ["bread cake", "cheese milk", "wine beer", "books pens"]
prices, towns, kinds = rng.normal(20, 5, 600), rng.integers(6, size=600), rng.integers(4, size=600)
distance = np.abs(prices[:, None] - prices) / 3 + 2 * (towns[:, None] != towns) + 2 * (kinds[:, None] != kinds)
pairs = np.column_stack(np.triu_indices(600, 1))
ends = pairs[np.argsort(distance[tuple(pairs.T)] + rng.gumbel(size=len(pairs)))[:3000]].T
shops: dict[str, Any] = {"id": [f"shop {n}" for n in range(600)], "town": [f"town {n}" for n in towns]}
shops["price"] = [None if rng.random() < 0.1 else round(price, 2) for price in prices]  # some are missing
shops["wares"] = [" ".join(rng.choice(goods[kind].split(), 4)) for kind in kinds]
write_csv(pa.table(shops), options.folder / "shops.csv")
write_csv(pa.table(list(np.array(shops["id"])[ends]), ["source", "target"]), options.folder / "trades.csv")

plain: dict[str, Any] = {"neighbor_features": "none", "neighbor_dropout": 0.0, "dropout": 0.0, "offset": "learned"}
pipeline, auc = {"price": "number", "town": "category", "wares": "text"}, {}
for used in (*pipeline, "all three"):
    columns = {name: kind if used in (name, "all three") else "drop" for name, kind in pipeline.items()}
    graph = glace.read_tables(options.folder / "trades.csv", options.folder / "shops.csv", columns=columns)
    model = glace.GLACE(dim=16, hidden=64, ensemble_size=1, max_steps=60, **plain).fit(graph)
    auc[used] = model.history_.best.auc if model.history_.best else 0.5
    print(f"{used:9} AUC of held-out trades {auc[used]:.2f}")

# New shops use the same pipeline. Missing and unseen values contribute nothing, and are counted.
new = pa.table({"price": [21.0, None], "town": ["Genf", "town 1"], "wares": ["milk", "red wine"]})
for count in model.model_.pipeline.counts(new) if model.model_.pipeline else ():
    print(count.line() or f"no value of {count.column!r} is missing")
nearest, _ = model.embedding_.nearest_to(model.transform(new), 3)
for shop, positions in zip(("a shop in Genf", "a shop without a price"), nearest, strict=True):
    print(shop, "is similar to", "; ".join(", ".join(str(shops[name][row]) for name in pipeline) for row in positions))

if options.picture:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5, 2), layout="constrained")
    bars = axes.barh([*auc], [*auc.values()], color=[*["#8c9bb0"] * 3, "#c44e52"])
    axes.bar_label(bars, fmt="%.2f", label_type="center", color="white")
    axes.set(xlim=(0.5, 1), xlabel="AUC of held-out trades", title="Columns that the model uses")
    figure.savefig(options.picture, dpi=150)
