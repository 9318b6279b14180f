import contextlib
import io
import struct
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from glace.errors import FormatError, GlaceError, InputError
from glace.graph.arrays import from_arrays
from glace.graph.graph import Graph
from glace.io.npz import read_npz, write_npz
from glace.io.tables import from_tables
from glace.storage.files import sha256_of


def csr_parts(name, matrix):
    return {
        f"{name}_data": matrix.data,
        f"{name}_indices": matrix.indices,
        f"{name}_indptr": matrix.indptr,
        f"{name}_shape": np.array(matrix.shape),
    }


ADJACENCY = sp.csr_array(np.array([[0, 2, 0], [0, 0, 3], [0, 0, 0]], dtype=np.float32))
PARTS = csr_parts("adj", ADJACENCY) | csr_parts("attr", sp.eye_array(3, 4, format="csr"))


@pytest.fixture
def saved(tmp_path):
    """Write the parts of a small graph, some of them changed (None: left out), and give the path."""

    def write(**changes):
        parts = {name: value for name, value in (PARTS | changes).items() if value is not None}
        np.savez_compressed(tmp_path / "g.npz", **parts)
        return tmp_path / "g.npz"

    return write


def test_a_published_file_is_read_without_its_pickles(saved):
    pickled = np.array([{"a": 1}, "b", "c"], dtype=object)
    path = saved(labels=np.array([7, -1, 2]), node_names=pickled, attr_names=pickled, idx_to_node=pickled)
    graph = read_npz(path, directed=True)
    assert graph.edges_and_weights()[1].tolist() == [2, 3]
    assert list(graph.ids) == [0, 1, 2]
    assert graph.labels is not None
    assert graph.labels.names == ("2", "7")
    assert graph.labels.codes.tolist() == [1, -1, 0]
    assert graph.pipeline is None
    assert not read_npz(path).directed


def test_names_are_ids_if_they_are_distinct(saved):
    assert list(read_npz(saved(node_names=np.array(["x", "y", "z"]))).ids) == ["x", "y", "z"]
    assert list(read_npz(saved(node_names=np.array(["x", "y", "x"]))).ids) == [0, 1, 2]
    assert list(read_npz(saved(node_names=np.array(["x", "y"]), ids=np.array([5, 3, 4], dtype=">i4"))).ids) == [5, 3, 4]


@pytest.mark.parametrize(
    ("member", "names", "said"),
    [
        (
            "node_names",
            ["x", "y", "x"],
            "g.npz: node_names has 3 names, 2 of them distinct, for 3; nodes are named by number",
        ),
        (
            "node_names",
            ["x", "y"],
            "g.npz: node_names has 2 names, 2 of them distinct, for 3; nodes are named by number",
        ),
        (
            "attr_names",
            list("abca"),
            "g.npz: attr_names has 4 names, 3 of them distinct, for 4; attributes have no names",
        ),
        (
            "attr_names",
            list("abc"),
            "g.npz: attr_names has 3 names, 3 of them distinct, for 4; attributes have no names",
        ),
    ],
)
def test_names_that_cannot_be_used_are_logged(saved, caplog, member, names, said):
    graph = read_npz(saved(**{member: np.array(names)}))
    assert (list(graph.ids), graph.feature_names) == ([0, 1, 2], None)
    assert [record.getMessage() for record in caplog.records] == [said]


def test_names_of_attributes_come_back(saved, tmp_path, caplog):
    graph = read_npz(saved(attr_names=np.array(["w", "x", "y", ""])))
    assert graph.feature_names == ("w", "x", "y", "")
    write_npz(graph, tmp_path / "again.npz")
    assert read_npz(tmp_path / "again.npz").feature_names == ("w", "x", "y", "")
    without = dict.fromkeys(csr_parts("attr", ADJACENCY))
    assert read_npz(saved(**without, attr_names=np.array(["w"]))).feature_names is None
    assert not caplog.records


def test_attributes_labels_and_names_are_optional(saved):
    assert read_npz(saved(**dict.fromkeys(csr_parts("attr", ADJACENCY)))).attributes is None
    graph = read_npz(saved(labels=np.array([0, 1, -5]), label_names=np.array(["one", "two", "three"])))
    assert graph.labels is not None
    assert (graph.labels[1], graph.labels[2], len(graph.labels.names)) == ("two", None, 3)


