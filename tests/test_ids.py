import numpy as np
import pyarrow as pa
import pytest

from glace.errors import InputError
from glace.ids import NodeIds, id_array, integers_of


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


def test_only_widths_are_cast_when_ids_are_looked_for():
    assert NodeIds([7, 8]).find(np.array([8, 9], dtype=np.int16)).tolist() == [1, -1]
    assert NodeIds(["7"]).find(pa.array(["7"], pa.string()).dictionary_encode()).tolist() == [0]
    assert NodeIds([7]).find([None]).tolist() == [-1]
    assert NodeIds([7]).find(pa.array([], pa.string())).tolist() == NodeIds(["7"]).find([]).tolist() == []
    for ids, wanted in ((NodeIds([7]), ["007"]), (NodeIds([7]), ["7"]), (NodeIds(["7"]), [7]), (NodeIds([7]), [7.0])):
        with pytest.raises(InputError, match=r"ids are .*, but these are .*; convert them"):
            ids.find(wanted)


@pytest.mark.parametrize("text", ["--5", "²", "007", "+7", "5\n", "-0", "", "x", "9" * 5000])
def test_what_is_not_written_as_an_integer_is_no_number(text):
    assert NodeIds([5]).parse(text) == text
    assert text not in NodeIds([5])


def test_integers_are_parsed_for_integer_ids_only():
    assert NodeIds([5]).parse("-5") == -5
    assert NodeIds([5]).parse(str(2**63 - 1)) == 2**63 - 1
    assert NodeIds(["5"]).parse("5") == "5"


def test_columns_of_texts_are_integers_if_each_is_written_as_one():
    integers = integers_of(pa.array(["0", "-7", None, str(2**63 - 1)]))
    assert integers is not None
    assert integers.to_pylist() == [0, -7, None, 2**63 - 1]
    assert integers_of(pa.array(["1", "01"])) is None
    assert integers_of(pa.array(["1", str(2**63)])) is None


def test_one_id_is_found_as_a_column_would_be():
    for ids in (NodeIds(["a", "b", "c"]), NodeIds([3, 1, 2])):
        assert [ids.position(each) for each in ids] == [0, 1, 2]
        assert ids[2] in ids
    assert "q" not in NodeIds(["a"])
    assert None not in NodeIds(["a"])
    assert True not in NodeIds([1])


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


def test_slices_are_lists():
    assert NodeIds(["a", "b", "c"])[:2] == ["a", "b"]
