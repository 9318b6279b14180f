"""Write how long runs of each kind take, from the records of a grid, finished or not.

    python -m tools.durations docs/results

The file `src/glace/experiments/durations.json` is what `glace reproduce` announces the time of a grid by. Kinds of runs
that the records lack keep their times.
"""

import json
import sys

from glace.experiments.durations import TYPICAL, Table, measured, typical
from glace.experiments.record_file import RecordFile
from glace.experiments.tasks import TASKS


def main(*folders: str) -> None:
    """Update the table of the package by the means of these records."""
    table = updated(typical(), measured(line.record for folder in folders for line in RecordFile(folder).read()))
    TYPICAL.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"wrote {TYPICAL}")


def updated(table: Table, found: Table) -> Table:
    """Return the table with the times found, without tasks that are gone."""
    both = {task: {**table.get(task, {})} for task in TASKS if task in table or task in found}
    for task, by_dataset in found.items():
        for dataset, by_method in by_dataset.items():
            both[task][dataset] = both[task].get(dataset, {}) | by_method
    return both


if __name__ == "__main__":
    main(*sys.argv[1:])
