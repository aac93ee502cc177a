"""fuse_loops against brute force on random pairs of nests, and by example: shifts, guards, inits, memory."""

import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings, strategies as st
from meaning import assert_same
from random_nests import EXTENTS, HEAD, HIDDEN, assert_exact, assert_sound, statements

from loopir.errors import ScheduleError, Witness
from loopir.ir.grammar import Func
from loopir.ir.parser.parse import parse
from loopir.ir.traverse.walk import loops
from loopir.schedule.primitives.loops.fuse_loops import fuse_loops
from loopir.schedule.primitives.loops.merge import merge


def func(*lines: str) -> Func:
    return parse("\n".join([HEAD, *(f"    {line}" for line in lines)]))


@st.composite
def pairs(draw: st.DrawFn, exact: bool = True) -> tuple[Func, tuple[int, ...]]:
    """Two nests side by side, perhaps in a loop, and a shift."""
    depth = draw(st.integers(1, 2))
    extents = st.sampled_from(EXTENTS if exact else EXTENTS + HIDDEN)
    around = draw(st.booleans())
    lines = ["for z in range(2):"] if around else []
    same = [draw(extents) for _ in range(depth)] if draw(st.booleans()) else None
    for n, names in enumerate((("i", "j")[:depth], ("x", "y")[:depth])):
        pad = "    " * around
        for d, v in enumerate(names):
            lines.append(f"{pad}{'    ' * d}for {v} in range({same[d] if same else draw(extents)}):")
        free = (*names, "z") if around else names
        body = [x for k in range(draw(st.integers(1, 2))) for x in draw(statements(free, f"s{n}{k}", exact))]
        lines += [f"{pad}{'    ' * depth}{line}" for line in body]
    return func(*lines), tuple(draw(st.integers(-1, 2)) for _ in range(depth))


@settings(max_examples=20, deadline=None)
@given(pairs())
def test_fuse_loops_is_exact(given: tuple[Func, tuple[int, ...]]) -> None:
    f, shift = given
    error = assert_exact("fuse_loops", f, "i", "x", shift=shift, tail="guard")
    if error is not None and error.suggestion is not None and error.suggestion.startswith("shift="):
        found = eval(error.suggestion.removeprefix("shift="))
        assert assert_exact("fuse_loops", f, "i", "x", shift=found, tail="guard") is None


@settings(max_examples=20, deadline=None)
@given(pairs(exact=False))
def test_fuse_loops_is_sound_for_what_it_does_not_see(given: tuple[Func, tuple[int, ...]]) -> None:
    assert_sound("fuse_loops", given[0], "i", "x", shift=given[1], tail="guard")


# ---------------------------------------------------------------- by example


def refused(f: Func, *args: object, **kwargs: object) -> ScheduleError:
    with pytest.raises(ScheduleError) as caught:
        fuse_loops(f, *args, **kwargs)
    return caught.value


def stencil(*offsets: int) -> Func:
    taps = " + ".join(f"t[j + {d}]" for d in offsets)
    return parse(f"""
def f(n: "size", a: "float32[n + 9]", c: "out float32[n]"):
    with alloc("float32[n + 9]") as t:
        for i in range(n + 9):
            t[i] = a[i] * 2.0
        for j in range(n):
            c[j] = {taps}
""")


@pytest.mark.parametrize("offsets", [(0,), (0, 1), (1,), (3, 2), (0, 9)])
def test_the_least_shift_is_offered_and_right(offsets: tuple[int, ...]) -> None:
    f, least = stencil(*offsets), max(offsets)
    for shift in range(11):
        if shift < least:
            error = refused(f, "i", "j", shift=shift, tail="guard")
            assert error.suggestion == f"shift={least}"
            assert error.witness is not None
        else:
            fused = fuse_loops(f, "i", "j", shift=shift, tail="guard")
            for n in (0, 1, 5):
                assert_same(f, fused, {"n": n})


