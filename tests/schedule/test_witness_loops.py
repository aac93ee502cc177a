"""The witness of a refused step names the loops and statements that there are, and not those of nests on the way."""

from __future__ import annotations

import re

import pytest

import loopir as lp
from loopir.errors import ScheduleError
from loopir.testing.oracles.oracles import false_witness

NEST = """
def f(n: "size", A: "float32[n + 2, n + 2]", S: "inout float32[n]", a: "inout float32[n + 2, n + 2]"):
    for i in range(n):
        for j in range(n):
            for k in range(2):
                S[i] = sum(A[i, j], over=k, init=0.0)
            a[i + 1, j] = a[i, j + 2] + a[i + 1, j + 1] + S[i]
"""
PERFECT = """
def f(n: "size", a: "inout float32[n + 2, n + 2]"):
    for i in range(n):
        for j in range(n):
            a[i + 1, j] = a[i, j + 2] + a[i + 1, j + 1]
"""


@pytest.mark.parametrize(
    ("nest", "step", "args", "message"),
    [
        (PERFECT, "wavefront", ("i", "j", 1), r"a at \(i=0, j=2\) writes a\[1, 2\], which a at \(i=1, j=0\) reads"),
        (PERFECT, "wavefront", ("i", "j", -1), r"a at \(i=0, j=2\) writes a\[1, 2\], which a at \(i=1, j=0\) reads"),
        (PERFECT, "tile", ("i", "j", 2, 2), r"a at \(i=0, j=2\) writes a\[1, 2\], which a at \(i=1, j=0\) reads"),
        (PERFECT, "unroll_and_jam", ("i", 2), r"a at \(i=0, j=2\) writes a\[1, 2\], which a at \(i=1, j=0\) reads"),
        (NEST, "compute_root", ("S",), r"a at \(i=0, j=0\) reads S\[0\], which S \(its init\) at \(i=0, j=1\) writes"),
        (NEST, "decompose_reduction", ("S", "j"),
         r"a at \(i=0, j=0\) reads S\[0\], which S \(its init\) at \(i=0, j=1\) writes"),
    ],
)  # fmt: skip
def test_a_witness_speaks_of_the_loops_there_are(nest: str, step: str, args: tuple[object, ...], message: str) -> None:
    """Steps made of several named the loops and statements that they made on the way."""
    s = lp.Schedule(lp.parse(nest))
    error = s.why(step, *args)
    assert error is not None
    assert re.search(message, str(error)), error
    assert false_witness(s.func, error) is None


def test_a_witness_leaves_out_what_is_read_from_memory() -> None:
    s = lp.Schedule(
        lp.parse("""
def f(X: "int32[1]", a: "inout float32[8, 8]"):
    for i in range(X[0] % 3):
        for j in range(4):
            a[i + 1, j] = a[i, j + 2] + a[i + 1, j + 1]
""")
    )
    with pytest.raises(ScheduleError, match="skewed by -1"):
        s.wavefront("i", "j", -1)
