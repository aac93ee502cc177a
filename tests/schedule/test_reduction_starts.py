"""A reduction starts whatever the guards say that speak of what it is over: steps keep each start, and their order."""

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import loopir as lp
from loopir.errors import ScheduleError
from loopir.ir.grammar import And, Cmp, Func, Int, Var, conj, conjuncts
from loopir.ir.parser.parse import parse
from loopir.ir.printer import text
from loopir.ir.traverse.walk import loops
from loopir.schedule.core.trace import Step
from loopir.testing.generate.candidate_steps import candidate_steps
from loopir.testing.generate.guarded import guarded
from loopir.testing.oracles.brute_force import first_violation, small_sizes

STEPS = (
    "partition", "peel", "split", "specialize", "simplify", "fuse", "skew", "tile", "unroll_and_jam", "cache_write",
    "cache_read", "hoist", "decompose_reduction", "rfactor", "distribute", "reorder",
)  # fmt: skip
HEAD = 'def f(A: "float32[16]", X: "inout float32[16]", Y: "inout float32[16]"):'
FOUND = {
    "a term that is decided speaks of a loop outside": """
    for i in range(4):
        for k in range(3):
            if not (i != 0 or k < 1):
                X[i] = sum(A[k], over=k, init=2.0)
""",
    "terms that no iteration meets": """
    for i in range(4):
        for k in range(3):
            if (i == 0 and k < 1) or (i == 0 and k > 1):
                X[i] = sum(A[k], over=k, init=2.0)
""",
    "terms stand together as they like": """
    for q in range(2):
        for k in range(4):
            for i in range(3):
                if (k < 1 and q + i < 2) and not k <= 2:
                    Y[q + i] = sum(A[q + k + i], over=k, init=2.0)
""",
    "the first part has nothing but the start": """
    for i in range(8):
        if 3 <= i:
            X[0] = sum(A[i], over=i, init=2.0)
        for k in range(2):
            Y[i] = sum(A[k], over=k, init=1.0)
""",
    "nor has the interior": """
    for i in range(8):
        if i == 7:
            X[0] = sum(A[i], over=i, init=2.0)
        for k in range(2):
            Y[i] = sum(A[k], over=k, init=1.0)
""",
    "no iteration of an edge is without": """
    for k in range(3):
        for i in range(5):
            if not (3 <= i or k < 1):
                X[i] = sum(A[k], over=k, init=2.0)
""",
    "elements of several parts": """
    for k in range(2):
        for p in range(3):
            for i in range(4):
                if i < 3:
                    X[p + i] = sum(A[k], over=k, init=A[p])
""",
    "elements of two reductions": """
    for k in range(2):
        for q in range(3):
            for i in range(4):
                if q <= q or not k + i < 2:
                    X[0] = sum(A[k + q + i], over=(k, q, i), init=2.0, label="s")
                else:
                    X[q + i] = sum(A[k + q + i], over=k, init=A[q + i], label="t")
""",
    "one iteration, of which the guard speaks": """
    for q in range(3):
        for i in range(1):
            if i != 0:
                X[0] = sum(A[q + i], over=(q, i), init=A[1])
""",
    "a start before that of another": """
    for k in range(1):
        for i in range(2):
            if i != 0:
                Y[0] = sum(A[k + i], over=(k, i), init=2.0, label="s0")
            if not k <= 1:
                Y[0] = sum(A[k + i], over=(k, i), init=A[0], label="s1")
""",
    "a loop without iterations, in which nothing starts": """
    for i in range(4):
        for j in range(0):
            X[0] = sum(A[i], over=i, init=5.0)
""",
    "what is copied over, as no guard that speaks of the fold keeps it": """
    for q in range(3):
        for i in range(2):
            for k in range(3):
                if not (i != 0 or q <= 1):
                    X[q] = sum(A[q + i + k], over=(i, k), label="s0")
                else:
                    X[q + k]: "t0" = A[k]
""",
}
PARTS = ("partition", "peel", "split", "specialize", "fuse", "decompose_reduction", "rfactor", "cache_write")


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found(name: str) -> None:
    func = parse(f"{HEAD}{FOUND[name]}")
    taken = [check(func, step) for x in PARTS for step in candidate_steps(func, x)]
    assert any(taken)


