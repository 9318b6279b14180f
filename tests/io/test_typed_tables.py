"""Nodes of several types: their attributes, tables of them, and pairs that are no edges."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import glace
from glace.errors import InputError
from glace.experiments.splits import hide_nodes, split_edges
from glace.graph.graph import NodeAttributes, NodeType
from glace.graph.split import sample_non_edges

WORDS = pd.DataFrame({"id": ["dog", "cat", "oak"], "length": [3, 3, 3], "vowels": [1, 1, 2]})
SYNSETS = pd.DataFrame(
    {"id": ["s1", "s2"], "text": ["furry animal, no tree", "tree, animal: furry"], "label": ["animal", "plant"]}
)
EDGES = pd.DataFrame({"source": ["dog", "cat", "oak"], "target": ["s1", "s1", "s2"], "weight": [1.0, 2.0, 3.0]})


def words_and_synsets(edges=EDGES, attributes=None, texts=None, **options):
    given_attributes = {"word": WORDS} if attributes is None else attributes
    return glace.from_tables(edges, given_attributes, texts={"synset": SYNSETS} if texts is None else texts, **options)


def bipartite(count=40, directed=False, both=True):
    """Two types in turn, each node joined to five of the other type."""
    rng = np.random.default_rng(0)
    kinds = np.where(np.arange(count) % 2, "b", "a")
    edges = [(node, other) for node in range(0, count, 2) for other in rng.choice(range(1, count, 2), 5, replace=False)]
    attributes = {
        "a": rng.random((count // 2, 3)),
        **({"b": sp.csr_array(rng.random((count // 2, 6)))} if both else {}),
    }
    return glace.from_arrays(np.array(edges), attributes, node_types=kinds, directed=directed)


@pytest.mark.parametrize("edges", [EDGES, {("word", "synset"): EDGES}, {"word:synset": EDGES}])
def test_each_type_has_its_own_attributes(edges):
    graph = words_and_synsets(edges, directed=True)
    assert repr(graph) == (
        "Graph(5 nodes, 3 directed edges, 2 nodes of type synset with 3 dense attributes, "
        "3 nodes of type word with 2 dense attributes, 2 labels)"
    )
    assert list(graph.ids) == ["s1", "s2", "dog", "cat", "oak"]
    assert list(graph.node_types) == ["synset"] * 2 + ["word"] * 3
    assert list(graph.labels) == ["animal", "plant", None, None, None]
    assert graph.edges().tolist() == [[2, 0], [3, 0], [4, 1]]
    assert graph.edges_and_weights()[1].tolist() == [1, 2, 3]
    synset, word = graph.by_type().types
    np.testing.assert_array_equal(word.attributes, WORDS[["length", "vowels"]])
    assert word.feature_names == ("length", "vowels")
    assert synset.pipeline.vocabulary.words == ("animal", "furry", "tree")


def test_mixed_columns_of_a_type():
    graph = words_and_synsets(attributes={"word": WORDS}, columns={"word": {"vowels": "category"}})
    part = graph.by_type().types[1]
    assert part.pipeline.table_names == ("length", "vowels")
    again = words_and_synsets(attributes={"word": WORDS}, pipeline={"word": part.pipeline})
    np.testing.assert_array_equal(again.by_type().types[1].attributes, part.attributes)


def test_columns_and_a_recipe_contradict_each_other():
    pipeline = words_and_synsets(columns={"word": {"vowels": "category"}}).by_type().types[1].pipeline
    with pytest.raises(InputError, match="give columns or a pipeline, not both"):
        words_and_synsets(columns={"word": {}}, pipeline={"word": pipeline})
    with pytest.raises(InputError, match="pipeline must be a FeaturePipeline, that of a graph or a model, not str"):
        glace.from_tables(EDGES, WORDS, pipeline="x")  # type: ignore[arg-type]


def test_an_empty_table_is_a_type_without_nodes():
    graph = words_and_synsets({("word", "synset"): EDGES}, attributes={"word": WORDS, "verb": WORDS.iloc[:0]})
    assert [part.count for part in graph.by_type().types] == [2, 0, 3]
    model = glace.GLACE(dim=2, hidden=4, ensemble_size=1, max_steps=2, validation_fraction=0.0)
    assert len(model.fit(graph).embedding_) == 5


def test_a_type_without_a_table_has_the_nodes_that_edges_name():
    graph = words_and_synsets({("word", "synset"): EDGES}, attributes={})
    assert list(graph.ids) == ["s1", "s2", "cat", "dog", "oak"]
    assert graph.by_type().types[1].text() == "3 nodes of type word without attributes"
    bare = glace.from_tables({("word", "synset"): EDGES})
    assert bare.attributes is None
    assert bare.node_types is not None
    assert list(bare.node_types) == ["synset"] * 2 + ["word"] * 3


def test_types_may_have_ids_in_common():
    users = pd.DataFrame({"id": [1, 2], "age": [30, 40]})
    items = pd.DataFrame({"id": [1, 2, 3], "price": [9.0, 8.0, 7.0]})
    edges = {("user", "item"): pd.DataFrame({"source": [1, 2], "target": [3, 1]})}
    graph = glace.from_tables(edges, {"user": users, "item": items})
    assert list(graph.ids) == ["item:1", "item:2", "item:3", "user:1", "user:2"]
    assert [[graph.ids[end] for end in edge] for edge in graph.edges()] == [["item:1", "user:2"], ["item:3", "user:1"]]
    assert "ids that occur in several types; nodes are called TYPE:ID: 2" in graph.cleaning_report.lines()
    assert graph.cleaning_report.nodes_only_in_attributes == 1
    names = pd.DataFrame({"id": ["x", "y"], "age": [30, 40]})
    two_kinds = {("user", "item"): pd.DataFrame({"source": ["x", "y"], "target": [3, 1]})}
    assert list(glace.from_tables(two_kinds, {"user": names, "item": items}).ids)[-1] == "user:y"


def test_nodes_without_a_row_are_refused_or_added():
    more = pd.concat([EDGES, pd.DataFrame({"source": ["elm"], "target": ["s2"], "weight": [1.0]})])
    with pytest.raises(
        InputError, match="edges word:synset, row 4: node 'elm' has no row in attributes of word; 1 such"
    ):
        words_and_synsets({("word", "synset"): more})
    graph = words_and_synsets({("word", "synset"): more}, nodes_without_attributes="empty")
    assert list(graph.ids)[-1] == "elm"
    assert not graph.by_type().types[1].attributes[-1].any()
    assert graph.cleaning_report.nodes_only_in_edges == 1
    with pytest.raises(InputError, match="edges, row 4: node 'elm' has no row in the tables of synset, word"):
        words_and_synsets(more, nodes_without_attributes="empty")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"texts": {"word": SYNSETS}}, "give attributes or texts of type 'word', not both"),
        ({"texts": SYNSETS}, "texts must be given by type if other tables are"),
        ({"attributes": {3: WORDS}, "texts": {}}, "attributes must be given by the names of types, not by 3"),
        ({"columns": {"synset": {}}}, "a pipeline of type 'synset' need a table of attributes"),
        ({"edges": {"word": EDGES}}, "edges lead from a type to a type, as 'word:synset' .*, not 'word'"),
        (
            {"edges": {"wrod:synset": EDGES}},
            "type 'word' has a table but no edges, and type 'wrod' has edges but no table",
        ),
        ({"edges": {}}, "there is no table of edges; give at least one"),
        ({"attributes": {None: WORDS}, "texts": {}}, "attributes must be given by the names of types, not by None"),
        ({"columns": "abc"}, "columns must be given by type if tables are"),
        ({"columns": {"word": "number"}}, "columns must be given by type if tables are"),
        ({"pipeline": {"word": "x"}}, "pipeline must be given by type if tables are"),
        ({"attributes": {}, "texts": {}}, "there is no table of nodes; give attributes or texts by type"),
        ({"nodes_without_attributes": "drop"}, "nodes_without_attributes must be one of error, empty, not 'drop'"),
        (
            {"attributes": {"word": WORDS.assign(type="noun")}},
            "attributes of word: a column 'type', but all nodes are of type 'word'; drop it",
        ),
        (
            {"attributes": {"word": WORDS.assign(id=[1, 2, 3])}, "edges": {("word", "synset"): EDGES}},
            r"edges word:synset names nodes by text \(such as 'dog'\), attributes of word by integers",
        ),
        (
            {"attributes": {"word": WORDS.assign(vowels=[1, np.inf, 2])}},
            "attributes of word, row 2: column 'vowels' is inf",
        ),
    ],
)
def test_wrong_tables_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        words_and_synsets(**options)


def test_a_node_of_two_types_needs_edges_by_type():
    both = {"word": WORDS, "animal": WORDS[["id", "length"]][:2]}
    with pytest.raises(
        InputError, match=r"edges, row 1: 'dog' is a node of several types; .* such as animal:word=FILE"
    ):
        glace.from_tables(pd.DataFrame({"source": ["oak", "dog"][::-1], "target": ["oak", "dog"]}), both)


def test_files_by_type(tmp_path):
    for name, table in (("w.csv", WORDS), ("s.csv", SYNSETS), ("e.csv", EDGES)):
        table.to_csv(tmp_path / name, index=False)
    files = {
        "edges": tmp_path / "e.csv",
        "attributes": {"word": tmp_path / "w.csv"},
        "texts": {"synset": tmp_path / "s.csv"},
    }
    graph = glace.read_tables(files["edges"], files["attributes"], texts=files["texts"])
    assert graph.fingerprint() == words_and_synsets().fingerprint()
    EDGES.to_csv(tmp_path / "bare.csv", index=False, header=False)
    again = glace.read_tables({"word:synset": tmp_path / "bare.csv"}, files["attributes"], texts=files["texts"])
    assert again.fingerprint() == graph.fingerprint()
    assert "bare.csv: no header; its first row names a node" in again.cleaning_report.notes
    (tmp_path / "w.svm").write_text("0 0:1 2:3\n1 1:2\n")
    pd.DataFrame({"source": [0, 1], "target": [7, 8]}).to_csv(tmp_path / "n.csv", index=False)
    numbered = glace.read_tables({"word:synset": tmp_path / "n.csv"}, {"word": tmp_path / "w.svm"})
    assert list(numbered.ids) == [7, 8, 0, 1]
    with pytest.raises(InputError, match="kinds of columns need column names, but the file has none"):
        glace.read_tables(
            {"word:synset": tmp_path / "n.csv"}, {"word": tmp_path / "w.svm"}, columns={"word": {"x": "text"}}
        )


def test_arrays_by_type():
    graph = bipartite()
    assert (
        graph.attribute_text == "20 nodes of type a with 3 dense attributes, 20 nodes of type b with 6 dense attributes"
    )
    for wrong, types, message in (
        ({"a": np.ones((1, 2))}, None, "attributes by type need node_types"),
        ({"c": np.ones((1, 2))}, ["a", "b"], "attributes of type 'c'; the types are a, b"),
        ({"a": np.ones((2, 2))}, ["a", "b"], "2 rows of attributes for 1 nodes of type 'a'"),
        ({"a": [[1, 2], [3]]}, ["a", "a"], "attributes must have rows of one length"),
        ({"a": [[np.nan]]}, ["a", "b"], "type 'a': attributes must be finite numbers, but row 1 has nan"),
    ):
        with pytest.raises(InputError, match=message):
            glace.from_arrays([[0, 1]], wrong, node_types=types)


@given(st.permutations(range(40)), st.integers(1, 40))
def test_taken_nodes_keep_their_attributes(order, count):
    graph, nodes = bipartite(), np.array(order[:count])
    part = graph.take(nodes)
    whole = graph.features().toarray()
    np.testing.assert_array_equal(part.features().toarray(), whole[nodes])
    np.testing.assert_array_equal(part.by_type().nonzeros(slice(None)), (whole[nodes] != 0).sum(axis=1))
    assert graph.take(np.arange(40)).fingerprint() == graph.fingerprint()


def test_side_by_side_every_type_has_columns_of_its_own():
    graph = bipartite(both=False)
    whole = graph.features().toarray()
    assert whole.shape == (40, 3 + 20)
    np.testing.assert_array_equal(whole[1::2, 3:], np.eye(20))
    assert not whole[1::2, :3].any()
    single = graph.of_one_type()
    assert single.node_types is None
    assert single.num_attributes == 23


def test_fingerprints_tell_types_apart():
    x = np.ones((2, 2), np.float32)
    graphs = [glace.from_arrays([[0, 1], [2, 3]], {"a": x, "b": x}, node_types=list(each)) for each in ("aabb", "abab")]
    assert graphs[0].fingerprint() != graphs[1].fingerprint()
    single = [glace.from_arrays([[0, 1], [2, 3]], np.ones((4, 2)), node_types=each) for each in (None, list("aabb"))]
    assert single[0].fingerprint() != single[1].fingerprint()


def test_files_of_one_matrix_say_so(tmp_path):
    with pytest.raises(InputError, match=r"an .npz file holds one matrix of attributes, .* graph.of_one_type\(\)"):
        glace.write_npz(bipartite(), tmp_path / "g.npz")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("directed", [False, True])
def test_non_edges_have_the_types_of_edges(directed):
    graph = bipartite(directed=directed)
    drawn = sample_non_edges(graph, 150, np.random.default_rng(1))
    types = graph.node_types.codes[drawn]
    assert len(np.unique(drawn, axis=0)) == 150
    assert not graph.has_edges(drawn).any()
    assert (types == [0, 1]).all() if directed else (types.sum(axis=1) == 1).all()
    split = split_edges(graph, np.random.default_rng(0))
    assert (graph.node_types.codes[split.test.non_edges].sum(axis=1) == 1).all()
    with pytest.raises(
        InputError, match="have the types of an edge were found in 1000 rounds .* nearly all such pairs"
    ):
        sample_non_edges(graph, 301, np.random.default_rng(1))


@pytest.mark.parametrize("both", [True, False])
def test_nodes_with_attributes_are_hidden(both):
    graph = bipartite(both=both)
    found = hide_nodes(graph, 0.2, np.random.default_rng(0))
    hidden = graph.node_types.codes[found.order[found.visible.num_nodes :]]
    assert len(hidden) == (8 if both else 4)
    assert both or (hidden == 0).all()
    ends = graph.node_types.codes[found.order[found.test.non_edges]]
    assert (ends.sum(axis=1) == 1).all()
    assert (found.test.non_edges.max(axis=1) >= found.visible.num_nodes).all()
    assert len(found.hidden) == len(hidden)


def test_parts_must_have_their_nodes():
    with pytest.raises(AssertionError, match="1 nodes of type a, but 2 rows"):
        NodeAttributes((NodeType("a", 2), NodeType("b", 0)), np.array([0]))
