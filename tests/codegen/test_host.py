"""The host function: what runs between kernels is what the lowered program says, and memory is given back."""

from typing import Any

import pytest

import loopir as lp
from loopir.codegen.host import host_function, host_source, require_int64
from loopir.errors import LowerError
from loopir.ir.magnitude import LIMIT

NEST = """
def f(n: "size", A: "inout float32[n]"):
    with alloc("float32[n, 2]") as T:
        for i in range(n):
            if i < 2:
                with kernel("a"):
                    pass
            else:
                with kernel("b"):
                    pass
"""


class Recorder:
    """A runtime that writes down what is asked of it."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def alloc(self, size: int) -> str:
        self.calls.append(("alloc", size))
        return "T"

    def free(self, pointer: str) -> None:
        self.calls.append(("free", pointer))


def source() -> str:
    return host_source(lp.parse(NEST), lambda n, k: [f"lp_rt.calls.append(({n}, {k.name!r}, i))"])


@pytest.mark.parametrize("n", range(5))
def test_kernels_run_in_order_between_allocation_and_release(n: int) -> None:
    runtime = Recorder()
    host_function(source())(runtime, n, "A")
    launched = [(0, "a", i) if i < 2 else (1, "b", i) for i in range(n)]
    assert runtime.calls == [("alloc", 8 * n), *launched, ("free", "T")]


def test_memory_is_given_back_when_a_launch_fails() -> None:
    runtime = Recorder()
    with pytest.raises(ZeroDivisionError):
        host_function(host_source(lp.parse(NEST), lambda n, k: ["1 // 0"]))(runtime, 1, "A")
    assert runtime.calls == [("alloc", 8), ("free", "T")]


def test_a_statement_outside_of_kernels_is_refused() -> None:
    func = lp.parse('def f(A: "inout float32[4]"):\n    A[0] = 1.0\n')
    with pytest.raises(LowerError, match="Store is left on the host"):
        host_source(func, lambda n, k: [])


def test_sizes_beyond_64_bits_are_refused_before_anything_runs() -> None:
    require_int64("f", LIMIT - 1, n=3)
    with pytest.raises(ValueError, match=r"f is called with n=3, and then an index may come to"):
        require_int64("f", LIMIT, n=3)
