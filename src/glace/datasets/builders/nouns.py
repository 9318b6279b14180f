"""The bundled graph: the part of WordNet's nouns that names things anybody can picture.

All of WordNet is too large to ship and full of rare names. The slice holds the best-known animals, plants, foods,
artifacts and parts of the body, with all their hypernyms.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from glace.datasets.builders.wordnet import (
    FILES,
    HYPERNYMS,
    INVERSE,
    Synset,
    data_lines,
    read_names,
    read_synsets,
    tables_of,
)
from glace.datasets.tables import Tables
from glace.errors import FormatError, InputError

# Number of synsets from each lexicographer file; their hypernyms come in addition.
QUOTAS = {"noun.animal": 3600, "noun.artifact": 3000, "noun.body": 1000, "noun.food": 1400, "noun.plant": 3200}

# The roots of all nouns, such as entity, organism, animal.
TOPS = "noun.Tops"

# The only edge of a node can never be held out.
MIN_LINKS = 2

# Familiarity from which a synset may stay with one link: a plain word with three pointers, or one that occurs in the
# texts that WordNet's authors tagged with senses.
FAMILIAR = 2.0

Synsets = dict[str, Synset]
"""By key, in the order of the files."""

Counts = Mapping[tuple[str, str, int], int]
"""How often a sense (lower-case word, lexicographer file, lexical id) was tagged in texts."""


def slice_nouns(folder: str | Path | None = None, quotas: Mapping[str, int] = QUOTAS) -> Tables:
    """Return the best-known nouns of WordNet's `folder` as a connected graph, labelled by file without "noun.".

    Every synset has at least two links in the slice, except the most familiar ones, which may have one. Individuals
    (instances of a kind, such as a famous horse) are left out.
    """
    things = _things(read_synsets(folder, ["noun"]), quotas)
    familiarity = _familiarity(things, _read_counts(folder))
    nouns = _well_linked(things, familiarity)
    kept = _largest_component(_well_linked(_with_hypernyms(_best(nouns, familiarity, quotas), nouns), familiarity))
    if not kept:
        raise InputError("no linked nouns of the expected lexicographer files; name the folder of WordNet 3.0")
    inside = [_labelled(_without_outside(each, kept), quotas) for each in kept.values()]
    return tables_of(inside, read_names(inside, folder))


def _things(synsets: Iterable[Synset], quotas: Mapping[str, int]) -> Synsets:
    """Return the synsets of the files in `quotas` and of the roots, without individuals."""
    return {
        synset.key: synset
        for synset in synsets
        if (synset.file in quotas or synset.file == TOPS) and "@i" not in dict(synset.pointers)
    }


def _familiarity(synsets: Synsets, counts: Counts) -> dict[str, float]:
    """Return a score of how well known each synset is: frequent in texts, many pointers, one plain word."""
    return {
        key: 2 * math.log2(1 + _count(synset, counts))
        + math.log2(1 + len(synset.pointers))
        - 1.5 * ("_" in synset.words[0])
        # Latin names of genera and families are penalised.
        - 3.0 * (synset.words[0][0].isupper() or synset.words[0].startswith("genus_"))
        for key, synset in synsets.items()
    }


def _best(synsets: Synsets, familiarity: Mapping[str, float], quotas: Mapping[str, int]) -> list[Synset]:
    """Return the most familiar synsets of each file, up to its quota."""
    ranked = sorted(synsets.values(), key=lambda each: (-familiarity[each.key], each.key))
    return [each for file, most in quotas.items() for each in [x for x in ranked if x.file == file][:most]]


def _well_linked(synsets: Synsets, familiarity: Mapping[str, float]) -> Synsets:
    """Remove unfamiliar synsets with fewer than two links until none is left."""
    links = _links(synsets)
    weak = [key for key in synsets if len(links[key]) < MIN_LINKS and familiarity[key] < FAMILIAR]
    gone = set(weak)
    while weak:
        key = weak.pop()
        for other in links[key] - gone:
            links[other].discard(key)
            if len(links[other]) < MIN_LINKS and familiarity[other] < FAMILIAR:
                gone.add(other)
                weak.append(other)
    return {key: synset for key, synset in synsets.items() if key not in gone}


def _with_hypernyms(chosen: Iterable[Synset], synsets: Synsets) -> Synsets:
    """Return the chosen synsets and all their hypernyms within `synsets`."""
    found = {synset.key for synset in chosen}
    open_ = list(found)
    while open_:
        above = {target for symbol, target in synsets[open_.pop()].pointers if symbol in HYPERNYMS}
        new = (above & synsets.keys()) - found
        found |= new
        open_.extend(new)
    return {key: synset for key, synset in synsets.items() if key in found}


def _largest_component(synsets: Synsets) -> Synsets:
    row = {key: number for number, key in enumerate(synsets)}
    pairs = [(row[key], row[other]) for key, others in _links(synsets).items() for other in others]
    if not pairs:
        return {}
    sources, targets = np.array(pairs).T
    matrix = sp.csr_array((np.ones(len(pairs)), (sources, targets)), shape=(len(row), len(row)))
    _, component = connected_components(matrix, directed=False)
    largest = np.bincount(component).argmax()
    return {key: synset for (key, synset), each in zip(synsets.items(), component, strict=True) if each == largest}


def _links(synsets: Synsets) -> dict[str, set[str]]:
    """Return the neighbours of each synset within `synsets`, in both directions."""
    links: dict[str, set[str]] = defaultdict(set)
    for synset in synsets.values():
        for target in synset.links():
            if target in synsets:
                links[synset.key].add(target)
                links[target].add(synset.key)
    return links


def _without_outside(synset: Synset, kept: Synsets) -> Synset:
    pointers = tuple((symbol, target) for symbol, target in synset.pointers if target in kept and symbol not in INVERSE)
    return replace(synset, pointers=pointers)


def _labelled(synset: Synset, quotas: Mapping[str, int]) -> Synset:
    """Return the synset labelled by its file; a root with the name of a file, such as animal, gets that label."""
    namesake = f"noun.{synset.words[0]}"
    file = namesake if synset.file == TOPS and namesake in quotas else synset.file
    return replace(synset, file=file.removeprefix("noun."))


def _read_counts(folder: str | Path | None) -> Counts:
    counts: Counter[tuple[str, str, int]] = Counter()
    for number, line in data_lines(folder, "cntlist.rev"):
        try:
            key, _, count = line.split()
            word, _, rest = key.rpartition("%")
            _, file, lexical_id, *_ = rest.split(":")
            counts[word, FILES[int(file)], int(lexical_id)] += int(count)
        except (ValueError, IndexError) as problem:
            raise FormatError(
                f"line {number} of cntlist.rev is not 'sense_key number count': {line[:40]!r}"
            ) from problem
    return counts


def _count(synset: Synset, counts: Counts) -> int:
    senses = zip(synset.words, synset.lexical_ids, strict=True)
    return sum(counts.get((word.lower(), synset.file, lexical_id), 0) for word, lexical_id in senses)
