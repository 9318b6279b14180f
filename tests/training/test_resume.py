"""Interrupted runs go on to the same bits, or refuse."""

import hashlib
import os
import signal
import subprocess
import sys
import time

import pytest

import glace
from glace.cli.main import run
from glace.errors import FormatError, InputError
from tests.conftest import small

OPTIONS = small(max_steps=30, validate_every=7, proximity="both")


class Interrupted(Exception):
    pass


def interrupt_at(step):
    def listener(progress):
        if progress.step == step:
            raise Interrupted

    return listener


def digest(model, path):
    model.save(path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("method", [glace.GLACE, glace.LACE])
def test_resumed_runs_end_in_the_same_bits(planted, tmp_path, method, dense):
    graph = glace.from_arrays(planted.edges(), planted.attributes.toarray()) if dense else planted
    whole = digest(method(**OPTIONS).fit(graph), tmp_path / "whole")
    for stop in (1, 13, 29):
        saved = {"checkpoint": tmp_path / "run", "checkpoint_seconds": 0}
        with pytest.raises(Interrupted):
            method(**OPTIONS).fit(graph, listener=interrupt_at(stop), **saved)
        resumed = method(**OPTIONS).fit(graph, resume=True, **saved)
        assert digest(resumed, tmp_path / "resumed") == whole


def test_resume_without_a_checkpoint_starts_from_the_beginning(planted, tmp_path):
    fresh = glace.GLACE(**small(max_steps=5)).fit(planted, checkpoint=tmp_path / "none", resume=True)
    assert fresh.history_.step == 5


@pytest.fixture
def stopped(planted, tmp_path):
    path = tmp_path / "run"
    with pytest.raises(Interrupted):
        glace.GLACE(**OPTIONS).fit(planted, listener=interrupt_at(9), checkpoint=path, checkpoint_seconds=0)
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_jobs": 2}, "options.n_jobs was 1 and is 2"),
        ({"learning_rate": 0.5}, r"options.learning_rate was 0.02 and is 0.5"),
        ({"random_state": 5}, "options.random_state was 0 and is 5"),
    ],
)
def test_another_configuration_is_refused(planted, stopped, change, message):
    with pytest.raises(InputError, match=f"cannot resume from .*belongs to another run: {message}"):
        glace.GLACE(**OPTIONS | change).fit(planted, checkpoint=stopped, resume=True)


def test_other_data_are_refused(planted, stopped):
    other = glace.from_arrays(planted.edges()[1:], planted.attributes)
    with pytest.raises(InputError, match="data was '.*' and is '"):
        glace.GLACE(**OPTIONS).fit(other, checkpoint=stopped, resume=True)


def test_another_torch_is_refused(planted, stopped, monkeypatch):
    monkeypatch.setattr("torch.__version__", "9.9")
    with pytest.raises(InputError, match=r"versions.torch was '.*' and is '9.9'"):
        glace.GLACE(**OPTIONS).fit(planted, checkpoint=stopped, resume=True)


def test_a_checkpoint_that_cannot_be_written_is_noticed_before_training(planted, tmp_path):
    with pytest.raises(InputError, match="cannot write .*the folder .* does not exist"):
        glace.GLACE(**OPTIONS).fit(planted, checkpoint=tmp_path / "nowhere" / "run")


def test_damaged_checkpoints_are_refused(planted, stopped):
    content = bytearray(stopped.read_bytes())
    content[-5] ^= 1
    stopped.write_bytes(content)
    with pytest.raises(FormatError, match="is damaged"):
        glace.GLACE(**OPTIONS).fit(planted, checkpoint=stopped, resume=True)


def test_a_killed_command_resumes_to_the_same_file(planted, tmp_path):
    """kill -9 in the middle of training, then --resume; the demo of the same on the command line."""
    glace.write_npz(planted, tmp_path / "g.npz")
    output, whole = tmp_path / "killed.glace", tmp_path / "whole.glace"
    checkpoint = tmp_path / "killed.glace.checkpoint"
    command = [
        "fit", str(tmp_path / "g.npz"), "--quiet", "--n-jobs", "1", "--max-steps", "200",
        "--dim", "8", "--hidden", "32", "--ensemble-size", "1", "--batch-size", "128",
        "--hidden-length", "free", "--neighbor-features", "none", "--dropout", "0", "--neighbor-dropout", "0",
    ]  # fmt: skip
    often = ["--checkpoint-seconds", "0", "--resume", "-o", output]
    process = subprocess.Popen([sys.executable, "-m", "glace", *command, *often])
    _wait_for(checkpoint, process)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not output.exists()
    assert run([*command, "-o", str(output), "--resume"]) == 0
    assert not checkpoint.exists()
    assert run([*command, "-o", str(whole)]) == 0
    assert output.read_bytes() == whole.read_bytes()


def _wait_for(checkpoint, process):
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if checkpoint.exists():
            return
        time.sleep(0.005)
    raise AssertionError("the run ended before it could be killed")
