"""One door to all builders: from the user's own files to a dataset that `load` finds."""

from pathlib import Path

from glace.datasets.builders.acm import Say, build_acm
from glace.datasets.builders.debian import build_debian
from glace.datasets.builders.nouns import slice_nouns
from glace.datasets.builders.wordnet import build_wordnet
from glace.datasets.download import Progress
from glace.datasets.registry import data_folder, find, made
from glace.errors import InputError
from glace.graph.graph import Graph
from glace.io.npz import write_npz
from glace.storage.files import check_writable

_FROM_FOLDERS = {"wordnet": build_wordnet, "debian": build_debian}


def build(
    name: str,
    source: str | Path | None = None,
    output: str | Path | None = None,
    data_dir: str | Path | None = None,
    progress: Progress | None = None,
    say: Say | None = None,
) -> tuple[Graph, Path]:
    """Build a dataset from the files in the folder `source` (where they usually lie, if None).

    "acm" is built from a file, which has no usual place. It may be large: `progress` hears of the bytes
    read of it, and `say` gets a line on each kind of thing that was left out (else the log does).

    Written to the file `output`, else as NAME.npz into the data folder, where `load` validation_points for it.
    "wordnet-nouns", the bundled graph, is two Parquet files: for it `output` is a folder.
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
        graph = _FROM_FOLDERS[dataset.name](source)
    write_npz(graph, path)
    return graph, path


def _check_apart(source: str | Path | None, output: Path) -> None:
    if source is not None and Path(source).resolve() == output.resolve():
        raise InputError(f"cannot write {output}: it is the file to build from; name a new one")


def _build_nouns(source: str | Path | None, folder: Path) -> tuple[Graph, Path]:
    tables = slice_nouns(source)
    return tables.graph(directed=True), tables.write(folder, "wordnet-nouns")
