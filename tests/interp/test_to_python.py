"""The lanes of a vectorized loop run in lockstep in the interpreter, as they do in the code that LLVM gets."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import loopir as lp
from loopir.interp.interpret import interpret, trace
from loopir.testing.oracles.loop_kinds import serial_lanes

HEADER = 'def f(a: "inout int32[64]", b: "inout int32[64]", L: "int32[64]"):'
SUBSCRIPTS = (
    "j", "j + 1", "j + 3", "7 - j", "2 * j", "4 * i + j", "i + j + k", "i", "k + 2", "3", "(i + j) // 2", "(j + k) % 3",
    "L[j] % 8 + i", "L[i + k] % 5",
)  # fmt: skip
CONDS = ("j < 2 + i", "j % 2 == 0", "i < k", "a[j] < b[i]", "L[k] < 8", "i + 1 < j or 1 <= k", "b[j + 1] < 40")
STATEMENTS = (
    "{a}[{x}] = {b}[{y}] + 1",
    "{a}[{x}] = {b}[{y}]",
    "{a}[{x}] = {b}[{y}] + select(1 <= j, int32(9 // j), 0)",
    "{a}[{x}] = sum({b}[{y}] * 3, over=r)",
    "T[{t}] = {a}[{x}] + {b}[{y}]",
    "{a}[{x}] = T[{t}] - 5",
    "T[{t}] = max(T[{u}] + {b}[{y}], over=r)",
)


@st.composite
def bodies(draw: st.DrawFn, pad: str, depth: int = 2) -> list[str]:
    """Statements of lanes, with conditions and loops among them."""
    out: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(("leaf", "leaf", "if", "else", "loop") if depth else ("leaf",)))
        inner = pad + "    "
        if kind == "leaf":
            a, b = draw(st.sampled_from((("a", "b"), ("b", "a"), ("a", "a"))))
            x, y = draw(st.sampled_from(SUBSCRIPTS)), draw(st.sampled_from(SUBSCRIPTS))
            t, u = draw(st.sampled_from(("0", "1", "k"))), draw(st.sampled_from(("0", "1")))
            out.append(pad + draw(st.sampled_from(STATEMENTS)).format(a=a, b=b, x=x, y=y, t=t, u=u))
        elif kind == "loop":
            count = draw(st.sampled_from(("range(2)", "unroll(2)", "range(i + 1)", "range(L[i] % 3)")))
            out += [f"{pad}for q in {count}:"]
            out += draw(bodies(inner, depth - 1))
        else:
            out += [f"{pad}if {draw(st.sampled_from(CONDS))}:", *draw(bodies(inner, depth - 1))]
            if kind == "else":
                out += [f"{pad}else:", *draw(bodies(inner, depth - 1))]
    return out


@st.composite
def nests(draw: st.DrawFn) -> lp.Func:
    """A nest with a vectorized loop in it, which need not be legal."""
    lanes = draw(st.integers(1, 8))
    head = ["    for r in range(2):", "        for i in range(3):", "            for k in range(2):"]
    inside = [
        *head,
        f"                for j in vectorize({lanes}):",
        "                    with alloc('int32[2]') as T:",
    ]
    pad = " " * 24
    start = [f"{pad}for z in range(2):", f"{pad}    T[z] = a[j + z]"]
    return lp.parse("\n".join([HEADER, *inside, *start, *draw(bodies(pad))]))


def arrays(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {x: rng.integers(0, 60, 64).astype(np.int32) for x in ("a", "b", "L")}


@settings(max_examples=60, deadline=None)
@given(nests().map(lp.text), st.integers(0, 99))
def test_lanes_run_as_in_the_code_for_a_cpu_whether_legal_or_not(text: str, seed: int) -> None:
    func, given_ = lp.parse(text), arrays(seed)
    wanted = interpret(func, given_)
    lp.Schedule(func).build("llvm")(given_["a"], given_["b"], given_["L"])
    for name in ("a", "b"):
        assert np.array_equal(given_[name], wanted[name]), name


SHIFT = """
def f(a: "inout int32[9]"):
    for j in vectorize(8):
        a[j + 1] = a[j] + 10
"""


def test_all_lanes_read_before_any_writes() -> None:
    func = lp.parse(SHIFT)
    start = np.arange(9, dtype=np.int32)
    assert interpret(func, {"a": start})["a"].tolist() == [0, *range(10, 18)]
    assert interpret(serial_lanes(func), {"a": start})["a"].tolist() == [10 * j for j in range(9)]


def test_a_trace_of_lanes_has_who_wrote_what_they_read() -> None:
    found = trace(lp.parse(SHIFT), {"a": np.zeros(9, np.int32)})
    assert all(writers == [None] for writers in found.reads.values())
    assert found.final["a", 8] == ("a", (7,))


def test_a_fault_in_a_lane_names_the_lane() -> None:
    text = SHIFT.replace("a[j]", "a[j + 2]")
    with pytest.raises(lp.InterpretError, match=r"statement a at \(j=7\) touches a\[9\], which is out of bounds"):
        interpret(lp.parse(text), {"a": np.zeros(9, np.int32)})
