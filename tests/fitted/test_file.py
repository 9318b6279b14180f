"""The model file: nothing in it is trusted, nothing in it is executed."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import glace
from glace.errors import FormatError, InputError
from glace.features.pipeline import FeaturePipeline
from glace.features.text import TextVocabulary
from glace.fitted.model import KIND, VERSION, load, load_embedding
from glace.storage import container
from tests.conftest import small


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A model file small enough to try every byte of it."""
    graph = glace.from_arrays(np.array([[0, 1], [1, 2], [2, 3], [3, 4]]), np.eye(5, 3), ids=list("abcde"))
    model = glace.GLACE(**small(dim=1, hidden=2, max_steps=2, validation_fraction=0)).fit(graph)
    path = tmp_path_factory.mktemp("tiny") / "m.glace"
    model.save(path)
    return path


def test_flipped_bits_are_noticed(tiny, tmp_path):
    whole, damaged = tiny.read_bytes(), tmp_path / "damaged"
    assert len(load(tiny).embedding) == 5
    header = 8 + int.from_bytes(whole[:8], "little")
    for place in [*range(0, header, 3), *range(header, len(whole), 61)]:
        content = bytearray(whole)
        content[place] ^= 1 << (place % 8)
        damaged.write_bytes(content)
        with pytest.raises(FormatError):
            load(damaged)


@pytest.mark.parametrize("value", [0, 9, 32, 255])
def test_bytes_of_the_header_set_to_something_else_are_noticed(tiny, tmp_path, value):
    """Of every fifth byte, and of all that are good JSON with the change as well: a tab for a blank."""
    whole, damaged = tiny.read_bytes(), tmp_path / "damaged"
    header = 8 + int.from_bytes(whole[:8], "little")
    for place in range(header):
        if whole[place] != value and (place % 5 == 0 or (whole[place], value) == (32, 9)):
            damaged.write_bytes(whole[:place] + bytes([value]) + whole[place + 1 :])
            with pytest.raises(FormatError):
                load(damaged)


def test_cut_off_and_lengthened_files_are_refused(tiny, tmp_path):
    whole, damaged = tiny.read_bytes(), tmp_path / "damaged"
    for content in [whole[:size] for size in range(1, len(whole), 41)] + [whole + b"\0"]:
        damaged.write_bytes(content)
        with pytest.raises(FormatError):
            load(damaged)


@given(st.binary(min_size=1, max_size=200))
def test_junk_is_refused(tmp_path_factory, junk):
    path = tmp_path_factory.mktemp("junk") / "m"
    path.write_bytes(junk)
    with pytest.raises(FormatError, match="not a file written by glace"):
        load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "other"}, "not a usable model file: method must be one of"),
        ({"options": {"dim": 0}}, "not a usable model file: dim must be"),
        ({"options": {"surprise": 1}}, "not a usable model file"),
        ({"dissimilarity": "cosine"}, "unknown dissimilarity"),
    ],
)
def test_contradictions_inside_are_refused(tiny, tmp_path, change, message):
    metadata, arrays = container.read(tiny, KIND, VERSION)
    content = {key: metadata[key] for key in metadata if key not in ("checksum", "kind", "format_version")}
    container.write(tmp_path / "m", KIND, VERSION, content | change, arrays)
    with pytest.raises(FormatError, match=message):
        load(tmp_path / "m")


def rewritten(source, path, change, arrays=None):
    """Write a model file with other metadata or arrays."""
    metadata, before = container.read(source, KIND, VERSION)
    content = {key: metadata[key] for key in metadata if key not in ("checksum", "kind", "format_version")}
    container.write(path, KIND, VERSION, content | change, before | (arrays or {}))
    return path


def test_weights_of_another_size_are_refused_before_memory_is_allocated(tiny, tmp_path):
    sparse = glace.from_arrays(np.array([[0, 1], [1, 2], [2, 3]]), sp.csr_array(np.eye(4)))
    glace.GLACE(**small(dim=1, hidden=2, max_steps=2, validation_fraction=0)).fit(sparse).save(tmp_path / "sparse")
    types = [{"name": "", "count": 4, "width": 10**12, "sparse": True}]
    _, arrays = container.read(tmp_path / "sparse", KIND, VERSION)
    path = rewritten(
        tmp_path / "sparse",
        tmp_path / "m",
        {"node_types": types},
        {"novelty0/column_counts": arrays["novelty0/column_counts"]},
    )
    with pytest.raises(FormatError, match="m is not a usable model file: "):
        load(path).transform(sp.csr_array((1, 10**12)))


