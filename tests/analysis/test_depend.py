"""Questions on dependences, by example; `tests/schedule/test_legality.py` tries them against brute force."""

from dataclasses import replace

import pytest

import loopir.intrinsics  # noqa: F401
from loopir.analysis.dependence.access import statements_of
from loopir.analysis.dependence.depend import concurrent_conflict, lockstep, loop_carried
from loopir.analysis.dependence.reordering import Origin, violated_dependence
from loopir.analysis.presburger.constraints import product_bound
from loopir.analysis.presburger.infeasible import Reduced, is_infeasible
from loopir.errors import Witness
from loopir.ir.grammar import Func, Int, Loop, Var
from loopir.ir.parser.parse import parse
from loopir.ir.traverse.walk import leaf_paths_of, replace_loop

HEAD = 'def f(n: "size", m: "size", a: "inout float32[8, 8]", b: "inout float32[8]", ix: "inout int32[8]"):'


def func(*lines: str) -> Func:
    return parse("\n".join([HEAD, *(f"    {line}" for line in lines)]))


def swapped(f: Func, outer: str, inner: str) -> Func:
    def swap(loop: Loop) -> Loop:
        (other,) = loop.body
        assert isinstance(other, Loop)
        assert other.var == inner
        return replace(other, body=(replace(loop, body=other.body),))

    return replace_loop(f, outer, swap)


def test_the_witness_is_the_least_of_all_pairs_of_statements() -> None:
    """The later statements clash at smaller sizes than the first two."""
    f = func("for i in range(n):", "    b[i + 3] = b[i]", "    a[i, 0] = a[i + 1, 0]")
    clash = loop_carried(f, "i")
    assert clash is not None
    assert clash.witness == Witness("WAR", "a", (1, 0), "a", {"i": 0}, "a", {"i": 1}, {"n": 2, "m": 0})


