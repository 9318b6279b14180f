"""What every encoder promises, run by every encoder: parts, texts, modules of the user's own, types of nodes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import nn

import glace
from glace.cli.main import run
from glace.config.config import METHODS
from glace.errors import InputError
from glace.fitted.state import graph_inputs
from glace.model.layers import sparse_inputs
from glace.model.network import split_modules
from glace.training.train import TrainingTask, training_task, visible_graph
from tests.conftest import batch_loss, small


class CustomEncoder(nn.Module):
    """An encoder as a user writes it, which draws numbers in training."""

    def __init__(self, width: int, hidden: int = 32) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, 20), nn.Tanh(), nn.Dropout(0.2), nn.Linear(20, hidden))

    def forward(self, rows):
        return self.layers(rows)


def own(width):
    with torch.random.fork_rng([]):
        torch.manual_seed(3)
        return CustomEncoder(width)


@dataclass
class Case:
    """A graph, the encoder, and rows of new nodes of a type."""

    graph: glace.Graph
    encoder: Any
    rows: Any
    node_type: str | None = None
    directed: bool = False

    def model(self, **options):
        settled = {
            "neighbor_features": "mean",
            "dropout": 0.2,
            "offset": "learned",
            "max_steps": 12,
            "ensemble_size": 2,
        }
        return glace.GLACE(**small(**settled | {"encoder": self.encoder} | options))


def plain(sparse=True):
    graph: Any = glace.datasets.planted(120, communities=4, attributes=64, words=8, random_state=2)
    if sparse:
        return graph
    rng = np.random.default_rng(0)
    dense = graph.attributes.toarray() + rng.random((120, 64), dtype=np.float32)
    return glace.from_arrays(graph.edges(), dense)


def texts():
    import pandas as pd

    graph = plain()
    rows = np.split(graph.attributes.indices, graph.attributes.indptr[1:-1])
    words = [" ".join(f"word{column}" for column in row) for row in rows]
    edges = pd.DataFrame(graph.edges(), columns=["source", "target"])
    return glace.from_tables(edges, texts=pd.DataFrame({"id": range(120), "text": words}))


def typed(directed=False, second="dense"):
    """Sparse words and dense photos, in turn, weighted edges between them and among words."""
    graph, rng = plain(), np.random.default_rng(1)
    types = np.where(np.arange(120) % 3 == 0, "photo", "word")
    photos, words = np.flatnonzero(types == "photo"), np.flatnonzero(types == "word")
    pixels = rng.random((len(photos), 16), dtype=np.float32) + graph.attributes[photos][:, :16].toarray()
    edges = graph.edges()
    joined = edges[(types[edges[:, 0]] == "word") | (types[edges[:, 1]] == "word")]
    attributes = {"word": graph.attributes[words]} | ({} if second == "none" else {"photo": pixels})
    return glace.from_arrays(
        joined, attributes, weights=rng.random(len(joined)) + 0.5, node_types=types, directed=directed
    )


def cases():
    sparse, dense, photo = plain(), plain(sparse=False), typed()
    rows = photo.by_type().types
    return {
        "sparse mlp": Case(sparse, "mlp", sparse.attributes),
        "mlp object": Case(sparse, glace.MLP(layers=[16], activation="tanh"), sparse.attributes),
        "dense mlp": Case(dense, "mlp", dense.attributes),
        "deep sparse mlp": Case(sparse, "mlp:layers=16,activation=gelu,normalization=layer", sparse.attributes),
        "deep dense mlp": Case(
            dense, "mlp:layers=16+12,activation=tanh,dropout=0.1,normalization=batch", dense.attributes
        ),
        "image": Case(dense, "image:size=8x8,filters=4", dense.attributes),
        "identity": Case(sparse, "identity", None),
        "text": Case(texts(), "mlp:layers=16", ["word3 word4", "word5"]),
        "own": Case(dense, own(64), dense.attributes),
        "own, sparse": Case(sparse, own(64), sparse.attributes),
        "two types": Case(photo, "word=mlp:layers=16;photo=image:size=4x4,filters=4", rows[0].attributes, "photo"),
        "types, one own": Case(photo, {"photo": own(16)}, rows[0].attributes, "photo"),
        "types, directed": Case(typed(directed=True), "mlp", rows[1].attributes, "word", directed=True),
        "types, one without attributes": Case(typed(second="none"), "mlp", rows[1].attributes, "word"),
        "types, one identity": Case(photo, "photo=identity", rows[1].attributes, "word"),
    }


CASES = cases()


@pytest.fixture(params=CASES, scope="module")
def case(request):
    return CASES[request.param]


@pytest.fixture(scope="module")
def model(case):
    return case.model().fit(case.graph)


def task_of(case, config):
    graph = visible_graph(case.graph, config, METHODS["glace"])
    dissimilarity = config.model.resolved_dissimilarity(graph.directed, gaussian=True)
    return training_task(graph, config, dissimilarity, modules=split_modules(case.encoder)[1])


def loaded(case, path):
    has_module = isinstance(case.encoder, dict | nn.Module)
    return glace.load(path, encoder=case.encoder) if has_module else glace.load(path)


def test_shapes(case, model):
    assert model.embedding_.mean.shape == (120, 8)
    assert model.embedding_.variance.shape == (120, 8)
    assert np.isfinite(model.embedding_.mean).all()
    assert (model.embedding_.variance > 0).all()
    assert model.embedding_.dissimilarity == ("kl" if case.directed else "symmetric_kl")
    assert model.history_.best.auc > 0.5


def test_the_same_seed_gives_the_same_bits_whatever_torch_drew(case, model):
    before = torch.random.get_rng_state()
    torch.manual_seed(99)
    state = torch.random.get_rng_state()
    again = case.model().fit(case.graph)
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.random.set_rng_state(before)
    np.testing.assert_array_equal(again.embedding_.mean, model.embedding_.mean)


def test_saved_and_loaded_to_the_bit(case, model, tmp_path):
    model.save(tmp_path / "a.glace")
    again = loaded(case, tmp_path / "a.glace")
    again.save(tmp_path / "b.glace")
    assert (tmp_path / "a.glace").read_bytes() == (tmp_path / "b.glace").read_bytes()
    np.testing.assert_array_equal(again.embedding.variance, model.embedding_.variance)
    np.testing.assert_array_equal(glace.load_embedding(tmp_path / "a.glace").mean, model.embedding_.mean)
    if case.rows is not None:
        one, other = (each.transform(case.rows, node_type=case.node_type) for each in (model.model_, again))
        np.testing.assert_array_equal(one.mean, other.mean)
        found = [each.novelty(case.rows, case.node_type).rank for each in (model.model_, again)]
        np.testing.assert_array_equal(*found)


def test_an_interrupted_run_ends_with_the_same_bits(case, model, tmp_path):
    class Stop(Exception):
        pass

    def stop(progress):
        if progress.step == 7:
            raise Stop

    options: dict[str, Any] = {"checkpoint": tmp_path / "c", "checkpoint_seconds": 0}
    with pytest.raises(Stop):
        case.model().fit(case.graph, listener=stop, **options)
    again = case.model().fit(case.graph, resume=True, **options)
    np.testing.assert_array_equal(again.embedding_.mean, model.embedding_.mean)


def test_new_nodes_are_placed_by_their_attributes(case):
    """Without neighbours' attributes a training node is placed by its own alone, as a new one is."""
    model = case.model(neighbor_features="none").fit(case.graph)
    if case.rows is None:
        with pytest.raises(InputError, match="trained without attributes"):
            model.transform(sp.csr_array((1, 64)))
        return
    new = model.transform(case.rows, node_type=case.node_type)
    if case.graph.pipeline is not None:
        assert new.mean.shape == (2, 8)
        return
    codes = case.graph.node_types and case.graph.node_types.codes == case.graph.node_types.names.index(case.node_type)
    own = slice(None) if codes is None else codes
    np.testing.assert_allclose(new.mean, model.embedding_.mean[own], rtol=1e-4, atol=1e-5)


