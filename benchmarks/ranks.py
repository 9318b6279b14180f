"""What do several processes gain, and how do they fail? `python -m benchmarks.ranks speed`

`speed` trains with one process of one thread and with two, and compares edges per second and test AUC after the same
number of edges. `kills` kills a random rank at a random moment, lets torchrun start it again, and compares the model
with that of a run that was never killed. `failures` breaks a run in the ways a network can. `network` runs two ranks
in two network namespaces with a limited link between them (needs root), and compares the time of a step with the
prediction of the cost model of docs/scaling.md.
"""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.common import RESULTS, DataDir, Report, Results, Scale, graph_of
from glace.datasets.planted import planted
from glace.graph.arrays import from_arrays
from glace.io.npz import write_npz

app = typer.Typer(add_completion=False)
TIMEOUT = 8
"""Seconds after which ranks give up in `failures`."""
WARM_UP = 0.1
"""Fraction of a run that does not count: it compiles kernels and fills caches."""
Steps = Annotated[int, typer.Option(min=10, help="Batches of a run, drawn by all ranks together.")]
Graphs = Annotated[list[str], typer.Option(help="`planted`, of the size of the ACM graph, or names of real graphs.")]
Ways = Annotated[list[str], typer.Option(help="What two ranks exchange.")]


def trained(graph: str, scale: float, data_dir: str | None, options: dict[str, Any]) -> dict[str, Any]:
    """Train as one rank; returns speed and test AUC."""
    from glace.config.config import METHODS
    from glace.fitted.state import embed_all, graph_inputs
    from glace.gaussian.dissimilarity import roles
    from glace.graph.split import hold_out
    from glace.metrics import link_scores
    from glace.model.network import using_threads
    from glace.rng import Streams
    from glace.training.distributed import joined
    from glace.training.train import training_task

    config, times = METHODS["glace"].config(**options), list[tuple[int, float, int]]()
    whole = graph_of(graph, scale, data_dir)
    known, test = hold_out(whole, 0.1, Streams(1).numpy("test"))
    with using_threads(config.run.n_jobs), joined(config.run) as ranks:
        measure = config.model.resolved_dissimilarity(whole.directed, gaussian=True)
        trainer = training_task(known, config, measure, ranks=ranks).trainer(config, ranks)
        trainer.run(lambda progress: times.append((progress.step, time.perf_counter(), sent_bytes())))
        gaussians = embed_all(trainer.network, graph_inputs(trainer.network, known), np.empty, ranks.map)
        ends, pairs = roles(trainer.network.measure, *gaussians), test.pairs()
        scores = -trainer.network.measure.direct(ends.source[pairs[:, 0]], ends.target[pairs[:, 1]])
    begin, end = times[int(WARM_UP * len(times))], times[-1]
    return {
        "batches": trainer.history.step,
        "edges_per_second": config.sampling.batch_size * (end[0] - begin[0]) / (end[1] - begin[1]),
        "step_seconds": trainer.team.size * (end[1] - begin[1]) / (end[0] - begin[0]),
        "sent_mb_per_step": trainer.team.size * (end[2] - begin[2]) / (end[0] - begin[0]) / 1e6,
        "test_auc": link_scores(np.asarray(scores, np.float64), test.truth()).auc,
        "model_mb": sum(array.nbytes for array in trainer.network.weights().values()) / 1e6,
    }


def sent_bytes() -> int:
    """Bytes that this machine has sent over the interface that the ranks use."""
    device = os.environ.get("GLOO_SOCKET_IFNAME", "lo")
    return int(Path(f"/sys/class/net/{device}/statistics/tx_bytes").read_text())


def options_of(sync: str, steps: int) -> dict[str, Any]:
    """Options of a run: one thread, nothing selected by trials, no early stop."""
    chosen = {"hidden_length": "bounded", "neighbor_features": "mean", "dropout": "annealed"}
    return {**chosen, "n_jobs": 1, "max_steps": steps, "patience": 10_000, "sync": sync, "rank_timeout": 300}


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return int(opened.getsockname()[1])


