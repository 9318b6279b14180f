"""Ask the processor to fetch a row of a matrix that will be needed soon.

Rows of weights are accessed in an order that the processor cannot predict, so that it would wait for each of them.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from glace.kernels.compile import FloatArray, compiled

LINE = 16
"""Float32 numbers that are fetched at once: a cache line."""


@intrinsic  # type: ignore[untyped-decorator]  # numba has no types
def _prefetch(_typing: Any, array: Any, _row: Any, _column: Any) -> Any:
    """Fetch the cache line of array[row, column], for reading."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind, (matrix, *place) = signature.args[0], arguments
        struct = context.make_array(kind)(context, builder, matrix)
        shape, strides = (cgutils.unpack_tuple(builder, each, 2) for each in (struct.shape, struct.strides))
        address = cgutils.get_item_pointer2(context, builder, struct.data, shape, strides, kind.layout, place)
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        called = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, called, "llvm.prefetch.p0i8")
        # For reading (0), to be kept in all caches (3), data and not instructions (1).
        builder.call(function, [builder.bitcast(address, byte), *(ir.Constant(number, each) for each in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp), generate


@compiled
def prefetch_row(matrix: FloatArray, row: int) -> None:
    """Fetch a row of a float32 matrix."""
    for column in range(0, matrix.shape[1], LINE):
        _prefetch(matrix, row, column)
