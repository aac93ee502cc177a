"""Legality against brute force, both ways, on random nests: what is accepted computes the same, and the witness of what
is refused is the first pair that really breaks, at the smallest sizes at which one does."""

from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from random_nests import HEAD, assert_equal, assert_least, assert_none, bands, breaks, meet, trees

import loopir.intrinsics  # noqa: F401
from loopir.analysis.dependence.depend import carries_dependence, dependences
from loopir.errors import ScheduleError, Witness
from loopir.ir.grammar import Func, Loop
from loopir.ir.parser.parse import parse
from loopir.ir.printer import text
from loopir.ir.traverse.walk import loops, replace_loop
from loopir.schedule.primitives.gpu.bind import bind
from loopir.schedule.primitives.loops.parallel import parallel
from loopir.schedule.primitives.loops.reorder import reorder
from loopir.schedule.primitives.loops.vectorize import vectorize
from loopir.testing.oracles.access_trace import Event, Run, crossing, violated


@settings(max_examples=40, deadline=None)
@given(trees())
def test_a_loop_carries_a_dependence_where_there_is_one(source: str) -> None:
    func = parse(source)
    for loop in loops(func.body):
        assert carries_dependence(func, loop.var) == bool(dependences(func, loop.var))


@settings(max_examples=40, deadline=None)
@given(bands())
def test_reorder_is_exact(given: tuple[str, str, tuple[str, ...]]) -> None:
    func, after = map(parse, given[:2])
    try:
        assert reorder(func, *given[2]) == after
    except ScheduleError as error:
        assert_least(func, error.witness, breaks(func, after))
    else:
        assert_equal(func, after)
        assert_none(func, lambda sizes: filter(_counts, breaks(func, after)(sizes)))


def _counts(pair: tuple[Event, Event]) -> bool:
    """Whether the order of the two counts: that of what a statement writes again in the end, unread, does not."""
    one, other = pair
    return not (one.write and other.write and one.label == other.label)


@settings(max_examples=40, deadline=None)
@given(bands(exact=False))
def test_reorder_is_sound_for_what_it_does_not_see(given: tuple[str, str, tuple[str, ...]]) -> None:
    func = parse(given[0])
    with suppress(ScheduleError):
        assert_equal(func, reorder(func, *given[2]))


@settings(max_examples=40, deadline=None)
@given(trees())
def test_parallel_is_exact(source: str) -> None:
    func = parse(source)
    for loop in loops(func.body):
        try:
            parallel(func, loop.var)
        except ScheduleError as error:
            assert_least(func, error.witness, meet(func, loop.var))
        else:
            assert_none(func, meet(func, loop.var))


@settings(max_examples=40, deadline=None)
@given(trees(exact=False))
def test_parallel_is_sound_for_what_it_does_not_see(source: str) -> None:
    func = parse(source)
    for loop in loops(func.body):
        try:
            parallel(func, loop.var)
        except ScheduleError:
            continue
        assert_none(func, meet(func, loop.var))


def together(func: Func, loop: Loop) -> Func:
    return replace_loop(func, loop.var, lambda s: replace(s, kind="vectorize"))


def by_dependences(func: Func, loop: str) -> Func:
    """`vectorize`, but that values decide nothing: then other writes may be left in a cell; see test_same_values."""
    with patch.object(import_module(vectorize.__module__), "same_values", lambda *_: False):
        return vectorize(func, loop)


@settings(max_examples=40, deadline=None)
@given(trees())
def test_vectorize_is_exact(source: str) -> None:
    func = parse(source)
    for loop in loops(func.body):
        if text(loop.extent).isdigit():
            after = together(func, loop)
            try:
                assert by_dependences(func, loop.var) == after
            except ScheduleError as error:
                assert_least(func, error.witness, breaks(func, after, folds_commute=False))
            else:
                assert_equal(func, after)
                assert_none(func, breaks(func, after, folds_commute=False))


@settings(max_examples=40, deadline=None)
@given(trees(exact=False))
def test_vectorize_is_sound_for_what_it_does_not_see(source: str) -> None:
    func = parse(source)
    for loop in loops(func.body):
        try:
            after = by_dependences(func, loop.var)
        except ScheduleError:
            continue
        assert_equal(func, after)


@pytest.mark.parametrize("step", ["reorder", "parallel", "vectorize"])
def test_the_oracle_can_fail(step: str) -> None:
    """A carried dependence breaks in the executor, whichever way it is broken."""
    func = parse(
        HEAD + "\n    for i in range(3):\n        for j in range(4):\n            a[i + 1, j] = a[i, j + 1] + a[i, 0]"
    )
    i, j = loops(func.body)
    sizes = {"n": 0, "m": 0}
    if step == "parallel":
        assert list(crossing(Run(func, sizes).events, "i"))
        assert not list(crossing(Run(func, sizes).events, "j"))
    else:
        swapped = replace_loop(func, "i", lambda _: replace(j, body=(replace(i, body=j.body),)))
        after = swapped if step == "reorder" else together(func, i)
        one, other = Run(func, sizes), Run(after, sizes)
        assert list(violated(one.events, other.events))
        assert one.cells != other.cells