@dataclass(frozen=True)
class Place:
    """Where ranks run: a command before that of each, the address of rank 0, and the network interfaces."""

    prefixes: Sequence[Sequence[str]] = ((), ())
    host: str = "127.0.0.1"
    interfaces: Sequence[str] = ("lo", "lo")

    def environment(self, number: int, count: int, port: int) -> dict[str, str]:
        """The variables by which torch.distributed knows the ranks, as torchrun sets them."""
        named = {"RANK": number, "WORLD_SIZE": count, "LOCAL_RANK": number, "MASTER_ADDR": self.host}
        named |= {"MASTER_PORT": port, "GLOO_SOCKET_IFNAME": self.interfaces[number], "OMP_NUM_THREADS": 1}
        return {**os.environ, **{name: str(value) for name, value in named.items()}}


def measured(place: Place, count: int, **arguments: Any) -> dict[str, Any]:
    """Run `trained` in `count` processes and return what rank 0 does."""
    port, processes = free_port(), []
    for number in range(count):
        command = [*place.prefixes[number], sys.executable, "-m", "benchmarks.child", "benchmarks.ranks:trained"]
        variables = place.environment(number, count, port)
        process = subprocess.Popen(command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdin is not None
        process.stdin.write(json.dumps(arguments))
        process.stdin.close()
        process.stdin = None
        processes.append(process)
    outputs = [process.communicate()[0] for process in processes]
    assert all(process.returncode == 0 for process in processes), "a rank failed; its message is above"
    found: dict[str, Any] = json.loads(outputs[0].splitlines()[-1])
    return found


@app.command()
def speed(
    graph: Graphs = ["planted", "wordnet"],  # noqa: B006 - typer copies it
    sync: Ways = ["one", "members", "weights", "gradients"],  # noqa: B006
    steps: Steps = 600,
    scale: Scale = 1.0,
    data_dir: DataDir = None,
    results: Results = RESULTS,
) -> None:
    """Compare one process of one thread with two, by edges per second and by test AUC after the same edges."""
    report = Report("ranks", results, {})
    folder = None if data_dir is None else str(data_dir)
    for name in graph:
        rows = []
        for way in sync:
            count = 1 if way == "one" else 2
            options = options_of("auto" if way == "one" else way, steps)
            found = measured(Place(), count, graph=name, scale=scale, data_dir=folder, options=options)
            report.note(**found, graph=name, scale=scale, ranks=count, sync=way)
            rows.append((way, found["edges_per_second"], 1000 * found["step_seconds"], 100 * found["test_auc"]))
        report.table(f"{name}, {steps:,} batches", ("", "edges/s", "ms a step", "test AUC"), rows)


def fit_command(graph: Path, output: Path, *more: str) -> list[str]:
    """`glace fit` of a small graph, without trials."""
    options = ["--hidden-length", "bounded", "--dropout", "annealed", "--neighbor-features", "mean", "--n-jobs", "1"]
    return ["-m", "glace", "fit", str(graph), "-o", str(output), "--quiet", *options, *more]


def small_graph(folder: Path, name: str = "g.npz", skip: int = 0) -> Path:
    """Write a planted graph of 3,000 nodes, without its first `skip` edges."""
    graph = planted(3_000, communities=8, degree=10, attributes=400, words=12)
    path = folder / name
    write_npz(from_arrays(graph.edges()[skip:], graph.attributes), path)
    return path


def workers_of(launcher: int) -> list[int]:
    """The processes that torchrun has started and that live."""
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdecimal():
            with suppress(OSError, IndexError):
                fields = (each / "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == launcher and fields[0] != "Z":
                    found.append(int(each.name))
    return sorted(found)


@app.command()
def kills(count: int = 20, sync: str = "auto", seed: int = 0, results: Results = RESULTS) -> None:
    """Kill a random rank at a random moment; the restarted run must end with the bits of one never killed."""
    draw, report, seconds = random.Random(seed), Report("ranks", results, {}), 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        graph, digests = small_graph(folder), []
        launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--max-restarts=3"]
        for number in range(count + 1):
            output = folder / f"{number}.glace"
            command = fit_command(graph, output, "--max-steps", "400", "--sync", sync, "--checkpoint-seconds", "0.2")
            began, quiet = time.monotonic(), {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            with subprocess.Popen([*launcher, *command], **quiet) as process:  # type: ignore[call-overload]
                if number:
                    time.sleep(draw.uniform(0, seconds))
                    victims = workers_of(process.pid)
                    if victims:
                        os.kill(draw.choice(victims), signal.SIGKILL)
            took = time.monotonic() - began
            seconds = seconds or took  # of the first run, which nobody kills
            digests.append(output.read_bytes() if process.returncode == 0 else b"")
            print(
                f"{number}: {took:.0f} s, code {process.returncode}, same bits {digests[-1] == digests[0]}", flush=True
            )
    same = sum(each == digests[0] for each in digests[1:])
    report.note(kills=count, sync=sync, finished=sum(map(bool, digests[1:])), same_bits=same)
    report.table(
        "kills", ("sync", "kills", "finished", "same bits"), [(sync, count, sum(map(bool, digests[1:])), same)]
    )


@dataclass
class Failure:
    """A way to break a run: how the ranks differ, and what is done to them once they train."""

    name: str
    more: Sequence[Sequence[str]] = ((), ())
    graphs: Sequence[str] = ("g.npz", "g.npz")
    variables: Sequence[dict[str, str]] = ({}, {})
    signal: int | None = None
    """Sent to rank 1 when the first checkpoint is there."""
    place: Place = field(default_factory=Place)
    port: Callable[[], int] = free_port


@contextmanager
def occupied_port() -> Iterator[int]:
    """A port where something listens that never answers."""
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        opened.listen()
        yield int(opened.getsockname()[1])


def outcome(failure: Failure, folder: Path) -> list[tuple[str, str, float, int | None, str]]:
    """Run two ranks and break them; a row for each: what, rank, seconds until the end, exit code, message."""
    output, port, processes = folder / "m.glace", failure.port(), []
    checkpoint = Path(f"{output}.checkpoint")
    checkpoint.unlink(missing_ok=True)
    output.write_text("earlier")
    for number in range(2):
        more = ("--max-steps", "1000000", "--rank-timeout", str(TIMEOUT), "--checkpoint-seconds", "0.5")
        command = fit_command(folder / failure.graphs[number], output, *more, *failure.more[number])
        variables = failure.place.environment(number, 2, port) | failure.variables[number]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        prefix = failure.place.prefixes[number]
        processes.append(subprocess.Popen([*prefix, sys.executable, *command], env=variables, **pipes))  # type: ignore[call-overload]
    if failure.signal is not None:
        while not checkpoint.exists() and all(process.poll() is None for process in processes):
            time.sleep(0.05)
        processes[1].send_signal(failure.signal)
    began, rows = time.monotonic(), []
    for number in (0, 1):
        if failure.signal == signal.SIGSTOP and number == 1:
            processes[number].kill()
        _, errors = processes[number].communicate()
        lines = errors.strip().splitlines() or [""]
        shown = lines[0] if len(lines) == 1 else f"{len(lines)} lines: {errors}"
        rows.append((failure.name, str(number), time.monotonic() - began, processes[number].returncode, shown))
    assert output.read_text() == "earlier", "an output was overwritten"
    return rows


@app.command()
def failures(results: Results = RESULTS) -> None:
    """Break a run in every way we know; each living rank must end within the time-out with one line."""
    report, rows = Report("ranks", results, {}), []
    with tempfile.TemporaryDirectory() as name, occupied_port() as taken:
        folder = Path(name)
        small_graph(folder)
        small_graph(folder, "other.npz", skip=1)
        cases = [
            Failure("rank 1 stopped (SIGSTOP)", signal=signal.SIGSTOP),
            Failure("rank 1 killed", signal=signal.SIGKILL),
            Failure("other options", more=((), ("--dim", "32"))),
            Failure("another graph", graphs=("g.npz", "other.npz")),
            Failure("wrong interface", variables=({}, {"GLOO_SOCKET_IFNAME": "eth7"})),
            Failure("port in use", port=lambda: taken),
            Failure("nobody at the address", place=Place(host="127.0.0.2"), variables=({"RANK": "1"}, {})),
        ]
        for case in cases:
            rows += outcome(case, folder)
    for what, rank, seconds, code, line in rows:
        report.note(failure=what, rank=int(rank), seconds=seconds, exit_code=code, message=line)
        print(f"{what}, rank {rank}, code {code}: {line}")
    shown = [row[:-1] for row in rows]
    report.table(f"time-out {TIMEOUT} s", ("failure", "rank", "seconds until the end", "exit code"), shown)


NAMESPACES, DEVICES, ADDRESSES = ("glace-a", "glace-b"), ("glace0", "glace1"), ("10.77.0.1", "10.77.0.2")


@contextmanager
def two_machines() -> Iterator[Place]:
    """Two network namespaces with a cable between them, as two machines have."""
    for each in NAMESPACES:
        _do("ip", "netns", "add", each)
    try:
        _do("ip", "link", "add", DEVICES[0], "type", "veth", "peer", "name", DEVICES[1])
        for namespace, device, address in zip(NAMESPACES, DEVICES, ADDRESSES, strict=True):
            _do("ip", "link", "set", device, "netns", namespace)
            inside = ("ip", "netns", "exec", namespace)
            _do(*inside, "ip", "address", "add", f"{address}/24", "dev", device)
            _do(*inside, "ip", "link", "set", device, "up")
            _do(*inside, "ip", "link", "set", "lo", "up")
        yield Place([("ip", "netns", "exec", each) for each in NAMESPACES], ADDRESSES[0], DEVICES)
    finally:
        for each in NAMESPACES:
            _do("ip", "netns", "delete", each)


def limit(gigabits: float) -> None:
    """Limit what each of the two machines sends; 0 lifts the limit."""
    for namespace, device in zip(NAMESPACES, DEVICES, strict=True):
        inside = ("ip", "netns", "exec", namespace, "tc", "qdisc")
        subprocess.run([*inside, "delete", "dev", device, "root"], capture_output=True, check=False)
        if gigabits:
            rate = ("rate", f"{gigabits * 1000:.0f}mbit", "burst", "2mb", "latency", "50ms")
            _do(*inside, "add", "dev", device, "root", "tbf", *rate)


def _do(*command: str) -> None:
    subprocess.run(command, check=True)


@app.command()
def network(
    graph: str = "planted",
    sync: Ways = ["weights", "gradients"],  # noqa: B006
    gigabits: list[float] = [0, 10, 1],  # noqa: B006
    steps: Steps = 200,
    scale: Scale = 1.0,
    data_dir: DataDir = None,
    results: Results = RESULTS,
) -> None:
    """Measure steps over a limited network, and predict them: compute + max(own cost of the exchange, transfer).

    The first limit should be 0, none: what a step takes longer than in one process is then the exchange itself.
    """
    report, rows = Report("ranks", results, {}), []
    given = {"graph": graph, "scale": scale, "data_dir": None if data_dir is None else str(data_dir)}
    compute = measured(Place(), 1, **given, options=options_of("auto", steps))["step_seconds"]
    with two_machines() as place:
        for way in sync:
            exchange = None
            for rate in gigabits:
                limit(rate)
                found = measured(place, 2, **given, options=options_of(way, steps))
                exchange = found["step_seconds"] - compute if exchange is None else exchange
                transfer = found["sent_mb_per_step"] * 8e-3 / rate if rate else 0.0
                predicted = compute + max(exchange, transfer)
                facts = {"ranks": 2, "sync": way, "gigabits": rate, "compute": compute, "predicted": predicted}
                report.note(**found, **facts, graph=graph, scale=scale)
                seconds = 1000 * found["step_seconds"], 1000 * predicted
                rows.append((way, rate or "no limit", found["sent_mb_per_step"], *seconds, found["edges_per_second"]))
    columns = ("sync", "Gb/s", "MB sent a step", "ms a step", "predicted", "edges/s")
    report.table(f"{graph}, two ranks in two network namespaces", columns, rows)


if __name__ == "__main__":
    app()
