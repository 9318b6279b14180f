"""The kind of a column that nobody declared: number, category, text or drop, with the reason in words."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from glace.errors import InputError
from glace.features.columns import is_number, is_text, parses
from glace.features.text import TextVocabulary
from glace.ids import ArrowColumn, plain_array

MOST_CATEGORIES = 1000
FEW_CATEGORIES = 20
"""So few different values are categories, however small the table is, unless every row has its own."""
MOST_WORDS_OF_CATEGORY = 4.0
SAMPLE = 2000
LIST = re.compile(r"[|;]")
WORD = re.compile(r"\w+")


class Guess(NamedTuple):
    """A guessed kind and what it rests on."""

    kind: str
    reason: str


def guessed_kinds(table: pa.Table, names: Sequence[str]) -> dict[str, Guess]:
    """Guess the kinds of columns; none if all of them are numbers, which need no guess."""
    found = {name: guess(table.column(name)) for name in names}
    return found if any(each.kind != "number" for each in found.values()) else {}


def guess(column: ArrowColumn) -> Guess:
    """Guess the kind of one column from its type and values.

    A column of texts, most of which are numbers, is a number: its other cells are mistakes, which reading it reports.
    """
    if len(column) == 0:
        return Guess("number", "")  # of no rows nothing can be said, and nothing is left out
    if pa.types.is_null(column.type):
        return Guess("drop", "no value")
    if pa.types.is_temporal(column.type):
        return Guess("drop", "dates")
    if is_number(column.type) or not is_text(column.type):
        return Guess("number", "")
    return _of_texts(_texts(column))


def _texts(column: ArrowColumn) -> list[str]:
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return [text for chunk in chunks for text in pc.drop_null(plain_array(chunk)).to_pylist() if text.strip()]


def _of_texts(texts: list[str]) -> Guess:
    if not texts:
        return Guess("drop", "no value")
    if sum(map(parses, texts)) * 2 >= len(texts):
        return Guess("number", "")
    values, words = len(set(texts)), sum(len(WORD.findall(text)) for text in texts) / len(texts)
    is_list = sum(LIST.search(text) is not None for text in texts) * 10 >= len(texts)
    repeats = values < len(texts) and (values <= FEW_CATEGORIES or 2 * values <= len(texts))
    if repeats and values <= MOST_CATEGORIES and words <= MOST_WORDS_OF_CATEGORY and not is_list:
        return Guess("category", f"{values:,} values")
    if (words >= 2 or is_list) and _has_vocabulary(texts):
        return Guess("text", f"{words:.1f} words per row")
    return Guess("drop", "names that no two rows share" if values == len(texts) else f"{values:,} different names")


def _has_vocabulary(texts: list[str]) -> bool:
    """Whether a word occurs twice, which the first thousands of texts usually show."""
    for part in (texts[:SAMPLE], texts):
        try:
            TextVocabulary.learn(part)
        except InputError:
            continue
        return True
    return False


def guesses_line(table: str, guesses: dict[str, Guess]) -> str:
    """Say what was guessed, in one line."""
    said = [f"{name} {each.kind}{each.reason and f' ({each.reason})'}" for name, each in guesses.items()]
    return f"{table}, kinds of columns guessed: {', '.join(said)}; columns= (--column NAME=KIND) sets them"
