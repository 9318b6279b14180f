"""The datasets by name: what each is, whose it is, where it lies, and how it gets there."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from glace.datasets import tables
from glace.datasets.kinds import things_and_kinds
from glace.errors import InputError
from glace.graph.graph import Graph
from glace.io.npz import read_npz

BUNDLED_FOLDER = Path(__file__).parent / "data"
VARIABLE = "GLACE_DATA"

_GRAPH2GAUSS = "https://raw.githubusercontent.com/abojchevski/graph2gauss/master/data"
_WORDNET_LICENCE = "WordNet 3.0 licence: use, copy, modify and distribute with its notice"


@dataclass(frozen=True)
class Dataset:
    """One dataset; it comes with the package, is built on the user's machine, or is downloaded."""

    name: str
    summary: str
    licence: str
    source: str
    """Where it comes from: a web address, or the software whose files it is built from."""
    kind: str
    """"bundled", "built" or "downloaded"."""
    blob_id: str = ""
    """What git calls the downloaded file's content; serves as its checksum."""
    needs: str = ""
    """Where its user gets the FILE it is built from; empty if the machine has the files."""

    @property
    def file_names(self) -> tuple[str, str]:
        """What its file may be called: ours, and with the underscores of the published files."""
        return f"{self.name}.npz", f"{self.name.replace('-', '_')}.npz"

    @property
    def command(self) -> str:
        """The command that makes it loadable; empty if it always is."""
        verb = {"built": "build", "downloaded": "get"}.get(self.kind)
        return f"glace datasets {verb} {self.name}{' --from FILE' * bool(self.needs)}" if verb else ""


def _citations(file: str, summary: str, blob_id: str) -> Dataset:
    return Dataset(
        name=file.replace("_", "-"),
        summary=summary,
        licence="MIT, as the Graph2Gauss repository states",
        source=f"{_GRAPH2GAUSS}/{file}.npz",
        kind="downloaded",
        blob_id=blob_id,
    )


_DATASETS = (
    Dataset(
        "wordnet-nouns",
        "common nouns of WordNet: things one can see or touch, what they are kinds and parts of, their glosses",
        _WORDNET_LICENCE,
        "Princeton WordNet 3.0",
        "bundled",
    ),
    Dataset(
        "wordnet-kinds",
        "two types of nodes: things that WordNet's nouns name and the kinds they are of, with their glosses",
        _WORDNET_LICENCE,
        "Princeton WordNet 3.0",
        "bundled",
    ),
    Dataset(
        "wordnet",
        "all 117,659 synsets of WordNet 3.0, the pointers among them, the words of their glosses",
        _WORDNET_LICENCE,
        "Debian's package wordnet-base",
        "built",
    ),
    Dataset(
        "debian",
        "the packages of the Debian release in use, their dependencies, the words of their descriptions",
        "package metadata; each description under its package's licence",
        "apt's package lists",
        "built",
    ),
    Dataset(
        "acm",
        "papers of AMiner's citation network that have an abstract, whom they cite, the words of the abstracts",
        "AMiner's terms, as its page states them; each abstract belongs to its publisher",
        "AMiner's Citation Network Dataset, https://www.aminer.org/citation",
        "built",
        needs='AMiner\'s "Citation Network Dataset" (https://www.aminer.org/citation), a text version of the '
        "ACM network, such as V1 (outputacm.txt)",
    ),
    _citations(
        "cora_ml",
        "2,995 papers on machine learning and whom they cite",
        "2df67d57d5c34554a689f8addde7fc3bdf37a415",
    ),
    _citations(
        "cora",
        "19,793 papers on computer science and whom they cite",
        "7dfe6828aec9c9a337ce1bb8efe088e5870e0666",
    ),
    _citations("citeseer", "4,230 papers of CiteSeer and whom they cite", "b611f48626e7f40fcc81a36b4f022979ea998b38"),
    _citations("dblp", "17,716 papers of DBLP and whom they cite", "3e179a9ebf2968d9ad67544c8978bf4759e489d8"),
    _citations("pubmed", "18,230 papers on diabetes and whom they cite", "0735ab74ee845ee26da2db763294d42646058534"),
)


def names() -> list[str]:
    """The names of all datasets."""
    return [each.name for each in _DATASETS]


def find(name: str) -> Dataset:
    """The dataset of this name; underscores may stand for hyphens."""
    for each in _DATASETS:
        if each.name == name.replace("_", "-"):
            return each
    raise InputError(f"no dataset {name!r}; there are {', '.join(names())}")


def load(name: str, *, directed: bool = False, data_dir: str | Path | None = None) -> Graph:
    """The graph of this name, from the package or from the data folder (see `data_folder`)."""
    dataset = find(name)
    if dataset.name == "wordnet-kinds":
        return things_and_kinds(BUNDLED_FOLDER, directed=directed)
    if dataset.kind == "bundled":
        return tables.read(BUNDLED_FOLDER, dataset.name).graph(directed=directed)
    path = stored(dataset, data_dir)
    if path is None:
        folder = data_folder(data_dir)
        raise InputError(
            f"{dataset.name} is not on this machine (looked for {' and '.join(dict.fromkeys(dataset.file_names))} "
            f"in {folder}); run '{dataset.command}'{_with(dataset.needs)}, "
            f"or set {VARIABLE} to the folder that holds it"
        )
    return read_npz(path, directed=directed)


def _with(needs: str) -> str:
    return f" with {needs}" if needs else ""


def stored(dataset: Dataset, data_dir: str | Path | None = None) -> Path | None:
    """Where the file of a dataset lies in the data folder, under either of its names; None if it does not."""
    folder = data_folder(data_dir)
    return next((folder / name for name in dataset.file_names if (folder / name).is_file()), None)


def data_folder(
    data_dir: str | Path | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
    platform: str = sys.platform,
) -> Path:
    """The folder of built and downloaded datasets: `data_dir`, else $GLACE_DATA, else the user's cache."""
    if data_dir is not None:
        return Path(data_dir)
    if chosen := environment.get(VARIABLE):
        return Path(chosen)
    return _cache_folder(environment, platform) / "glace"


def made(folder: Path) -> Path:
    """The folder, made if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise InputError(
            f"cannot make the folder {folder}: {problem.strerror}; name another, or set {VARIABLE} to one"
        ) from problem
    return folder


def _cache_folder(environment: Mapping[str, str], platform: str) -> Path:
    """Where programs of this system keep what they can fetch or make again."""
    if platform == "win32":
        return Path(environment.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
