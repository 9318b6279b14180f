"""WordNet 3.0 as a graph: synsets, the pointers among them, the words of their glosses; and its best-known nouns.

The files are those of Debian's package wordnet-base; their format is described in its manual page wndb(5WN). A synset
is one meaning, named by one or more words: "dog, domestic dog, Canis familiaris".

All of WordNet is too large to ship and full of rare names. The bundled slice holds the best-known animals, plants,
foods, artifacts and parts of the body, with all their hypernyms.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from glace.datasets.tables import Tables
from glace.errors import FormatError, InputError
from glace.graph.graph import Graph

FOLDER = Path("/usr/share/wordnet")

PARTS = ("noun", "verb", "adj", "adv")

# Debian does not ship the file lexnames; this is the list of lexnames(5WN). Synsets refer to it by position.
FILES = (
    *("adj.all", "adj.pert", "adv.all", "noun.Tops", "noun.act", "noun.animal", "noun.artifact"),
    *("noun.attribute", "noun.body", "noun.cognition", "noun.communication", "noun.event", "noun.feeling"),
    *("noun.food", "noun.group", "noun.location", "noun.motive", "noun.object", "noun.person"),
    *("noun.phenomenon", "noun.plant", "noun.possession", "noun.process", "noun.quantity", "noun.relation"),
    *("noun.shape", "noun.state", "noun.substance", "noun.time", "verb.body", "verb.change"),
    *("verb.cognition", "verb.communication", "verb.competition", "verb.consumption", "verb.contact"),
    *("verb.creation", "verb.emotion", "verb.motion", "verb.perception", "verb.possession", "verb.social"),
    *("verb.stative", "verb.weather", "adj.ppl"),
)

# Hyponyms, meronyms and members of a domain repeat what hypernym, holonym and domain pointers say.
INVERSE = frozenset({"~", "~i", "%m", "%s", "%p", "-c", "-r", "-u"})

HYPERNYMS = frozenset({"@", "@i"})

# The marker of an adjective's position, which the index leaves out.
_MARKER = re.compile(r"\((?:a|p|ip)\)$")
_QUOTED = re.compile(r'(?:^|[;,:])\s*"[^"]*"(?:\s*-+\s*[^;]*)?')


Parsed = TypeVar("Parsed")


@dataclass(frozen=True)
class Synset:
    """One line of a data file; `key` is the part of speech and the offset, such as "n02084071"."""

    key: str
    file: str
    words: tuple[str, ...]
    lexical_ids: tuple[int, ...]
    """Distinguishes the meanings of a word within one lexicographer file."""
    pointers: tuple[tuple[str, str], ...]
    """(symbol, key of the target), including the inverse pointers."""
    gloss: str

    @property
    def name(self) -> str:
        """The part of speech and the first word, such as "n:dog"; several synsets may share it."""
        return f"{self.key[0]}:{self.words[0]}"

    @property
    def definition(self) -> str:
        """The gloss without its quoted examples."""
        return " ".join(_QUOTED.sub("", self.gloss).split()).strip(" ;,:")

    def links(self) -> Iterator[str]:
        """Return the keys of the other synsets it points to, each once, without inverse pointers."""
        targets = dict.fromkeys(target for symbol, target in self.pointers if symbol not in INVERSE)
        # Nine synsets point to themselves: two of their words derive from each other.
        return (target for target in targets if target != self.key)


def build_wordnet(folder: str | Path | None = None) -> Graph:
    """Return the directed graph of all synsets in WordNet's `folder`; labels are the lexicographer files."""
    synsets = read_synsets(folder)
    return tables_of(synsets, read_names(synsets, folder)).graph(directed=True)


def read_synsets(folder: str | Path | None = None, parts: Sequence[str] = PARTS) -> list[Synset]:
    """Return the synsets of these parts of speech, in the order of the files."""
    return [synset for part in parts for synset in _parsed(folder, f"data.{part}", _synset, "a synset")]


def read_names(synsets: Sequence[Synset], folder: str | Path | None = None) -> list[str]:
    """Return a distinct name for each synset.

    Where several share part of speech and first word, the most common sense of them keeps the plain
    name and the others get their sense number: "n:dog" barks, "n:crane" lifts, "n:crane.5" flies.
    """
    sharing = defaultdict(list)
    for place, synset in enumerate(synsets):
        sharing[synset.name].append(place)
    senses = _read_senses(folder, {synset.key[0] for synset in synsets})
    names = [synset.name for synset in synsets]
    for name, places in sharing.items():
        numbers = {place: _sense(senses, synsets[place]) for place in places}
        for place in sorted(places, key=lambda each: numbers[each])[1:]:
            names[place] = f"{name}.{numbers[place]}"
    return names