def test_gradients_are_those_of_the_loss(case):
    """Along a direction of all weights at once, against the difference of two losses."""
    model = case.model(
        neighbor_features="mean",
        activation="linear",
        dropout=0.0,
        neighbor_dropout=0.0,
        batch_size=40,
        negative_pool_size=20,
    )
    settings = model.config()
    fitting = task_of(case, settings)
    network = fitting.network(settings).eval()
    nodes, batch = fitting.sampler.batch(0).distinct()
    rows = graph_inputs(network, fitting.graph).rows(nodes)

    def loss():
        return batch_loss(network, rows, batch, 5)

    loss().backward()
    layers = dict(sparse_inputs(network))
    generator, along, change = np.random.default_rng(0), 0.0, {}
    for name, weight in network.named_parameters():
        layer = layers.get(name.removesuffix(".weight")) if name.endswith(".weight") else None
        if layer is None and (weight.grad is None or not weight.requires_grad):
            continue
        gradient = np.zeros(weight.shape, np.float32)
        if layer is not None:
            touched: Any = layer.touched()  # type: ignore[operator]
            gradient[touched.rows] = touched.gradient()
        else:
            gradient = weight.grad.numpy()
        change[name] = torch.from_numpy(generator.normal(size=weight.shape).astype(np.float32))
        along += float((change[name].numpy().astype(np.float64) * gradient).sum())
    found, step = [], 1e-3
    with torch.no_grad():
        for sign in (1, -2):
            for name, weight in network.named_parameters():
                if name in change:
                    weight.add_(change[name], alpha=sign * step)
            found.append(float(loss()))
    assert (found[0] - found[1]) / (2 * step) == pytest.approx(along, rel=0.03, abs=0.03)


