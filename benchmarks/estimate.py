"""What `glace fit --estimate` says, beside what a fit takes, with one thread: CPU seconds and peak memory.

    python -m benchmarks.estimate cora-ml [--data-dir DIR]

CPU seconds, since those of the clock depend on what else the machine does. Both include the start of the process; the
demo is the bundled graph without a tenth of its edges.
"""

import argparse
import json
import subprocess
import sys
import time
from types import SimpleNamespace

OPTIONS = {"n_jobs": 1}


def measure(part: str, name: str, data_dir: str | None) -> dict[str, float]:
    """Return CPU seconds and peak bytes, said or used."""
    import glace
    from glace.records import peak_rss_mb
    from glace.training import duration
    from glace.training.estimate import estimate

    if name == "demo":
        whole = glace.datasets.load("wordnet-nouns")
        graph, _ = glace.hold_out(whole, 0.1, glace.Streams(0).numpy("test"))
    else:
        graph = glace.datasets.load(name, data_dir=data_dir)
    if part == "used":
        glace.train(graph, OPTIONS)
        return {"seconds": time.process_time(), "peak_mb": peak_rss_mb() or 0.0}
    loading = time.process_time()
    vars(duration)["time"] = SimpleNamespace(perf_counter=time.process_time)
    seconds = duration.estimate_seconds(graph, OPTIONS)[duration.TOTAL]
    return {"seconds": loading + seconds, "peak_mb": estimate(graph, OPTIONS)["peak memory, about"] / 1e6}


def main() -> None:
    """Print both, each measured in a process of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--data-dir")
    parser.add_argument("--part", choices=["said", "used"])
    options = parser.parse_args()
    if options.part:
        print(json.dumps(measure(options.part, options.name, options.data_dir)))
        return
    for part in ("said", "used"):
        command = [sys.executable, "-m", "benchmarks.estimate", *sys.argv[1:], "--part", part]
        found = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
        print(f"{options.name} {part}: {found['seconds']:.1f} CPU seconds, {found['peak_mb']:.0f} MB")


if __name__ == "__main__":
    main()
