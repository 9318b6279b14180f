"""Train on two CSV files, then embed new rows.

python examples/from_csv.py [FOLDER]
"""

import csv
import sys
import tempfile
from pathlib import Path

import numpy as np

import glace

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
folder.mkdir(parents=True, exist_ok=True)
rng = np.random.default_rng(0)

# 300 shops in 6 towns, each described by 8 numbers. A shop trades mostly with shops of its own town.
towns = np.arange(300) % 6
centres = rng.normal(size=(6, 8))
figures = centres[towns] + rng.normal(size=(300, 8))
partners = [(shop, rng.choice(np.flatnonzero(towns == towns[shop]), 4)) for shop in range(300)]

with (folder / "trades.csv").open("w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["source", "target"])
    writer.writerows([f"shop {a}", f"shop {b}"] for a, others in partners for b in others)
with (folder / "shops.csv").open("w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["id", "label", *(f"x{column}" for column in range(8))])
    writer.writerows([f"shop {shop}", f"town {towns[shop]}", *row] for shop, row in enumerate(figures))

graph = glace.read_tables(folder / "trades.csv", folder / "shops.csv")
print(graph)
for line in graph.cleaning_report.lines():
    print(" ", line)

model = glace.GLACE(dim=8, hidden=64, max_steps=200, purpose="nodes").fit(graph)
assert model.history_.best is not None
print(f"AUC of held-out trades: {model.history_.best.auc:.2f}")

# Twenty new shops in each town, embedded from their attributes alone.
new_towns = np.repeat(np.arange(6), 20)
new = model.transform(centres[new_towns] + rng.normal(size=(120, 8)), ids=[f"new {row}" for row in range(120)])
nearest, _ = model.embedding_.nearest_to(new, 5)
same_town = (towns[nearest] == new_towns[:, None]).mean()
print(f"{same_town:.0%} of the shops nearest to a new one are in its town (by chance 17%)")

model.save(folder / "shops.glace")
glace.write_embedding(model.embedding_, folder / "shops.parquet")
glace.write_embedding(new, folder / "new.csv")
print("wrote", ", ".join(path.name for path in sorted(folder.iterdir())), "to", folder)
