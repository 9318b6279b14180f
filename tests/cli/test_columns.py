"""Files as people have them become models without an edit: columns, separators and encodings are options."""

import json
import re

import numpy as np
import pytest

from glace import load, load_embedding
from tests.cli.conftest import FAST, write_csv


@pytest.fixture
def ratings(folder):
    """MovieLens' files: users and movies share their numbers."""
    rng = np.random.default_rng(0)
    pairs = sorted({(int(user), int(movie)) for user, movie in rng.integers(1, (31, 21), size=(300, 2))})
    write_csv(folder / "ratings.csv", "userId,movieId,rating,timestamp", [f"{u},{m},4.5,9646" for u, m in pairs])
    genres = ("Action|Crime", "Comedy|Romance", "War|Drama")
    movies = [
        f'{movie},"The {("old", "new")[movie % 2]} film, part {movie}",{genres[movie % 3]}' for movie in range(1, 21)
    ]
    write_csv(folder / "movies.csv", "movieId,title,genres", movies)
    return folder


EDGES = ["--source-column", "userId", "--target-column", "movieId", "--weight-column", "rating"]
MOVIES = [
    "--edges",
    "user:movie=ratings.csv",
    *EDGES,
    "--attributes",
    "movie=movies.csv",
    "--id-column",
    "movie=movieId",
]


def test_merged_ids_are_noticed_with_the_way_out(glace, ratings):
    shown = glace("info", "ratings.csv", *EDGES)
    assert re.search(r"nodes +30\n", shown), "users and movies of one number are one node"
    assert (
        "20 ids occur in both 'userId' and 'movieId', each as one node; if the columns name different things" in shown
    )
    assert "keep them apart with --edges user:movie=FILE" in shown
    assert "ratings.csv: edges from 'userId', to 'movieId', weighted by 'rating'; not used: 'timestamp'" in shown


def test_a_graph_of_users_and_movies(glace, ratings):
    shown = glace("fit", *MOVIES, *FAST, "-o", "movies.glace")
    assert (
        "movies.csv, kinds of columns guessed: title text (5.0 words per row), genres text (2.0 words per row)" in shown
    )
    assert len(load("movies.glace").embedding) == 50
    assert "movie:" in glace("neighbors", "movies.glace", "user:1", "--node-type", "movie", "-k", "2")
    write_csv(ratings / "new.csv", "movieId,title,genres", ["99,A new film,Crime"])
    glace("embed", "movies.glace", "--node-type", "movie", "--attributes", "new.csv", "-o", "new.npz")
    assert list(load_embedding("new.npz").ids) == [99]


def test_a_table_of_packages(glace, folder):
    rows = [f"p{row},{('red', 'blue')[row % 2]} {('fish', 'pond')[row % 3 % 2]},s{row % 3}" for row in range(60)]
    write_csv(folder / "packages.csv", "name,description,section", rows)
    depends = ["# who depends on whom", *(f"p{row} p{(row * 7 + 1) % 60}" for row in range(60))]
    (folder / "depends.txt").write_text("\n".join(depends))
    texts = ["--texts", "packages.csv", "--text-column", "description", "--label-column", "section"]
    shown = glace("fit", "--edges", "depends.txt", *texts, *FAST, "-o", "p.glace")
    assert "depends.txt: lines that start with # are comments" in shown
    assert "depends.txt: columns are separated by blanks" in shown
    assert "depends.txt: no header; its first row names a node" in shown
    assert "label" in glace("neighbors", "p.glace", "p1")
    glace("embed", "p.glace", *texts, "-o", "again.npz")
    assert len(load_embedding("again.npz")) == 60
    write_csv(folder / "pairs.tsv", "from\tto\tdate", ["p1\tp2\t3", "p2\tp3\t4"])
    assert "p3" in glace("score", "p.glace", "--pairs", "pairs.tsv", "--source-column", "from", "--target-column", "to")


def test_converting_mixed_columns_loads_them(glace, ratings):
    shown = glace("convert", *MOVIES, "-o", "movies.graph")
    assert "kinds of columns guessed" in shown
    write_csv(ratings / "people.csv", "id,town", [f"{row},{('Bern', 'Genf')[row % 2]}" for row in range(1, 31)])
    shown = glace("convert", "--edges", "ratings.csv", *EDGES, "--attributes", "people.csv", "-o", "people.graph")
    assert "people.csv, kinds of columns guessed: town category (2 values)" in shown
    assert "kinds of columns guessed" in glace("info", "people.graph")


def test_ids_are_shown_as_ids_beside_other_columns(glace, folder):
    ids = [10_000 + row for row in range(60)]
    write_csv(folder / "stories.csv", "id,text", [f"{node},{['red', 'blue'][node % 2]} fish" for node in ids])
    write_csv(folder / "e.csv", "source,target", [f"{node},{10_000 + (node * 7 + 1) % 60}" for node in ids])
    glace("fit", "--edges", "e.csv", "--texts", "stories.csv", *FAST, "-o", "s.glace")
    for question in (["links", "s.glace", "-k", "3"], ["score", "s.glace", "10003", "10007"]):
        shown = glace(*question, "--show", "text", "--format", "json")
        first, _ = json.JSONDecoder().raw_decode(shown[shown.index('{"') :])
        assert {type(first[name]) for name in ("source", "target", "target_text")} == {str}
        assert "10,0" not in glace(*question, "--show", "text", "--format", "table")
