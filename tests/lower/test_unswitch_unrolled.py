"""Tests with two sides that all iterations of an unrolled loop ask alike stand around it; nothing else changes."""

import numpy as np
import pytest

import loopir as lp
import schedules
from loopir.ir.grammar import If, Loop
from loopir.ir.parser.parse import parse
from loopir.ir.traverse.walk import free_vars, statements
from loopir.lower.gpu.unswitch_unrolled import unswitch_unrolled
from loopir.lower.target import target

PROGRAM = """
def f(n: "size", A: "int32[32]", B: "out int32[32]"):
    for t in bind("threadIdx.x", 8):
        for o in {kind}(4):
            for i in unroll(1):
                if {guard}:
                    B[o * 8 + t] = A[o * 8 + t]
                else:
                    B[o * 8 + t]: "zero" = {other}
"""


def made(guard: str, kind: str = "unroll", other: str = "0") -> tuple[lp.Func, lp.Func]:
    func = parse(PROGRAM.format(kind=kind, guard=guard, other=other))
    return func, unswitch_unrolled(func, target("cuda"))


@pytest.mark.parametrize("guard", ["t < n", "t + 2 < n and 1 <= t", "t % 3 == 0"])
@pytest.mark.parametrize("other", ["0", "A[o + t]"])
def test_a_test_of_all_iterations_stands_around_them(guard: str, other: str) -> None:
    func, after = made(guard, other=other)
    lines = [x.strip() for x in lp.text(after).splitlines()]
    assert lines.index(f"if {guard}:") < lines.index("for o in unroll(4):")
    assert lines.count("for o in unroll(4):") == 1  # the other side has a loop of another name
    given = {"A": np.arange(32, dtype=np.int32) + 1}
    want, got = (lp.interpret(x, given, {"n": 5})["B"] for x in (func, after))
    np.testing.assert_array_equal(want, got)


@pytest.mark.parametrize(
    ("guard", "kind"),
    [("o * 8 + t < n", "unroll"), ("t < n", "range"), ("A[t] < 3", "unroll")],
)
def test_others_stay(guard: str, kind: str) -> None:
    _, after = made(guard, kind)
    lines = [x.strip() for x in lp.text(after).splitlines()]
    assert lines.index(f"for o in {kind}(4):") < lines.index(f"if {guard}:")


def test_borders_of_an_image_are_tested_once_a_step() -> None:
    """In the code of a convolution no copy is tested by itself."""
    x, w = lp.placeholder((2, 32, 15, 15), "float32", name="x"), lp.placeholder((40, 32, 3, 3), "float32", name="w")
    s = schedules.auto(lp.Schedule(lp.conv2d(x, w, stride=2, padding=1)), "cuda", arch="sm_90a")
    (after,) = lp.lower(s, "cuda")
    unrolled = [x for x in statements(after.body) if isinstance(x, Loop) and x.kind == "unroll" and len(x.body) == 1]
    tests = [(x.var, x.body[0]) for x in unrolled]
    assert not [v for v, x in tests if isinstance(x, If) and x.orelse and v not in free_vars(x.cond)]
