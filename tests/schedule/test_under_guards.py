"""What random programs under guards found: steps that were taken and must not be, or that ended with another error."""

import pytest

import loopir as lp
from loopir.errors import ScheduleError
from loopir.testing.oracles.brute_force import first_violation, small_sizes

FOUND = {
    "a guard that another repeats, around more": (
        """
def f(A: "float32[16]", X: "inout float32[16]", Y: "inout float32[16]"):
    for k in range(4):
        if k < 3:
            Y[k] = X[k]
            with alloc("float32[4]") as R:
                if k < 3:
                    for e in range(4):
                        R[e] = A[e + k]
                X[k]: "use" = R[k]
        else:
            Y[k - 3]: "other" = A[k]
""",
        'pad("R", "k")',
        None,
    ),
    "a value of memory that another iteration has": (
        """
def f(n: "size", A: "float32[n]", S: "inout float32[1]"):
    with alloc("float32[n]") as T:
        for i in range(n * 2):
            with alloc("float32[1]") as R:
                if i < n:
                    R[0] = A[i]
                if i < n:
                    T[i] = R[0]
                else:
                    S[0] = sum(T[i - n], over=i)
""",
        'compute_inline("T")',
        "R, which T is computed from, is another one where S reads T\n  T at (i=0) writes T[0], which S at (i=1)",
    ),
    "a value of memory that the same iteration has": (
        """
def f(n: "size", A: "float32[n]", S: "inout float32[1]"):
    with alloc("float32[n]") as T:
        for i in range(n):
            with alloc("float32[1]") as R:
                R[0] = A[i]
                T[i] = R[0] * 2.0
                S[0] = sum(T[i], over=i)
""",
        'compute_inline("T")',
        None,
    ),
    "a guard of which nothing is left but a number": (
        """
def f(A: "float32[16]", X: "inout float32[16]", Y: "inout float32[16]"):
    for k in range(1):
        for q in range(0):
            Y[q] = X[q]
            if not q - q < 1:
                X[0] = sum(X[k], over=(k, q), init=2.0)
""",
        'fuse("k", "q")',
        None,
    ),
    "the other side of it": (
        """
def f(A: "float32[16]", X: "inout float32[16]", Y: "inout float32[16]"):
    for k in range(2):
        for q in range(3):
            Y[q] = X[q]
            if q - q < 1:
                Y[q]: "yes" = A[k]
            else:
                X[0] = sum(A[k], over=(k, q), init=2.0)
""",
        'fuse("k", "q")',
        None,
    ),
    "a loop in another place of it": (
        """
def f(A: "float32[16]", X: "inout float32[16]", Y: "inout float32[16]"):
    for k in range(2):
        Y[k] = A[k]
        for q in range(3):
            if k - k < 0:
                X[q] = sum(A[k], over=k, init=2.0)
""",
        'distribute("k")',
        None,
    ),
    "two that are folded together, of which one is folded up": (
        """
def f(A: "float32[4, 6]", Y: "out int32[6]"):
    with alloc("float32[2, 6]") as T, alloc("int32[2, 6]") as U:
        for h in range(2):
            for i in range(6):
                for k in range(4):
                    T[h, i], U[h, i] = argmax(A[k, i], int32(index(k)), over=k, init=(-inf, 0))
        for j in range(6):
            Y[j] = U[1, j]
""",
        'fold_storage("U", 0, 1)',
        "T folds into T and U at one element, so they have one shape",
    ),
    "no iterations, and one less": (
        """
def f(A: "float32[16]", X: "inout float32[16]"):
    for k in range(-1):
        X[0] = sum(A[k], over=k)
""",
        'rfactor("X", "k")',
        None,
    ),
    "memory of an iteration's own": (
        """
def f(A: "float32[16]", Y: "inout float32[16]"):
    for j in range(0):
        with alloc("float32[4]") as R:
            for e in range(4):
                R[e] = A[e + j]
            for u in range(4):
                Y[j + u] = R[u]
""",
        'reindex("Y", "Y", "u")',
        "what Y makes of Y is read from R, allocated in the nest that the copy would stand before",
    ),
    "iterations that ask what others write, though nothing runs in them": (
        """
def f(A: "float32[16]", X: "inout float32[16]"):
    for k in range(2):
        if A[k] < X[k] and k % 2 == 0:
            for q in range(4):
                X[k + q] = A[k + q]
""",
        'parallel("k")',
        "X at (k=0, q=1) writes X[1], which guard 1 of X at (k=1) reads later",
    ),
    "iterations that do not ask, as what was asked before tells": (
        """
def f(A: "float32[16]", X: "inout float32[16]"):
    for k in range(2):
        if k % 2 == 0 and A[k] < X[k]:
            for q in range(4):
                X[k + q] = A[k + q]
""",
        'parallel("k")',
        None,
    ),
    "lengths that others write": (
        """
def f(A: "float32[16]", W: "inout int32[16]"):
    for k in range(4):
        for q in range(W[k] % 3):
            if k < 1:
                W[k + q + 1] = q
""",
        'parallel("k")',
        "W at (k=0, q=0) writes W[1], which length 1 of W at (k=1) reads later",
    ),
    "a fold into memory that is anew, which becomes a ring": (
        """
def f(A: "float32[16]", X: "inout float32[16]"):
    for q in range(1):
        with alloc("float32[3]") as R:
            for e in range(3):
                R[e] = X[e]
            for i in range(3):
                for k in range(2):
                    R[i]: "fold" = sum(A[q + i + k], over=(q, k))
            for o in range(3):
                X[o] = R[o]
""",
        'pipeline("q", stages=2)',
        None,
    ),
    "a stage that never runs": (
        """
def f(A: "float32[16]", X: "inout float32[16]"):
    with alloc("float32[0]", scope="fragment") as T:
        for i in range(0):
            if i // 3 != 0:
                T[-(i // 3) - 1]: "t" = A[i // 3 + i % 3]
        for j in range(0):
            for k in range(3):
                if j != 0:
                    X[0 - 1 - j]: "x" = T[-j - 1]
""",
        'reverse_compute_inline("x")',
        "",
    ),
    "a row that something has gone out of": (
        """
def f(n: "size", A: "float32[n * 3 + 12]", X: "inout float32[n * 3 + 12]", Y: "inout float32[n * 3 + 12]"):
    for i in range(n):
        Y[i]: "m1" = X[i]
        if i != n - 1:
            for p in range((min(n, 3) + 2) // 3 * 3):
                if p // 3 * 3 + p % 3 < min(n, 3):
                    for k in range(4):
                        if k <= p // 3 * 3 + p % 3:
                            X[k * 2] = max(A[i + k + p], over=(i, p), label="s3")
                        else:
                            X[k] = max(A[3 - k], over=(i, p), init=A[k], label="s4")
""",
        'reindex("m1", "X", "i")',
        "memory that the copy would be computed from is written by s",
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found(name: str) -> None:
    source, call, reason = FOUND[name]
    s = lp.Schedule(lp.parse(source))
    if reason is not None:
        with pytest.raises(ScheduleError) as refused:
            eval(f"s.{call}", {"s": s})
        assert reason in str(refused.value)
        return
    after = eval(f"s.{call}", {"s": s}).func
    assert first_violation(s.func, after, small_sizes(s.func)) is None, lp.text(after)
