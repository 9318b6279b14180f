"""The registry of datasets: description, licence and source of each, and where its file is stored."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from glace.datasets import tables
from glace.datasets.tables import things_and_kinds
from glace.errors import InputError
from glace.graph.graph import Graph
from glace.io.npz import read_npz

BUNDLED_FOLDER = Path(__file__).parent / "data"
VARIABLE = "GLACE_DATA"

Kind = Literal["bundled", "built", "downloaded"]

_GRAPH2GAUSS = "https://raw.githubusercontent.com/abojchevski/graph2gauss/master/data"
_GNN_BENCHMARK = "https://raw.githubusercontent.com/shchur/gnn-benchmark/master/data/npz"
_WORDNET_LICENCE = "WordNet 3.0 licence: use, copy, modify and distribute with its notice"


@dataclass(frozen=True)
class Dataset:
    """A dataset that comes with the package, is built from files on this machine, or is downloaded.

    Attributes
    ----------
    name
        The name that `load` takes.
    summary
        What nodes, edges and attributes are.
    licence
        The terms of use.
    source
        A web address, or the software whose files the dataset is built from.
    kind
        "bundled", "built" or "downloaded".
    blob_id
        The git blob id of a downloaded file, used as its checksum.
    needs
        Where to get the file that the dataset is built from; empty if the machine has the files.
    """

    name: str
    summary: str
    licence: str
    source: str
    kind: Kind
    blob_id: str = ""
    needs: str = ""

    @property
    def file_names(self) -> tuple[str, str]:
        """The two possible names of its file: with hyphens, and with the underscores of the published files."""
        return f"{self.name}.npz", f"{self.name.replace('-', '_')}.npz"

    @property
    def command(self) -> str:
        """The command that makes the dataset available; empty if it is bundled."""
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


def _planetoid(file: str, summary: str, blob_id: str) -> Dataset:
    return Dataset(
        name=f"{file}-planetoid",
        summary=summary,
        licence="MIT, as the gnn-benchmark repository states",
        source=f"{_GNN_BENCHMARK}/{file}.npz",
        kind="downloaded",
        blob_id=blob_id,
    )


_DATASETS = (
    Dataset(
        "wordnet-nouns",
        "common nouns of WordNet for things one can see or touch, their kinds and parts, the words of their glosses",
        _WORDNET_LICENCE,
        "Princeton WordNet 3.0",
        "bundled",
    ),
    Dataset(
        "wordnet-kinds",
        "two node types: things that WordNet's nouns name and the kinds they belong to, with their glosses",
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
        "papers of AMiner's citation network that have an abstract, their citations, the words of the abstracts",
        "AMiner's terms, as its page states them; each abstract belongs to its publisher",
        "AMiner's Citation Network Dataset, https://www.aminer.org/citation",
        "built",
        needs='AMiner\'s "Citation Network Dataset" (https://www.aminer.org/citation), a text version of the '
        "ACM network, such as V1 (outputacm.txt)",
    ),
    _citations(
        "cora_ml", "2,995 papers on machine learning and their citations", "2df67d57d5c34554a689f8addde7fc3bdf37a415"
    ),
    _citations(
        "cora", "19,793 papers on computer science and their citations", "7dfe6828aec9c9a337ce1bb8efe088e5870e0666"
    ),
    _citations("citeseer", "4,230 papers of CiteSeer and their citations", "b611f48626e7f40fcc81a36b4f022979ea998b38"),
    _citations("dblp", "17,716 papers of DBLP and their citations", "3e179a9ebf2968d9ad67544c8978bf4759e489d8"),
    _citations("pubmed", "18,230 papers on diabetes and their citations", "0735ab74ee845ee26da2db763294d42646058534"),
    _planetoid(
        "cora",
        "2,708 papers on machine learning, the small Cora of link prediction benchmarks",
        "b08fd856430b2b7787aa646a33ad51132b4f6f80",
    ),
    _planetoid(
        "citeseer",
        "3,312 papers of CiteSeer, the small Citeseer of link prediction benchmarks",
        "0e71905a80ab405875cc6c7a7a15190aa35fec79",
    ),
    _planetoid(
        "pubmed",
        "19,717 papers on diabetes, the Pubmed of link prediction benchmarks",
        "25d0b1bebcb08296348572ca0cebe322fdd085b0",
    ),
)


def names() -> list[str]:
    """Return the names of all datasets.

    Returns
    -------
    list of str
        The names, bundled datasets first.

    Examples
    --------
    >>> from glace import datasets
    >>> "wordnet-nouns" in datasets.names()
    True
    """
    return [each.name for each in _DATASETS]


def find(name: str) -> Dataset:
    """Return the description of a dataset.

    Parameters
    ----------
    name
        The name of the dataset; underscores may replace hyphens.

    Returns
    -------
    Dataset
        Summary, licence, source and kind.

    Raises
    ------
    InputError
        If there is no dataset of this name.

    Examples
    --------
    >>> from glace import datasets
    >>> datasets.find("cora_ml").summary
    '2,995 papers on machine learning and their citations'
    """
    for each in _DATASETS:
        if each.name == name.replace("_", "-"):
            return each
    raise InputError(f"there is no dataset {name!r}; choose from {', '.join(names())}")


def load(name: str, *, directed: bool = False, data_dir: str | Path | None = None) -> Graph:
    """Load a dataset from the package or from the data folder.

    Parameters
    ----------
    name
        The name of the dataset; see `names`.
    directed
        Whether to keep the direction of the edges.
    data_dir
        Folder of built and downloaded datasets. By default the environment variable GLACE_DATA, else the user's
        cache folder.

    Returns
    -------
    Graph
        The graph with attributes, and labels where the dataset has them.

    Raises
    ------
    InputError
        If there is no such dataset, or its file is not in the folder; the message says how to get it.

    Examples
    --------
    >>> from glace import datasets
    >>> graph = datasets.load("wordnet-nouns")
    >>> graph.num_nodes > 9_000
    True
    """
    dataset = find(name)
    if dataset.name == "wordnet-kinds":
        return things_and_kinds(BUNDLED_FOLDER, directed=directed)
    if dataset.kind == "bundled":
        return tables.read(BUNDLED_FOLDER, dataset.name).graph(directed=directed)
    path = stored(dataset, data_dir)
    if path is None:
        folder = data_folder(data_dir)
        raise InputError(
            f"{dataset.name} is not on this machine (no {' or '.join(dict.fromkeys(dataset.file_names))} "
            f"in {folder}); run '{dataset.command}'{f' with {dataset.needs}' if dataset.needs else ''}, "
            f"or set {VARIABLE} to the folder that holds it"
        )
    return read_npz(path, directed=directed)


def is_available(name: str, data_dir: str | Path | None = None) -> bool:
    """Return whether a dataset is bundled with glace or in the data folder."""
    dataset = find(name)
    return dataset.kind == "bundled" or stored(dataset, data_dir) is not None


def stored(dataset: Dataset, data_dir: str | Path | None = None) -> Path | None:
    """Return the path of a dataset's file in the data folder, or None if it is not there."""
    folder = data_folder(data_dir)
    return next((folder / name for name in dataset.file_names if (folder / name).is_file()), None)


def data_folder(
    data_dir: str | Path | None = None, *, environment: Mapping[str, str] = os.environ, platform: str = sys.platform
) -> Path:
    """Return the folder of built and downloaded datasets: `data_dir`, else $GLACE_DATA, else the user's cache."""
    if data_dir is not None:
        return Path(data_dir)
    if chosen := environment.get(VARIABLE):
        return Path(chosen)
    return _cache_folder(environment, platform) / "glace"


def made(folder: Path) -> Path:
    """Make a folder unless it exists, and return it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise InputError(
            f"cannot make the folder {folder}: {problem.strerror}; name another, or set {VARIABLE} to one"
        ) from problem
    return folder


def _cache_folder(environment: Mapping[str, str], platform: str) -> Path:
    """Return the folder where programs of this system keep files that they can recreate."""
    if platform == "win32":
        return Path(environment.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