def test_every_type_of_input_layer_was_reached(case, model):
    """No weight is as it started: each has a gradient."""
    settings = case.model().config()
    fitting = task_of(case, settings)
    start = fitting.network(settings).weights()
    moved = {name for name, array in model.model_.network.weights().items() if not np.array_equal(array, start[name])}
    fixed = {name for name in start if name not in moved and not name.startswith("scales.")}
    assert not fixed


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (
            nn.Linear(64, 7),
            r"the encoder was given 4 rows of 64 attributes and returned .* of shape \(4, 7\); expected",
        ),
        (nn.Linear(9, 32), "the encoder was given 4 rows of 64 attributes and raised RuntimeError"),
        ("image:size=8x9", "the encoder: 8 x 9 pixels are 72, but there are 64 attributes"),
        ({"word": "mlp"}, "there is an encoder for type 'word', but no type of the graph has attributes of its own"),
        ({3: "mlp"}, "encoders are given by the names of node types, but 3 is int"),
        ("module:CustomEncoder", "a module cannot be given as text; pass the torch.nn.Module itself"),
        ({"a;b": "mlp"}, "type 'a;b' cannot have its own encoder; rename the type"),
        ({"": "word=mlp"}, "no encoder 'word=mlp'"),
        (nn.Linear(64, 32).bfloat16(), "has weight in bfloat16, which model files cannot hold"),
        (nn.Linear, "encoder must be .* or a dict of these by node type, not <class"),
    ],
)
def test_a_wrong_encoder_is_told_before_training(encoder, message):
    steps: list[Any] = []
    with pytest.raises(InputError, match=message):
        glace.GLACE(**small(encoder=encoder)).fit(plain(sparse=False), listener=steps.append)
    assert not steps


def test_the_encoder_of_a_type_is_named_when_it_is_wrong():
    with pytest.raises(InputError, match="the encoder of type 'photo' was given 4 rows of 16"):
        glace.GLACE(**small(encoder={"photo": nn.Linear(16, 3)})).fit(typed())
    with pytest.raises(InputError, match="the encoder of type 'photo' has nothing to encode"):
        glace.GLACE(**small(encoder="photo=mlp:layers=4")).fit(typed(second="none"))
    with pytest.raises(InputError, match="for type 'video', but the graph's types are 'photo', 'word'"):
        glace.GLACE(**small(encoder="video=mlp")).fit(typed())