# ---------------------------------------------------------------- by example


def func(*lines: str) -> Func:
    return parse("\n".join([HEAD, *(f"    {line}" for line in lines)]))


TWO = ("for i in range(n):", "    for j in range(m):")


def test_an_interchange_that_reverses_a_dependence_is_refused_with_the_pair() -> None:
    sweep = func(*TWO, "        a[i + 1, j] = a[i, j + 1] * 2.0")
    with pytest.raises(ScheduleError, match=r"order j and i runs these two the other way round") as caught:
        reorder(sweep, "j", "i")
    assert caught.value.witness == Witness(
        "RAW", "a", (1, 1), "a", {"i": 0, "j": 1}, "a", {"i": 1, "j": 0}, {"n": 2, "m": 2}
    )
    diagonal = func(*TWO, "        a[i + 1, j + 1] = a[i, j] * 2.0")
    assert [x.var for x in loops(reorder(diagonal, "j", "i").body)] == ["j", "i"]


def test_an_interchange_that_brings_a_write_before_a_read_is_refused() -> None:
    with pytest.raises(ScheduleError, match=r"reads a\[1, 0\], which a at \(i=1, j=0\) writes later"):
        reorder(func(*TWO, "        a[i, j] = a[i + 1, j - 1] * 2.0"), "j", "i")


def test_a_prefix_sum_and_a_reduction_are_not_parallel_at_any_depth() -> None:
    scan = func(*TWO, "        a[i, j + 1] = a[i, j + 1] + a[i, j]")
    parallel(scan, "i")
    with pytest.raises(ScheduleError, match=r"a at \(i=0, j=0\) writes a\[0, 1\].*reads later \(at n=1, m=2\)"):
        parallel(scan, "j")
    total = func(*TWO, "        b[i] = sum(a[i, j], over=j, init=0.0)")
    parallel(total, "i")
    with pytest.raises(ScheduleError, match="a loop over which b does not fold into one element"):
        parallel(total, "j")


def test_lanes_as_far_apart_as_the_dependence_are_accepted() -> None:
    def shifted(lanes: int) -> Func:
        at = f"i * {lanes} + j"
        return func("for i in range(n):", f"    for j in range({lanes}):", f"        b[{at} + 4] = b[{at}] * 2.0")

    vectorize(shifted(4), "j")
    with pytest.raises(ScheduleError, match=r"at most 4 lanes: split\('j', 4\)") as caught:
        vectorize(shifted(8), "j")
    assert caught.value.witness is not None
    assert (caught.value.witness.first, caught.value.witness.second) == ({"i": 0, "j": 0}, {"i": 0, "j": 4})


def test_lanes_read_before_any_writes_and_write_apart() -> None:
    vectorize(func("for i in range(4):", "    b[i] = b[i + 1] * 2.0"), "i")
    with pytest.raises(ScheduleError, match=r"writes b\[0\]"):
        vectorize(func("for i in range(4):", "    b[i // 2] = a[i, 0]"), "i")
    late = func("for i in range(4):", "    b[i] = a[i + 1, 0]", "    a[i, 0] = 1.0", "    a[i + 5, 1] = a[i - 1, 0]")
    vectorize(late, "i")
    early = func("for i in range(4):", "    b[i] = a[i - 1, 0]", "    a[i, 0] = 1.0")
    with pytest.raises(ScheduleError, match=r"a at \(i=0\) writes a\[0, 0\], which b at \(i=1\) reads later"):
        vectorize(early, "i")
    vectorize(func("for i in range(4):", "    b[0] = sum(a[i, 0], over=i)"), "i")
    with pytest.raises(ScheduleError, match="lanes of 'i'"):
        vectorize(func("for i in range(4):", "    b[0] = sum(a[i, 0] * b[0], over=i)"), "i")


def test_loops_inside_lanes_are_reordered_only_if_the_lanes_allow_it() -> None:
    """Legal one after the other, as lanes are in order; not at once, where the inner loops' order decides."""
    lanes = func("for v in vectorize(2):", "    for k in range(2):", "        for h in range(2):",
                 "            b[4 * v + 2 * k + h + 5] = b[4 * v + 2 * k + h] * 2.0")  # fmt: skip
    with pytest.raises(ScheduleError, match=r"lanes of 'v' would run together\n.*b at \(v=0, h=1, k=0\) writes b\[6\]"):
        reorder(lanes, "h", "k")


