"""What is asked of accesses together is what is found of them one by one."""

import pytest
from hypothesis import given, settings, strategies as st

import loopir.intrinsics  # noqa: F401
from loopir.analysis.dependence import depend, reordering
from loopir.analysis.dependence.access import Access, Statement, statements_of
from loopir.analysis.dependence.access_groups import Asks, Clear, unresolved_pairs
from loopir.analysis.dependence.depend import loop_carried
from loopir.analysis.dependence.reordering import Origin, violated_dependence
from loopir.ir.grammar import Func, Var
from loopir.ir.parser.parse import parse
from loopir.ir.traverse.walk import replace, replace_loop

OFFSETS = st.lists(st.tuples(st.integers(-2, 2), st.integers(-2, 2)), min_size=1, max_size=5, unique=True)


def one_by_one(s: Statement, t: Statement, clear: Clear, asks: Asks) -> list[tuple[Access, Access]]:
    pairs = [(a, b) for a in s.accesses for b in t.accesses if a.buffer == b.buffer and asks(a, b)]
    return sorted(pairs, key=lambda p: (not p[0].write, p[1].write))


def stencil(reads: list[tuple[int, int]], buffer: str) -> Func:
    terms = " + ".join(f"{buffer}[i + {u + 2}, j + {v + 2}]" for u, v in reads)
    head = 'def f(n: "size", a: "inout float32[n + 4, n + 4]", b: "inout float32[n + 4, n + 4]"):'
    return parse(f"{head}\n    for i in range(n):\n        for j in range(n):\n            a[i + 2, j + 2] = {terms}\n")


@settings(max_examples=40, deadline=None)
@given(OFFSETS)
def test_what_a_loop_carries_is_what_each_read_tells(reads: list[tuple[int, int]]) -> None:
    f = stencil(reads, "a")
    for loop in "ij":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(depend, "unresolved_pairs", one_by_one)
            alone = loop_carried(f, loop)
        assert loop_carried(f, loop) == alone


@settings(max_examples=40, deadline=None)
@given(OFFSETS)
def test_an_order_that_is_broken_is_so_for_one_read(reads: list[tuple[int, int]]) -> None:
    f = stencil(reads, "a")
    new = replace_loop(f, "i", lambda i: replace(i.body[0], body=(replace(i, body=i.body[0].body),)))
    shifted = {"a": Origin("a", {"j": f.args[0].buffer.shape[0] - Var("j") - 5})}  # j from its end
    for origin in ({}, shifted):
        after = f if origin else new
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reordering, "unresolved_pairs", one_by_one)
            alone = violated_dependence(f, after, origin)
        assert violated_dependence(f, after, origin) == alone


def test_reads_of_a_neighbourhood_are_asked_about_once() -> None:
    f = stencil([(u, v) for u in (-1, 0, 1) for v in (-1, 0, 1)], "b")
    g = parse(
        """
def f(n: "size", a: "inout float32[n + 4, n + 4]", b: "inout float32[n + 4, n + 4]"):
    for i in range(n):
        for j in range(n):
            b[i + 2, j + 2] = 1.0
"""
    )
    (s,), (t,) = statements_of(f), statements_of(g)
    asked: list[tuple[str, str]] = []

    def clear(_s: object, a: object, _t: object, b: object) -> bool:
        asked.append((str(a), str(b)))
        return True

    assert not [*unresolved_pairs(s, t, clear)]
    assert len(asked) == 1
