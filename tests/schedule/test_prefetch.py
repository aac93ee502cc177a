"""Hints to a CPU's caches: what they ask for, that they change nothing, and that they go where they are of no use."""

import re
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from meaning import assert_same

import loopir as lp
import schedules
from loopir.ir.grammar import Alloc, Cmp, If, Loop, Prefetch, Stmt
from loopir.ir.layout.layouts import evaluate, offset
from loopir.ir.traverse.walk import statements

PRODUCT = """
def f(n: "size", A: "float32[n, n]", B: "float32[n, n]", C: "out float32[n, n]"):
    for i in range(n):
        for j in range(n):
            for k in range(n):
                C[i, j] = sum(A[i, k] * B[k, j], over=k, init=0.0)
"""

GUARDED = """
def g(n: "size", A: "float32[n, n]", C: "out float32[8, n]"):
    assume(n >= 8)
    for i in range(16):
        for j in range(n):
            if i < 8:
                C[i, j] = A[i, j]
"""


def product() -> lp.Schedule:
    return lp.Schedule(lp.parse(PRODUCT))


def hints(func: lp.Func) -> list[str]:
    return [str(s.element) for s in statements(func.body) if isinstance(s, Prefetch)]


def count(s: lp.Schedule) -> int:
    return sum(isinstance(x, Prefetch) for x in statements(s.func.body))


@given(st.integers(0, 5), st.integers(1, 9), st.sampled_from(["A", "B"]), st.data())
@settings(max_examples=25, deadline=None)
def test_a_hint_means_nothing(n: int, ahead: int, buffer: str, data: st.DataObject) -> None:
    loop = data.draw(st.sampled_from(["i", "k"] if buffer == "A" else ["j", "k"]))
    plain = product().reorder(*data.draw(st.permutations("ijk")))
    inner = [x for x in plain.loops() if x in (("i", "k") if buffer == "A" else ("j", "k"))]
    s = plain.prefetch("C", buffer, inner[-1] if loop not in inner[-1:] else loop, ahead)
    assert count(s) == 1
    assert_same(plain.func, s.func, {"n": n})


def test_one_line_is_asked_for_once() -> None:
    s = product().split("j", 32).reorder("j_o", "k", "i", "j_i").prefetch("C", "B", "k", 4)
    assert "for j_i_line in unroll(2):\n" in str(s)
    assert "prefetch(B[k + 4, j_o * 32 + j_i_line * 16])" in str(s)


def test_a_panel_is_followed_by_the_next_one() -> None:
    """By how elements lie: 16 neighbours of a row are one line of a panel, and apart elsewhere."""
    s = product().split("j", 16, tail="guard").reorder("j_o", "i", "k", "j_i")
    s = s.cache_read("C", "B", "global", at=None).set_layout("B_global", "lambda k, x: (x // 16, k, x % 16)")
    s = s.prefetch("C", "B_global", "k", 32)
    assert "for j_i_line" not in str(s)
    assert "prefetch(B_global[k + 32, j_o * 16])" in str(s)


PANELS = """
def f(A: "float32[{i}, {k}, 16]", B: "float32[3, {k}, 16]", C: "out float32[3, {i}]"):
    for j in range(3):
        for i in range({i}):
            for k in range({k}):
                for x in range(16):
                    C[j, i] = sum(A[i, k, x] * B[j, k, x], over=(k, x), init=0.0)
"""


def asked(body: tuple[Stmt, ...], env: dict[str, int]) -> Iterator[int]:
    """Where what `body` asks for lies."""
    for s in body:
        if isinstance(s, Prefetch):
            yield evaluate(offset(s.element.buffer, s.element.at), env)
        elif isinstance(s, Loop):
            for n in range(evaluate(s.extent, env)):
                yield from asked(s.body, {**env, s.var: n})
        elif isinstance(s, Alloc):
            yield from asked(s.body, env)
        elif isinstance(s, If) and isinstance(s.cond, Cmp):
            yield from asked(s.then, env) if evaluate(s.cond.a, env) == evaluate(s.cond.b, env) else ()


