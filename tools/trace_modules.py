"""List the modules that `glace fit edges.csv --attributes nodes.csv -o m.glace` runs through, and their calls.

    python -m tools.trace_modules            # modules in order of first call, call graph, cycles
    python -m tools.trace_modules --json     # modules of the way and cycles, for the test

A profiler records every call between two modules of the package, in all threads. Calls that happen while a module is
imported (class bodies, decorators, option tables) do not count: they say nothing about the way of the data.
"""

import contextlib
import csv
import io
import json
import random
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType, ModuleType

MOST_MODULES = 35
"""How many modules the fit may run through, without the units of `APART`."""

APART = ("base", "storage", "kernels")
"""Units that serve all others and take no part in the way of the data; counted separately."""

LISTENERS = frozenset({"cli.screen"})
"""Modules whose functions are passed in as progress listeners: calling one of them makes no cycle."""

Edge = tuple[str, str]


@dataclass
class Trace:
    """Calls between the modules of the package."""

    modules: list[str] = field(default_factory=list)
    """Modules in the order in which they were first entered."""
    calls: dict[Edge, dict[str, int]] = field(default_factory=dict)
    """For each pair (calling module, called module), the number of calls by the name of the called function."""

    def add(self, caller: str | None, called: str, function: str) -> None:
        """Count one call; `caller` is None where no module of the package is below on the stack."""
        if called not in self.modules:
            self.modules.append(called)
        if caller is not None and caller != called:
            functions = self.calls.setdefault((caller, called), {})
            functions[function] = functions.get(function, 0) + 1

    def cycles(self) -> list[list[str]]:
        """Return the groups of modules that call each other, directly or through others, `LISTENERS` apart."""
        graph: dict[str, set[str]] = {name: set() for name in self.modules}
        for caller, called in self.calls:
            if called not in LISTENERS:
                graph[caller].add(called)
        return [sorted(group) for group in strong_components(graph) if len(group) > 1]


def strong_components(graph: dict[str, set[str]]) -> list[set[str]]:
    """Return the strongly connected components of a small graph, by reachability."""
    reached = {node: reachable(graph, node) for node in graph}
    found: list[set[str]] = []
    for node in graph:
        if not any(node in group for group in found):
            found.append({other for other in reached[node] if node in reached[other]} | {node})
    return found


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    """Return all nodes that a path of at least one edge leads to."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - seen
        seen |= new
        waiting += new
    return seen


class Profiler:
    """Records calls between modules below one folder, while `recording`."""

    def __init__(self, package: ModuleType) -> None:
        assert package.__file__ is not None
        self.root = Path(package.__file__).parent
        self.trace = Trace()
        self._names: dict[CodeType, str | None] = {}

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Record a call; the signature is that of `sys.setprofile`."""
        if event != "call":
            return
        called = self.module_of(frame.f_code)
        if called is None or is_importing(frame):
            return
        self.trace.add(self.caller_of(frame), called, frame.f_code.co_qualname)

    def caller_of(self, frame: FrameType) -> str | None:
        """Return the nearest module of the package on the stack below this frame, through libraries if need be."""
        below = frame.f_back
        while below is not None:
            name = self.module_of(below.f_code)
            if name is not None:
                return name
            below = below.f_back
        return None

    def module_of(self, code: CodeType) -> str | None:
        """Return the module's name without the package's, or None for code from elsewhere."""
        if code not in self._names:
            path = Path(code.co_filename)
            inside = path.is_relative_to(self.root)
            self._names[code] = ".".join(path.relative_to(self.root).with_suffix("").parts) if inside else None
        return self._names[code]

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Record in this thread and in all threads that start meanwhile."""
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)


def is_importing(frame: FrameType) -> bool:
    """Return whether the call is part of an import, or an entry of a module's `__getattr__`."""
    name = frame.f_code.co_name
    if name in ("<module>", "__getattr__"):
        return True
    below = frame.f_back
    while below is not None:
        if below.f_code.co_name == "<module>" and below.f_globals.get("__name__") != "__main__":
            return "importlib" in (below.f_back.f_code.co_filename if below.f_back else "")
        below = below.f_back
    return False


