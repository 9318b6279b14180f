"""The least a step can take: what it must read, write and compute, at the speeds this machine reaches.

A step has B edges, a pool of M, R distinct nodes with Z non-zeros in C distinct columns, H hidden numbers and L
dimensions in G members. Numbers have 4 bytes. What each stage must do:

- draw: write the mask of B M bytes and 2 B + M node numbers;
- input rows: read Z columns and values, write them (8 + 12 bytes each); transpose them: read them again, write a row
  number and a value for each (12 + 8 bytes);
- sparse forward: read a row of W for each non-zero, Z H numbers out of the C H that are touched; 2 Z H operations;
- dense forward: heads 4 R H L / G operations, all pairs 2 B M F (F = 4 L for the symmetric KL, 2 L for KL); write
  the B M dissimilarities of each member and read them once; the gradients are computed along, which takes twice as
  many operations more, and the same traffic;
- dense backward: scale the gradient of the R H hidden numbers;
- optimizer: read a row of the R H upstream numbers for each non-zero, 2 Z H operations; read and write C H weights and
  a number for each row.

A stage is bound by its operations or by its traffic, whichever takes longer. Traffic goes at the speed measured for
an array as large as what the stage walks over, operations at that of a float32 matrix product of torch.
"""

import time
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.stages import Sizes, StagedSteps
from glace.kernels.compile import by_rows

SMALLEST, LARGEST = 2**20, 2**30
"""Bytes of the arrays that speeds are measured with: within the second cache, and far beyond the last one's share."""
LARGE_ENOUGH = 2**27
"""Bytes that one measurement passes over."""
PRODUCT = 1024
REPEATS = 3


class Cost(NamedTuple):
    """Operations, bytes read out of how many, and bytes written, or read and written back and so counted twice."""

    operations: float
    read: float
    within: float
    updated: float


@dataclass(frozen=True)
class Machine:
    """What this machine reaches: operations a second, and bytes a second by the size of the array."""

    operations: float
    sizes: list[int]
    read: list[float]
    update: list[float]

    def seconds(self, cost: Cost) -> float:
        """The least that a stage can take."""
        traffic = cost.read / self._at(self.read, cost.within)
        traffic += cost.updated / self._at(self.update, cost.updated)
        return max(cost.operations / self.operations, traffic)

    def or_faster(self, other: "Machine") -> "Machine":
        """What it reached in the better of two measurements, speed by speed."""
        pairs = (
            zip(mine, others, strict=True) for mine, others in ((self.read, other.read), (self.update, other.update))
        )
        read, update = ([max(pair) for pair in each] for each in pairs)
        return Machine(max(self.operations, other.operations), self.sizes, read, update)

    def _at(self, speeds: list[float], extent: float) -> float:
        # What a larger array reaches a smaller one does too, whatever disturbed its measurement.
        reached = np.maximum.accumulate(speeds[::-1])[::-1]
        return float(np.interp(np.log(max(extent, 1.0)), np.log(self.sizes), reached))


def costs(steps: StagedSteps, sizes: Sizes) -> dict[str, Cost]:
    """What each stage of a step must do, by the model above."""
    config, sampling = steps.network.config, steps.sampler.config
    batch, pool, hidden, members = sampling.batch_size, sampling.negative_pool_size, config.hidden, config.ensemble_size
    sums = sizes.non_zeros * hidden
    touched, encoded = 4 * sizes.columns * hidden, 4 * sizes.rows * hidden
    wide = config.dim * (4 if steps.network.measure.symmetric else 2)
    dense = 4 * sizes.rows * hidden * config.dim / members + 2 * batch * pool * wide
    scores, drawn = 4 * batch * pool * members, batch * pool + 8 * (2 * batch + pool)
    entries = sizes.non_zeros
    return {
        "draw": Cost(0, 0, 1, drawn),
        "input rows": Cost(0, 20 * entries, 12 * entries, 20 * entries),
        "sparse forward": Cost(2 * sums, 4 * sums, touched, encoded),
        "dense forward": Cost(3 * dense, 0, 1, 4 * scores),
        "dense backward": Cost(0, 0, 1, 2 * encoded),
        "optimizer": Cost(2 * sums + 4 * sizes.columns * hidden, 4 * sums, encoded, 2 * touched),
    }


def measured(scale: float) -> Machine:
    """This machine with the threads that are set now; at small scale without the largest arrays."""
    largest = max(int(LARGEST * min(scale, 1)), 4 * SMALLEST)
    sizes = [int(size) for size in np.geomspace(SMALLEST, largest, 5)]
    arrays = [np.ones((size // 4096, 1024), dtype=np.float32) for size in sizes]
    read, update = [], []
    for size, array in zip(sizes, arrays, strict=True):
        # Threads take longer to wake than to pass over a small array once.
        passes, out = max(LARGE_ENOUGH // size, 1), np.empty(len(array), np.float32)
        update.append(2 * passes * size / _least(partial(_update, array, passes)))
        # An update reads half of its bytes, in small arrays faster than BLAS.
        read.append(max(passes * size / _least(partial(_read, array, passes, out)), update[-1] / 2))
    square = torch.ones(PRODUCT, PRODUCT)
    return Machine(2 * PRODUCT**3 / _least(lambda: square @ square), sizes, read, update)


def _least(job: Any) -> float:
    """Least seconds of a job, repeated within each measurement until the clock is fine enough."""
    job()
    began, repeats = time.perf_counter(), 0
    while time.perf_counter() - began < 0.01:
        job()
        repeats += 1
    found = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        for _ in range(repeats):
            job()
        found.append((time.perf_counter() - began) / repeats)
    return min(found)


@by_rows(lambda array, *_: len(array))
def _read(array: Any, passes: int, out: Any, begin: int = 0, end: int = 0) -> None:
    """Read all of it, and write hardly anything: the square of each row, by BLAS."""
    for _ in range(passes):
        for r in range(begin, end):
            out[r] = np.dot(array[r], array[r])


@by_rows(lambda array, *_: len(array))
def _update(array: Any, passes: int, begin: int = 0, end: int = 0) -> None:
    """Read and write all of it."""
    for _ in range(passes):
        for r in range(begin, end):
            for c in range(array.shape[1]):
                array[r, c] += np.float32(1.0)
