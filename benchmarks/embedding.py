"""How fast are new nodes embedded, by `glace embed`, Spark and Ray? `python -m benchmarks.embedding`

A model of a planted graph embeds a folder of Parquet files, sparse rows in files of equal size: `glace embed` on all
cores, Spark in local-cluster mode with two executors of one core, Ray with two workers. Each side reads the files and
writes Parquet files, and each result is compared with that of `glace embed`, bit by bit. A side's time begins when its
engine has started and, as on a cluster that runs all day, its workers have loaded the model. The start is told apart.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import typer

import glace
import glace.ray
import glace.spark
from benchmarks.common import RESULTS, Report, Results, Rounds, in_turn

COLUMNS = ["id", "expected_error", "certainty", "novel", "mean", "variance", "novelty", "unseen"]
Run = Callable[[Path, Path], object]
"""Embeds the first folder into the second."""


def write_rows(folder: Path, rows: int, files: int, width: int, words: int) -> None:
    """Write sparse rows with distinct random columns."""
    generator = np.random.default_rng(0)
    folder.mkdir()
    for number, part in enumerate(np.array_split(np.arange(rows), files)):
        columns = np.sort(
            generator.integers(0, width // words, (len(part), words)) + np.arange(words) * (width // words)
        )
        ends = np.arange(0, columns.size + 1, words, dtype=np.int32)
        lists = [pa.ListArray.from_arrays(ends, each) for each in (columns.ravel(), np.ones(columns.size, np.float32))]
        table = pa.table({"id": part, "columns": lists[0], "values": lists[1]})
        pq.write_table(table, folder / f"part-{number:05}.parquet")


@contextmanager
def command(model: Path, workers: int) -> Iterator[Run]:
    """`glace embed` in a process of its own, which includes its start."""

    def run(source: Path, output: Path) -> None:
        shutil.rmtree(output, ignore_errors=True)
        arguments = [
            "embed",
            str(model),
            "--attributes",
            str(source),
            "-o",
            str(output),
            "--n-jobs",
            str(workers),
            "-q",
        ]
        subprocess.run([sys.executable, "-m", "glace", *arguments], check=True)

    yield run


@contextmanager
def on_spark(model: Path, workers: int) -> Iterator[Run]:
    """Spark with executors in processes of their own."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local-cluster[{workers},1,2048]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.executor.memory", "2g").config("spark.pyspark.python", sys.executable)
    session = builder.config("spark.executorEnv.PYTHONPATH", os.pathsep.join(sys.path)).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")

    def run(source: Path, output: Path) -> None:
        frame = session.read.parquet(str(source))
        glace.spark.embed(frame, model).write.mode("overwrite").parquet(str(output))

    yield run
    session.stop()


@contextmanager
def on_ray(model: Path, workers: int) -> Iterator[Run]:
    """Ray with workers of one core."""
    import ray

    ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, object_store_memory=1 << 30)
    ray.data.DataContext.get_current().enable_progress_bars = False

    def run(source: Path, output: Path) -> None:
        shutil.rmtree(output, ignore_errors=True)
        glace.ray.embed(ray.data.read_parquet(str(source)), model).write_parquet(str(output))

    yield run
    ray.shutdown()


SIDES = {"glace embed": command, "Spark": on_spark, "Ray": on_ray}


def embedded(folder: Path) -> pa.Table:
    """All rows of a folder, by id, in plain types."""
    table = pa.dataset.dataset(folder, format="parquet").to_table(COLUMNS)
    lists = {name: pa.list_(pa.float32()) for name in ("mean", "variance")}
    fields = [(each.name, lists.get(each.name, each.type)) for each in table.schema]
    return table.cast(pa.schema(fields)).sort_by("id").combine_chunks()


def measured(side: str, model: Path, work: Path, workers: int, rounds: int) -> dict[str, Any]:
    """Seconds to start with ten thousand rows, and least seconds of all rows."""
    output, began, seconds = work / side.replace(" ", "-"), time.perf_counter(), []
    with SIDES[side](model, workers) as run:
        run(work / "few", work / "warm")
        start = time.perf_counter() - began
        for _ in in_turn([side], rounds, side):
            began = time.perf_counter()
            run(work / "rows", output)
            seconds.append(time.perf_counter() - began)
    return {"side": side, "start_seconds": start, "seconds": min(seconds)}


def main(
    rows: Annotated[int, typer.Option(help="Rows to embed.")] = 1_000_000,
    files: Annotated[int, typer.Option(help="Files they are in.")] = 16,
    workers: Annotated[int, typer.Option(help="Processes of each side.")] = 2,
    width: Annotated[int, typer.Option(help="Attributes of the model.")] = 10_000,
    words: Annotated[int, typer.Option(help="Attributes of a node.")] = 20,
    side: Annotated[list[str] | None, typer.Option(help=f"Of {', '.join(SIDES)}; all by default.")] = None,
    rounds: Rounds = 2,
    results: Results = RESULTS,
) -> None:
    """Embed the same rows by each side, and compare the bits with those of `glace embed`."""
    report = Report("embedding", results, {"rows": rows, "files": files, "workers": workers, "width": width})
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        graph = glace.datasets.planted(2000, communities=20, attributes=width, words=words)
        glace.train(graph, {"max_steps": 50, "purpose": "nodes"}).save(work / "model.glace")
        write_rows(work / "rows", rows, files, width, words)
        write_rows(work / "few", min(rows, 10_000), files, width, words)
        found, reference = [], None
        for name in side or list(SIDES):
            values = measured(name, work / "model.glace", work, workers, rounds)
            table = embedded(work / name.replace(" ", "-"))
            reference = reference or table
            values |= {"rows_per_second": rows / values["seconds"], "equal": table.equals(reference)}
            report.note(**values)
            found.append(values)
    titles = ["", "start, s", "s", "rows/s", "bits of the first"]
    rows_of = [
        (each["side"], each["start_seconds"], each["seconds"], each["rows_per_second"], each["equal"]) for each in found
    ]
    report.table(f"{rows:,} rows of {words} attributes, {workers} processes", titles, rows_of)


if __name__ == "__main__":
    typer.run(main)
