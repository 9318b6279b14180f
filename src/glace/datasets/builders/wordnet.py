"""WordNet 3.0 as a graph: synsets, the pointers among them, the words of their glosses.

The files are those of Debian's package wordnet-base; their format is described in its manual page
wndb(5WN). A synset is one meaning, named by one or more words: "dog, domestic dog, Canis familiaris".
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

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
    return [synset for part in parts for synset in _read_data(folder, f"data.{part}")]


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
    nodes = {
        "id": list(names),
        "label": [synset.file for synset in synsets],
        "text": [synset.definition for synset in synsets],
    }
    sources, targets = zip(*pairs, strict=True) if pairs else ((), ())
    edges = {"source": pa.array(sources, pa.string()), "target": pa.array(targets, pa.string())}
    return Tables(pa.table(nodes), pa.table(edges))


def data_lines(folder: str | Path | None, name: str) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of a WordNet file, without the licence at the top (indented by two spaces)."""
    path = Path(folder or FOLDER) / name
    if not path.is_file():
        raise InputError(
            f"no file {path}; install Debian's package wordnet-base, "
            "or name the folder of WordNet 3.0's data.noun and index.noun with --from DIR"
        )
    with path.open(encoding="latin-1") as source:
        for number, line in enumerate(source, start=1):
            if not line.startswith("  "):
                yield number, line


def _read_data(folder: str | Path | None, name: str) -> Iterator[Synset]:
    for number, line in data_lines(folder, name):
        try:
            yield _parse(line)
        except (ValueError, IndexError) as problem:
            raise _damaged(name, number, line, "a synset") from problem


def _damaged(name: str, number: int, line: str, wanted: str) -> FormatError:
    return FormatError(
        f"line {number} of {name} is not {wanted} as wndb(5WN) describes it ({line[:40]!r}...); "
        "get WordNet 3.0's files again"
    )


def _parse(line: str) -> Synset:
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
        for word, offsets in _read_index(folder, f"index.{part}"):
            senses |= {(word, letter + offset): rank for rank, offset in enumerate(offsets, start=1)}
    return senses


def _read_index(folder: str | Path | None, name: str) -> Iterator[tuple[str, list[str]]]:
    for number, line in data_lines(folder, name):
        try:
            yield _parse_entry(line)
        except (ValueError, IndexError) as problem:
            raise _damaged(name, number, line, "an entry of the index") from problem


def _parse_entry(line: str) -> tuple[str, list[str]]:
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
