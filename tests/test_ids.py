import numpy as np
import pyarrow as pa
import pytest

from glace.errors import InputError
from glace.ids import NodeIds, id_array


def test_strings_and_integers_keep_their_order_and_kind():
    words, numbers = NodeIds(["b", "a"]), NodeIds(np.array([7, 3], dtype=np.int32))
    assert (list(words), words.are_strings, words[1]) == (["b", "a"], True, "a")
    assert (list(numbers), numbers.are_strings, numbers[0]) == ([7, 3], False, 7)
    assert numbers.to_numpy().dtype == np.int64
    assert words.take(np.array([1, 0])) == NodeIds(["a", "b"])
    assert len({NodeIds(["a"]), NodeIds(["a"])}) == 1
    assert words != ["b", "a"]


def test_dictionary_and_chunked_columns_are_ids_too():
    column = pa.chunked_array([["x"], ["y"]]).dictionary_encode()
    assert list(NodeIds(column)) == ["x", "y"]
    assert list(NodeIds([])) == []


def test_find_gives_minus_one_for_strangers():
    ids = NodeIds(["a", "b", "c"])
    assert ids.find(["c", "zz", "a"]).tolist() == [2, -1, 0]
    assert ids.find(pa.chunked_array([["b"], ["q"]])).tolist() == [1, -1]
    assert ids.positions(["b", "a"]).tolist() == [1, 0]


def test_repr_shows_the_first_three():
    assert repr(NodeIds.numbered(5)) == "NodeIds([0, 1, 2, ...], 5 ids)"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a", "a"], "id 'a' occurs more than once"),
        (["a", 1], "all strings or all 64-bit integers"),
        ([2**70], "all strings or all 64-bit integers"),
        (["\ud800"], "all strings or all 64-bit integers"),
        (5, "all strings or all 64-bit integers"),
        (["a", None], "id in row 2 is missing"),
        ([1.5], "must be strings or integers, not double"),
        (np.array([2**63], dtype=np.uint64), "must fit into 64-bit integers"),
    ],
)
def test_what_is_no_column_of_ids_is_refused(values, message):
    with pytest.raises(InputError, match=message):
        NodeIds(values)


def test_repeated_ids_are_fine_in_a_column_of_edges():
    assert id_array(["a", "a"]).to_pylist() == ["a", "a"]


def test_an_unknown_id_raises_with_those_that_look_like_it():
    with pytest.raises(InputError, match=r"no node 'applz'; did you mean apple"):
        NodeIds(["apple", "pear", "app"]).position("applz")
    with pytest.raises(InputError, match=r"no node 'q'; ids look like 3"):
        NodeIds([3]).position("q")
    with pytest.raises(InputError, match="the graph has no nodes"):
        NodeIds([]).position(1)
    with pytest.raises(InputError, match="no node 1180591620717411303424"):
        NodeIds([3]).position(2**70)


def test_ids_of_another_kind_cannot_be_found():
    with pytest.raises(InputError, match="ids are int64, but these are string"):
        NodeIds([1, 2]).find(["x"])
