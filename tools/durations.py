"""Write how long runs of each kind take, from the records of finished grids.

    python -m tools.durations docs/results docs/ranking

The file `src/glace/experiments/durations.json` is what `glace reproduce` announces the time of a grid by.
"""

import json
import sys

from glace.experiments.durations import TYPICAL, measured
from glace.experiments.record_file import RecordFile


def main(*folders: str) -> None:
    """Replace the table of the package by the means of these records."""
    table = measured(line.record for folder in folders for line in RecordFile(folder).read())
    TYPICAL.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"wrote {TYPICAL}")


if __name__ == "__main__":
    main(*sys.argv[1:])
