"""Build datasets from files on this machine, for `load` to find."""

from collections.abc import Callable
from pathlib import Path

from glace.datasets.builders.acm import Say, build_acm
from glace.datasets.builders.debian import build_debian
from glace.datasets.builders.wordnet import build_wordnet, slice_nouns
from glace.datasets.download import Progress
from glace.datasets.registry import data_folder, find, made
from glace.errors import InputError
from glace.graph.graph import Graph
from glace.io.npz import write_npz
from glace.storage.files import check_writable

BUILDERS: dict[str, Callable[[str | Path | None], Graph]] = {"wordnet": build_wordnet, "debian": build_debian}
"""Builders that take the folder of the original files; `acm` is built from one file, with progress."""


def build(
    name: str,
    source: str | Path | None = None,
    output: str | Path | None = None,
    data_dir: str | Path | None = None,
    progress: Progress | None = None,
    say: Say | None = None,
) -> tuple[Graph, Path]:
    """Build a dataset from files on this machine, and write it for `load` to find.

    Parameters
    ----------
    name
        The name of a dataset of the kind "built", or "wordnet-nouns" to rebuild the bundled one.
    source
        Folder of the original files, by default where Debian installs them. "acm" is built from one file, which must
        be given.
    output
        File to write, by default NAME.npz in the data folder. "wordnet-nouns" is two Parquet files; `output` is then
        their folder.
    data_dir
        Data folder. By default the environment variable GLACE_DATA, else the user's cache folder.
    progress
        Called with the bytes read so far of the file of "acm", and its size.
    say
        Called with a line of text about each kind of record that was left out; by default they are logged.

    Returns
    -------
    graph : Graph
        The graph.
    path : Path
        The file written.

    Raises
    ------
    InputError
        If the dataset is not built, or the original files are missing.

    Examples
    --------
    >>> from glace import datasets
    >>> graph, path = datasets.build("wordnet")  # doctest: +SKIP
    """
    dataset = find(name)
    if dataset.name == "wordnet-nouns":
        return _build_nouns(source, made(Path(output) if output is not None else data_folder(data_dir)))
    if dataset.kind != "built":
        raise InputError(f"{dataset.name} is not built but {dataset.kind}; run '{dataset.command}'")
    path = Path(output) if output is not None else made(data_folder(data_dir)) / dataset.file_names[0]
    check_writable(path)
    if dataset.name == "acm":
        _check_apart(source, path)
        graph = build_acm(source, progress, say)
    else:
        graph = BUILDERS[dataset.name](source)
    write_npz(graph, path)
    return graph, path


def _check_apart(source: str | Path | None, output: Path) -> None:
    if source is not None and Path(source).resolve() == output.resolve():
        raise InputError(f"cannot write {output}: it is the source file; name another one")


def _build_nouns(source: str | Path | None, folder: Path) -> tuple[Graph, Path]:
    tables = slice_nouns(source)
    return tables.graph(directed=True), tables.write(folder, "wordnet-nouns")
