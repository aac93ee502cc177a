"""Which write each value comes from, where elements are quotients and remainders: all reads, and the last write."""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.analysis.dataflow.equivalence import validate
from loopir.analysis.dataflow.value_flow import Flow
from loopir.analysis.presburger.solver import PROOF, isl, question
from loopir.errors import ScheduleError
from loopir.ir.grammar import Load
from loopir.ir.parser.parse import parse
from loopir.testing.checking import QUIET
from loopir.testing.generate.draws import between, choose

FOUND = """
def f(A: "int32[6]", T: "inout int32[5, 6]"):
    for i in range(6):
        T[4, 5] = sum(T[4, 0] + int32(i), over=i, init=1)
        T[(i + 2) % 5, i % 2 * 3] += A[1]
"""
LATER = """
def f(A: "int32[6]", T: "inout int32[5, 6]"):
    for i in range(6):
        T[4, 5] = sum(T[4, 0] + int32(i), over=i, init=1)
    for j in range(6):
        T[(j + 2) % 5, j % 2 * 3] += A[1]
"""


def test_a_sum_of_what_is_added_to_meanwhile_is_no_proof() -> None:
    assert "T" not in validate(parse(FOUND), parse(LATER)).proved
    with pytest.raises(ScheduleError, match="T_1 at \\(i=2\\) writes T\\[4, 0\\], which T at \\(i=3\\) reads later"):
        lp.Schedule(parse(FOUND)).cache_write("T_1", "local")


def points(pairs: isl.Map) -> list[tuple[int, ...]]:
    """The coordinates of all pairs."""
    out: list[tuple[int, ...]] = []
    flat = pairs.wrap().flatten()
    dims = range(flat.dim(isl.dim_type.set))
    flat.foreach_point(lambda p: out.append(tuple(p.get_coordinate_val(isl.dim_type.set, n).to_python() for n in dims)))
    return out


@st.composite
def places(draw: st.DrawFn) -> tuple[int, str, str]:
    """How often a statement runs, and the row and the column that it writes."""
    forms = ("(i + {0}) % {1}", "i * {0} % {1}", "(i + {0}) // {1}", "i % 2 * {0}", "{0}")
    rows, columns = (choose(draw, forms).format(draw(between(0, 3)), draw(between(2, 4))) for _ in range(2))
    return draw(between(1, 6)), rows, columns


@settings(QUIET, max_examples=40)
@given(st.lists(places(), min_size=1, max_size=3))
def test_each_element_comes_from_the_write_that_a_run_makes_last(written: list[tuple[int, str, str]]) -> None:
    body = [
        line
        for n, (times, row, column) in enumerate(written)
        for line in (f"    for i in range({times}):", f'        T[{row}, {column}]: "s{n}" = {n}')
    ]
    func = parse("\n".join(['def f(T: "inout int32[7, 7]"):', *body]) + "\n")
    last: dict[tuple[int, int], tuple[str, int]] = {}
    for n, (times, row, column) in enumerate(written):
        for i in range(times):
            last[eval(row, {"i": i}), eval(column, {"i": i})] = f"s{n}", i
    with question(PROOF):
        flow = Flow(func, "F")
        out = flow.output(next(iter(func.outputs())))
        assert isinstance(out.node, Load)
        reads = flow.element(out.site, out.node.buffer, out.node.at)
        found, rest = flow.last_writes(out.site, reads, flow.writes("T"))
        got = {at[:2]: (w.label, at[2]) for (w, _, _), m in found for at in points(m)}
        none = {at[:2] for at in points(rest)}
    assert got == last
    assert none == {(r, c) for r in range(7) for c in range(7)} - {*last}
