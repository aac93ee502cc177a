"""Steps that the count of legal steps refused, or took for crashes, found: what is legal is taken, and stays so."""

import pytest

import loopir as lp
from loopir.testing.oracles.brute_force import first_violation, small_sizes

LEGAL = {
    "a loop of one iteration carries nothing": (
        """
def f(X: "inout float32[5]"):
    for s in range(1):
        for j in range(3):
            X[j + 2] = X[j] * X[j + 2] + 1.0
""",
        'hoist("X", "s")',
    ),
    "a maximum may take in once more what it has": (
        """
def f(n: "size", A: "float32[n + 1]", B: "out float32[4]"):
    assume(1 <= n)
    for i in range(n + 1):
        for j in range(4):
            B[j] = max(A[i] * float32(j), over=i, init=0.0)
""",
        'split("i", 2, tail="shift_inwards")',
    ),
    "so may what finds the place of one": (
        """
def f(n: "size", A: "float32[n + 1]", B: "out float32[]", P: "out int32[]"):
    assume(1 <= n)
    for i in range(n + 1):
        B[()], P[()] = argmax(A[i], int32(i), over=i, init=(-inf, 2147483647))
""",
        'split("i", 2, tail="shift_inwards")',
    ),
    "starts are told apart by mirrored elements": (
        """
def f(n: "size", A: "float32[n + 2]", B: "out float32[n + 1]"):
    for i in range(n + 1):
        for j in range(n + 1):
            B[n - j] = sum(A[i + j], over=i, init=select(1 <= j, A[n - j], -2.0))
""",
        'partition("j")',
    ),
    "what a loop that never runs holds may go before it": (
        """
def f(X: "inout float32[5]"):
    for i in range(1):
        for j in range(i):
            X[0] = X[1] * X[0]
            X[2] = X[0]
""",
        'hoist("X_1", "j")',
    ),
    "the first part alone starts what is folded over the loop": (
        """
def f(n: "size", A: "float32[n + 1]", X: "inout float32[1]"):
    for i in range(n):
        for j in range(n + 1):
            X[0] = sum(select(1 <= j, A[j], 0.0), over=(i, j), init=X[0])
""",
        'partition("j")',
    ),
    "only the last iteration counts, which is the last in every order": (
        """
def f(n: "size", A: "float32[n + 3]", X: "inout float32[4]"):
    for i in range(n):
        for j in range(3):
            for k in range(2):
                X[k + 1] = A[i + j]
""",
        'reorder("j", "i")',
    ),
    "a hint before a loop is a run of statements, too": (
        """
def f(n: "size", A: "float32[n]", X: "inout float32[4]"):
    for i in range(4):
        for k in range(n):
            prefetch(A[k + 8])
            for j in range(2):
                X[i] = sum(A[k], over=(k, j))
""",
        'unroll_and_jam("i", 2)',
    ),
    "a fold may leave a loop that runs once": (
        """
def f(X: "inout float32[4]"):
    for i in range(4):
        for j in range(1):
            X[i] = max(X[0] + -2.5)
            X[3]: "last" = 1.0
""",
        'hoist("X", "j")',
    ),
    "one reduction keeps the order of its starts in parts": (
        """
def f(A: "float32[6]", X: "out float32[6]"):
    for k in range(2):
        for i in range(2):
            for j in range(4):
                if i * 4 + j < 6:
                    X[i * 4 + j] = sum(A[i + k], over=k, init=A[i * 4 + j])
""",
        'partition("i")',
    ),
    "a start further out is there before all copies": (
        """
def f(n: "size", A: "float32[n + 1]", X: "inout float32[n + 1]"):
    for i in range(min(n, 3)):
        for j in range(i):
            with alloc("float32[]") as T:
                for k in range(j + 1):
                    T[()] = min(X[(k - j + (i - 1)) // 2] + X[(k - i + 2) // 2], over=k, init=A[n - 1])
                X[min(i + 1, n)] = max(A[i] * T[()], over=j, init=X[0])
""",
        'pipeline("j", stages=2)',
    ),
}


@pytest.mark.parametrize("name", LEGAL)
def test_a_step_is_legal(name: str) -> None:
    source, step = LEGAL[name]
    s = lp.Schedule(lp.parse(source))
    after = eval(f"s.{step}", {"s": s})
    assert first_violation(s.func, after.func, small_sizes(s.func)) is None


def test_a_maximum_that_somebody_resets_may_not_take_in_more() -> None:
    s = lp.Schedule(
        lp.parse("""
def f(A: "float32[5]", B: "inout float32[]", C: "out float32[5]"):
    for i in range(5):
        B[()] = max(A[i])
        C[i] = B[()]
""")
    )
    with pytest.raises(lp.ScheduleError, match="fold them in twice"):
        s.split("i", 2, tail="shift_inwards")


def test_nests_in_a_row_where_an_element_would_depend_on_what_it_is_folded_over() -> None:
    s = lp.Schedule(
        lp.parse("""
def f(A: "float32[4, 4]", X: "inout float32[4]"):
    for i in range(4):
        with alloc("float32[4]") as T:
            for k in range(i + 1):
                T[k] = A[i, k]
            for j in range(i + 1):
                X[j] = sum(T[j], over=i)
""")
    )
    with pytest.raises(lp.ScheduleError, match="X folds over i, on which it depends where 'k' ends"):
        s.merge("k", "j", side_by_side=True)


def test_a_reduction_starts_though_its_loop_never_runs() -> None:
    s = lp.Schedule(
        lp.parse("""
def f(A: "float32[4]", X: "out float32[]"):
    for i in range(1):
        for j in range(i):
            X[()] = sum(A[j], over=j, init=5.0)
""")
    )
    with pytest.raises(lp.ScheduleError, match="nothing in X is the same in every iteration"):
        s.hoist("X", "j")


def test_what_an_interior_would_leave_out_starts_there_all_the_same() -> None:
    """The guard speaks of k, over which the other side folds: its first value is stored whatever the guard says."""
    s = lp.Schedule(
        lp.parse("""
def f(A: "float32[8]", X: "out float32[]"):
    for i in range(4):
        X[()]: "before" = 7.0
        for k in range(2):
            if k < i + 1:
                X[()]: "one" = X[()] + A[k]
            else:
                X[()]: "other" = sum(A[k], over=k, init=3.0)
""")
    )
    with pytest.raises(lp.ScheduleError, match="no guard in 'i' changes"):
        s.partition("i")