def test_a_bound_that_the_nest_changes_keeps_its_loop_inside() -> None:
    nested = func(
        "for k in range(2):", "    for h in range(ix[0]):", "        if k == 0 and h == 0:", "            ix[0] = 1",
        "        b[h] = b[h] * 3.0",
    )  # fmt: skip
    with pytest.raises(ScheduleError, match="how often 'h' runs is read from ix"):
        reorder(nested, "h", "k")


def test_memory_of_an_iteration_carries_nothing_over() -> None:
    own = func("for i in range(n):", '    with alloc("float32[8]") as t:', "        for j in range(8):",
               "            t[j] = a[i, j]", "        b[i] = t[0] + t[7]")  # fmt: skip
    parallel(own, "i")
    shared = func("for i in range(n):", "    for j in range(8):", "        b[j] = a[i, j]", "    a[i, 0] = b[0] + b[7]")
    with pytest.raises(ScheduleError, match="iterations of 'i' are not independent"):
        parallel(shared, "i")


def test_a_refusal_says_where_analysis_does_not_see() -> None:
    with pytest.raises(ScheduleError, match="b is indexed from memory, which analysis takes to touch every element"):
        parallel(func("for i in range(n):", "    b[ix[i]] = 1.0"), "i")
    with pytest.raises(ScheduleError, match="whether b runs is read from memory, and analysis takes it to run"):
        parallel(func("for i in range(n):", "    if flag[i]:", "        b[0] = 1.0"), "i")
    with pytest.raises(ScheduleError, match=r"analysis takes m \* i for any number, as it is not affine"):
        parallel(func(*TWO, "        b[m * i + j] = 1.0"), "i")


def test_a_product_of_sizes_is_no_excuse_where_the_pair_is_real() -> None:
    with pytest.raises(ScheduleError, match=r"b at \(i=0\) writes b\[0\], which b at \(i=1\) writes later") as caught:
        parallel(func("for i in range(n):", "    b[m * i] = 1.0"), "i")
    assert caught.value.witness is not None
    assert caught.value.witness.sizes == {"n": 2, "m": 0}
    assert "affine" not in str(caught.value)


def test_fused_loops_stay_affine() -> None:
    """Where a fused loop is divided by a size, its iterations are still known to be apart."""
    fused = func("for x in range(n * m):", "    a[x // m, x % m] = a[x // m, x % m] * 2.0")
    parallel(fused, "x")
    with pytest.raises(ScheduleError, match=r"a at \(x=0\) writes a\[0, 0\], which a at \(x=1\) writes later"):
        parallel(func("for x in range(n * m):", "    a[x // m, 0] = 1.0"), "x")


def test_lanes_hold_serial_loops_only() -> None:
    nested = func("for v in vectorize(4):", "    for k in range(4):", "        a[v, k] = 1.0")
    with pytest.raises(ScheduleError, match="'k' stands in the lanes of 'v'"):
        parallel(nested, "k")
    with pytest.raises(ScheduleError, match="'k' stands in the lanes of 'v'"):
        bind(nested, "k", "threadIdx.x")


def test_two_reductions_start_one_after_the_other() -> None:
    """The second one's stores of init all follow the first one's, in a nest of their own."""
    both = func("for o in range(2):", "    for k in range(2):", "        for i in range(2):",
                "            b[o + i] = sum(a[k, i], over=k, init=0.0)",
                "        for j in range(2):",
                "            a[4 + o + j, 0] = sum(a[k, j], over=k, init=b[2 - o])")  # fmt: skip
    for order in (("o", "k"), ("k", "o")):
        try:
            after = reorder(both, *order)
        except ScheduleError:
            continue
        assert_equal(both, after)


def test_a_grid_is_known_at_launch_and_fits() -> None:
    ragged = func("for i in range(ix[0]):", "    b[i] = 1.0")
    for axis in ("blockIdx.x", "threadIdx.x"):
        with pytest.raises(ScheduleError, match=r"'i' runs ix\[0\] times, which is read from memory"):
            bind(ragged, "i", axis)
    many = func("for i in range(64):", "    for j in range(32):", "        a[i, j] = 1.0")
    many = bind(many, "j", "threadIdx.x")
    with pytest.raises(ScheduleError, match="a block would have 2048 threads"):
        bind(many, "i", "threadIdx.y")
    with pytest.raises(ScheduleError, match=r"threadIdx.x is taken by 'j'(.|\n)*a free axis: blockIdx.x, "):
        bind(many, "i", "threadIdx.x")
    wide = func("for k in range(70000):", "    b[k] = 1.0")
    with pytest.raises(ScheduleError, match=r"70000 indices of blockIdx\.y, and there are 65535"):
        bind(wide, "k", "blockIdx.y")
    assert [x.kind for x in loops(bind(wide, "k", "blockIdx.x").body)] == ["blockIdx.x"]
