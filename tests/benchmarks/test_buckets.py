"""What is spilled comes out range by range, nothing lost, in the order it came."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import buckets as module


@given(
    rows=st.integers(1, 40),
    pieces=st.lists(st.lists(st.integers(0, 10_000), max_size=20), max_size=5),
    each=st.integers(1, 30),
)
def test_records_come_out_by_range_in_their_order(rows, pieces, each, tmp_path_factory):
    total = sum(map(len, pieces))
    before = module.RECORDS
    module.RECORDS = each
    try:
        buckets = module.Buckets(tmp_path_factory.mktemp("spill") / "b", rows, total, np.int64)
    finally:
        module.RECORDS = before
    for piece in pieces:
        keys = np.array(piece, dtype=np.int64)
        buckets.put(keys % rows, keys)
    came = [key for piece in pieces for key in piece]
    ends = 0
    for first, end, keys in buckets:
        assert first == ends < end
        ends = end
        assert keys.tolist() == [key for key in came if first <= key % rows < end]
    assert ends == rows
    buckets.remove()
    assert not buckets.folder.exists()
