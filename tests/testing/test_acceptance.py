"""Steps that are drawn have a chance: of every primitive, more than one in ten is accepted on programs of all kinds."""

from __future__ import annotations

import pytest

from loopir.ir.parser.parse import parse
from loopir.schedule import Schedule
from loopir.schedule.core.primitive import PRIMITIVES
from loopir.testing.acceptance import acceptance, main
from loopir.testing.generate.argument_needs import NoPlace, fitting, habits
from loopir.testing.generate.argument_questions import Nest

SELDOM = ("tensorize", "reuse", "double_buffer", "reverse_compute_at", "hoist", "privatize")
"""Those that find a place in few nests."""
COPY = parse("""
def f(A: "float32[8, 4]", S: "inout float32[8, 4]"):
    for k in range(8):
        with alloc("float32[4]") as T:
            for x in range(4):
                T[x] = A[k, x]
            for i in range(4):
                S[k, i] = T[i] * 2.0
""")


def test_what_seldom_has_a_place_is_still_accepted() -> None:
    shares = acceptance(20, primitives=SELDOM)
    tried, accepted = sum(x.tried for x in shares.values()), sum(x.accepted for x in shares.values())
    assert accepted * 10 > tried, shares
    assert sum(x.accepted > 0 for x in shares.values()) >= len(SELDOM) - 2, shares


def test_arguments_are_such_as_the_docstring_shows() -> None:
    nest = Nest(COPY)
    double_buffer = PRIMITIVES["double_buffer"]
    assert fitting(double_buffer, nest, "buffer", ("A", "S", "T"), {}) == ["T"]
    assert fitting(double_buffer, nest, "loop", ("k", "x", "i"), {"buffer": "T"}) == ["k"]
    assert Schedule(COPY).why("double_buffer", "T", "k") is None
    with pytest.raises(NoPlace):
        fitting(PRIMITIVES["rfactor"], nest, "stage", ("T", "S"), {})


SCANS = parse("""
def f(A: "float32[8]", S: "inout float32[9]", T: "inout float32[9]"):
    for i in range(8):
        S[i + 1] = S[i] * A[i]
    for j in range(8):
        T[j + 1] = T[j // 2] + A[j]
    for k in range(8):
        T[k] = T[k] + A[k]
    for b in bind("cluster", 2):
        with alloc("float32[2]", scope="shared") as C:
            for p in range(2):
                C[p] = A[p]
            for q in range(3):
                T[b] = C[b]
""")


def test_loops_are_told_apart_by_what_a_scan_and_a_shared_copy_need() -> None:
    nest = Nest(SCANS)
    loops = (*nest.loops,)
    assert fitting(PRIMITIVES["scan_blocks"], nest, "loop", loops, {}) == ["i"]
    assert fitting(PRIMITIVES["multicast"], nest, "loop", loops, {}) == ["p"]


def test_a_need_may_be_left_out() -> None:
    """What lacks one need is tried, too: refusals are rules as well."""
    needs = [*habits(PRIMITIVES["double_buffer"])["buffer"]]
    assert fitting(PRIMITIVES["double_buffer"], Nest(COPY), "buffer", ("A", "T"), {}, but=needs.index("own")) == ["T"]


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--programs", "3", "--primitives", "split", "--why", "1"]) == 0
    assert "| split | " in capsys.readouterr().out
