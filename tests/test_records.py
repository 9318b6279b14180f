"""Provenance of records: commands name no places of a machine."""

import pytest

from glace.records import without_places


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("glace reproduce all -o results", "glace reproduce all -o results"),
        ("glace reproduce all --data-dir ../shared/data -o /tmp/x/results", "glace reproduce all -o results"),
        ("glace evaluate x --data-dir=/a/b --split '/a b/c.npz' --seed 1", "glace evaluate x --split c.npz --seed 1"),
        ("glace evaluate x --split=/a/c.npz", "glace evaluate x --split c.npz"),
        ("glace evaluate x --data-dir", "glace evaluate x"),
    ],
)
def test_commands_name_no_places(command, shown):
    assert without_places(command) == shown
