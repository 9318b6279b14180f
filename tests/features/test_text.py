import numpy as np
import pytest

from glace.errors import InputError
from glace.features.text import TextVocabulary

TEXTS = ["Cats and dogs", "dogs, birds; DOGS", "cats 42 x", "state-of-the-art birds"]


def test_a_vocabulary_holds_the_words_of_two_texts_sorted_without_stop_words():
    assert TextVocabulary.learn(TEXTS).words == ("birds", "cats", "dogs")
    assert "state-of-the-art" in TextVocabulary.learn(TEXTS, min_count=1).words


def test_rows_are_tf_idf_of_unit_length_and_strange_words_do_not_count():
    vocabulary = TextVocabulary.learn(TEXTS)
    rows = vocabulary.attributes([*TEXTS, "zebra"])
    assert (rows.shape, rows.dtype, len(vocabulary)) == ((5, 3), np.float32, 3)
    lengths = np.sqrt(rows.multiply(rows).sum(axis=1))
    np.testing.assert_allclose(lengths, [1, 1, 1, 1, 0], rtol=1e-6)
    # By hand: two of four texts hold each word, so the idf are equal and only the counts differ.
    weights = np.array([1.0, 1 + np.log(2)])
    np.testing.assert_allclose(rows.toarray()[1, [0, 2]], weights / np.linalg.norm(weights), rtol=1e-6)


def test_a_rebuilt_vocabulary_gives_the_same_rows():
    learned = TextVocabulary.learn(TEXTS)
    again = TextVocabulary(learned.words, learned.idf.copy())
    np.testing.assert_array_equal(learned.attributes(TEXTS).toarray(), again.attributes(TEXTS).toarray())


def test_no_texts_are_no_rows():
    rows = TextVocabulary.learn(TEXTS).attributes([])
    assert (rows.shape, rows.dtype, rows.format) == ((0, 3), np.float32, "csr")


def test_what_cannot_be_a_vocabulary_or_a_text():
    for words, idf in (((), []), (("a",), []), (("a", "a"), [1, 1])):
        with pytest.raises(InputError, match="distinct words and one finite idf for each"):
            TextVocabulary(words, np.array(idf, dtype=np.float64))
    with pytest.raises(InputError, match="no word occurs in at least 2 of 2 texts"):
        TextVocabulary.learn(["one", "two"])
    with pytest.raises(InputError, match="text 2 is int, not a string"):
        TextVocabulary.learn(["one", 2])  # type: ignore[list-item]
    with pytest.raises(InputError, match="text 1 is NoneType"):
        TextVocabulary.learn(TEXTS).attributes([None])  # type: ignore[list-item]
    with pytest.raises(InputError, match="not one string; wrap it"):
        TextVocabulary.learn(TEXTS).attributes("dogs")