def test_a_module_is_given_again_when_it_is_loaded(tmp_path):
    case = CASES["types, one own"]
    case.model(max_steps=2).fit(case.graph).save(tmp_path / "m")
    with pytest.raises(
        InputError,
        match=r"custom encoder, CustomEncoder, .*: glace.load\(path, encoder={'photo': CustomEncoder\(...\)}\)",
    ):
        glace.load(tmp_path / "m").transform(case.rows, node_type="photo")
    with pytest.raises(InputError, match="the weights in .*m do not fit the given encoder; create it as it was"):
        glace.load(tmp_path / "m", encoder={"photo": CustomEncoder(9)}).transform(case.rows, node_type="photo")
    plain_case = CASES["dense mlp"]
    plain_case.model(max_steps=2).fit(plain_case.graph).save(tmp_path / "n")
    with pytest.raises(InputError, match="trained without a custom encoder; leave encoder= out"):
        glace.load(tmp_path / "n", encoder=CustomEncoder(64)).transform(plain_case.rows)


def test_what_was_said_in_words_stays_said(tmp_path):
    """Modules are given again; the words of other types stand in the file."""
    case = CASES["types, one own"]
    encoder = {"photo": case.encoder["photo"], "": "mlp:layers=8"}
    model = case.model(max_steps=2, encoder=encoder).fit(case.graph)
    model.save(tmp_path / "a.glace")
    again = glace.load(tmp_path / "a.glace", encoder=case.encoder)
    assert again.config == model.config_
    glace.update(again, case.graph, max_steps=1).save(tmp_path / "b.glace")
    assert glace.load(tmp_path / "b.glace", encoder=case.encoder).network is not None
    with pytest.raises(InputError, match="trained with an encoder of class CustomEncoder, not Linear"):
        glace.load(tmp_path / "a.glace", encoder={"photo": nn.Linear(16, 32)}).transform(case.rows, node_type="photo")
    with pytest.raises(InputError, match="raised RuntimeError"):
        glace.load(tmp_path / "a.glace", encoder={"photo": own(16).double()}).transform(case.rows, node_type="photo")


class Odd(nn.Module):
    """Layers by the names of ours, a mask that is not finite, and batches that one row is too few for."""

    def __init__(self):
        super().__init__()
        self.input, self.norm = nn.Linear(16, 32), nn.BatchNorm1d(32)
        self.register_buffer("mask", torch.tensor([0.0, -torch.inf]))

    def forward(self, rows):
        return self.norm(self.input(rows))


def test_modules_may_be_odd(tmp_path):
    """A type of few nodes has batches with one of them; what a module holds is its own affair."""
    graph, rng = plain(), np.random.default_rng(0)
    types = np.array(["rare"] * 3 + ["common"] * 117)
    attributes = {"rare": rng.random((3, 16)), "common": graph.attributes[3:]}
    both = glace.from_arrays(graph.edges(), attributes, node_types=types)
    model = glace.GLACE(**small(encoder={"rare": Odd()}, batch_size=8, negative_pool_size=8, max_steps=30)).fit(both)
    model.save(tmp_path / "m")
    again = glace.load(tmp_path / "m", encoder={"rare": Odd()})
    one, other = (each.transform(attributes["rare"], node_type="rare").mean for each in (model, again))
    np.testing.assert_array_equal(one, other)


