"""Training by torch alone, as on a GPU, gives the numbers of the compiled kernels."""

import dataclasses

import numpy as np
import pytest

import glace
from glace.config.config import Config
from glace.errors import InputError
from glace.model.layers import SparseInput, sparse_inputs
from glace.training.loop import State, input_mask
from glace.training.train import training_task
from tests.conftest import batch_loss, small


def trainer_of(graph, compiled, **options):
    settings = Config.of(small(max_steps=30, validate_every=10, **options))
    measure = settings.model.resolved_dissimilarity(graph.directed, gaussian=True)
    task = training_task(graph, settings, measure)
    return dataclasses.replace(task, compiled=compiled).trainer(settings)


def gradients(trainer):
    """Loss of the first batch, and its gradient by the names of the weights."""
    batch = trainer.sampler.batch(0)
    nodes, places = batch.distinct()
    rows = trainer.inputs.rows(nodes, input_mask(trainer.network, trainer.sampler, batch, 0, trainer.total_steps))
    loss = batch_loss(trainer.network, rows, places, trainer.sampler.config.n_negatives)
    loss.backward()
    found = {
        name: weight.grad.to_dense().numpy()
        for name, weight in trainer.network.named_parameters()
        if weight.grad is not None
    }
    for name, layer in sparse_inputs(trainer.network):
        if not isinstance(layer, SparseInput):
            continue
        touched = layer.touched()
        found[f"{name}.weight"] = np.zeros(layer.weight.shape, np.float32)
        found[f"{name}.weight"][touched.rows] = touched.gradient()
    return loss.item(), found


@pytest.mark.parametrize(
    "options",
    [
        {},
        {
            "ensemble_size": 3,
            "hidden_length": "bounded",
            "neighbor_features": "mean",
            "neighbor_dropout": 0.2,
            "dropout": 0.3,
        },
        {"proximity": "both", "negative_sampling": "independent"},
        {"n_hashed_features": 50},
    ],
)
def test_torch_alone_learns_what_the_kernels_do(planted, options):
    trainers = [trainer_of(planted, compiled, **options) for compiled in (True, False)]
    assert any("Torch" in type(module).__name__ for module in trainers[1].network.modules())
    (loss, ours), (torch_loss, theirs) = map(gradients, trainers)
    assert loss == pytest.approx(torch_loss, rel=1e-5)
    assert set(ours) == set(theirs)
    for name, gradient in ours.items():
        np.testing.assert_allclose(gradient, theirs[name], rtol=1e-3, atol=1e-5, err_msg=name)
    aucs = [
        [look.auc for look in trainer_of(planted, compiled, **options).run().validation_points]
        for compiled in (True, False)
    ]
    np.testing.assert_allclose(aucs[0], aucs[1], atol=2e-3)
    assert aucs[0][-1] > 0.6


def test_a_graph_without_attributes_too(planted):
    bare = planted.without_attributes()
    histories = [trainer_of(bare, compiled, learning_rate=0.05).run() for compiled in (True, False)]
    assert histories[0].loss == pytest.approx(histories[1].loss, rel=1e-3)


def test_dense_attributes_too(planted):
    dense = planted.with_attributes(planted.attributes.toarray())
    histories = [trainer_of(dense, compiled).run() for compiled in (True, False)]
    np.testing.assert_allclose(
        histories[0].validation_points[-1].auc, histories[1].validation_points[-1].auc, atol=2e-3
    )


def test_a_run_by_torch_alone_is_resumed_to_the_same_bits(planted):
    whole = trainer_of(planted, compiled=False)
    whole.run()
    part = trainer_of(planted, compiled=False)
    for _ in range(7):
        part._steps(1)
    state = part.state()
    copied = State(
        state.history,
        {name: value.copy() for name, value in state.weights.items()},
        {name: np.array(value) for name, value in state.optimizer.items()},
        state.best_weights,
    )
    resumed = trainer_of(planted, compiled=False)
    resumed.set_state(copied)
    resumed.run()
    for name, weight in whole.network.weights().items():
        np.testing.assert_array_equal(weight, resumed.network.weights()[name], err_msg=name)


def test_a_device_that_is_not_there_is_named(planted, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    with pytest.raises(InputError, match="torch finds no device 'mps' on this machine; available: cpu"):
        glace.GLACE(**small(device="mps")).fit(planted)