def test_a_producer_is_not_merged_with_a_reversed_consumer() -> None:
    f = func("for i in range(n):", "    b[i] = a[i, 0]", "for j in range(n):", "    a[j, 1] = b[n - 1 - j]")
    error = refused(f, "i", "j")
    assert error.witness == Witness("RAW", "b", (1,), "b", {"i": 1}, "a", {"j": 0}, {"n": 2, "m": 0})
    assert error.suggestion == "keep the two nests for b"


def test_a_reduction_that_another_nest_reads_is_complete_first() -> None:
    f = func("for i in range(n):", "    b[0] = sum(a[i, 0], over=i, init=0.0)",
             "for j in range(n):", "    a[j, 1] = b[0]")  # fmt: skip
    assert refused(f, "i", "j").suggestion == "keep the two nests for b"
    # the second reduction would start before the first nest reads what was there
    f = func("for i in range(n):", "    a[i, 0] = b[0]", "for j in range(n):",
             "    b[0] = sum(a[j, 1], over=j, init=0.0)")  # fmt: skip
    error = refused(f, "i", "j")
    assert error.witness is not None
    assert error.witness.second_statement == "b (its init)"
    assert error.suggestion == "keep the two nests for b"
    both = func("for i in range(n):", "    b[0] = sum(a[i, 0], over=i, init=0.0)", "for j in range(m):",
                "    b[1] = sum(a[j, 1], over=j, init=1.0)")  # fmt: skip
    fused = fuse_loops(both, "i", "j", tail="guard")
    for n, m in ((0, 0), (0, 2), (3, 0), (2, 5)):
        assert_same(both, fused, {"n": n, "m": m})


def test_a_bound_that_either_nest_changes_stays_where_it_is() -> None:
    f = func("for i in range(4):", "    ix[i] = 1", "for j in range(ix[2]):", "    b[j] = 1.0")
    with pytest.raises(ScheduleError, match="how often 'j' runs is read from ix"):
        fuse_loops(f, "i", "j", tail="guard")


def test_equal_sizes_may_be_assumed() -> None:
    lines = ("for i in range(n):", "    b[i] = 1.0", "for j in range(m):", "    a[j, 1] = b[j]")
    error = refused(func(*lines), "i", "j")
    assert error.suggestion == 'tail="guard", or assume(n == m)'
    fuse_loops(func("assume(n == m)", *lines), "i", "j")


def test_kinds_are_alike_and_their_promises_are_asked_again() -> None:
    apart = func("for i in parallel(8):", "    b[i] = 1.0", "for j in parallel(8):", "    a[j, 1] = b[j]")
    fuse_loops(apart, "i", "j")
    crossing = func("for i in parallel(8):", "    b[i] = 1.0", "for j in parallel(7):", "    a[j, 1] = b[j] + b[j + 1]")
    with pytest.raises(ScheduleError, match="iterations of 'i' are not independent"):
        fuse_loops(crossing, "i", "j", shift=1)
    mixed = func("for i in parallel(8):", "    b[i] = 1.0", "for j in range(8):", "    a[j, 1] = b[j]")
    with pytest.raises(ScheduleError, match="'i' is parallel and 'j' is serial"):
        fuse_loops(mixed, "i", "j")


def test_nests_have_to_be_neighbours_and_deep_enough() -> None:
    f = func("for i in range(n):", "    b[i] = 1.0", "for j in range(n):", "    a[j, 1] = 1.0", "for k in range(n):",
             "    a[k, 2] = 1.0")  # fmt: skip
    with pytest.raises(ScheduleError, match=r"it comes after a\n.*'i' is followed by 'j'"):
        fuse_loops(f, "i", "k")
    with pytest.raises(ScheduleError, match="'i' does not hold just one loop, so the nest is 1 deep and not 2"):
        fuse_loops(f, "i", "j", shift=(0, 0))


