"""distribute and unroll_and_jam against brute force on random nests, and by example."""

import pytest
from hypothesis import example, given, settings, strategies as st
from meaning import assert_same
from random_nests import HEAD, assert_exact, assert_sound, trees

from loopir.errors import ScheduleError
from loopir.ir.grammar import Func
from loopir.ir.parser.parse import parse
from loopir.ir.printer import text
from loopir.ir.traverse.walk import leaf_paths, loops
from loopir.schedule.core.find import all_buffers
from loopir.schedule.primitives.loops.distribute import distribute
from loopir.schedule.primitives.loops.unroll_and_jam import unroll_and_jam
from loopir.schedule.primitives.placement.compute_root import compute_root


def func(*lines: str) -> Func:
    return parse("\n".join([HEAD, *(f"    {line}" for line in lines)]))


@settings(max_examples=20, deadline=None)
@given(trees(own=False), st.randoms(use_true_random=False))
def test_distribute_is_exact(source: str, random: object) -> None:
    f = parse(source)
    for loop in loops(f.body):
        assert_exact("distribute", f, loop.var)
        inside = [p.stmt.label for p in leaf_paths(loop.body)]
        assert_exact("distribute", f, loop.var, random.choice(inside))  # type: ignore[attr-defined]


EQUAL_STORES = f"""{HEAD}
    for i in range(3):
        for j in range(3):
            ix[i + j]: "s0" = int32(j)
        ix[2 * i + 1]: "s1" = int32(i)
"""
"""Both store 1 into ix[3]: which of them does it last is all the same."""


def test_a_copy_of_an_element_into_itself_stores_what_is_there() -> None:
    """The first iteration's copy into itself comes after what the next one stores: all the same."""
    f = func("for i in range(3):", "    b[i // 2] = b[i]", "    b[i] = b[i]")
    assert assert_exact("distribute", f, "i") is None


@settings(max_examples=15, deadline=None)
@given(trees(exact=False, own=False))
@example(EQUAL_STORES)
def test_distribute_is_sound_for_what_it_does_not_see(source: str) -> None:
    f = parse(source)
    for loop in loops(f.body):
        assert_sound("distribute", f, loop.var)


@settings(max_examples=20, deadline=None)
@given(trees(own=False), st.sampled_from(["guard", "peel"]))
def test_unroll_and_jam_is_exact(source: str, tail: str) -> None:
    f = parse(source)
    for loop in loops(f.body):
        assert_exact("unroll_and_jam", f, loop.var, 2, tail=tail)


@settings(max_examples=15, deadline=None)
@given(trees(exact=False, own=False), st.sampled_from(["guard", "peel"]))
def test_unroll_and_jam_is_sound_for_what_it_does_not_see(source: str, tail: str) -> None:
    f = parse(source)
    for loop in loops(f.body):
        assert_sound("unroll_and_jam", f, loop.var, 2, tail=tail)


def test_memory_of_a_jammed_iteration_gets_an_element_for_each() -> None:
    f = parse("""
def f(n: "size", a: "float32[n, 4]", c: "out float32[n]"):
    for i in range(n):
        with alloc("float32[4]") as t:
            for k in range(4):
                t[k] = a[i, k] * 2.0
            c[i] = t[0]
            for h in range(4):
                if h < i:
                    c[i] = sum(t[h], over=h)
""")
    for tail in ("guard", "peel"):
        after = unroll_and_jam(f, "i", 3, tail=tail)
        assert [(3, 4), (4,)][: 1 + (tail == "peel")] == [
            tuple(x.value for x in b.shape) for b in all_buffers(after) if b.name.startswith("t")
        ]
        for n in (0, 1, 3, 5):
            assert_same(f, after, {"n": n})


def test_a_guard_of_the_whole_body_is_repeated_unless_it_may_change() -> None:
    f = func("for i in range(n):", "    if i < m:", "        b[i] = 1.0", "        a[i, 0] = b[i]")
    assert len(list(loops(distribute(f, "i").body))) == 2
    f = func("for i in range(n):", "    if ix[i] < 1:", "        ix[i] = 2", "        b[i] = 1.0")
    with pytest.raises(ScheduleError, match="the guard of 'i' is read from ix, which the loop writes"):
        distribute(f, "i")