def test_foreign_byte_orders_and_widths_are_read(saved):
    parts = {name: value.astype(value.dtype.newbyteorder(">")) for name, value in PARTS.items()}
    assert read_npz(saved(**parts)).fingerprint() == read_npz(saved()).fingerprint()
    half = {"attr_data": PARTS["attr_data"].astype(np.float16), "adj_data": np.array([2, 3], dtype=np.uint8)}
    assert read_npz(saved(**half)).fingerprint() == read_npz(saved()).fingerprint()


def make_graph(sparse: bool) -> Graph:
    attributes = np.array([[0, 1.5], [0, 0], [2, 0]])
    return from_arrays(
        [[0, 1], [1, 2]],
        sp.csr_array(attributes) if sparse else attributes,
        weights=[0.5, 2],
        ids=["é", "", "b"],
        labels=["x", None, "y"],
        node_types=["p", "p", None],
    )


@pytest.mark.parametrize("sparse", [True, False])
def test_a_written_graph_comes_back_and_twice_the_same_bytes(tmp_path, sparse):
    graph = make_graph(sparse)
    write_npz(graph, tmp_path / "a.npz")
    write_npz(graph, tmp_path / "b.npz")
    again = read_npz(tmp_path / "a.npz")
    assert again.fingerprint() == graph.fingerprint()
    assert again.cleaning_report == graph.cleaning_report
    for mine, other in ((graph.labels, again.labels), (graph.node_types, again.node_types)):
        assert mine is not None
        assert other is not None
        assert (mine.codes.tolist(), mine.names) == (other.codes.tolist(), other.names)
    write_npz(again, tmp_path / "c.npz")
    assert len({sha256_of(tmp_path / name) for name in ("a.npz", "b.npz", "c.npz")}) == 1


def test_the_vocabulary_comes_back(tmp_path):
    texts = {"id": [5, 6, 7], "text": ["red fish", "red bird", "fish bird"]}
    graph = from_tables({"source": [5], "target": [6]}, texts=texts)
    write_npz(graph, tmp_path / "g.npz")
    again = read_npz(tmp_path / "g.npz")
    assert graph.pipeline is not None
    assert graph.pipeline.same_as(again.pipeline)
    assert again.fingerprint() == graph.fingerprint()


def test_an_id_numpy_would_shorten_is_refused(tmp_path):
    with pytest.raises(InputError, match="ends in a NUL character"):
        write_npz(from_arrays([[0, 1]], ids=["a\0", "b"]), tmp_path / "g.npz")
    assert not list(tmp_path.iterdir())


ids = st.one_of(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4), min_size=1, max_size=6, unique=True
    ),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=6, unique=True),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(ids, st.booleans(), st.booleans(), st.data())
def test_any_graph_survives_the_round_trip(tmp_path, names, directed, sparse, data):
    size = len(names)
    node = st.integers(0, size - 1)
    edges = data.draw(st.lists(st.tuples(node, node), max_size=12))
    weights = data.draw(hnp.arrays(np.float32, len(edges), elements=st.floats(0.125, 1e6, width=32)))
    numbers = st.floats(-1e6, 1e6, width=32)
    dense = data.draw(hnp.arrays(np.float32, (size, 3), elements=numbers))
    # A sparse matrix without a zero is written as a dense one, and comes back as one.
    dense[0, 0] = 0
    attributes = sp.csr_array(dense) if sparse else dense
    graph = from_arrays(edges, attributes, weights=weights, ids=names, directed=directed)
    write_npz(graph, tmp_path / "g.npz")
    again = read_npz(tmp_path / "g.npz", directed=directed)
    assert again.fingerprint() == graph.fingerprint()
    assert again.ids == graph.ids


