"""WordNet's files, written here in their own format with known content, become the graph they describe."""

from pathlib import Path

import pytest

from glace import datasets
from glace.datasets.builders.wordnet import FILES, INVERSE, build_wordnet, read_names, read_synsets, slice_nouns
from glace.errors import FormatError, InputError

LICENCE = "  1 This software and database is being provided to you  \n  2 under a license | with a bar  \n"

ANIMAL, ARTIFACT, TOPS = (f"{FILES.index(name):02}" for name in ("noun.animal", "noun.artifact", "noun.Tops"))
OBJECT, MOTION, ADJ, ADV = (f"{FILES.index(name):02}" for name in ("noun.object", "verb.motion", "adj.all", "adv.all"))

NOUNS = [
    f'00000100 {TOPS} n 01 animal 0 001 ~ 00000200 n 0000 | a living organism that feeds; "an animal ran"  ',
    f"00000200 {ANIMAL} n 02 dog 0 domestic_dog 0 004 @ 00000100 n 0000 #p 00000300 n 0000 ~ 00000400 n 0000 "
    '%p 00000300 n 0000 | a tame organism; occurs in many breeds; "the dog barked"; "a \'good\' dog"  ',
    f"00000300 {ANIMAL} n 01 pack 0 002 #p 00000100 n 0000 + 00000900 v 0101 | a group of hunting animals  ",
    f"00000400 {ANIMAL} n 01 Fido 0 001 @i 00000200 n 0000 | a famous dog  ",
    f"00000500 {ARTIFACT} n 01 dog 1 002 @ 00000500 n 0000 + 00000300 n 0101 | a grate that feeds a fire  ",
]
VERBS = [f"00000900 {MOTION} v 01 pack 0 001 > 00000900 v 0000 01 + 02 00 | move in a group of animals  "]
ADJECTIVES = [
    f"00000600 {ADJ} s 01 tame(a) 0 001 & 00000700 a 0000 | brought from wildness; - said of a famous dog  ",
    f"00000700 {ADJ} a 01 wild 0 001 & 00000600 a 0000 | in a natural state  ",
]
ADVERBS = [f'00000800 {ADV} r 01 wildly 0 001 \\ 00000700 a 0101 | in a wild manner; "he raged"- A. Poet  ']

INDEX = {
    "noun": [
        "animal n 1 1 ~ 1 1 00000100  ",
        "dog n 2 2 @ ~ 2 1 00000500 00000200  ",
        "pack n 1 0 1 0 00000300  ",
        "fido n 1 0 1 0 00000400  ",
    ],
    "verb": ["pack v 1 0 1 0 00000900  "],
    "adj": ["tame a 1 0 1 0 00000600  ", "wild a 1 0 1 0 00000700  "],
    "adv": ["wildly r 1 0 1 0 00000800  "],
}
DATA = {"noun": NOUNS, "verb": VERBS, "adj": ADJECTIVES, "adv": ADVERBS}


def write(path: Path, lines: list[str]) -> None:
    path.write_text(LICENCE + "".join(f"{line}\n" for line in lines))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for part in DATA:
        write(tmp_path / f"data.{part}", DATA[part])
        write(tmp_path / f"index.{part}", INDEX[part])
    return tmp_path


def edges_of(graph) -> set[tuple[str, str]]:
    return {(graph.ids[source], graph.ids[target]) for source, target in graph.edges()}


def test_synsets_become_nodes_and_pointers_edges_without_the_inverse_kinds(folder):
    graph = build_wordnet(folder)
    assert list(graph.ids) == [
        *("n:animal", "n:dog.2", "n:pack", "n:Fido", "n:dog", "v:pack", "a:tame(a)", "a:wild", "r:wildly")
    ]
    assert edges_of(graph) == {
        ("n:dog.2", "n:animal"),
        ("n:dog.2", "n:pack"),
        ("n:pack", "n:animal"),
        ("n:pack", "v:pack"),
        ("n:Fido", "n:dog.2"),
        ("n:dog", "n:pack"),
        ("a:tame(a)", "a:wild"),
        ("a:wild", "a:tame(a)"),
        ("r:wildly", "a:wild"),
    }
    assert graph.directed
    assert (graph.adjacency.data == 1).all()