class Fickle(nn.Module):
    """Gives what is wanted for few rows, and something else for many."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 32)

    def forward(self, rows):
        return self.layer(rows) if len(rows) < 9 else self.layer(rows)[:, :5]


def test_a_module_that_answers_otherwise_later_is_told():
    with pytest.raises(InputError, match=r"and returned torch.float32 of shape \(\d+, 5\); expected"):
        glace.GLACE(**small(encoder=Fickle())).fit(plain(sparse=False))


def test_hashed_columns_are_not_for_images():
    pixels = glace.from_arrays(plain().edges(), sp.csr_array(plain().attributes))
    glace.GLACE(**small(encoder="image:size=8x8", n_hashed_features=16, max_steps=2)).fit(pixels)


def test_what_is_known_of_training_nodes_needs_no_module(tmp_path, capsys):
    case = CASES["own"]
    case.model(max_steps=2).fit(case.graph).save(tmp_path / "m.glace")
    for command in (["info"], ["links", "-k", "2"]):
        assert run([command[0], str(tmp_path / "m.glace"), *command[1:]]) == 0
    rows = "\n".join([",".join(["id", *(f"a{number}" for number in range(64))]), ",".join(["new", *["1"] * 64])])
    (tmp_path / "x.csv").write_text(rows)
    arguments = ["--attributes", str(tmp_path / "x.csv"), "-o", str(tmp_path / "x.npz")]
    assert run(["embed", str(tmp_path / "m.glace"), *arguments]) == 2
    assert "pass the module again in Python" in " ".join(capsys.readouterr().err.split())


def test_the_module_of_the_user_is_not_trained_itself():
    case = CASES["own"]
    before = {name: value.clone() for name, value in case.encoder.state_dict().items()}
    model = case.model(proximity="both").fit(case.graph)
    assert all(torch.equal(value, before[name]) for name, value in case.encoder.state_dict().items())
    trained = model.model_.network.weights()
    first, context = (
        trained[f"branches.0.encoders.{role}.input.own.0.module.layers.0.weight"] for role in ("first", "context")
    )
    assert not np.array_equal(first, context)


def test_a_run_does_not_go_on_with_another_module(tmp_path):
    case = CASES["own"]
    options: dict[str, Any] = {"checkpoint": tmp_path / "c", "checkpoint_seconds": 0}
    case.model(max_steps=3).fit(case.graph, **options)
    for other in (CustomEncoder(64), nn.Linear(64, 32)):
        with pytest.raises(InputError, match="belongs to another run: modules"):
            case.model(max_steps=3, encoder=other).fit(case.graph, resume=True, **options)


def test_the_type_of_new_nodes_is_asked_for():
    case = CASES["two types"]
    model = case.model(max_steps=2).fit(case.graph)
    with pytest.raises(InputError, match="node_type must be given, as the model has several node types: photo, word"):
        model.transform(case.rows)
    with pytest.raises(InputError, match="no node type 'video' with attributes of its own; its types are photo, word"):
        model.transform(case.rows, node_type="video")
    with pytest.raises(InputError, match="trained on 64 attributes, but these have 16"):
        model.transform(case.rows, node_type="word")
    untyped = CASES["dense mlp"]
    with pytest.raises(InputError, match="no node type 'word' with attributes of its own; its nodes have no types"):
        untyped.model(max_steps=2).fit(untyped.graph).transform(untyped.rows, node_type="word")


def test_means_and_holes_are_not_for_images():
    case = CASES["image"]
    open_ones = {"neighbor_features": "auto", "dropout": "auto", "encoder": case.encoder, "max_steps": 3}
    options = glace.GLACE(**small(**open_ones)).fit(case.graph).selection_.options
    assert options["neighbor_features"] == "none"
    assert options["dropout"] == 0.0


def test_a_batch_may_lack_a_type():
    """A type of one node is seldom drawn: its layer then has no gradient, and keeps its weights."""
    graph = plain()
    types = np.array(["rare", *["common"] * 119])
    attributes = {"rare": graph.attributes[:1], "common": graph.attributes[1:].toarray()}
    both = glace.from_arrays(graph.edges(), attributes, node_types=types)
    for options in ({}, {"negative_sampling": "independent"}):
        model = glace.GLACE(**small(batch_size=4, negative_pool_size=4, max_steps=20, **options)).fit(both)
        assert np.isfinite(model.embedding_.mean).all()


def test_two_types_are_trained_by_torch_alone_as_by_kernels():
    case = CASES["two types"]
    settings = case.model(dropout=0.0).config()
    means = []
    for compiled in (True, False):
        fitting = training_task(case.graph, settings, "symmetric_kl", None)
        trainer = TrainingTask(**{**vars(fitting), "compiled": compiled}).trainer(settings)
        trainer.run()
        mean = trainer.network.embed(trainer.inputs, np.arange(120))[0].mean
        means.append(mean - mean.mean(axis=0))  # where all of them are together, nothing says
    np.testing.assert_allclose(means[0], means[1], rtol=2e-2, atol=2e-2)
