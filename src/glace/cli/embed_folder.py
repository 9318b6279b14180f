"""`glace embed` of a folder: every Parquet file becomes one of Gaussians, on all cores, and a run can go on later."""

import json
import signal
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from glace.cores import cores
from glace.errors import GlaceError, InputError
from glace.features.pipeline import Count
from glace.fitted.batches import BatchEmbedder, EmbeddingSummary
from glace.io.table_file import parquet_files, parquet_rows, table_pieces
from glace.storage.files import replacing, sha256_of

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized
    from multiprocessing.synchronize import Event

FACTS = b"glace_embed"
"""Key of a file's metadata: the model's checksum, what was embedded, and the summary."""
POLL_SECONDS = 0.5
Report = Callable[[float], None]


@dataclass(frozen=True)
class Shard:
    """A file to embed, the file to write, and what else the result depends on."""

    source: Path
    target: Path
    rows: int
    settings: dict[str, object]

    def facts(self) -> dict[str, object]:
        """Return what a later run recognizes the written file by; reads the whole source."""
        return self.settings | {"source": sha256_of(self.source)}

    def written(self) -> EmbeddingSummary | None:
        """Return the summary of the written file; None if it does not exist, or was made from something else."""
        try:
            facts = json.loads(pq.read_metadata(self.target).metadata[FACTS])
            summary = facts.pop("summary")
            counts = tuple(Count(**count) for count in summary.pop("counts"))
            first = summary.pop("first_novel")
            found = EmbeddingSummary(**summary, first_novel=first and tuple(first), counts=counts)
        except (OSError, pa.ArrowException, KeyError, TypeError, ValueError):
            return None
        return found if facts == self.facts() else None


@dataclass(frozen=True)
class FolderResult:
    """What was embedded in all, and how many files were there already."""

    summary: EmbeddingSummary
    files: int
    kept: int


def embed_folder(
    embedder: BatchEmbedder, source: Path, output: Path, *, n_jobs: int, resume: bool, report: Report
) -> FolderResult:
    """Embed every Parquet file of a folder into one of the same name in `output`.

    A file is written whole or not at all. With `resume`, files that an earlier run wrote from the same rows by the same
    model are kept.
    """
    shards = _shards(embedder, source, output)
    _prepare(output, resume)
    kept = {shard.source: shard.written() for shard in shards} if resume else {}
    todo = [shard for shard in shards if kept.get(shard.source) is None]
    made = _embed_all(embedder, todo, cores() if n_jobs < 0 else n_jobs, report)
    found = [kept.get(shard.source) or made[shard.source] for shard in shards]
    return FolderResult(sum(found, EmbeddingSummary()), len(shards), len(shards) - len(todo))


def _shards(embedder: BatchEmbedder, source: Path, output: Path) -> list[Shard]:
    if output.resolve() == source.resolve():
        raise InputError(f"cannot write {output}: it is also the folder to read; choose another name")
    assert isinstance(embedder.model, Path), "processes load the model from its file"
    settings: dict[str, object] = {
        "model": sha256_of(embedder.model),
        "node_type": embedder.node_type,
        "texts": embedder.texts,
    }
    return [Shard(path, output / path.name, parquet_rows(path), settings) for path in parquet_files(source)]


def _prepare(output: Path, resume: bool) -> None:
    if output.exists() and not output.is_dir():
        raise InputError(f"cannot write {output}: a folder of Parquet files is embedded into a folder; name another")
    if output.exists() and any(output.iterdir()) and not resume:
        raise InputError(
            f"cannot write {output}: the folder is not empty; choose another name, or go on with an earlier run",
            hint=("resume", True),
        )
    if not output.parent.is_dir():
        raise InputError(f"cannot write {output}: the folder {output.parent} does not exist; make it first")
    output.mkdir(exist_ok=True)
    for rest in output.glob(".*.parquet.*.part"):  # of a run that was killed
        rest.unlink()


@dataclass
class _Progress:
    """Counts rows within one process."""

    total: int
    report: Report
    done: int = 0

    def advance(self, rows: int) -> None:
        self.done += rows
        self.report(self.done / self.total)


def _embed_all(
    embedder: BatchEmbedder, shards: list[Shard], n_jobs: int, report: Report
) -> dict[Path, EmbeddingSummary]:
    """Embed files, in processes of their own if there are several; with fewer files than jobs, each has threads."""
    workers, total = min(n_jobs, len(shards)), max(sum(shard.rows for shard in shards), 1)
    if workers < 2:
        progress = _Progress(total, report)
        return {shard.source: _embed_file(embedder, shard, progress.advance) for shard in shards}
    embedder = replace(embedder, n_jobs=max(n_jobs // workers, 1))
    context = get_context("spawn")
    done, stop = context.Value("q", 0), context.Event()
    with ProcessPoolExecutor(workers, context, initializer=_start, initargs=(done, stop)) as pool:
        try:
            made = {shard.source: pool.submit(_embed_in_process, embedder, shard) for shard in shards}
            waiting = set(made.values())
            while waiting:
                finished, waiting = wait(waiting, POLL_SECONDS, FIRST_COMPLETED)
                for each in finished:
                    each.result()
                report(done.value / total)
        except BrokenProcessPool as problem:
            raise GlaceError(
                "a process ended unexpectedly, perhaps for lack of memory; use fewer --n-jobs, and --resume to go on"
            ) from problem
        except BaseException:
            stop.set()  # the others stop after some megabytes, not after their file
            pool.shutdown(cancel_futures=True)
            raise
    return {path: future.result() for path, future in made.items()}


def _embed_file(embedder: BatchEmbedder, shard: Shard, advance: Callable[[int], None]) -> EmbeddingSummary:
    """Embed one file; `advance` is called with numbers of rows, and may raise."""
    try:
        with replacing(shard.target) as temporary:
            return _write(embedder, shard, temporary, advance)
    except InputError as problem:
        if shard.source.name in str(problem):
            raise
        raise InputError(f"{shard.source.name}: {problem}") from problem


def _write(embedder: BatchEmbedder, shard: Shard, path: Path, advance: Callable[[int], None]) -> EmbeddingSummary:
    # Before the rows are read: a source that changes meanwhile is then embedded again by a later run.
    facts, summary, writer = shard.facts(), EmbeddingSummary(), None
    for piece, _ in table_pieces(shard.source, "texts" if embedder.texts else "attributes"):
        table, counts = embedder.embed(piece.table, piece.where)
        writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd", use_dictionary=False)
        writer.write_table(table)
        summary += EmbeddingSummary.of(table, counts)
        advance(len(table))
    assert writer is not None, "a file has at least one piece"
    writer.add_key_value_metadata({FACTS: json.dumps(facts | {"summary": asdict(summary)})})
    writer.close()
    return summary


_of_process: dict[str, Any] = {}
"""Of a process of the pool: the number of rows that all of them have embedded, and whether they shall stop."""


def _start(done: "Synchronized[int]", stop: "Event") -> None:
    """Run in each process before its first file; the parent handles interrupts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _of_process.update(done=done, stop=stop)


def _embed_in_process(embedder: BatchEmbedder, shard: Shard) -> EmbeddingSummary:
    return _embed_file(embedder, shard, _advance_all)


def _advance_all(rows: int) -> None:
    if _of_process["stop"].is_set():
        raise GlaceError("another file could not be embedded")
    with _of_process["done"].get_lock():
        _of_process["done"].value += rows