def test_labels_are_the_lexicographer_files(folder):
    labels = build_wordnet(folder).labels
    assert labels is not None
    assert [labels[node] for node in (0, 1, 4, 5, 6, 8)] == [
        *("noun.Tops", "noun.animal", "noun.artifact", "verb.motion", "adj.all", "adv.all")
    ]


def test_the_most_common_sense_keeps_the_plain_name(folder):
    synsets = read_synsets(folder)
    named = dict(zip(read_names(synsets, folder), synsets, strict=True))
    assert named["n:dog"].file == "noun.artifact"
    assert named["n:dog.2"].file == "noun.animal"


@pytest.mark.parametrize(
    ("place", "definition"),
    [
        (0, "a living organism that feeds"),
        (1, "a tame organism; occurs in many breeds"),
        (6, "brought from wildness; - said of a famous dog"),
        (8, "in a wild manner"),
    ],
)
def test_examples_and_who_said_them_are_no_part_of_the_definition(folder, place, definition):
    assert read_synsets(folder)[place].definition == definition


def test_words_of_the_definitions_are_the_attributes(folder):
    pipeline = build_wordnet(folder).pipeline
    assert pipeline is not None
    vocabulary = pipeline.vocabulary
    assert vocabulary is not None
    assert {"organism", "feeds", "group", "animals", "famous", "dog", "wild"} >= set(vocabulary.words)
    assert "barked" not in vocabulary.words


def test_the_inverse_kinds_are_half_of_the_paired_ones():
    assert len(INVERSE) == 8
    assert len(FILES) == len(set(FILES)) == 45


@pytest.mark.parametrize("name", ["data.noun", "index.noun"])
def test_a_missing_file_says_what_to_install(folder, name):
    (folder / name).unlink()
    with pytest.raises(InputError, match=rf"no file .*{name}; install Debian's package wordnet-base, .*--from DIR"):
        build_wordnet(folder)


@pytest.mark.parametrize(
    "line",
    [
        "garbage",
        f"00000100 {TOPS} n 01 animal 0 003 ~ 00000200 n 0000 | too few pointers",
        "00000100 77 n 01 animal 0 000 | no such file",
        f"00000100 {TOPS} n 00 000 | no word",
    ],
)
def test_a_damaged_line_is_named(folder, line):
    write(folder / "data.noun", [*NOUNS, line])
    with pytest.raises(FormatError, match=r"line 8 of data.noun is not a synset .*get WordNet 3.0's files again"):
        build_wordnet(folder)


@pytest.mark.parametrize(
    "line", ["garbage", "dog n", "dog n 2 0 2 0 00000200", "dog n 0 0 0 0", "dog n two 0 1 0 00000200", "d n 1 0 1 0 @"]
)
def test_a_damaged_line_of_the_index_is_named(folder, line):
    write(folder / "index.noun", [*INDEX["noun"], line])
    with pytest.raises(
        FormatError, match=r"line 7 of index.noun is not an entry of the index .*get WordNet 3.0's files again"
    ):
        build_wordnet(folder)


def test_a_pointer_into_nothing(folder):
    write(folder / "data.noun", NOUNS[1:])
    with pytest.raises(FormatError, match="a pointer leads to 'n00000100', but no synset is there"):
        build_wordnet(folder)


def test_an_index_of_another_version(folder):
    write(folder / "index.noun", INDEX["noun"][:1])
    with pytest.raises(FormatError, match="the index does not list 'dog' at n00000200; take all files from one"):
        build_wordnet(folder)


def test_a_built_graph_is_loaded_by_its_name(folder, tmp_path):
    graph, path = datasets.build("wordnet", folder, data_dir=tmp_path / "made")
    assert path == tmp_path / "made" / "wordnet.npz"
    assert datasets.load("wordnet", directed=True, data_dir=tmp_path / "made").fingerprint() == graph.fingerprint()


def test_a_graph_is_built_where_the_user_says(folder, tmp_path):
    _, path = datasets.build("wordnet", folder, tmp_path / "here.npz")
    assert path == tmp_path / "here.npz"
    assert path.is_file()


def test_only_built_ones_are_built(tmp_path):
    with pytest.raises(InputError, match="dblp is not built but downloaded; run 'glace datasets get dblp'"):
        datasets.build("dblp")