EMPTY = csr_parts("adj", sp.csr_array((0, 0))) | csr_parts("attr", sp.csr_array((0, 0)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"adj_indptr": None}, "no member adj_indptr; expected a graph in the Graph2Gauss layout"),
        ({"attr_shape": None}, "no member attr_shape"),
        ({"attr_data": None}, "no member attr_data"),
        ({"adj_data": np.array([1, None])}, "adj_data holds Python objects"),
        ({"labels": np.array([1, None, 2])}, "labels holds Python objects"),
        ({"adj_indices": np.array([1.0, 2.0])}, "adj_indices holds float64"),
        ({"adj_data": np.array([1j, 2])}, "adj_data holds complex128"),
        ({"labels": np.array(["a", "b", "c"])}, "labels holds <U1"),
        ({"labels": np.eye(3, dtype=int)}, r"labels has the shape \(3, 3\)"),
        ({"labels": np.array([1, 2])}, "labels has 2 numbers for 3 nodes"),
        ({"labels": np.array([0, 1, 2]), "label_names": np.array(["a", "b"])}, "label_names has 2 names"),
        ({"labels": np.array([0, 0, 0]), "label_names": np.array(["a", "a"])}, "expected distinct"),
        ({"ids": np.array([1, 2])}, "ids has 2 numbers for 3 nodes"),
        ({"ids": np.array([1, 1, 2])}, "id 1 occurs more than once"),
        ({"adj_shape": np.array([3, 3, 3])}, r"adj_shape is \[3, 3, 3\]; expected two numbers"),
        ({"adj_shape": np.array([3, -3])}, "adj_shape is"),
        ({"adj_shape": np.array([3, 4])}, r"adj_shape is \(3, 4\); expected a square"),
        (
            {"attr_shape": np.array([3, 2**40])},
            r"attr_shape is \[3, 1099511627776\]; expected two numbers from 0 to 2,147,483,647",
        ),
        ({"adj_shape": np.array([4, 4])}, r"adj_\* is not a valid CSR matrix: .*4 should be 5"),
        ({"adj_data": np.array([1.0])}, r"adj_\* is not a valid CSR matrix: .*same size"),
        ({"adj_indptr": np.array([1, 1, 2, 2])}, r"adj_\* is not a valid CSR matrix: .*start with 0"),
        ({"adj_indptr": np.array([0, 2, 1, 2])}, r"adj_\* is not a valid CSR matrix: .*non-decreasing"),
        ({"adj_indptr": np.array([0, 1, 1, 1])}, "adj_indptr ends at 1, but there are 2 entries"),
        ({"adj_indices": np.array([1, 3])}, r"adj_\* is not a valid CSR matrix: .*< 3"),
        ({"adj_indices": np.array([-1, 2])}, r"adj_\* is not a valid CSR matrix: .*>= 0"),
        ({"adj_data": np.array([1.0, -1.0])}, "weights must be finite and above 0"),
        ({"attr_data": np.array([1.0, np.nan, 1.0])}, r"node 1 \(row 2\) has nan"),
        ({"attr_shape": np.array([2, 4]), "attr_indptr": np.array([0, 1, 3])}, "2 rows of attributes for 3 nodes"),
        ({"pipeline": np.frombuffer(b"{}", np.uint8)}, "the pipeline of the attributes is damaged"),
        (
            dict.fromkeys(csr_parts("attr", ADJACENCY)) | {"pipeline": np.frombuffer(b"{}", np.uint8)},
            "no member attr_data",
        ),
        ({"node_names": np.array([0xD800, 65, 66], dtype="<u4").view("<U1")}, "characters that are not valid Unicode"),
        (EMPTY, "at least one node"),
    ],
)
def test_members_that_do_not_fit_are_named(saved, changes, message):
    with pytest.raises(FormatError, match="g.npz: .*" + message):
        read_npz(saved(**changes))


def write_members(path, contents):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(f"{name}.npy", content)
    return path


def npy(array, version=(1, 0)):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, version=version)
    return stream.getvalue()