SPARSE = parse(f"""{HEAD}
    for i in range(20):
        for k in range(4):
            if i + k < 1:
                X[i // 20] = sum(A[k], over=k)
                Y[i] = sum(A[k], over=k)
""")
"""Guards that speak of k keep folds inside the arrays, and to one iteration of i."""


def test_what_is_copied_or_folded_for_all_elements_is_inside_the_array() -> None:
    with pytest.raises(ScheduleError, match=r"would be copied .* Y at \(i=16\) touches Y\[16\]"):
        lp.Schedule(SPARSE).cache_write("Y", "local", at="i")


def test_what_is_copied_or_folded_for_all_elements_is_of_one_iteration_at_once() -> None:
    s = lp.Schedule(SPARSE).parallel("i")
    with pytest.raises(ScheduleError, match=r"X at \(i=0\) reads X\[0\], which X at \(i=1\)"):
        s.cache_write("X", "local", at="i")
    with pytest.raises(ScheduleError, match=r"X at \(i=0, k_o=0\) writes X\[0\], which X at \(i=1, k_o=0\)"):
        s.split("k", 2).rfactor("X", "k_o")


def check(func: Func, step: Step) -> bool:
    """Whether a step is taken, and then leaves what is computed as it was."""
    try:
        after = lp.Schedule(func).apply(step).func
    except ScheduleError:
        return False
    why = first_violation(func, after, small_sizes(func))
    assert why is None, f"{step}: {why}\n{text(func)}\n{text(after)}"
    return True


def test_terms_that_all_have_to_hold_are_told_whichever_stand_together() -> None:
    a, b, c = (Cmp("<", Var(v), Int(1)) for v in "abc")
    nested = And((And((a, b)), c))
    assert conjuncts(nested) == (a, b, c) == conjuncts(conj(nested))


