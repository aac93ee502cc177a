"""A parallel kernel has a function for threads beside it: each range is the kernel's, with the call's arguments."""

import ctypes

import numpy as np
import pytest

from loopir.codegen.llvm.builder import Builder
from loopir.codegen.llvm.ir_text import I32, I64, POINTER, Function, Module, word
from loopir.codegen.llvm.parallel_ranges import shared
from loopir.runtime.llvm_jit import Library

RUN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


def library() -> Library:
    """A kernel that notes what it is given: its scale and its range; it returns where that ends."""
    module = Module()
    kernel = Function("kernel", I32, [(POINTER, "out", ""), (I64, "scale", ""), (I64, "begin", ""), (I64, "end", "")])
    module.functions.append(kernel)
    b = Builder(module, kernel)
    out, scale, begin, end = kernel.args
    for n, x in enumerate((begin, end, b.op("mul", scale, begin))):
        b.store(x, b.gep(I64, out, word(n)), 8)
    b.ret(b.cast("trunc", end, I32))
    shared(module, kernel)
    return Library(module.written(False)[0], left=False)


@pytest.mark.parametrize("ranges", [[(0, 7)], [(0, 3), (3, 7)], [(5, 7), (0, 5)]])
def test_ranges_are_the_kernels_with_the_arguments_of_the_call(ranges: list[tuple[int, int]]) -> None:
    made, out = library(), np.zeros(3, np.int64)
    pools, noted = list[int](), list[tuple[int, ...]]()

    def run(pool: int, part: int, memory: int, extent: int) -> int:
        pools.append(pool)
        assert extent == 7
        run_part = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(part)
        for begin, end in ranges:
            assert run_part(memory, begin, end) == end
            noted.append((*out[:2].tolist(), int(out[2])))
        return 7

    callback = RUN(run)
    arguments = (RUN, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    code = made.bind("kernel.shared", ctypes.c_int32, *arguments)(callback, 1234, out.ctypes.data, 10, 7)
    assert (code, pools) == (7, [1234]), "run is called once, and what it gives is given back"
    assert noted == [(begin, end, 10 * begin) for begin, end in ranges]


def test_a_kernel_without_arguments_has_ranges_too() -> None:
    module = Module()
    kernel = Function("kernel", I32, [(I64, "begin", ""), (I64, "end", "")])
    module.functions.append(kernel)
    b = Builder(module, kernel)
    begin, end = kernel.args
    b.ret(b.cast("trunc", b.op("sub", end, begin), I32))
    shared(module, kernel)
    made = Library(module.written(False)[0], left=False)
    part = made.bind("kernel.part", ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    assert part(0, 3, 10) == 7
    assert [f.label for f in module.functions] == ["kernel", "kernel.part", "kernel.shared"]
