"""The recipes of docs/clusters.md: numbered in a database, a graph is the one that is converted by its names."""

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import glace

PAGE = (Path(__file__).parents[1] / "docs" / "clusters.md").read_text(encoding="utf-8")


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """Links between people, in an order that is not that of the names; some people have no link."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    names = [f"p{number:02}" for number in rng.permutation(30)]
    links = pd.DataFrame({"source": rng.choice(names[:25], 80), "target": rng.choice(names[:25], 80)})
    people = pd.DataFrame({"name": names, "age": rng.random(30), "income": rng.random(30)})
    return links, people


def check(links: pd.DataFrame, people: pd.DataFrame) -> None:
    found = glace.convert_tables("edges", "found.graph", "nodes")
    links.to_parquet("links.parquet")
    people.rename(columns={"name": "id"}).to_parquet("people.parquet")
    expected = glace.convert_tables("links.parquet", "expected.graph", "people.parquet")
    assert list(found.ids) == list(range(30))
    for file in (path.name for path in Path("found.graph").glob("*.npy")):
        assert Path("found.graph", file).read_bytes() == Path("expected.graph", file).read_bytes(), file
    names = pd.read_parquet("names").sort_values("id")
    assert names["name"].tolist() == list(expected.ids)


def test_duckdb(tables):
    import duckdb

    (recipe,) = re.findall(r"```sql\n(.*?)```", PAGE, re.S)
    links, people = tables
    with duckdb.connect() as connection:
        connection.register("links", links)
        connection.register("people", people)
        connection.execute(recipe)
    check(links, people)


@pytest.mark.filterwarnings("ignore")  # of libraries
def test_spark(tables):
    pytest.importorskip("pyspark", reason="Spark is tried where it is installed: pip install '.[spark]'")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java: apt-get install default-jre-headless")
    from pyspark.sql import SparkSession

    (recipe,) = (block for block in re.findall(r"```python no-run\n(.*?)```", PAGE, re.S) if "zipWithIndex" in block)
    # The Java of an earlier test may still run, in a folder of its own.
    recipe = re.sub(r'parquet\("(\w+)"\)', lambda found: f'parquet("{Path.cwd() / found[1]}")', recipe)
    builder = SparkSession.builder.master("local[1]").config("spark.sql.shuffle.partitions", "2")
    session = builder.config("spark.pyspark.python", sys.executable).getOrCreate()
    links, people = tables
    frames: dict[str, Any] = {
        name: session.createDataFrame(table) for name, table in zip(("links", "people"), tables, strict=True)
    }
    try:
        exec(recipe, frames | {"spark": session})
    finally:
        session.stop()
    check(links, people)