def tables_of(synsets: Sequence[Synset], names: Sequence[str]) -> Tables:
    """Return nodes and edges of synsets that point only to each other."""
    name_of = {synset.key: name for synset, name in zip(synsets, names, strict=True)}
    try:
        pairs = [(name_of[synset.key], name_of[each]) for synset in synsets for each in synset.links()]
    except KeyError as missing:
        raise FormatError(
            f"a pointer leads to {missing}, but no synset is there; take all files from one version"
        ) from missing
    texts, labels = [synset.definition for synset in synsets], [synset.file for synset in synsets]
    return Tables.of(names, texts, pairs, labels)


def _parsed(folder: str | Path | None, name: str, parse: Callable[[str], Parsed], wanted: str) -> Iterator[Parsed]:
    """Yield the parsed lines of a WordNet file, without the licence at the top (indented by two spaces)."""
    path = Path(folder or FOLDER) / name
    if not path.is_file():
        raise InputError(
            f"no file {path}; install Debian's package wordnet-base, "
            "or name the folder of WordNet 3.0's data.noun and index.noun with --from DIR"
        )
    with path.open(encoding="latin-1") as source:
        for number, line in enumerate(source, start=1):
            try:
                if not line.startswith("  "):
                    yield parse(line)
            except (ValueError, IndexError) as problem:
                raise FormatError(
                    f"line {number} of {name} is not {wanted} as wndb(5WN) describes it ({line[:40]!r}...); "
                    "get WordNet 3.0's files again"
                ) from problem


def _synset(line: str) -> Synset:
    """offset file type count (word lexical-id)... count (symbol offset part source/target)... | gloss."""
    head, _, gloss = line.partition("|")
    fields = head.split()
    end = 4 + 2 * int(fields[3], 16)
    first, last = end + 1, end + 1 + 4 * int(fields[end])
    if last > len(fields) or not fields[4:end]:
        raise ValueError(line)
    return Synset(
        key=_key(fields[2], fields[0]),
        file=FILES[int(fields[1])],
        words=tuple(fields[4:end:2]),
        lexical_ids=tuple(int(each, 16) for each in fields[5:end:2]),
        pointers=tuple((fields[place], _key(fields[place + 2], fields[place + 1])) for place in range(first, last, 4)),
        gloss=gloss.strip(),
    )


def _key(part: str, offset: str) -> str:
    # A satellite adjective (s) stands in the same file as the others (a), and pointers name it either way.
    return ("a" if part == "s" else part) + offset


def _read_senses(folder: str | Path | None, letters: set[str]) -> dict[tuple[str, str], int]:
    """Return the sense number, 1 for the most common, by (lower-case word, key of synset)."""
    senses: dict[tuple[str, str], int] = {}
    for part in PARTS:
        letter = "r" if part == "adv" else part[0]
        if letter not in letters:
            continue
        for word, offsets in _parsed(folder, f"index.{part}", _entry, "an entry of the index"):
            senses |= {(word, letter + offset): rank for rank, offset in enumerate(offsets, start=1)}
    return senses


def _entry(line: str) -> tuple[str, list[str]]:
    """Parse: word, part, number of synsets, number of symbols, symbols, two counts, offsets (most common first)."""
    fields = line.split()
    count = int(fields[2])
    offsets = fields[-count:]
    if count < 1 or len(fields) < 6 + count or not all(each.isdigit() for each in offsets):
        raise ValueError(line)
    return fields[0], offsets


def _sense(senses: dict[tuple[str, str], int], synset: Synset) -> int:
    word = _MARKER.sub("", synset.words[0]).lower()
    try:
        return senses[word, synset.key]
    except KeyError:
        raise FormatError(
            f"the index does not list {word!r} at {synset.key}; take all files from one version"
        ) from None


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
    for sense, count in _parsed(folder, "cntlist.rev", _tagged, "'sense_key number count'"):
        counts[sense] += count
    return counts


def _tagged(line: str) -> tuple[tuple[str, str, int], int]:
    """Parse a sense (word, lexicographer file, lexical id) and how often it was tagged."""
    key, _, count = line.split()
    word, _, rest = key.rpartition("%")
    _, file, lexical_id, *_ = rest.split(":")
    return (word, FILES[int(file)], int(lexical_id)), int(count)


def _count(synset: Synset, counts: Counts) -> int:
    senses = zip(synset.words, synset.lexical_ids, strict=True)
    return sum(counts.get((word.lower(), synset.file, lexical_id), 0) for word, lexical_id in senses)
