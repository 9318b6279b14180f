"""Graph folders, NAME.graph: one .npy file per array of `glace.graph.codec`, memory-mapped, and a graph.json.

A slash in the name of an array is a dot in the name of its file. Nodes are sorted by id, the order of training.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import numpy.typing as npt

from glace.errors import FormatError, GlaceError, InputError
from glace.graph.codec import decode, encode
from glace.graph.graph import CleaningReport, Graph, GraphFolder, Mapped
from glace.storage.container import Array, Arrays, Metadata
from glace.storage.files import replacing_folder
from glace.storage.mapped import NpyStream, create_npy, map_npy

MARK, FORMAT, VERSION = "graph.json", "glace-graph", 2
ENDING = ".graph"


def write_folder(graph: Graph, path: str | Path) -> None:
    """Write a graph to a folder that `read_folder` memory-maps.

    Parameters
    ----------
    graph : Graph
        The graph. Its nodes are written in the order of their ids.
    path : path
        The folder to write, by convention NAME.graph. An existing graph folder is replaced.

    Raises
    ------
    InputError
        If the folder cannot be written, or exists and is not a graph folder.

    Examples
    --------
    >>> import glace, tempfile
    >>> graph = glace.from_arrays([[0, 1], [1, 2]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     glace.write_folder(graph, f"{folder}/path.graph")
    ...     glace.read_folder(f"{folder}/path.graph").fingerprint() == graph.fingerprint()
    True
    """
    ordered = graph.in_id_order()[0]
    metadata, arrays = encode(ordered, neighbors=True)
    with writing(path) as writer:
        writer.put(arrays)
        writer.finish(metadata, graph.cleaning_report)


def read_folder(path: str | Path, *, verify: bool = False) -> Graph:
    """Open a graph folder; its arrays are memory-mapped, not read.

    Every file must be complete and have the type and shape that graph.json states. Indices are read once, in blocks,
    and checked: compiled code trusts them, so a damaged folder could make it read any memory.

    Parameters
    ----------
    path : path
        A folder that `write_folder`, `convert_tables` or ``glace convert`` wrote.
    verify : bool, default False
        Whether to read everything and compare it with the fingerprint in graph.json.

    Returns
    -------
    Graph
        The graph, with its nodes sorted by id.

    Raises
    ------
    InputError
        If there is no such folder, or it is not a graph folder.
    FormatError
        If the folder is damaged or has another format version.

    Examples
    --------
    See `write_folder`.
    """
    folder = Path(path)
    facts = _read_facts(folder)
    try:
        graph = _graph(folder, facts)
        if not graph.ids.ascend():
            raise FormatError("the ids do not ascend")
        if verify and replace(graph, mapped=None).fingerprint() != facts["fingerprint"]:
            raise FormatError(f"the content does not have the fingerprint that {MARK} states")
    except GlaceError as problem:
        raise FormatError(f"{folder} is not a usable graph folder: {problem}") from problem
    return graph


def is_folder(path: str | Path) -> bool:
    """Whether a path names a graph folder: a folder without tables exists there, or the name ends in .graph."""
    named = str(path).rstrip("/").endswith(ENDING)
    return named or (Path(path).is_dir() and not holds_tables(path))


def holds_tables(path: str | Path) -> bool:
    """Whether a path names a folder of Parquet files, and not a graph folder."""
    folder = Path(path)
    return folder.is_dir() and not (folder / MARK).exists() and any(folder.glob("*.parquet"))


def size_of(path: str | Path) -> int:
    """Total size of the files of a folder in bytes."""
    return sum(entry.stat().st_size for entry in Path(path).iterdir())


@contextmanager
def writing(path: str | Path) -> Iterator["FolderWriter"]:
    """Yield a writer of a graph folder; on success the folder is at `path`, otherwise nothing changes."""
    with replacing_folder(path, MARK) as temporary:
        yield FolderWriter(temporary)


class FolderWriter:
    """Writes the arrays of a graph folder: whole, in a stream, or in any order."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, arrays: Arrays) -> None:
        """Write whole arrays."""
        for name, array in arrays.items():
            with self.stream(name, array.dtype, array.shape[1:]) as stream:
                stream.append(array)

    def stream(self, name: str, dtype: npt.DTypeLike, columns: tuple[int, ...] = ()) -> NpyStream:
        """Open an array that is written row by row."""
        return NpyStream(_file(self.folder, name), dtype, columns)

    def create(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
        """Create an array of zeros that can be filled in any order."""
        return create_npy(_file(self.folder, name), shape, dtype)

    def finish(self, metadata: Mapping[str, object], report: CleaningReport) -> None:
        """Write graph.json: the metadata of `glace.graph.codec`, and the fingerprint of what was written."""
        files = sorted(self.folder.glob("*.npy"))
        stated = {path.stem.replace(".", "/"): _dtype_and_shape(map_npy(path)) for path in files}
        facts = {"format": FORMAT, "version": VERSION, **metadata, "cleaning_report": asdict(report), "arrays": stated}
        facts["fingerprint"] = _graph(self.folder, facts | {"fingerprint": ""}).fingerprint()
        text = json.dumps(facts, indent=1, ensure_ascii=False)
        (self.folder / MARK).write_text(text + "\n", encoding="utf-8")


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name.replace('/', '.')}.npy"


def _dtype_and_shape(array: Array) -> list[object]:
    return [array.dtype.str, *array.shape]


def _read_facts(folder: Path) -> Metadata:
    if not folder.is_dir():
        raise InputError(f"no folder {folder}; give a graph folder that `glace convert` wrote")
    try:
        facts = json.loads((folder / MARK).read_text(encoding="utf-8"))
    except FileNotFoundError as problem:
        raise InputError(f"{folder} is not a graph folder: it has no {MARK}") from problem
    except (OSError, ValueError, RecursionError) as problem:
        raise FormatError(f"{folder / MARK} cannot be read: {problem}") from problem
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise FormatError(f"{folder / MARK} does not describe a graph; give a graph folder that `glace convert` wrote")
    if facts.get("version") != VERSION:
        raise FormatError(
            f"{folder} has format version {facts.get('version')}, but this glace reads version {VERSION}; "
            "use the version of glace that wrote it, or convert the graph again"
        )
    for name, kind in {"cleaning_report": dict, "fingerprint": str, "arrays": dict}.items():
        if type(facts.get(name)) is not kind:
            raise FormatError(f"{folder / MARK} has no valid {name}; convert the graph again")
    return dict(facts)


def _graph(folder: Path, facts: Metadata) -> Graph:
    graph = decode(facts, _mapped_arrays(folder, facts["arrays"]), mapped=True)
    neighbors = graph.mapped.neighbors if graph.mapped else None
    place = GraphFolder(str(folder.absolute()), facts["fingerprint"])
    try:
        report = CleaningReport(**facts["cleaning_report"])
        report = replace(report, notes=tuple(report.notes))
    except TypeError as problem:
        raise FormatError(f"{MARK} has a cleaning_report that this glace does not know: {problem}") from problem
    return replace(graph, cleaning_report=report, mapped=Mapped(facts["fingerprint"], neighbors, place))


def _mapped_arrays(folder: Path, stated: dict[str, list[object]]) -> Arrays:
    arrays = {}
    for name, expected in stated.items():
        array = arrays[name] = map_npy(_file(folder, name))
        if _dtype_and_shape(array) != expected:
            raise FormatError(f"{name} is {array.dtype.str} of shape {array.shape}, but {MARK} states {expected}")
    return arrays