def trace_fit(folder: Path) -> Trace:
    """Run the fit on small generated tables in this folder and return its trace.

    Run it in a fresh process: what another fit has cached, this one would not call.
    """
    import glace
    from glace.cli.main import run

    write_tables(folder, nodes=120)
    profiler = Profiler(glace)
    arguments = ["fit", str(folder / "edges.csv"), "--attributes", str(folder / "nodes.csv")]
    arguments += ["-o", str(folder / "m.glace"), "--max-steps", "40"]
    with profiler.recording():
        code = run(arguments)
    if code:
        raise RuntimeError(f"glace {' '.join(arguments)} ended with code {code}")
    return profiler.trace


def write_tables(folder: Path, nodes: int) -> None:
    """Write edges.csv and nodes.csv: a ring with chords, three numeric attributes a node."""
    random_numbers = random.Random(0)
    with (folder / "edges.csv").open("w", newline="") as opened:
        table = csv.writer(opened)
        table.writerow(["source", "target"])
        table.writerows((f"n{i}", f"n{(i + step) % nodes}") for i in range(nodes) for step in (1, 2, 5))
    with (folder / "nodes.csv").open("w", newline="") as opened:
        table = csv.writer(opened)
        table.writerow(["id", "a", "b", "c"])
        table.writerows([f"n{i}", *(round(random_numbers.random(), 3) for _ in "abc")] for i in range(nodes))


def unit_of(module: str) -> str:
    """Return the folder a module lives in, or "base" for the small modules beside the folders."""
    top, _, rest = module.partition(".")
    return top if rest or top in ("fitted", "estimators") else "base"


def modules_of_the_way(trace: Trace) -> list[str]:
    """Return the modules without those of the units in `APART`, in the order of their first call."""
    return [name for name in trace.modules if unit_of(name) not in APART]


def describe(trace: Trace) -> str:
    """Return the report: modules of the way, modules apart, calls, cycles."""
    way = modules_of_the_way(trace)
    lines = [f"{len(way)} modules, in the order of their first call (at most {MOST_MODULES} wanted):"]
    lines += [f"  {number:2}  {name}" for number, name in enumerate(way, 1)]
    for unit in APART:
        names = [name for name in trace.modules if unit_of(name) == unit]
        lines.append(f"{unit}: {len(names)} modules: {', '.join(names)}")
    lines += ["calls between modules (most frequent functions):", *described_calls(trace)]
    cycles = trace.cycles()
    lines.append(f"call cycles: {len(cycles)}")
    for group in cycles:
        lines.append(f"  {', '.join(group)}")
        inside = [edge for edge in trace.calls if edge[0] in group and edge[1] in group]
        lines += [f"    {one} -> {other}: {', '.join(trace.calls[one, other])}" for one, other in sorted(inside)]
    return "\n".join(lines)


def described_calls(trace: Trace) -> list[str]:
    """Return a line for each pair of modules, by the order in which the calling module was entered."""
    lines = []
    for caller, called in sorted(trace.calls, key=lambda edge: trace.modules.index(edge[0])):
        functions = trace.calls[caller, called]
        names = sorted(functions, key=lambda name: -functions[name])
        lines.append(f"  {caller} -> {called}: {', '.join(names[:4])}{', ...' if len(names) > 4 else ''}")
    return lines


def main() -> None:
    """Trace one fit and print the report; what the fit itself prints is left out."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as said:
        try:
            trace = trace_fit(Path(folder))
        except RuntimeError as problem:
            sys.exit(f"{said.getvalue()}{problem}")
    if "--json" in sys.argv[1:]:
        print(json.dumps({"modules": modules_of_the_way(trace), "cycles": trace.cycles()}))
    else:
        print(describe(trace))


if __name__ == "__main__":
    main()
