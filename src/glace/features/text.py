"""Texts to sparse attributes: TF-IDF over a vocabulary that is plain data and is stored with the model."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glace.errors import InputError

# At least two characters, starting with a letter: numbers and single letters carry no topic.
WORD = r"(?u)\b[^\W\d_][\w'+-]*\w\b"


@dataclass(frozen=True, eq=False)
class TextVocabulary:
    """The D words of a vocabulary and the inverse document frequency of each."""

    words: tuple[str, ...]
    idf: npt.NDArray[np.float64]

    def __post_init__(self) -> None:
        distinct = len(set(self.words)) == len(self.words) > 0
        if not distinct or self.idf.shape != (len(self.words),) or not np.isfinite(self.idf).all():
            raise InputError("a vocabulary needs at least one word, distinct words and one finite idf for each")

    @classmethod
    def learn(cls, texts: Sequence[str], min_count: int = 2) -> "TextVocabulary":
        """Return the words that occur in at least `min_count` texts, without English stop words, sorted."""
        _check_texts(texts)
        vectorizer = _vectorizer(min_df=min_count)
        try:
            vectorizer.fit(texts)
        except ValueError as problem:
            raise InputError(
                f"no word occurs in at least {min_count} of {len(texts):,} texts; give longer ones or more"
            ) from problem
        return cls(tuple(str(word) for word in vectorizer.get_feature_names_out()), vectorizer.idf_)

    def __len__(self) -> int:
        return len(self.words)

    def attributes(self, texts: Sequence[str]) -> sp.csr_array:
        """Return (len(texts), D) TF-IDF rows of unit length; words outside the vocabulary are ignored."""
        _check_texts(texts)
        if not len(texts):  # which sklearn refuses
            return sp.csr_array((0, len(self)), dtype=np.float32)
        return sp.csr_array(self._fitted.transform(texts), dtype=np.float32)

    def unknown_shares(self, texts: Sequence[str]) -> list[float]:
        """Return the share of each text's words that are not in the vocabulary; 1 for a text without words."""
        _check_texts(texts)
        analyze, known = self._fitted.build_analyzer(), set(self.words)
        words = [analyze(text) for text in texts]
        return [sum(word not in known for word in each) / len(each) if each else 1.0 for each in words]

    @cached_property
    def _fitted(self) -> Any:
        vectorizer = _vectorizer(vocabulary={word: column for column, word in enumerate(self.words)})
        vectorizer.idf_ = self.idf
        vectorizer.vocabulary_ = vectorizer.vocabulary
        return vectorizer


def _check_texts(texts: Sequence[str]) -> None:
    if isinstance(texts, str):
        raise InputError("texts must be a list of strings, not one string; wrap it: [text]")
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"text {row + 1} is {type(text).__name__}, not a string")


def _vectorizer(**options: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(token_pattern=WORD, stop_words="english", sublinear_tf=True, dtype=np.float64, **options)
