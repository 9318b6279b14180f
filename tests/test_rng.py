"""Named streams."""

import numpy as np
import pytest

from glace.errors import InputError
from glace.rng import Streams


def test_streams_depend_on_seed_purpose_and_item_only():
    def first(seed, purpose, item):
        return Streams(seed).numpy(purpose, item).random()

    assert first(0, "a", 1) == first(0, "a", 1)
    assert len({first(0, "a", 1), first(1, "a", 1), first(0, "b", 1), first(0, "a", 2)}) == 4


def test_the_global_generator_is_neither_read_nor_changed():
    before = np.random.get_state(legacy=False)["state"]["key"].copy()
    Streams(0).numpy("x").random(10)
    np.testing.assert_array_equal(np.random.get_state(legacy=False)["state"]["key"], before)


@pytest.mark.parametrize("seed", [-1, 1.5, "0", True])
def test_seeds_are_whole_numbers(seed):
    with pytest.raises(InputError, match="seed must be a whole number of at least 0"):
        Streams(seed)