def test_memory_that_cannot_be_made_larger_keeps_its_statements_together() -> None:
    def local(*head: str, scope: str = "") -> Func:
        scoped = f', scope="{scope}"' if scope else ""
        body = (f'with alloc("float32[2]"{scoped}) as t:', "    t[0] = 1.0", "    b[j] = t[0]")
        return func(*head, *(f"{'    ' * len(head)}{x}" for x in body))

    with pytest.raises(ScheduleError, match="how large t would be is not known: 'j' runs"):
        distribute(local("for j in range(ix[0]):"), "j")
    with pytest.raises(ScheduleError, match="which is in shared memory, is not made larger"):
        distribute(local("for j in range(n):", scope="shared"), "j")


def test_memory_used_on_one_side_stays_in_its_loop() -> None:
    f = parse("""
def f(n: "size", a: "float32[n]", b: "out float32[n]", c: "out float32[n]"):
    for i in range(n):
        with alloc("float32[]") as t:
            t[()] = a[i] * 2.0
            b[i] = t[()] + 1.0
        with alloc("float32[]") as u:
            u[()] = b[i] * 3.0
            c[i] = u[()]
""")
    after = distribute(f, "i", "b", "u")
    for n in (0, 1, 4):
        assert_same(f, after, {"n": n})
    assert {b.name: len(b.shape) for b in all_buffers(after) if b.name in "tu"} == {"t": 0, "u": 1}


def test_a_reduction_over_the_loop_starts_before_its_own_loop() -> None:
    f = func("for k in range(n):", "    a[k, 0] = b[0] * 2.0", "    b[1] = sum(a[k, 0], over=k, init=0.0)")
    distribute(f, "k")
    f = func("for k in range(n):", "    a[k, 0] = b[1] * 2.0", "    b[1] = sum(a[k, 1], over=k, init=0.0)")
    with pytest.raises(ScheduleError, match=r"b \(its init\).* writes b\[1\], which a at \(k=0\) reads later"):
        distribute(f, "k")


CUT = """
def f(n: "size", A: "int32[4]", B: "float32[8]", Y: "out float32[8]"):
    for i in range({outer}):
        for j in range({inner}):
            with alloc("float32[2]") as T:
                for k in range(2):
                    T[k] = B[j] * 2.0
                Y[j] = T[0] + 1.0
"""


@pytest.mark.parametrize(
    ("outer", "inner", "shape"),
    [
        ("A[0] % 3", "8", "2, 8"),
        ("8", "A[1] % 3", "8, 2"),
        ("8", "i + 1", "8, 8"),
        ("min(n, A[0] % 3)", "min(i + 1, 8)", "min(n, 2), min(min(n, 2), 8)"),
        ("8", "(i + A[0] % 3) // 2", "8, 4"),
        ("A[0]", "8", None),
        ("8", "max(A[0], i)", None),
    ],
)
def test_memory_is_as_large_as_the_most_iterations(outer: str, inner: str, shape: str | None) -> None:
    """compute_root gave an array a shape that was read from memory."""
    f = parse(CUT.format(outer=outer, inner=inner))
    if shape is None:
        with pytest.raises(ScheduleError, match="how large T would be is not known"):
            compute_root(f, "T")
        return
    new = compute_root(f, "T")
    assert f'alloc("float32[{shape}, 2]")' in text(new)
    for seed in range(3):
        assert_same(f, new, {"n": 2}, seed)


def test_unroll_and_jam_of_values_that_nobody_looks_at() -> None:
    """What is stored to X in the loops is overwritten after them."""
    source = """
def f(A: "float32[4, 3]", X: "inout float32[6]"):
    for i in range(4):
        for j in range(3):
            X[i + j]: "b" = A[i, j]
    for k in range(6):
        X[k] = 2.0
"""
    f = parse(source)
    assert_same(f, unroll_and_jam(f, "i", 2), {})
    with pytest.raises(ScheduleError, match="runs these two the other way round"):
        unroll_and_jam(parse(source.replace("range(6)", "range(3)")), "i", 2)