def test_headers_are_not_believed(tmp_path):
    contents = {name: npy(value) for name, value in PARTS.items()}
    assert read_npz(write_members(tmp_path / "g.npz", contents)).num_nodes == 3
    assert read_npz(write_members(tmp_path / "g.npz", contents | {"adj_data": npy(PARTS["adj_data"], (2, 0))}))
    for bad, message in (
        (
            contents["adj_data"].replace(b"(2,)", b"(9,)"),
            "adj_data is not a valid .npy array: .*expected 36 bytes got 8",
        ),
        (contents["adj_data"].replace(b"(2,)", b"(1,)"), r"its header says \(1,\) of float32, which does not match"),
        (contents["adj_data"].replace(b"(2,), }" + b" " * 12, b"(9999999999999,), }"), "adj_data is not a valid"),
        (contents["adj_data"][:-1], "expected 8 bytes got 7"),
        (contents["adj_data"].replace(b"'<f4'", b"'<f0'"), "not a valid .npy array"),
        (b"nonsense", "adj_data is not a valid .npy array"),
    ):
        with pytest.raises(FormatError, match=message):
            read_npz(write_members(tmp_path / "g.npz", contents | {"adj_data": bad}))


def test_strings_of_no_width_are_refused(tmp_path):
    header = npy(np.array(["a"])).replace(b"'<U1'", b"'<U0'").replace(b"(1,)", b"(3,)")[:-4]
    contents = {name: npy(value) for name, value in PARTS.items()} | {"node_names": header}
    with pytest.raises(FormatError, match=r"node_names is not .* its header says \(3,\)"):
        read_npz(write_members(tmp_path / "g.npz", contents))


def test_a_zip_bomb_is_refused_unless_it_is_trusted(saved):
    path = saved(ids=np.arange(3), labels=np.zeros(2_000_000, dtype=np.int64))
    with pytest.raises(InputError, match=r"unpacks to 16,00\d,\d+, .* with max_bytes=16"):
        read_npz(path, max_bytes=1_000_000)
    with pytest.raises(FormatError, match="labels has 2,000,000 numbers"):
        read_npz(path)


def test_what_is_no_npz_file(tmp_path, saved):
    path = saved()
    whole = path.read_bytes()
    for content in (b"not a zip", whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(FormatError, match=r"g.npz is not a complete .npz file"):
            read_npz(path)
    last = whole.index(b"PK\x03\x04", 4) - 1
    path.write_bytes(whole[:last] + bytes([whole[last] ^ 0xFF]) + whole[last + 1 :])
    with pytest.raises(FormatError, match=r"g.npz is not a complete .npz file"):
        read_npz(path)
    with pytest.raises(InputError, match="no file"):
        read_npz(tmp_path / "none.npz")


def _loads_or_refuses(path):
    with contextlib.suppress(GlaceError):
        assert isinstance(read_npz(path), Graph)


@pytest.mark.parametrize(("first", "compressed", "flip"), [(0, True, 0xFF), (1, False, 0xFF), (2, False, 0x01)])
def test_a_flipped_byte_is_a_graph_or_an_error_of_ours(tmp_path, first, compressed, flip):
    """Every third byte; each way of flipping has other ones."""
    path = tmp_path / "g.npz"
    (np.savez_compressed if compressed else np.savez)(path, **PARTS)
    whole = bytearray(path.read_bytes())
    for place in range(first, len(whole), 3):
        whole[place] ^= flip
        path.write_bytes(whole)
        _loads_or_refuses(path)
        whole[place] ^= flip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.binary(min_size=1))
def test_random_bytes_are_an_error_of_ours(tmp_path, content):
    (tmp_path / "g.npz").write_bytes(content)
    with pytest.raises(GlaceError):
        read_npz(tmp_path / "g.npz")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sampled_from(sorted(PARTS)), st.data())
def test_damage_behind_a_right_checksum_is_an_error_of_ours(tmp_path, name, data):
    contents = {member: npy(value) for member, value in PARTS.items()}
    damaged = bytearray(contents[name])
    for place in data.draw(st.lists(st.integers(0, len(damaged) - 1), min_size=1, max_size=4)):
        damaged[place] = data.draw(st.integers(0, 255))
    _loads_or_refuses(write_members(tmp_path / "g.npz", contents | {name: bytes(damaged)}))


def test_a_size_the_zip_lies_about_is_an_error_of_ours(saved):
    path = saved()
    content = bytearray(path.read_bytes())
    entry = content.index(b"PK\x01\x02")
    content[entry + 24 : entry + 28] = struct.pack("<I", 40)
    path.write_bytes(content)
    with pytest.raises(FormatError, match="not a complete"):
        read_npz(path)
