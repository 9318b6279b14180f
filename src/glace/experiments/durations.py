"""How long runs take, by earlier runs of the same kind: the time of a grid is announced before it starts."""

import json
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from glace.experiments.record_file import RecordFile
from glace.experiments.tasks import Evaluation

TYPICAL = Path(__file__).with_name("durations.json")
"""Seconds by task, dataset and method, from published records; `python -m tools.durations` writes them."""
OVERHEAD = {"node-classification": 20.0, "visualization": 10.0}
"""Seconds of a process beside the embedding, for records that hold only the seconds of the embedding."""
USUAL_OVERHEAD = 5.0

_ALIKE = {"cora-planetoid": "cora-ml", "citeseer-planetoid": "citeseer", "pubmed-planetoid": "pubmed"}
"""Graphs of about the same size, for the time that link prediction takes."""

_NEEDED = {"task", "dataset", "method", "seconds"}

Table = dict[str, dict[str, dict[str, float]]]


class Durations:
    """Seconds of runs: the mean of those in a folder's records, else what is typical of the kind."""

    def __init__(self, folder: str | Path) -> None:
        self.tables = (measured(line.record for line in RecordFile(folder).read()), typical())

    def of(self, run: Evaluation) -> float | None:
        """Return the seconds to expect, those of link prediction or of other methods if need be; None if unknown."""
        kinds = [(run.task, run.dataset), ("link-prediction", _ALIKE.get(run.dataset, run.dataset))]
        known = [table.get(task, {}).get(dataset, {}) for task, dataset in kinds for table in self.tables]
        for methods in known:
            if run.method in methods:
                return methods[run.method]
        return next((statistics.fmean(methods.values()) for methods in known if methods), None)


def measured(records: Iterable[Mapping[str, Any]]) -> Table:
    """Return the mean seconds of the finished runs by task, dataset and method."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for record in records:
        # The report names a record that lacks something; here it only tells nothing.
        if record.get("status") == "done" and record.keys() >= _NEEDED:
            kind = record["task"], record["dataset"], record["method"]
            whole = (record.get("provenance") or {}).get("wall_seconds")
            found.setdefault(kind, []).append(whole or record["seconds"] + OVERHEAD.get(kind[0], USUAL_OVERHEAD))
    table: Table = {}
    for (task, dataset, method), seconds in found.items():
        table.setdefault(task, {}).setdefault(dataset, {})[method] = round(statistics.fmean(seconds), 1)
    return table


def typical() -> Table:
    """Return the seconds that came with the package."""
    table: Table = json.loads(TYPICAL.read_text(encoding="utf-8"))
    return table
