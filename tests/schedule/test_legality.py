"""Legality against brute force, both ways, on random nests: what is accepted computes the same, and the witness of what
is refused is the first pair that really breaks, at the smallest sizes at which one does."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings, strategies as st

import loopir.intrinsics  # noqa: F401
from loopir.errors import ScheduleError, VerifyError, Witness
from loopir.ir.grammar import Func, Loop
from loopir.ir.inits import explicit_init
from loopir.ir.parse import parse
from loopir.ir.text import text
from loopir.ir.walk import loops, replace_loop
from loopir.schedule.primitives.bind import bind
from loopir.schedule.primitives.parallel import parallel
from loopir.schedule.primitives.reorder import reorder
from loopir.schedule.primitives.vectorize import vectorize
from loopir.testing.instances import Event, Run, crossing, violated

GRID = tuple({"n": n, "m": m} for n, m in product((0, 1, 2, 3, 4), (0, 1, 3)))
Pairs = Iterable[tuple[Event, Event]]
Ask = Callable[[dict[str, int]], Pairs]
"""The pairs that a step breaks at these sizes."""


# ---------------------------------------------------------------- random nests

AFFINE = (
    "{v}", "{w}", "{v} + 1", "{v} + 2", "{w} + 1", "n - 1 - {v}", "3 - {w}", "{v} + {w}", "{v} - {w}", "2 * {v}",
    "2 * {w} + 1", "{v} // 2", "({v} + {w}) % 3", "1", "m", "min({v}, 1)", "max({v}, {w})",
)  # fmt: skip
UNSEEN = ("ix[{v}]", "ix[{w}] + {v}", "{v} * n", "{v} % (n + 1)")
GUARDS = ("{v} < {w}", "{v} + {w} < n", "{v} != 1", "{w} == 1 or {v} == 0", "m < n and {v} % 2 == 0")
HIDDEN_GUARDS = ("flag[{v}]", "not flag[{w}] or {v} < 2", "b[{v}] < 1.0 and {w} < 2")
EXTENTS = ("n", "m", "3", "4", "n - 1", "min(n, m)", "max(n - 1, m)")
HIDDEN = ("ix[0]", "ix[2]")


@st.composite
def indices(draw: st.DrawFn, names: tuple[str, ...], forms: tuple[str, ...]) -> str:
    return draw(st.sampled_from(forms)).format(v=draw(st.sampled_from(names)), w=draw(st.sampled_from(names)))


@st.composite
def statements(draw: st.DrawFn, names: tuple[str, ...], label: str, exact: bool) -> list[str]:
    forms = AFFINE if exact else AFFINE + UNSEEN
    guards = GUARDS if exact else GUARDS + HIDDEN_GUARDS

    def element() -> str:
        dims = draw(st.sampled_from(("a", "b")))
        at = [draw(indices(names, forms)) for _ in range(2 if dims == "a" else 1)]
        return f"{dims}[{', '.join(at)}]"

    if draw(st.integers(0, 3)) == 0:
        over = draw(st.sampled_from(names))
        free = tuple(v for v in names if v != over) or ("n",)
        init = ", init=0.0" if draw(st.booleans()) else ""
        line = f'b[{draw(indices(free, AFFINE[:9]))}] = sum({element()} * 2.0, over={over}{init}, label="{label}")'
    else:
        reads = [element() for _ in range(draw(st.integers(1, 2)))]
        value = " + ".join(reads)
        if draw(st.integers(0, 4)) == 0:
            value = f"({value}) if {draw(indices(names, guards))} else 0.0"
        line = f'{element()}: "{label}" = {value}'
        if not exact and draw(st.integers(0, 4)) == 0:
            line = f'ix[{draw(indices(names, AFFINE))}]: "{label}" = int32({draw(st.sampled_from(names))})'
    if draw(st.integers(0, 3)) == 0:
        return [f"if {draw(indices(names, guards))}:", f"    {line}"]
    return [line]


HEAD = (
    'def f(n: "size", m: "size", a: "inout float32[8, 8]", b: "inout float32[8]", ix: "inout int32[8]", '
    'flag: "bool[8]"):'
)


def nest(band: tuple[tuple[str, str], ...], body: list[str]) -> str:
    lines = [f"    {'    ' * d}for {v} in range({extent}):" for d, (v, extent) in enumerate(band)]
    return "\n".join([HEAD, *lines, *(f"    {'    ' * len(band)}{line}" for line in body)])


@st.composite
def bands(draw: st.DrawFn, exact: bool = True) -> tuple[str, str, tuple[str, ...]]:
    """A perfect nest, the same with its loops in another order, and that order."""
    names = ("i", "j", "k")[: draw(st.integers(2, 3))]
    band = tuple((v, draw(st.sampled_from(EXTENTS if exact else EXTENTS + HIDDEN))) for v in names)
    body = [x for n in range(draw(st.integers(1, 2))) for x in draw(statements(names, f"s{n}", exact))]
    order = draw(st.permutations(band).filter(lambda x: tuple(x) != band))
    return nest(band, body), nest(tuple(order), body), tuple(v for v, _ in order)


@st.composite
def trees(draw: st.DrawFn, exact: bool = True) -> str:
    """Nests with statements and loops side by side, perhaps around memory of their own."""
    taken = iter("jklxyz")
    labels = iter(f"s{n}" for n in range(20))

    def body(names: tuple[str, ...], depth: int) -> list[str]:
        out: list[str] = []
        for _ in range(draw(st.integers(1, 2))):
            if depth and draw(st.booleans()):
                v = next(taken)
                extent = draw(st.sampled_from((*EXTENTS, f"{names[-1]} + 1", "2", *(() if exact else HIDDEN))))
                out += [f"for {v} in range({extent}):", *(f"    {x}" for x in body((*names, v), depth - 1))]
            else:
                out += draw(statements(names, next(labels), exact))
        return out

    inner = body(("i",), 2)
    outer = (("i", draw(st.sampled_from(EXTENTS))),)
    own = ['with alloc("float32[8]") as t:', *(f"    {x}".replace("b[", "t[") for x in inner)]
    for source in (nest(outer, own), nest(outer, inner)) if draw(st.booleans()) else (nest(outer, inner),):
        with suppress(VerifyError):  # a reduction cannot start outside of its memory, or of loops that bound others
            explicit_init(parse(source))
            return source
    return nest(outer, inner).replace(", init=0.0", "")


# ---------------------------------------------------------------- the two ways


def key(pair: tuple[Event, Event]) -> tuple[list[int], list[int]]:
    first, second = pair
    return [v for _, v in first.env], [v for _, v in second.env]


def named(witness: Witness) -> tuple[object, ...]:
    return (witness.first_statement, witness.first, witness.second_statement, witness.second, witness.element)


def called(e: Event) -> str:
    return f"{e.label} (its init)" if e.init else e.label


def assert_least(func: Func, witness: Witness | None, broken: Ask) -> None:
    """`witness` is the first of the broken pairs at its sizes, and at smaller sizes there are none."""
    assert witness is not None
    about = f"{witness}\n{text(func)}"
    pairs = list(broken(witness.sizes))
    assert named(witness) in [(called(e), e.at(), called(f), f.at(), e.cell) for e, f in pairs], about
    assert (list(witness.first.values()), list(witness.second.values())) == min(map(key, pairs)), about
    for sizes in GRID:
        assert list(sizes.values()) >= list(witness.sizes.values()) or not list(broken(sizes)), f"{sizes}: {about}"


def breaks(func: Func, after: Func, *, folds_commute: bool = True) -> Ask:
    return lambda sizes: violated(Run(func, sizes).events, Run(after, sizes).events, folds_commute=folds_commute)


def meet(func: Func, loop: str) -> Ask:
    return lambda sizes: crossing(Run(func, sizes).events, loop)


def assert_equal(func: Func, after: Func) -> None:
    for sizes in GRID:
        one, other = Run(func, sizes), Run(after, sizes)
        assert one.cells == other.cells, f"at {sizes}:\n{text(func)}\nbecame\n{text(after)}"


def assert_none(func: Func, broken: Ask) -> None:
    for sizes in GRID:
        assert not list(broken(sizes)), f"at {sizes}:\n{text(func)}"


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
        assert_none(func, breaks(func, after))


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


@settings(max_examples=40, deadline=None)
@given(trees())
def test_vectorize_is_exact(source: str) -> None:
    func = parse(source)
    for loop in loops(func.body):
        if text(loop.extent).isdigit():
            after = together(func, loop)
            try:
                assert vectorize(func, loop.var) == after
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
            after = vectorize(func, loop.var)
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
    with pytest.raises(ScheduleError, match="lanes of 'i'"):
        vectorize(func("for i in range(4):", "    b[0] = sum(a[i, 0], over=i)"), "i")


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