@given(st.integers(1, 5), st.integers(1, 40), st.integers(1, 3), st.sampled_from("ik"))
@example(3, 1, 1, "i")  # the second line of one was asked for
@example(5, 2, 1, "i")
@settings(max_examples=40, deadline=None)
def test_iterations_share_what_a_later_one_uses(tiles: int, k: int, ahead: int, over: str) -> None:
    """Each of its lines is asked for, once or by a power of two that follow one another, and fewer beyond it than there
    are iterations, or lines. Too many at once are refused."""
    s = lp.Schedule(lp.parse(PANELS.format(i=tiles, k=k)))
    turns = tiles * k if over == "k" else tiles
    reason = s.why("prefetch", "C", "B", "j", ahead, over=over)
    assert (reason is None) == (k <= 32 * turns), reason
    if reason is None:
        hinted = s.prefetch("C", "B", "j", ahead, over=over)
        assert_same(s.func, hinted.func, {})
        lines = [at / 16 for at in asked((hinted.loop("j"),), {})]
        first = lines[: len(lines) // 3]
        same = first.count(first[0])
        assert same & (same - 1) == 0 or set(first) == {ahead * k}
        assert first == [ahead * k + n // same for n in range(len(first))]
        assert k <= -(-len(first) // same) < k + (turns if same == 1 else k)


LATER = """
def f(x: "float32[{k}, 16]", C: "out float32[3, {i}, 16]"):
    for j in range(3):
        with alloc("float32[16]", scope="local") as t:
            for k in range({k}):
                for n in range(16):
                    t[n] = sum(x[k, n], over=k, init=0.0)
            for i in range({i}):
                for m in range(16):
                    C[j, i, m] = t[m]
"""


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 2))
@settings(max_examples=40, deadline=None)
def test_loops_before_a_stage_ask_for_what_it_uses(k: int, i: int, ahead: int) -> None:
    """All of it, in the iteration in which it is used or in those before."""
    s = lp.Schedule(lp.parse(LATER.format(i=i, k=k)))
    reason = s.why("prefetch", "C", "C", "j", ahead, over="k")
    assert (reason is None) == (i <= 32 * k), reason
    if reason is None:
        hinted = s.prefetch("C", "C", "j", ahead, over="k")
        assert_same(s.func, hinted.func, {})
        lines = [at // 16 for at in asked((hinted.loop("j"),), {})]
        assert {ahead * i + n for n in range(i)} <= set(lines[: len(lines) // 3])
    assert s.why("prefetch", "C", "C", "j", 0, over="i") is not None


def test_what_is_written_can_be_asked_for() -> None:
    s = product().split("j", 16).reorder("i", "j_o", "k", "j_i").cache_write("C", "local", at="j_o")
    s = s.prefetch("C", "C", "j_o")
    assert "prefetch(C[i, j_o * 16 + 16])" in str(s)


@pytest.mark.parametrize(
    ("take", "reason"),
    [
        (lambda s: s.prefetch("C", "B", "i"), "B[k, j] is the same in every iteration of 'i'"),
        (lambda s: s.prefetch("C", "C", "k"), "C[i, j] is the same in every iteration of 'k'"),
        (lambda s: s.prefetch("C", "A", "i"), "a line for each of 'k', and there may be any number"),
        (lambda s: s.prefetch("C", "D", "k"), "there is no buffer 'D'"),
        (lambda s: s.prefetch("C", "B", "j", 0), "at least 1, not 0"),
        (lambda s: s.reorder("j", "i", "k").prefetch("C", "B", "i", over="j"), "'j' does not stand in 'i'"),
        (lambda s: s.parallel("i").prefetch("C", "A", "i"), "its iterations do not come one after another"),
        (lambda s: s.split("k", 64).reorder("k_o", "i", "j", "k_i").prefetch("C", "B", "j"), "ask for 64 lines of B"),
        (lambda s: s.cache_read("C", "A", "local", at="k").prefetch("C", "A_local", "j"), "in local memory"),
        (lambda s: s.cache_read("C", "A", "global", at="k").prefetch("C", "A_global", "i"), "lives for one iteration"),
        (lambda s: s.cache_read("C", "A", "global", at="k").prefetch("C", "A", "k"), "C does not use A"),
    ],
)  # fmt: skip
def test_what_is_refused(take: object, reason: str) -> None:
    with pytest.raises(lp.ScheduleError, match=re.escape(reason)):
        take(product())  # type: ignore[operator]


def test_a_loop_that_never_runs_uses_no_line() -> None:
    """It ended with an IndexError."""
    s = lp.Schedule(
        lp.parse("""
def f(A: "float32[8]", X: "inout float32[8]"):
    for q in range(3):
        for i in range(0):
            X[q] = max(A[q + i], over=i)
""")
    )
    with pytest.raises(lp.ScheduleError, match="one iteration of 'q' uses no line of A, as a loop inside it never"):
        s.prefetch("X", "A", "q", 2)


def test_a_hint_goes_with_what_it_asks_for() -> None:
    a = lp.placeholder((8, 8), "float32", name="a")
    b = lp.compute((8, 8), lambda i, j: a[i, j] + 1.0, name="b")
    s = lp.Schedule(lp.compute((8, 8), lambda i, j: b[i, j] * 2.0, name="c")).prefetch("c", "b", "j_1", 2)
    assert count(s) == 1
    assert count(s.compute_inline("b")) == 0
    kept = s.split("j_1", 4).rename("j_1_i", "lane")
    assert count(kept) == 1
    assert "prefetch(b[i_1, j_1_o * 4 + lane + 2])" in str(kept)


def test_a_loop_of_hints_alone_goes() -> None:
    s = product().split("k", 4).prefetch("C", "A", "k_i", 8)
    assert count(s) == 1
    done = s.split("i", 8, tail="guard").partition("i_o")
    assert count(done) == 2  # whole tiles, and the rest
    cut = lp.Schedule(lp.parse(GUARDED)).prefetch("C", "A", "j", 2).partition("i")
    assert count(cut) == 1, str(cut)


def test_a_loop_over_lines_goes_with_its_hints() -> None:
    """What it asks for is put elsewhere by the epilogue's placement: a loop with nothing in it is no program."""
    a, b = (lp.placeholder((256, 256), "float32", name=x) for x in "AB")
    s = schedules.auto(lp.Schedule(lp.relu(a @ b)), "llvm")
    assert all(x.body for x in statements(s.func.body) if isinstance(x, Loop))


def test_the_cpu_is_told_and_a_gpu_is_not() -> None:
    s = product().prefetch("C", "B", "k", 3)
    kernel = s.build("llvm")
    assert "llvm.prefetch" in kernel.source
    a, b = np.random.default_rng(0).random((2, 33, 33), np.float32)
    assert np.allclose(kernel(a, b), a @ b, rtol=1e-5)
    assert hints(lp.lower(s.bind("i", "blockIdx.x").bind("j", "blockIdx.y"), "cuda")[0]) == []


def test_lanes_ask_once_and_the_host_never() -> None:
    s = product().split("j", 4, tail="guard").reorder("i", "k", "j_o", "j_i").prefetch("C", "B", "j_o").vectorize("j_i")
    a, b = np.random.default_rng(0).random((2, 9, 9), np.float32)
    assert np.allclose(s.build("llvm")(a, b), a @ b, rtol=1e-5)
    t = product().reorder("k", "i", "j").decompose_reduction("C")
    t = t.prefetch("C", "A", "k", 2).parallel("i") if t.why("prefetch", "C", "A", "k", 2) is None else t
    assert np.allclose(t.build("llvm")(a, b), a @ b, rtol=1e-5)