@pytest.mark.parametrize("assumed", [0, 5, 9])
def test_sizes_are_as_assumed(assumed: int) -> None:
    f = func(f"assume(n >= {assumed})", "assume(n % 3 == 0)", "for i in range(n):", "    b[0] = 1.0")
    clash = loop_carried(f, "i")
    assert clash is not None
    assert clash.witness.sizes["n"] == max(3, -(-assumed // 3) * 3)


def test_a_loop_that_runs_once_at_most_carries_nothing() -> None:
    assert loop_carried(func("assume(n <= 1)", "for i in range(n):", "    b[0] = 1.0"), "i") is None
    assert loop_carried(func("for i in range(min(n, 1)):", "    b[0] = 1.0"), "i") is None
    assert loop_carried(func("for i in range(max(n, 2)):", "    b[0] = 1.0"), "i") is not None


def test_guards_and_arms_count() -> None:
    assert loop_carried(func("for i in range(n):", "    if i == 3:", "        b[0] = 1.0"), "i") is None
    assert loop_carried(func("for i in range(4):", "    b[i] = b[i + 4] if i < 4 else b[0]"), "i") is None
    assert loop_carried(func("for i in range(4):", "    b[i] = b[i + 3] if i >= 1 else b[7]"), "i") is None
    assert loop_carried(func("for i in range(4):", "    b[i] = b[i + 3] if i < 1 else b[7]"), "i") is not None


def test_distances_that_do_not_divide_never_meet() -> None:
    assert loop_carried(func("for i in range(n):", "    b[2 * i] = b[2 * i + 1]"), "i") is None
    assert loop_carried(func("for i in range(n):", "    b[i % 3] = 1.0"), "i") is not None
    assert loop_carried(func("for i in range(n):", "    a[i // 4, i % 4] = 1.0"), "i") is None


def test_folds_commute_with_one_another_and_with_nothing_else() -> None:
    f = func("for i in range(n):", "    for k in range(m):", "        b[0] = sum(a[i, k], over=(i, k))")
    assert violated_dependence(f, swapped(f, "i", "k")) is None
    read = func("for i in range(n):", "    for k in range(m):", "        b[i] = sum(b[k], over=k)")
    clash = violated_dependence(read, swapped(read, "i", "k"))
    assert clash is not None
    assert not clash.fold
    started = func("for i in range(n):", "    for k in range(m):", "        b[0] = sum(a[i, k], over=k, init=0.0)")
    clash = violated_dependence(started, swapped(started, "i", "k"))
    assert clash is not None
    assert "b (its init)" in (clash.witness.first_statement, clash.witness.second_statement)


@pytest.mark.parametrize(
    ("one", "other", "free"),
    [
        ("b[0] = sum(a[i, 0], over=i)", "b[0] = sum(a[j, 1], over=j)", True),
        ("b[1] += a[i, 0]", "b[n - 1 - j] += a[j, 1]", True),
        ("b[0] = sum(a[i, 0], over=i)", "b[0] = max(a[j, 1], over=j)", False),
        ("b[0] = sum(a[i, 0], over=i)", "b[0] = b[0] + a[j, 1]", False),
        ("b[0] = sum(a[i, 0], over=i)", "b[0] = sum(b[0], over=j)", False),
        ("b[0] = sum(a[i, 0], over=i)", "b[0] = sum(a[j, 1], over=j, init=0.0)", False),
    ],
)
def test_folds_of_two_statements_by_one_monoid_commute(one: str, other: str, free: bool) -> None:
    before = func("for i in range(n):", f"    {one}", "for j in range(n):", f"    {other}")
    after = func("for j in range(n):", f"    {other}", "for i in range(n):", f"    {one}")
    labels = [p.stmt.label for p in leaf_paths_of(before)]
    came = {new.stmt.label: Origin(old) for new, old in zip(leaf_paths_of(after), reversed(labels), strict=True)}
    assert (violated_dependence(before, after, came) is None) == free


def test_folds_of_two_into_other_pairs_do_not_commute() -> None:
    """Each fold is of a pair; two that share one half of it, and not the other, keep their order."""
    lines = "    for {v} in range(n):\n        {at} = argmax(a[{v}, 0], int64({v}), over={v})\n"
    head = 'def f(n: "size", a: "float32[n, 8]", m: "inout float32[1]", p: "inout int64[1]", q: "inout int64[1]"):\n'
    for at, free in (("m[0], p[0]", True), ("m[0], q[0]", False)):
        one, two = lines.format(v="i", at="m[0], p[0]"), lines.format(v="j", at=at)
        before, after = parse(head + one + two), parse(head + two + one)
        labels = [p.stmt.label for p in leaf_paths_of(before)]
        came = {new.stmt.label: Origin(old) for new, old in zip(leaf_paths_of(after), reversed(labels), strict=True)}
        assert (violated_dependence(before, after, came) is None) == free


def test_two_reductions_that_threads_fold_are_not_one() -> None:
    f = func("for i in range(4):", "    b[0] = sum(a[i, 0], over=i)", "    b[0] = sum(a[i, 1], over=i)")
    assert loop_carried(f, "i", together=True) is not None


def test_a_fold_that_reads_its_own_element_otherwise_does_not_commute() -> None:
    f = func("for i in range(n):", "    for k in range(m):", "        b[0] = sum(b[0] * a[i, k], over=(i, k))")
    assert violated_dependence(f, swapped(f, "i", "k")) is not None


def test_a_clash_of_folds_says_so() -> None:
    clash = loop_carried(func("for k in range(n):", "    b[0] = sum(a[0, k], over=k)"), "k")
    assert clash is not None
    assert clash.fold
    assert (clash.first, clash.second) == ("b", "b")


def test_lanes_in_step() -> None:
    assert lockstep(func("for i in range(4):", "    b[i] = b[i + 1]"), "i") is None
    assert lockstep(func("for i in range(4):", "    b[i + 1] = b[i]"), "i") is not None
    assert lockstep(func("for i in range(4):", "    b[i + 4] = b[i]"), "i") is None
    assert lockstep(func("for i in range(4):", "    a[i, 0] = b[i]", "    b[i + 1] = 1.0"), "i") is not None
    assert lockstep(func("for i in range(4):", "    b[i + 1] = 1.0", "    a[i, 0] = b[i]"), "i") is None


def test_instances_apart_need_no_order() -> None:
    f = func("for i in range(n):", "    for j in range(4):", "        a[i, j] = b[j]", "    for k in range(4):",
             "        b[k] = a[i, 3 - k]")  # fmt: skip
    one, two = statements_of(f)
    assert concurrent_conflict(f, one, two, same=(), differ="i") is not None
    assert concurrent_conflict(f, one, one, same=("i",), differ="j") is None
    assert concurrent_conflict(f, one, one, same=(), differ="i") is None


def test_an_unseen_index_is_said() -> None:
    clash = loop_carried(func("for i in range(n):", "    b[ix[i]] = 1.0"), "i")
    assert clash is not None
    assert clash.inexact == "b is indexed from memory, which analysis takes to touch every element"
    assert clash.witness.element is None


def test_products_of_sizes_are_tried_at_small_ones() -> None:
    real = loop_carried(func("for i in range(n):", "    b[i * m] = 1.0"), "i")
    assert real is not None
    assert real.inexact is None
    assert real.witness.sizes == {"n": 2, "m": 0}
    apart_always = loop_carried(func("assume(m >= 1)", "for i in range(n):", "    b[i * m] = 1.0"), "i")
    assert apart_always is not None
    assert apart_always.inexact is not None
    assert "i * m" in apart_always.inexact


def test_fused_loops_are_apart_and_in_bounds() -> None:
    assert loop_carried(func("for x in range(n * m):", "    a[x // m, x % m] = 1.0"), "x") is None
    assert loop_carried(func("for x in range(n * m):", "    if x // m >= n:", "        b[0] = 1.0"), "x") is None
    n, m = Var("n"), Var("m")
    assert product_bound(n * m, m) == (n, 1)
    assert product_bound(n * m + 1, m) is None
    assert product_bound(n * m + n + m * 2 + 2, m + 1) == (n + 2, 1)
    assert product_bound(n * m + n + m * 2 + 3, m + 1) is None
    assert product_bound(n * m + n * 3, m * 2 + 6) == (n, 2)
    assert product_bound(n * 6, Int(4)) == (n * 6, 4)


def test_tiles_are_apart_without_the_solver() -> None:
    """64 * o + i is another element for another o, as i stays below 64."""
    element = ({"s.o": 64, "s.i": 1, "t.o": -64, "t.i": -1}, True)
    inside = [({f"{p}.i": 1}, False) for p in "st"] + [({f"{p}.i": -1, "": 63}, False) for p in "st"]
    assert is_infeasible(Reduced([element, *inside]), [({"t.o": 1, "s.o": -1, "": -1}, False)])
    assert is_infeasible(Reduced([element, *inside]), [({"t.i": 1, "s.i": -1, "": -1}, False)])
    assert not is_infeasible(Reduced([element, *inside[1:]]), [({"t.i": 1, "s.i": -1, "": -1}, False)])


def test_places_of_lanes_are_apart_without_the_solver() -> None:
    """Row lane // 8 and column lane % 8 are other ones for another lane."""
    inside = [({f"{p}.lane": sign, "": end}, False) for p in "st" for sign, end in ((1, 0), (-1, 31))]
    divided = [({f"{p}.lane": 1}, 8, f"_{p}") for p in "st"]
    rows = ({"_s": 1, "_t": -1}, True)
    columns = ({"s.lane": 1, "_s": -8, "t.lane": -1, "_t": 8}, True)
    another = ({"t.lane": 1, "s.lane": -1, "": -1}, False)
    assert is_infeasible(Reduced([*inside, rows, columns], divided), [another])
    assert not is_infeasible(Reduced([*inside, columns], divided), [another])
    assert not is_infeasible(Reduced([*inside, rows], divided), [another])


def test_different_positions_divided_by_one_size_stay_apart() -> None:
    """Whole vectors and a guarded rest write row-major elements: each position is one element, whoever writes it."""
    f = parse("""
def f(m: "size", n: "size", B: "out float32[m, n]"):
    for i in range((m * n + 3) // 4):
        if i * 4 + 3 < m * n:
            for v in range(4):
                B[(i * 4 + v) // n, (i * 4 + v) % n] = 1.0
        else:
            for w in range(4):
                if i * 4 + w < m * n:
                    B[(i * 4 + w) // n, (i * 4 + w) % n] = 2.0
""")
    assert loop_carried(f, "i") is None
    g = parse("""
def f(m: "size", n: "size", B: "out float32[m, n]"):
    for i in range((m * n + 3) // 4):
        for v in range(4):
            if i * 4 + v < m * n:
                B[(i * 4 + v) // n, (i * 4 + v) % n] = 1.0
        for w in range(5):
            if i * 4 + w < m * n:
                B[(i * 4 + w) // n, (i * 4 + w) % n] = 2.0
""")
    clash = loop_carried(g, "i")
    assert clash is not None
    assert clash.inexact is None
