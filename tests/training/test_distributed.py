"""Several processes train one model: what they exchange, and how they fail. The processes are real ones."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

import glace
from glace.config.config import METHODS, RunConfig
from glace.errors import DistributedError, InputError
from glace.model.layers import SparseRowGradient
from glace.model.network import branch_loss, using_threads
from glace.training import distributed
from glace.training.distributed import Ranks, joined, ranks_of_branches
from glace.training.train import resolve_config, training_task
from tests.conftest import small

STEPS = 20
OPTIONS = small(
    ensemble_size=2,
    max_steps=2 * STEPS,
    validate_every=8,
    batch_size=64,
    sync_every=5,
    neighbor_features="mean",
    neighbor_dropout=0.25,
    dropout=0.2,
)


def graph_to_train():
    return glace.datasets.planted(300, communities=6, degree=8, attributes=90, words=9, random_state=3)


def new_trainer(ranks=None):
    """A run without validation, so that it ends with the weights of the last step and not with the best ones."""
    config, _ = resolve_config(OPTIONS | {"validation_fraction": 0.0}, METHODS["glace"])
    task = training_task(graph_to_train(), config, "symmetric_kl")
    return task.trainer(config, ranks)


def one_rank(folder):
    """What each rank of the fixture `two_ranks` does; it writes files that the tests read."""
    from pathlib import Path

    folder, options, said = Path(folder), OPTIONS | {"rank_timeout": 20}, {}
    with joined(RunConfig(rank_timeout=20, sync="gradients")) as ranks:
        name = f"{ranks.number}"
        trainer = new_trainer(ranks)
        trainer.run()
        np.savez(folder / f"gradients-{name}.npz", **trainer.network.weights())
        for sync in ("members", "weights"):
            fitted = glace.train(graph_to_train(), options | {"sync": sync})
            fitted.save(folder / f"{sync}-{name}.glace")
        _interrupted(ranks, options | {"sync": "weights"}, folder / "run.checkpoint")
        os.environ["TORCHELASTIC_RESTART_COUNT"] = "1"
        resumed = glace.train(graph_to_train(), options | {"sync": "weights"}, checkpoint=folder / "run.checkpoint")
        resumed.save(folder / f"resumed-{name}.glace")
        said["first"] = ranks.from_first({"of": ranks.number})
        said["squares"] = [each["x"].item() for each in ranks.map(lambda x: {"x": np.array([x * x])}, range(5))]
        with pytest.raises(InputError) as different:
            ranks.check_same({"options": {"dim": 8 + ranks.number, "n_jobs": ranks.number}})
        said["different"] = str(different.value)
        with pytest.raises((DistributedError, KeyError)) as failed, ranks.together():
            {0: "fine"}[ranks.number]
        said["failed"] = str(failed.value)
        (folder / f"said-{name}.json").write_text(json.dumps(said))


def _interrupted(ranks, options, checkpoint):
    """Train to step 18 on both ranks, with a checkpoint at their last meeting."""

    class Stopped(Exception):
        pass

    steps = glace.training.loop.Trainer._steps

    def stopping(self, count):
        if self.history.step >= 18:
            raise Stopped
        steps(self, count)

    glace.training.loop.Trainer._steps = stopping  # type: ignore[method-assign]
    with pytest.raises(Stopped):
        glace.train(graph_to_train(), options, checkpoint=checkpoint, checkpoint_seconds=0)
    glace.training.loop.Trainer._steps = steps  # type: ignore[method-assign]
    assert ranks.from_first(checkpoint.exists())


def free_port():
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return opened.getsockname()[1]


def environment(number, count, port):
    named = {"RANK": number, "WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return {name: str(value) for name, value in named.items()}


def start(number, port, *arguments):
    command = [sys.executable, *map(str, arguments)]
    variables = {**os.environ, "OMP_NUM_THREADS": "1", **environment(number, 2, port)}
    return subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory):
    """The folder with what two ranks wrote."""
    folder, port = tmp_path_factory.mktemp("ranks"), free_port()
    body = f"from tests.training.test_distributed import one_rank; one_rank({str(folder)!r})"
    processes = [start(number, port, "-c", body) for number in range(2)]
    said = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    return folder


def averaged_by_one_process():
    """The weights after steps along the mean gradient of two batches each, taken by one process."""
    with using_threads(1):
        trainer = new_trainer()
        for number in range(1, STEPS + 1):
            rate = trainer._learning_rate()
            batches = [trainer._prepare(trainer.history.step + place) for place in range(2)]
            for branch, optimizer in trainer.branches.values():
                dense = dict.fromkeys(optimizer.dense.weights, 0.0)
                rows = {name: np.zeros(layer.weight.shape, np.float64) for name, layer in optimizer.layers.items()}
                for batch in batches:
                    optimizer.zero_grad()
                    branch_loss(trainer.network, branch, batch.rows, batch.batch).backward()
                    for name, weight in optimizer.dense.weights.items():
                        dense[name] = dense[name] + weight.grad / 2
                    for name, layer in optimizer.layers.items():
                        touched = layer.touched()
                        rows[name][touched.rows] += touched.gradient() / 2
                for name, weight in optimizer.dense.weights.items():
                    weight.grad = dense[name]
                for name, layer in optimizer.layers.items():
                    where = np.flatnonzero(rows[name].any(axis=1))
                    layer.pending = SparseRowGradient.of(where, rows[name][where].astype(np.float32))
                optimizer.step(number, rate)
            trainer.history.step += 2
        return trainer.network.weights()


def test_averaged_gradients_are_those_of_one_process_with_both_batches(two_ranks):
    expected, start_weights = averaged_by_one_process(), new_trainer().network.weights()
    found = [np.load(two_ranks / f"gradients-{number}.npz") for number in range(2)]
    for name, weights in expected.items():
        assert not len(weights) or not np.array_equal(weights, start_weights[name])
        np.testing.assert_allclose(found[0][name], weights, rtol=1e-3, atol=2e-5)
        np.testing.assert_array_equal(found[0][name], found[1][name])


def test_members_on_two_ranks_are_the_model_of_one_process(two_ranks, tmp_path):
    glace.train(graph_to_train(), OPTIONS | {"sync": "members", "rank_timeout": 20}).save(tmp_path / "one.glace")
    for number in range(2):
        assert (two_ranks / f"members-{number}.glace").read_bytes() == (tmp_path / "one.glace").read_bytes()


def test_averaged_weights_learn_and_are_the_same_on_all_ranks(two_ranks):
    models = [glace.load(two_ranks / f"weights-{number}.glace") for number in range(2)]
    np.testing.assert_array_equal(models[0].embedding.mean, models[1].embedding.mean)
    alone = glace.train(graph_to_train(), OPTIONS)
    assert models[0].history.step == alone.history.step == 2 * STEPS
    found, expected = (each.history.best for each in (models[0], alone))
    assert found is not None
    assert expected is not None
    assert found.auc > expected.auc - 0.03 > 0.7


def test_a_restarted_run_ends_in_the_same_bits(two_ranks):
    assert (two_ranks / "resumed-0.glace").read_bytes() == (two_ranks / "weights-0.glace").read_bytes()


def test_ranks_exchange_values_and_raise_together(two_ranks):
    said = [json.loads((two_ranks / f"said-{number}.json").read_text()) for number in range(2)]
    for each in said:
        assert each["first"] == {"of": 0}
        assert each["squares"] == [0, 1, 4, 9, 16]
        assert "options.dim is 8 on rank 0 and 9 on rank 1" in each["different"]
        assert "n_jobs" not in each["different"]
    assert "rank 0 of 2: another rank failed; see its own message" in said[0]["failed"]
    assert said[1]["failed"] == "1"


def test_a_stopped_rank_ends_the_run_of_the_others(tmp_path):
    glace.write_npz(graph_to_train(), tmp_path / "g.npz")
    output, port = tmp_path / "m.glace", free_port()
    output.write_text("earlier")
    command = ["-m", "glace", "fit", tmp_path / "g.npz", "-o", output, "--max-steps", "1000000", "--quiet"]
    command += ["--ensemble-size", "2", "--offset", "0", "--dropout", "0", "--neighbor-features", "none"]
    command += ["--patience", "1000000", "--rank-timeout", "2", "--checkpoint-seconds", "0.1"]
    processes = [start(number, port, *command) for number in range(2)]
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "m.glace.checkpoint").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        processes[1].send_signal(signal.SIGSTOP)
        _, errors = processes[0].communicate(timeout=30)
    finally:
        for process in processes:
            process.kill()
        processes[1].communicate()
    assert processes[0].returncode == 5
    assert errors.startswith("error: rank 0 of 2: another rank did not answer within 2 s")
    assert errors.count("\n") == 1
    assert output.read_text() == "earlier"


@pytest.fixture
def listener():
    """The port of something that accepts connections and says nothing."""
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        opened.listen()
        yield opened.getsockname()[1]


@pytest.mark.parametrize(
    ("number", "message"), [(0, "the port of 127.0.0.1:.* is in use"), (1, "timed out: no answer")]
)
def test_a_taken_port_is_refused(listener, number, message, monkeypatch):
    monkeypatch.setattr(distributed, "GRACE", 0.2)
    for name, value in environment(number, 2, listener).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(DistributedError, match=f"rank {number} of 2: .*{message}"), joined(RunConfig(rank_timeout=0.3)):
        pass


def test_ranks_that_do_not_come_are_not_waited_for(monkeypatch):
    for name, value in environment(0, 2, free_port()).items():
        monkeypatch.setenv(name, value)
    message = r"rank 0 of 2: cannot reach 127.0.0.1:\d+, or not all ranks came there within 0.3 s"
    with pytest.raises(DistributedError, match=message), joined(RunConfig(rank_timeout=0.3)):
        pass


def test_one_process_is_alone(monkeypatch):
    for name, value in environment(0, 1, 1).items():
        monkeypatch.setenv(name, value)
    with joined(RunConfig(sync="gradients")) as ranks:
        assert (ranks.count, ranks.is_first, ranks.group) == (1, True, None)
        assert list(ranks.map(lambda x: {"x": np.array(x)}, [1, 2])) == [{"x": 1}, {"x": 2}]


def test_ranks_are_distributed_evenly_over_branches():
    assert ranks_of_branches(4, 2, "members") == [(0,), (1,), (0,), (1,)]
    assert ranks_of_branches(4, 2, "weights") == [(0, 1)] * 4
    assert ranks_of_branches(4, 8, "weights") == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert ranks_of_branches(4, 6, "gradients") == [(0, 2, 4), (1, 3, 5), (0, 2, 4), (1, 3, 5)]
    assert ranks_of_branches(1, 3, "weights") == [(0, 1, 2)]


def test_what_is_exchanged_depends_on_the_number_of_ranks():
    assert Ranks(count=4).resolved_sync(4) == "members"
    assert Ranks(count=5).resolved_sync(4) == "weights"
    assert Ranks(count=5, sync="gradients").resolved_sync(4) == "gradients"
    with pytest.raises(InputError, match="sync must be 'weights' or 'gradients' for 5 ranks: .* has 4 that can"):
        Ranks(count=5, sync="members").resolved_sync(4)


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ("[/gloo/buffer.cc:81] Timed out waiting 60000ms for recv", "did not answer within 60 s"),
        ("[/gloo/pair.cc:553] Connection closed by peer [10.0.0.2]:7", "lost the connection .* closed by peer"),
        ("[/gloo/x.cc:1] Something else", "^Something else$"),
    ],
)
def test_errors_of_torch_are_explained(problem, message):
    with pytest.raises(DistributedError, match=message.replace("^", "rank 1 of 2: ")), Ranks(1, 2).errors():
        raise RuntimeError(problem)


def test_a_missing_interface_is_named(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth7")
    said = distributed._why_not_joined("Unable to find address for: eth7", "a:1", 60)
    assert said.startswith("this machine has no network interface 'eth7'")