def test_weights_that_are_not_finite_are_refused(tiny, tmp_path):
    metadata, arrays = container.read(tiny, KIND, VERSION)
    content = {key: metadata[key] for key in metadata if key not in ("checksum", "kind", "format_version")}
    name = "weights/branches.0.encoders.first.heads.0.bias"
    container.write(tmp_path / "m", KIND, VERSION, content, arrays | {name: np.array([np.nan], np.float32)})
    with pytest.raises(FormatError, match="are not all finite"):
        load(tmp_path / "m")


def test_another_version_and_another_kind_are_named(tmp_path):
    container.write(tmp_path / "new", KIND, 99, {}, {})
    with pytest.raises(FormatError, match="has format version 99, but this glace reads version 7"):
        load(tmp_path / "new")
    container.write(tmp_path / "other", "glace-checkpoint", 1, {}, {})
    with pytest.raises(FormatError, match="is not a glace-model file but a glace-checkpoint file"):
        load(tmp_path / "other")


def test_missing_files_are_named(tmp_path):
    with pytest.raises(InputError, match="no file .*nowhere"):
        load(tmp_path / "nowhere")


def test_large_embeddings_lie_beside_the_model(fitted, tmp_path):
    fitted.model_.save(tmp_path / "m", embedding="beside")
    (sidecar,) = tmp_path.glob("m.*.arrow")
    for path in (tmp_path / "m", sidecar):
        np.testing.assert_array_equal(load_embedding(path).variance, fitted.embedding_.variance)
    whole = sidecar.read_bytes()
    sidecar.write_bytes(whole[:2000] + bytes([whole[2000] ^ 1]) + whole[2001:])
    with pytest.raises(FormatError, match="is damaged or belongs to another model"):
        load(tmp_path / "m")
    sidecar.unlink()
    with pytest.raises(FormatError, match="needs the file .*arrow beside it"):
        load(tmp_path / "m")


def _interrupt(*arguments):
    raise KeyboardInterrupt


