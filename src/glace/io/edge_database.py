"""Edges in a temporary DuckDB database: ids to node numbers, and both directions in order, in bounded memory."""

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from glace.blocks import blocks
from glace.cores import cores
from glace.errors import InputError, TooLarge
from glace.ids import CANONICAL_INTEGER
from glace.io.merging import Entries, entries_of

if TYPE_CHECKING:
    import duckdb

MEMORY_MB = 1400
"""Memory of the database; what does not fit goes to disk. The process takes 500 MB more."""
BATCH_ROWS = 1 << 20
DISTINCT_AT_ONCE = 3_000_000
"""Distinct ids, about, that are collected at a time: with two threads they take about 800 MB."""
PACKED = 1 << 31
"""Below so many nodes, both ends of an edge fit into one 64-bit key to sort by, which is faster than two."""


@contextmanager
def edge_database(folder: Path) -> Iterator["EdgeDatabase"]:
    """Yield an empty database in a new folder, which is removed afterwards."""
    import duckdb

    folder.mkdir()
    options: dict[str, Any] = {
        "memory_limit": f"{MEMORY_MB}MB",
        "threads": cores(),
        "temp_directory": str(folder / "spilled"),
        "preserve_insertion_order": False,  # takes less memory
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    try:
        with duckdb.connect(str(folder / "edges.duckdb"), config=options) as connection:
            connection.execute("SET enable_progress_bar = false")  # it would be printed
            yield EdgeDatabase(connection)
    except duckdb.OutOfMemoryException as problem:
        raise TooLarge(f"the edges fit neither into {MEMORY_MB:,} MB nor on disk: {_first_line(problem)}") from problem
    except duckdb.IOException as problem:
        raise InputError(f"cannot write {folder.parent}: {_first_line(problem)}") from problem
    except RuntimeError as problem:
        if "interrupted" in str(problem):  # Ctrl-C during a query
            raise KeyboardInterrupt from problem
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _first_line(problem: Exception) -> str:
    return str(problem).partition("\n")[0]


class EdgeDatabase:
    """Names nodes by numbers and sorts edges. The methods are called in their order.

    Tables: `names` are the distinct ids of edges, `described` the ids of rows of attributes. `nodes` are the ids of all
    nodes in ascending order, so that the number of a node is its rowid. `pairs` are the edges as node numbers.
    """

    def __init__(self, connection: "duckdb.DuckDBPyConnection") -> None:
        self.connection = connection
        self._all_ids = "names"
        self.count = 0
        """Number of nodes."""
        self.has_texts = False
        self.numbered = False
        """Whether the ids are 0 to count - 1: such ids are their node numbers, and need no table."""

    def add_names(self, columns: Iterable[pa.Array], kind: pa.DataType) -> None:
        """Collect the distinct ids of edges, which have this type."""
        batches = (pa.record_batch({"id": column}) for column in columns)
        self._create("mentions AS SELECT id FROM given", pa.schema({"id": kind}), batches)
        # DISTINCT keeps all of its result in memory, so it is asked for parts of the ids.
        parts = -(-self._row("SELECT approx_count_distinct(id) FROM mentions")[0] // DISTINCT_AT_ONCE) or 1
        self.connection.execute("CREATE TABLE names AS SELECT id FROM mentions LIMIT 0")
        for part in range(parts):
            condition = f"hash(id) % {parts} = {part}" if parts > 1 else "true"
            self.connection.execute(f"INSERT INTO names SELECT DISTINCT id FROM mentions WHERE {condition}")
        self.connection.execute("DROP TABLE mentions")

    def names_are_integers(self) -> bool:
        """Return whether all names are texts of plain 64-bit integers."""
        test = f"regexp_full_match(id, '{CANONICAL_INTEGER}') AND TRY_CAST(id AS BIGINT) IS NOT NULL"
        return bool(self._row(f"SELECT coalesce(bool_and({test}), true) FROM names")[0])

    def make_names_integers(self) -> None:
        """Convert texts of integers."""
        self.connection.execute("CREATE TABLE numbers AS SELECT id::BIGINT AS id FROM names")
        self.connection.execute("DROP TABLE names; ALTER TABLE numbers RENAME TO names")

    def first_names(self) -> pa.Array:
        """Return the smallest of the names, or none if there are none."""
        return _one_chunk(self.connection.sql("SELECT id FROM names ORDER BY id LIMIT 1"))

    def names_among(self, texts: list[str]) -> pa.Array:
        """Return the names that are spelled like one of these texts."""
        query = "SELECT id FROM names WHERE id::VARCHAR IN (SELECT unnest(?::VARCHAR[]))"
        return _one_chunk(self.connection.sql(query, params=[texts]))

    def add_described(self, ids: pa.Array) -> int:
        """Add the ids of rows of attributes, and return how many names are not among them."""
        schema = pa.schema({"id": ids.type, "row": pa.int64()})
        batches = (
            pa.record_batch({"id": ids[part], "row": pa.array(np.arange(part.start, part.stop))}, schema)
            for part in blocks(len(ids))
        )
        self._create("described AS SELECT id, row FROM given", schema, batches)
        self._all_ids = "described"
        self.connection.execute("CREATE TABLE added AS SELECT id FROM names ANTI JOIN described USING (id)")
        return int(self._row("SELECT count(*) FROM added")[0])

    def added(self) -> pa.Array:
        """Return the names that are not among the ids of rows."""
        return _one_chunk(self.connection.sql("SELECT id FROM added"))

    def count_names(self) -> int:
        """Return the number of names."""
        return int(self._row("SELECT count(*) FROM names")[0])

    def number_nodes(self) -> None:
        """Number all ids in ascending order."""
        if self._all_ids == "described":
            self.connection.execute("INSERT INTO described SELECT id, NULL FROM added")
        ids = self._all_ids
        self.count, lowest, highest = self._row(f"SELECT count(*), min(id), max(id) FROM {ids}")
        self.has_texts = isinstance(lowest, str)
        self.numbered = (lowest, highest) == (0, self.count - 1)
        if not self.numbered:
            self.connection.execute("SET preserve_insertion_order = true")
            self.connection.execute(f"CREATE TABLE nodes AS SELECT id FROM {ids} ORDER BY id")

    def ids(self) -> Iterator[pa.Array]:
        """Return all ids in the order of the node numbers, unless they are `numbered`."""
        reader = self.connection.sql("SELECT id FROM nodes").to_arrow_reader(BATCH_ROWS)
        yield from (batch.column(0) for batch in reader)
        self.connection.execute("SET preserve_insertion_order = false")

    def described_nodes(self) -> npt.NDArray[np.int64]:
        """Return the node number of every row of attributes."""
        number = "id" if self.numbered else "nodes.rowid"
        joined = "described" if self.numbered else "described JOIN nodes USING (id)"
        rows = self.connection.sql(f"SELECT {number} AS n FROM {joined} WHERE row IS NOT NULL ORDER BY row")
        return np.asarray(_one_chunk(rows).cast(pa.int64()).to_numpy())

    def add_edges(self, tables: Iterable[pa.RecordBatch], kind: pa.DataType) -> int:
        """Add edges with the columns source, target and weight; return the number of self-loops."""
        integer = "INTEGER" if self.count < PACKED else "BIGINT"
        schema = pa.schema({"source": kind, "target": kind, "weight": pa.float32()})
        if self.numbered:
            query = f"SELECT source::{integer} AS s, target::{integer} AS d, weight AS w FROM given"
        else:
            key = self._create_keys(integer)
            joins = " ".join(f"JOIN keys {end} ON {end}.key = {key.format(end)}" for end in ("source", "target"))
            query = f"SELECT source.n AS s, target.n AS d, weight AS w FROM given {joins}"
        self._create(f"pairs AS {query}", schema, tables)
        self.connection.execute("DROP TABLE IF EXISTS keys")
        return int(self._row("SELECT count(*) FROM pairs WHERE s = d")[0])

    def _create_keys(self, integer: str) -> str:
        """Create the table that edges are joined with; return the expression of the key of an id.

        Integers are smaller and faster to look up than texts, so these are looked up by their hash if it is unique.
        """
        for key in ("hash({})", "{}"):
            self.connection.execute(
                f"CREATE OR REPLACE TABLE keys AS SELECT {key.format('id')} AS key, rowid::{integer} AS n FROM nodes"
            )
            if self._keys_differ():
                break
        return key

    def _keys_differ(self) -> bool:
        last = None
        for batch in self.connection.sql("SELECT key FROM keys ORDER BY key").to_arrow_reader(BATCH_ROWS):
            keys = batch.column(0)
            if keys[0] == last or pc.any(pc.equal(keys[1:], keys[:-1])).as_py():
                return False
            last = keys[-1]
        return True

    def count_edges(self) -> int:
        """Return the number of edges, repeated ones included."""
        return int(self._row("SELECT count(*) FROM pairs")[0])

    def entries(self) -> Iterator[Entries]:
        """Return every edge but self-loops and its reverse, in ascending order."""
        packed = self.count < PACKED
        ends = "(({}::BIGINT << 32) | {}) AS key" if packed else "{} AS row, {} AS col"
        directions = " UNION ALL ".join(
            f"SELECT {ends.format(*pair)}, {forward} AS forward, w FROM pairs WHERE s <> d"
            for pair, forward in ((("s", "d"), "true"), (("d", "s"), "false"))
        )
        ordered = self.connection.sql(f"SELECT * FROM ({directions}) ORDER BY {'key' if packed else 'row, col'}")
        for batch in ordered.to_arrow_reader(BATCH_ROWS):
            *place, forward, weights = (column.to_numpy(zero_copy_only=False) for column in batch.columns)
            rows, columns = (place[0] >> 32, place[0] & (PACKED * 2 - 1)) if packed else place
            yield entries_of(rows, columns, forward, weights.astype(np.float64))

    def _row(self, query: str) -> tuple[Any, ...]:
        (found,) = self.connection.execute(query).fetchall()
        return tuple(found)

    def _create(self, table: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        """Create a table from record batches, which the query calls `given`; what they raise is raised here."""
        import duckdb

        problems: list[BaseException] = []

        def guarded() -> Iterator[pa.RecordBatch]:
            try:
                yield from batches
            except BaseException as problem:  # also an interrupt, which DuckDB would report as an error of its own
                problems.append(problem)
                raise

        self.connection.register("given", pa.RecordBatchReader.from_batches(schema, guarded()))
        try:
            self.connection.execute(f"CREATE TABLE {table}")
        except duckdb.Error:
            if problems:
                raise problems[0] from None
            raise
        finally:
            self.connection.unregister("given")


def _one_chunk(relation: "duckdb.DuckDBPyRelation") -> pa.Array:
    """Return the only column of a result."""
    return relation.to_arrow_table().column(0).combine_chunks()
