"""Accesses in place, with what intervals leave to test, are those that calls make: values, faults, messages."""

import importlib
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.interp.cell_address import cell_address, interval, largest_values
from loopir.ir.grammar import Add, FloorDiv, Index, Int, Max, Min, Mod, Mul, Var, Xor
from loopir.ir.verify.verify import evaluate

ENVIRONMENTS = [{"i": i, "j": j, "n": n} for i in range(3) for j in range(5) for n in (0, 1, 4, 9)]
LEAVES = st.sampled_from([*map(Var, ("i", "j", "n")), *map(Int, (-3, -1, 0, 1, 2, 4))])
DIVISORS = st.sampled_from([Int(1), Int(2), Int(7)])
INDICES = st.recursive(
    LEAVES,
    lambda inner: (
        st.builds(lambda make, a, b: make(a, b), st.sampled_from((Add, Mul, Min, Max, Xor)), inner, inner)
        | st.builds(lambda make, a, b: make(a, b), st.sampled_from((FloorDiv, Mod)), inner, DIVISORS)
    ),
    max_leaves=6,
)


@given(INDICES)
@settings(max_examples=100)
def test_an_interval_holds_all_values(ix: Index) -> None:
    low, high = interval(ix, {"i": 2, "j": 4})
    values = [evaluate(ix, env) for env in ENVIRONMENTS]
    assert low is None or low <= min(values)
    assert high is None or max(values) <= high


def test_what_intervals_prove_is_not_tested() -> None:
    func = lp.parse("""
def f(a: "inout int32[4, 6]"):
    for i in range(4):
        for j in range(6):
            a[i, j] = 1
""")
    largest = largest_values(func.body)
    assert largest == {"i": 3, "j": 5}
    b = func.args[0].buffer
    inside = cell_address(b, (Var("i"), Var("j")), largest, repr, lambda: "x")
    assert inside is not None
    assert not inside.test
    past = cell_address(b, (Var("i"), Add(Var("j"), Int(1))), largest, lambda x: "s", lambda: "x")
    assert past is not None
    assert past.test == "(x := s) >= 0 and x < 6"


SUBSCRIPTS = (
    "i", "j", "i + j", "j - i", "2 * i + 1", "i % 2", "5 - j", "3", "n", "n - 1 - i", "L[i] + j", "i", "j", "i",
    "L[j] // 2", "min(i, j)",
)  # fmt: skip
TARGETS = ("B[{x}, {y}]", "S[{x}]", "R[{x}, {y}]")
VALUES = ("A[{x}, {y}]", "A[{x}, {y}] + B[{y}, {x}]", "S[{x}]", "S[{y}] * R[{x}, {y}]", "R[{y}, {x}]", "2.0")
FILLED = (
    "for x in range(5):", "    for y in range(3):", "        R[x, y] = 3.0", "S[j] = 4.0",
)  # fmt: skip
SHAPES = ("5", ""), ("n", ""), ("5", ", layout=mapped(lambda x, y: 7 * y + x)")
SERIAL = """
def f(n: "size", A: "float32[4, n]", L: "int32[5]", B: "inout float32[5, 6]"):
    with alloc("float32[6]") as S, alloc("float32[{rows}, 5]"{layout}) as R:
        for i in range(4):
            for j in {lanes}({columns}):
{body}
"""
KERNEL = """
def f(n: "size", A: "float32[4, n]", L: "int32[5]", B: "inout float32[5, 6]"):
    with kernel("k0"):
        for i in bind("blockIdx.x", 2):
            with alloc("float32[6]", scope="shared") as S:
                for j in bind("threadIdx.x", 4):
                    with alloc("float32[{rows}, 5]", scope="local") as R:
{body}
"""


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Statements with subscripts that may be out of bounds, of elements that may be unwritten, or be raced for."""
    kernel = draw(st.booleans())
    lines = list(FILLED) if draw(st.booleans()) else []
    for n in range(draw(st.integers(1, 4))):
        x, y, z, w = (draw(st.sampled_from(SUBSCRIPTS)) for _ in range(4))
        target = draw(st.sampled_from(TARGETS)).format(x=x, y=y)
        value = draw(st.sampled_from(VALUES)).format(x=z, y=w)
        match draw(st.sampled_from(("store", "store", "fold", "barrier"))):
            case "fold":
                lines += [f"for r{n} in range(3):", f"    {target} = max({value} * A[r{n}, j], over=r{n})"]
            case "barrier" if kernel:
                lines.append("barrier()")
            case _:
                lines.append(f"{target} = {value}")
    pad = " " * (24 if kernel else 16)
    rows, layout = draw(st.sampled_from(SHAPES))
    return (KERNEL if kernel else SERIAL).format(
        rows=5 if kernel else rows,
        layout=layout,
        lanes=draw(st.sampled_from(("range", "vectorize"))),
        columns=draw(st.sampled_from((3, 5))),
        body="\n".join(pad + line for line in lines),
    )


def outcome(func: lp.Func, many: int, n: int) -> list[object]:
    """What a run gives, or says, with accesses in place if `many` elements are few."""
    with patch.object(importlib.import_module("loopir.interp.interpret"), "MANY", many):
        rng = np.random.default_rng(0)
        args = {"A": rng.random((4, n)), "L": rng.integers(0, 4, 5), "B": rng.random((5, 6))}
        try:
            return [x.tolist() for x in lp.interpret(func, args, {"n": n}).values()]
        except lp.InterpretError as error:
            return [type(error), str(error).split(", which block")[0]]  # any one of those who race is named


@given(programs(), st.integers(3, 5))
@settings(max_examples=60)
def test_accesses_in_place_give_and_say_what_calls_do(source: str, n: int) -> None:
    func = lp.parse(source)
    assert outcome(func, 0, n) == outcome(func, 10**9, n)
