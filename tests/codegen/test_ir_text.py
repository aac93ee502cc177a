"""Text for LLVM: numbers arrive as they are, and names are told apart."""

import ctypes
import math
from collections.abc import Sequence

import numpy as np
import pytest

import loopir as lp
from loopir.codegen.llvm.builder import Builder
from loopir.codegen.llvm.ir_text import (
    DOUBLE,
    FLOAT,
    HALF,
    I64,
    POINTER,
    Function,
    Module,
    Type,
    constant,
    integer,
    vector,
    word,
)
from loopir.runtime.llvm_jit import Library
from loopir.testing.mutants.patch import forget_answers

FLOATS = {HALF: np.float16, FLOAT: np.float32, DOUBLE: np.float64}


def stored(kind: Type, numbers: Sequence[float], size: int) -> bytes:
    """What lies in memory where constants of `kind` were stored, one after the other."""
    module, fn = Module(), Function("f", I64, [(POINTER, "to", "")])
    module.functions.append(fn)
    b = Builder(module, fn)
    for n, x in enumerate(numbers):
        b.store(constant(kind, x), b.gep("i8", fn.args[0], word(n * size)), 1)
    b.ret(word(0))
    out = ctypes.create_string_buffer(size * len(numbers))
    library = Library(module.written(False)[0], left=False)
    library.bind("f", ctypes.c_int64, ctypes.c_void_p)(ctypes.addressof(out))
    return out.raw


@pytest.mark.parametrize("kind", FLOATS, ids=lambda t: t.text)
def test_floats_arrive_as_they_are(kind: Type) -> None:
    t = FLOATS[kind]
    bits = np.random.default_rng(0).integers(0, 256, 200 * t().nbytes, dtype=np.uint8)
    ends = [
        0.0,
        -0.0,
        1.0,
        -3.0,
        0.1,
        math.inf,
        -math.inf,
        math.nan,
        *(float(x) for x in (np.finfo(t).max, np.finfo(t).tiny)),
    ]
    numbers = np.array([*ends, *bits.view(t)]).astype(t)
    found = np.frombuffer(stored(kind, [float(x) for x in numbers], t().nbytes), t)
    np.testing.assert_array_equal(found, numbers)
    np.testing.assert_array_equal(np.signbit(found[:7]), np.signbit(numbers[:7]))


@pytest.mark.parametrize("bits", [1, 8, 16, 32, 64])
def test_integers_are_as_their_bits_hold_them(bits: int) -> None:
    ends = [x + y for x in (-(1 << bits), -(1 << bits - 1), 0, 1 << bits - 1, 1 << bits) for y in (-1, 0, 1)]
    size = max(1, bits // 8)
    found = stored(vector(integer(bits), 8 if bits == 1 else 1), ends, size)
    each = [255 * (n & 1) if bits == 1 else n % (1 << bits) for n in ends]
    assert found == b"".join(n.to_bytes(size, "little") for n in each)


def test_names_that_a_kernel_has_of_its_own() -> None:
    func = lp.parse("""
def start(end: "size", entry: "float32[end]", begin: "out float32[end]"):
    for extent in parallel(end):
        begin[extent] = entry[extent] + 1.0
""")
    np.testing.assert_array_equal(lp.Schedule(func).build("llvm")(np.arange(5, dtype=np.float32)), np.arange(1, 6))


def test_a_type_is_one_object_where_caches_are_dropped() -> None:
    """As mutants drop them: else an integer as wide as asked would be widened once more, which LLVM refuses."""
    of = vector(I64, 4)
    forget_answers()
    assert integer(64) is I64
    assert vector(I64, 4) is of
