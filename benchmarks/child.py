"""One measurement in a process of its own: `python -m benchmarks.child MODULE:FUNCTION`, its arguments on stdin."""

import importlib
import json
import sys

from benchmarks.common import memory_mb


def main() -> None:
    """Call the function and print what it gives, with the peak of memory, as one line of JSON."""
    module, _, name = sys.argv[1].partition(":")
    result = getattr(importlib.import_module(module), name)(**json.load(sys.stdin))
    print(json.dumps(result | {"peak_mb": memory_mb("VmHWM")}))


if __name__ == "__main__":
    main()