def test_a_new_sidecar_never_replaces_the_one_an_old_model_needs(fitted, planted, tmp_path, monkeypatch):
    other = glace.GLACE(**small(max_steps=3)).fit(planted)
    fitted.model_.save(tmp_path / "m", embedding="beside")
    with monkeypatch.context() as patch:
        patch.setattr(container, "write", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            other.model_.save(tmp_path / "m", embedding="beside")
    np.testing.assert_array_equal(load(tmp_path / "m").embedding.mean, fitted.embedding_.mean)
    other.model_.save(tmp_path / "m", embedding="beside")
    assert len(list(tmp_path.glob("m.*.arrow"))) == 1, "what no model needs is removed"
    other.model_.save(tmp_path / "m", embedding="inside")
    assert list(tmp_path.glob("m.*.arrow")) == []


def test_a_model_is_not_called_like_an_embedding(fitted, tmp_path):
    with pytest.raises(InputError, match=r"a model file cannot be named .*m\.parquet"):
        fitted.save(tmp_path / "m.parquet")


def test_where_the_embedding_goes_is_a_choice_of_three(fitted, tmp_path):
    with pytest.raises(InputError, match="embedding must be 'auto', 'inside' or 'beside'"):
        fitted.model_.save(tmp_path / "m", embedding="elsewhere")


def test_a_failed_write_leaves_the_old_file(fitted, tmp_path, monkeypatch):
    path = tmp_path / "m"
    fitted.save(path)
    before = path.read_bytes()

    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("glace.storage.container._write_tensors", full)
    with pytest.raises(InputError, match="cannot write .*: no space left on device"):
        fitted.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_metadata_is_readable_by_any_safetensors_reader(tiny):
    from safetensors import safe_open

    with safe_open(tiny, framework="numpy") as opened:
        content = json.loads(opened.metadata()["glace"])
    assert content["kind"] == "glace-model"
    assert content["format_version"] == VERSION == 7
    assert content["options"]["hidden"] == 2


AUDIT = """
import pickle, sys
from pathlib import Path

import glace
from glace.storage import container

# The hook sees every class a pickle validation_points up, the replaced functions every pickle that needs no class.
def hook(event, arguments):
    if event == "pickle.find_class":
        raise SystemExit(f"unpickling {arguments}")

def refuse(*arguments, **options):
    raise SystemExit("unpickling")

def load_all(model, parquet, npz, arrow, graph, edges, checkpoint):
    glace.load(model)
    for path in (model, parquet, npz, arrow):
        glace.load_embedding(path)
    glace.read_npz(graph)
    glace.read_graph(edges)
    container.read(checkpoint, "glace-checkpoint", 2)

paths = [Path(each) for each in sys.argv[1:]]
load_all(*paths)  # libraries are imported; from here on nothing may be unpickled
sys.addaudithook(hook)
pickle.load = pickle.loads = pickle.Unpickler = pickle._Unpickler = refuse
load_all(*paths)
print("loaded without unpickling")
"""


def test_no_file_is_ever_unpickled(fitted, planted, tmp_path):
    """An audit hook sees every class a pickle validation_points up; loading all kinds of files must show it none."""
    fitted.save(tmp_path / "m")
    embeddings = [tmp_path / f"e.{ending}" for ending in ("parquet", "npz", "arrow")]
    for path in embeddings:
        glace.write_embedding(fitted.embedding_, path)
    glace.write_npz(planted, tmp_path / "g.npz")
    (tmp_path / "e.csv").write_text("source,target\na,b\n")
    glace.GLACE(**small(max_steps=1)).fit(planted, checkpoint=tmp_path / "c", checkpoint_seconds=0)
    arguments = [tmp_path / "m", *embeddings, tmp_path / "g.npz", tmp_path / "e.csv", tmp_path / "c"]
    done = subprocess.run([sys.executable, "-c", AUDIT, *arguments], capture_output=True, text=True, check=False)
    assert done.stdout == "loaded without unpickling\n", done.stderr + done.stdout


def test_a_pickle_inside_an_npz_is_refused_not_run(tmp_path):
    np.savez(tmp_path / "e.npz", ids=np.array([{"a": 1}], dtype=object), mean=np.zeros((1, 1)))
    with pytest.raises(FormatError, match="cannot read"):
        load_embedding(tmp_path / "e.npz")


def test_a_recipe_comes_back_to_the_same_bits_and_damage_is_refused(tmp_path):
    nodes = pd.DataFrame({"id": list("abcde"), "size": [1, 2, None, 4, 5], "town": ["x", "y", "x", None, "y"]})
    edges = pd.DataFrame({"source": list("abcd"), "target": list("bcde")})
    graph = glace.from_tables(edges, nodes, columns={"town": "category"})
    model = glace.GLACE(**small(dim=1, hidden=2, max_steps=2, validation_fraction=0)).fit(graph)
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    new = pd.DataFrame({"town": ["y", "z"], "size": [None, 3.0]})
    assert again.pipeline is not None
    assert again.pipeline.same_as(graph.pipeline)
    assert again.transform(new).mean.tobytes() == model.transform(new).mean.tobytes()
    with pytest.raises(InputError, match="not trained on texts; give a table with the columns of the training"):
        again.transform(["a text"])
    with pytest.raises(InputError, match="no column 'size'"):
        again.transform(new[["town"]])
    again.save(tmp_path / "n")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "n").read_bytes()
    metadata, arrays = container.read(tmp_path / "m", KIND, VERSION)
    content = {key: metadata[key] for key in metadata if key not in ("checksum", "kind", "format_version")}
    for pipeline, message in (
        (arrays["types/0/pipeline"][:-1], "the pipeline of the attributes is damaged"),
        (
            FeaturePipeline.of_texts(TextVocabulary(("a",), np.ones(1))).to_bytes(),
            "makes 1 attributes, but there are 3",
        ),
    ):
        container.write(tmp_path / "bad", KIND, VERSION, content, arrays | {"types/0/pipeline": pipeline})
        with pytest.raises(FormatError, match=message):
            load(tmp_path / "bad")