@given(st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_random_folds_under_guards(data: st.DataObject) -> None:
    func = data.draw(guarded())
    for name in data.draw(st.permutations(STEPS))[:4]:
        if steps := candidate_steps(func, name):
            check(func, data.draw(st.sampled_from(steps)))


@pytest.mark.parametrize(
    "step", ['peel("k", last=1)', 'split("k", 2, tail="peel")', 'specialize("k", "q == 1")', 'skew("q", "k", 1)']
)
def test_what_threads_fold_together_stays_one_statement_and_one_element(step: str) -> None:
    func = parse(f"""{HEAD}
    for q in range(4):
        for k in range(3):
            X[(k + 1) // 2] = sum(A[q + k], over=q)
""")
    s = lp.Schedule(func)
    assert eval(f"s.{step}", {"s": s})
    with pytest.raises(ScheduleError, match="then iterations of 'q' are not independent: X"):
        eval(f"s.{step}", {"s": s.bind("q", "threadIdx.x")})


def test_a_start_that_a_guard_keeps_inside_needs_it_though_no_fold_does() -> None:
    func = parse(f"""{HEAD}
    for i in range(17):
        if i < 16:
            for k in range(16 - i):
                Y[i] = sum(A[k], over=k, init=1.0)
""")
    with pytest.raises(ScheduleError, match=r"Y writes Y\[i\], which is not known to be inside Y"):
        lp.Schedule(func).pad("Y")


def test_merge_reduction_keeps_the_order_of_two_starts() -> None:
    """The number stored before would come after what another reduction of the same loops starts with."""
    s = lp.Schedule(
        parse("""
def g(A: "float32[8]", S: "out float32[1]"):
    S[0]: "zero" = 0.0
    for i in range(3):
        for k in range(5):
            if i < 1:
                S[0] = sum(A[i * 5 + k], over=(i, k), init=1.0)
        S[0] = sum(A[i + 5], over=i, label="last")
""")
    )
    with pytest.raises(ScheduleError, match="the stores of last would come before those that S starts with"):
        s.merge_reduction("last")


def test_a_loop_shorter_than_a_tile_keeps_its_starts_in_order() -> None:
    """Two reductions start one element, in the order of the loop: all of it is the rest of the split."""
    func = parse(f"""{HEAD}
    for q in range(4):
        for k in range(4):
            if q < 2:
                X[k] = sum(A[q + k], over=q, init=2.0, label="one")
            else:
                X[k] = sum(A[q + k], over=q, init=A[k], label="other")
""")
    s = lp.Schedule(func)
    for factor, taken in ((3, False), (4, True), (5, True)):
        why = s.why("split", "k", factor, tail="peel")
        assert (why is None) == taken, why
        if taken:
            assert first_violation(func, s.split("k", factor, tail="peel").func, small_sizes(func)) is None


def test_what_a_guard_takes_out_of_a_rest_that_is_all_of_a_loop_starts_in_its_order() -> None:
    """No tile is full, so the rest is the whole loop, and Y is set to 2.0 after, not before, it is set to A."""
    func = parse(f"""{HEAD}
    for k in range(3):
        for q in range(2):
            if q < 2:
                Y[q] = sum(A[k + q], over=k, init=A[q], label="first")
            if q >= 2:
                Y[0] = sum(A[k + q], over=(k, q), init=2.0, label="second")
""")
    assert check(func, Step("split", ("q", 3), (("tail", "peel"),)))


@pytest.mark.parametrize(
    "step",
    [
        Step("peel", ("k",), (("first", 1),)),
        Step("split", ("k", 2), (("tail", "peel"),)),
        Step("unroll_and_jam", ("k", 2), (("tail", "peel"),)),
    ],
)
def test_starts_of_folds_over_the_loop_alone_stay_in_order(step: Step) -> None:
    """The first part starts both, one after the other, and the last part none."""
    source = f"""{HEAD}
    for q in range(2):
        for k in range(3):
            X[0] = sum(A[q + k], over=(q, k), init=A[0], label="one")
            if q <= k:
                X[0] = sum(A[q + k], over=OVER, init=2.0, label="other")
"""
    assert check(parse(source.replace("OVER", "(q, k)")), step) or step.name == "unroll_and_jam"
    check(parse(source.replace("X[0] = sum(A[q + k], over=OVER", "X[k] = sum(A[q + k], over=q")), step)


GUARD_READS = f"""{HEAD}
    for i in range(2):
        with alloc("float32[3]") as T:
            for y in range(3):
                T[y] = A[WHAT]
            for k in range(3):
                if T[k] < 2.0:
                    X[i] = max(A[k], over=k, init=0.0, label="top")
                else:
                    Y[k + i] = A[k]
"""


@pytest.mark.parametrize(
    ("what", "step"),
    [
        ("i", Step("compute_inline", ("T",))),
        ("y + i", Step("compute_at", ("T", "k"))),
        ("i", Step("compute_at", ("T", "k"))),
    ],
)
def test_a_guard_that_reads_what_speaks_of_the_fold_goes_on_speaking_of_it(what: str, step: Step) -> None:
    """`top` starts whatever T[k] is; A[i], or the one element that an iteration has, would tell whether it does."""
    func = parse(GUARD_READS.replace("WHAT", what))
    with pytest.raises(ScheduleError, match="top starts whatever one says that does"):
        lp.Schedule(func).apply(step)
    assert check(parse(GUARD_READS.replace("WHAT", what).replace(", init=0.0", "")), step)


def test_a_guard_that_reads_one_row_of_a_window_goes_on_speaking_of_the_fold() -> None:
    func = parse(f"""{HEAD}
    for i in range(2):
        with alloc("float32[3]") as T:
            for k in range(3):
                T[k] = A[i + k]
                if T[k] < 2.0:
                    X[i] = max(A[k], over=k, init=0.0, label="top")
""")
    with pytest.raises(ScheduleError, match="top starts whatever one says that does"):
        lp.Schedule(func).fold_storage("T", 0, 1)
    assert check(func, Step("fold_storage", ("T", 0, 2)))


@given(st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_parts_of_which_some_are_empty_keep_each_start(data: st.DataObject) -> None:
    func = data.draw(guarded())
    loop = data.draw(st.sampled_from([x.var for x in loops(func.body)]))
    factor = data.draw(st.integers(2, 6))
    ends = {"first": data.draw(st.integers(0, 4)), "last": data.draw(st.integers(0, 4))}
    for step in (
        Step("split", (loop, factor), (("tail", "peel"),)),
        Step("unroll_and_jam", (loop, factor), (("tail", "peel"),)),
        Step("peel", (loop,), tuple(ends.items())),
    ):
        check(func, step)
