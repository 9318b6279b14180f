"""Printed names of methods and datasets, and the paper's order of them."""

from collections.abc import Iterable

_FAMILIES = {
    "attributes": "Attributes",
    "deepwalk": "DeepWalk",
    "node2vec": "node2vec",
    "line": "LINE",
    "vgae": "VGAE",
    "graphsage": "GraphSAGE",
    "graph2gauss": "Graph2Gauss",
    "lace": "LACE",
    "glace-published": "GLACE as published",
    "glace": "GLACE",
}
FAMILIES = tuple(_FAMILIES)
# The plain name of these means both proximities, concatenated; `glace` alone is GLACE at its best.
_OF_BOTH_ORDERS = {"line", "lace", "glace-published"}
_ORDERS = {"first": "1st", "second": "2nd"}

_DATASETS = {
    "cora-ml": "Cora-ML",
    "cora": "Cora",
    "citeseer": "Citeseer",
    "dblp": "DBLP",
    "pubmed": "Pubmed",
    "acm": "ACM",
    "wordnet": "WordNet",
    "wordnet-nouns": "WordNet nouns",
    "wordnet-kinds": "WordNet kinds",
    "debian": "Debian",
}


def family_of(method: str) -> tuple[str, str]:
    """Return the method without its order, and the order: "first", "second" or ""."""
    family, _, order = method.rpartition("-")
    return (family, order) if order in _ORDERS and family else (method, "")


def method_name(method: str) -> str:
    """Return a method's printed name; unknown methods keep their own."""
    family, order = family_of(method)
    if family not in _FAMILIES:
        return method
    orders = _ORDERS[order] if order else "1st+2nd" if family in _OF_BOTH_ORDERS else ""
    return f"{_FAMILIES[family]} {orders}".strip()


def dataset_name(dataset: str) -> str:
    """Return a dataset's printed name; unknown datasets keep their own."""
    return _DATASETS.get(dataset, dataset)


def in_order(methods: Iterable[str]) -> list[str]:
    """Return the distinct methods in the paper's order (1st, 2nd, then both); unknown ones last, by name."""
    return sorted(set(methods), key=_place_of_method)


def datasets_in_order(datasets: Iterable[str]) -> list[str]:
    """Return the distinct datasets in the paper's order; unknown ones last, by name."""
    known = list(_DATASETS)
    return sorted(set(datasets), key=lambda name: (known.index(name) if name in known else len(known), name))


def _place_of_method(method: str) -> tuple[int, int, str]:
    family, order = family_of(method)
    place = FAMILIES.index(family) if family in FAMILIES else len(FAMILIES)
    return place, ["first", "second", ""].index(order), method