@settings(max_examples=15, deadline=None)
@given(pairs())
def test_merging_in_a_row_is_exact(given: tuple[Func, tuple[int, ...]]) -> None:
    """Also where no reduction starts, of which the order is not asked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("loopir.schedule.primitives.loops.merge._starts_with", lambda _: True)
        refused = assert_exact("merge", given[0], "i", "x", side_by_side=True)
    if refused is None:
        merge(given[0], "i", "x", side_by_side=True)
    else:
        with pytest.raises(ScheduleError, match=re.escape(str(refused))):
            merge(given[0], "i", "x", side_by_side=True)


def test_three_nests_are_merged_as_deep_as_they_go() -> None:
    one = "for {0} in range(n):", "    for {1} in range(4):", "        a[{0}, 3 * {1} + {2}] = b[{0}]"
    f = func(*(x.format(v, w, d) for v, w, d in (("i", "j", 0), ("k", "h", 1), ("x", "y", 2)) for x in one))
    after = merge(f, "i", "k", "x")
    assert [x.var for x in loops(after.body)] == ["i", "j"]
    flat = merge(func(*("for i in range(n):", "    b[i] = 1.0"), *(x.format("k", "h", 0) for x in one)), "i", "k")
    assert [x.var for x in loops(flat.body)] == ["i", "h"]


@pytest.mark.parametrize("step", [fuse_loops, merge])
def test_a_reduction_starts_outside_of_what_it_is_over(step: Callable[..., Func]) -> None:
    f = func("for z in range(4):", "    for i in range(z):", "        a[i, z] = 1.0", "    for j in range(3):",
             "        b[j] = sum(a[j, 7 - z], over=z, init=0.0)")  # fmt: skip
    with pytest.raises(ScheduleError, match="b starts before z, on which the iterations of 'j' would depend"):
        step(f, "i", "j", **({"tail": "guard"} if step is fuse_loops else {"side_by_side": True}))


@pytest.mark.parametrize("step", [fuse_loops, merge])
def test_a_reduction_starts_though_its_guard_never_holds(step: Callable[..., Func]) -> None:
    """The guard speaks of z, over which it folds, so the first values are stored all the same."""
    f = func("for z in range(2):", "    for i in range(n):", "        a[i, z] = 1.0", "    for j in range(n):",
             "        if z < z:", "            b[j] = sum(a[j, 7 - z], over=z, init=5.0)")  # fmt: skip
    after = step(f, "i", "j")
    for n in (0, 1, 4):
        assert_same(f, after, {"n": n, "m": 0})


def test_folds_of_two_nests_by_one_monoid_take_turns() -> None:
    f = func("for i in range(n):", "    b[0] += a[i, 0]", "for j in range(n):", "    b[j // 2] += a[j, 1]")
    after = fuse_loops(f, "i", "j")
    for n in (0, 1, 3, 4):
        assert_same(f, after, {"n": n, "m": 0})
    two = func("for i in range(n):", "    b[0] += a[i, 0]", "for j in range(n):", "    b[j // 2] *= a[j, 1]")
    assert "b at (i=1) writes b[0], which b_1 at (j=0) reads later" in str(refused(two, "i", "j"))


def test_nests_in_a_row_keep_their_order_whatever_analysis_sees() -> None:
    f = parse("""
def f(n: "size", a: "float32[n, n]", b: "inout float32[n, n]", c: "inout float32[n, n]"):
    for i in range(n * n):
        b[i // n, i % n] = a[i // n, i % n] * 2.0
    for x in range(n):
        for y in range(n):
            c[y, x] = b[y, x] + 1.0
""")
    for n in range(4):
        assert_same(f, merge(f, "i", "x", side_by_side=True), {"n": n})


def test_memory_after_the_second_nest_is_not_before_it() -> None:
    f = parse("""
def f(n: "size", A: "float32[n]", B: "out float32[n]", X: "inout float32[n]"):
    for i in range(n):
        X[i] = X[i] * 3.0
    with alloc("float32[n]") as T:
        for k in range(n):
            T[k] = X[k] * 2.0
        for j in range(n):
            B[j] = T[j] + X[n - 1 - j]
""")
    for shift in (0, 1, -1):
        with pytest.raises(ScheduleError, match="'i' is not the loop right after 'j'"):
            fuse_loops(f, "j", "i", shift=shift, tail="guard")
