"""People who write to each other, with numbers (some missing), categories and texts, from two raw files to answers.

python examples/people.py [FOLDER] [--size N]
"""

import numpy as np
from walkthrough import glace, size_in_folder, write_csv

FIRST = "Ada Bo Cleo Dan Eva Finn Gus Hana Ivo Jana Kai Lena Max Nora Otto Pia Quinn Rosa Sam Tara"
LAST = "Abel Berg Conti Dahl Egli Frei Gross Huber Ito Jung Keller Lang Meier Nold Ott Peters Roth Suter Vogt Wyss"
CLUBS = {
    "chess": "openings endgames tournaments puzzles clocks",
    "choir": "singing concerts harmony rehearsals songs",
    "garden": "roses vegetables compost seeds greenhouse",
    "hiking": "mountains trails maps huts glaciers",
    "theatre": "plays costumes stages rehearsals comedy",
}
TOWNS = ("Basel", "Bern", "Genf", "Luzern")

# People write to members of their club, above all in their town, and more to older members than these write to them.
size, rng = size_in_folder(400), np.random.default_rng(0)
names = [f"{first} {last}" for last in LAST.split() for first in FIRST.split()][:size]
clubs, towns, ages = rng.choice(list(CLUBS), size), rng.choice(TOWNS, size), rng.integers(18, 80, size)
incomes = 20_000 + 900 * ages + rng.normal(0, 5_000, size)
texts = ["fond of {}, {} and {}".format(*rng.permutation(CLUBS[club].split())[:3]) for club in clubs]
likely = 4.0 * (clubs[:, None] == clubs) + 1.5 * (towns[:, None] == towns) + (ages - ages[:, None]) / 20
likely += rng.gumbel(size=likely.shape)
np.fill_diagonal(likely, -np.inf)
written = [(a, b) for a in range(size) for b in np.argsort(-likely[a])[: rng.integers(4, 9)]]
rows = zip(names, ages, incomes.round(), towns, clubs, texts, strict=True)
# Not everybody says how old they are, or what they earn.
people = [[None if 0 < place < 3 and rng.random() < 0.2 else cell for place, cell in enumerate(row)] for row in rows]
write_csv("people.csv", "name,age,income,town,club,biography", people)
write_csv("letters.csv", "sender,receiver,letters", [(names[a], names[b], rng.integers(1, 30)) for a, b in written])
write_csv("new.csv", "name,age,income,town,biography", [("Zoe New", None, 52_000, "Bern", "grows roses, sells seeds")])

glace("fit --edges letters.csv --directed --attributes people.csv --label-column club --purpose nodes -o people.glace")
glace("neighbors people.glace 'Ada Abel' -k 5 --show biography")
glace("links people.glace 'Ada Abel' -k 5 --why")
glace("embed people.glace --attributes new.csv -o new.parquet")
glace("neighbors people.glace --of new.parquet -k 5 --show biography")
glace("links people.glace --of new.parquet -k 5")