def test_a_data_folder_that_cannot_be_made(folder):
    with pytest.raises(InputError, match=r"cannot make the folder .*data.noun/x.*name another"):
        datasets.build("wordnet", folder, data_dir=folder / "data.noun" / "x")


# A slice: the hierarchy animal > {hound, cat}, where cat has only one link, and a collar apart from all.
SLICED = [
    f"00000100 {TOPS} n 01 animal 0 000 | a living organism  ",
    f"00000110 {TOPS} n 01 whole 0 001 @ 00000120 n 0000 | a living unit  ",
    f"00000120 {OBJECT} n 01 object 0 000 | a thing of another file  ",
    f"00000200 {ANIMAL} n 01 hound 0 001 @ 00000100 n 0000 | a hunting organism  ",
    f"00000210 {ANIMAL} n 01 puppy 0 002 @ 00000100 n 0000 @ 00000200 n 0000 | a young hunting organism  ",
    f"00000220 {ANIMAL} n 01 leafless 0 001 @ 00000200 n 0000 | an unknown organism  ",
    f"00000230 {ANIMAL} n 01 cat 0 001 @ 00000100 n 0000 | a purring organism  ",
    f"00000240 {ANIMAL} n 01 Rex 0 002 @i 00000200 n 0000 @ 00000100 n 0000 | a famous hound  ",
    f"00000300 {ARTIFACT} n 01 collar 0 001 #p 00000310 n 0000 | a band  ",
    f"00000310 {ARTIFACT} n 01 leash 0 000 | a band that is held  ",
]
SLICED_INDEX = [f"{line.split()[4].lower()} n 1 0 1 0 {line.split()[0]}  " for line in SLICED]
COUNTS = [
    "animal%1:03:00:: 1 70",
    "cat%1:05:00:: 1 18",
    "collar%1:06:00:: 1 7",
    "leash%1:06:00:: 1 7",
    "run%2:38:00:: 1 106",
]


@pytest.fixture
def nouns(tmp_path: Path) -> Path:
    write(tmp_path / "data.noun", SLICED)
    write(tmp_path / "index.noun", SLICED_INDEX)
    (tmp_path / "cntlist.rev").write_text("".join(f"{line}\n" for line in COUNTS))
    return tmp_path


def test_the_slice_is_connected_well_linked_and_familiar(nouns):
    tables = slice_nouns(nouns)
    found = dict(zip(tables.nodes["id"].to_pylist(), tables.nodes["label"].to_pylist(), strict=True))
    # leafless has one link and nobody writes of it, Rex is an individual, collar and leash are a smaller piece.
    assert found == {"n:animal": "animal", "n:hound": "animal", "n:puppy": "animal", "n:cat": "animal"}
    pairs = zip(tables.edges["source"].to_pylist(), tables.edges["target"].to_pylist(), strict=True)
    assert set(pairs) == {
        *[("n:hound", "n:animal"), ("n:puppy", "n:animal"), ("n:puppy", "n:hound"), ("n:cat", "n:animal")]
    }


def test_a_quota_takes_the_most_familiar_and_what_they_are_kinds_of(nouns):
    tables = slice_nouns(nouns, {"noun.animal": 1})
    assert set(tables.nodes["id"].to_pylist()) == {"n:animal", "n:cat"}


def test_the_slice_is_written_as_two_tables(nouns, tmp_path):
    graph, path = datasets.build("wordnet-nouns", nouns, tmp_path / "out")
    assert path == tmp_path / "out" / "wordnet-nouns.nodes.parquet"
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == [
        *("wordnet-nouns.edges.parquet", "wordnet-nouns.nodes.parquet")
    ]
    assert graph.num_nodes == 4


def test_counts_that_are_none(nouns):
    (nouns / "cntlist.rev").write_text("cat 18\n")
    with pytest.raises(FormatError, match=r"line 1 of cntlist.rev is not 'sense_key number count' as .*'cat 18"):
        slice_nouns(nouns)


def test_nothing_to_slice(nouns):
    write(nouns / "data.noun", SLICED[:1])
    with pytest.raises(InputError, match="no linked nouns of the expected lexicographer files"):
        slice_nouns(nouns)
