"""How long a fit takes is said before, while and after it runs."""

import json
import re

import pytest

from glace.cli.screen import in_time, training_listener
from glace.datasets.planted import planted
from glace.fitted.state import Progress
from glace.training import train as training
from glace.training.duration import estimate_seconds
from tests.cli.conftest import FAST, TABLES

FIT = ["fit", *TABLES, *FAST, "-o", "x.glace"]


def test_an_estimate_says_how_long_a_fit_takes(glace, folder):
    shown = glace(*FIT, "--max-steps", "200", "--estimate", "--json", "e.json")
    assert re.search(r"time, about +[\d.]+ s", shown)
    seconds = json.loads((folder / "e.json").read_text())["seconds"]
    parts = {name: each for name, each in seconds.items() if name != "time, about"}
    assert seconds["time, about"] == pytest.approx(sum(parts.values()))
    assert not (folder / "x.glace").exists()


def test_an_estimate_grows_with_the_steps_and_heeds_the_limit_of_time():
    graph, small = planted(200, communities=4, attributes=40), {"dim": 4, "hidden": 8, "n_jobs": 1}
    few, many = (estimate_seconds(graph, small | {"max_steps": steps})["training, at most"] for steps in (100, 100_000))
    assert many > 100 * few
    limited = estimate_seconds(graph, small | {"max_steps": 100_000, "max_seconds": 0.5})
    assert limited["training, at most"] == 0.5


def test_the_last_lines_say_why_a_run_ended(glace):
    assert re.search(r"ended +all steps done", glace(*FIT))
    short = [*FIT, "--max-steps", "1000000", "--max-seconds", "0.05", "--patience", "1000"]
    assert re.search(r"ended +cut short by --max-seconds 0\.05; more time may give a better model", glace(*short))


def test_one_bar_counts_the_whole_work_and_names_its_stages(monkeypatch):
    monkeypatch.setattr(training, "FEWEST_EDGES", 5)
    seen: list[Progress] = []
    graph = planted(200, communities=4, attributes=40)
    training.train(graph, {"dim": 4, "hidden": 8, "max_steps": 20, "n_jobs": 1}, listener=seen.append)
    stages = list(dict.fromkeys(each.stage for each in seen))
    assert stages == ["trial 1 of 2", "trial 2 of 2", "training"]
    assert {(each.stage, each.steps) for each in seen} == {(stage, 20) for stage in stages}, "no stage has more"
    assert all(each.step <= each.steps for each in seen)
    done = [each.done for each in seen]
    assert done == sorted(done), "the bar never goes back"
    assert done[-1] == training.TRAINING_END
    shown: list[tuple[str, str]] = []
    listener = training_listener(lambda _share, detail="", stage="": shown.append((stage, detail)))
    for progress in seen:
        listener(progress)
    assert [stage for stage, _ in shown[-2:]] == ["training", "link model"]
    assert shown[0][1].startswith("step 1 of 20"), "a step is counted within its stage"


@pytest.mark.parametrize(("seconds", "words"), [(3.21, "3.2 s"), (250, "4 min 10 s"), (7500, "2 h 5 min")])
def test_durations_in_words(seconds, words):
    assert in_time(seconds) == words
