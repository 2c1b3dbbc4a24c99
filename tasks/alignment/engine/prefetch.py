"""A hint to the processor to fetch a row of an array into its cache (LLVM's prefetch), for use inside kernels.

The kernels of the E-step are bound by cache misses at random rows; asked for a row of cells ahead, they overlap.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic  # type: ignore[untyped-decorator]  # numba has no types
def prefetch(typing_context: Any, array: Any, row: Any) -> Any:
    """`prefetch(array, row)` hints that row `row` (unsigned, not checked) of `array` is about to be used."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array_type, row_type = signature.args
        values = context.make_array(array_type)(context, builder, arguments[0])
        number = context.cast(builder, arguments[1], row_type, types.intp)
        stride = cgutils.unpack_tuple(builder, values.strides)[0]
        address = builder.add(builder.ptrtoint(values.data, number.type), builder.mul(number, stride))
        pointer, small = ir.IntType(8).as_pointer(), ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [pointer, small, small, small]), "llvm.prefetch.p0i8"
        )
        # For reading and writing, kept in all caches, data (not instructions).
        builder.call(function, [builder.inttoptr(address, pointer), small(1), small(3), small(1)])
        return context.get_dummy_value()

    return types.void(array, row), generate
