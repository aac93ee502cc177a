"""Memory of one iteration made memory of all: the program stays the same, and what cannot grow is refused."""

from dataclasses import replace

import pytest

import loopir as lp
from loopir.errors import ScheduleError
from loopir.ir.grammar import Alloc, Func, Loop
from loopir.ir.traverse.walk import statements
from loopir.schedule.core.find import find_loop
from loopir.schedule.transform.expand_alloc import expand_accesses, expand_buffer
from loopir.testing import assert_equivalent

NEST = """
def f(n: "size", A: "float32[n, 4]", B: "out float32[n]"):
    for i in range({extent}):
        with alloc("float32[4]"{how}) as T:
            for j in range(4):
                T[j] = A[i, j] * 2.0
            for k in range(4):
                B[i] = sum(T[k], over=k, init=0.0)
"""


def parts(how: str = "", extent: str = "n") -> tuple[Func, Loop, Alloc]:
    func = lp.parse(NEST.format(how=how, extent=extent))
    return func, find_loop(func, "i"), next(s for s in statements(func.body) if isinstance(s, Alloc))


def test_an_expanded_buffer_means_the_same() -> None:
    func, loop, alloc = parts()
    wide = expand_buffer(func, loop, alloc, "why")
    assert wide.shape == (loop.extent, *alloc.buffer.shape)
    inner = tuple(expand_accesses(s, "i", [wide]) for s in alloc.body)
    assert_equivalent(func, replace(func, body=(Alloc(wide, (replace(loop, body=inner),)),)))


@pytest.mark.parametrize(
    ("how", "what"), [(', scope="shared"', "is in shared memory"), (", layout=strided(2)", "has a layout")]
)
def test_placed_memory_is_not_made_larger(how: str, what: str) -> None:
    with pytest.raises(ScheduleError, match=what):
        expand_buffer(*parts(how), "why")
