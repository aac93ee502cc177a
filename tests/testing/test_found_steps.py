"""What random schedules have found in steps, each as the smallest script that showed it: refused with a witness that
is there, or taken and right."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import loopir as lp
from loopir.errors import ScheduleError
from loopir.testing import assert_equivalent
from loopir.testing.oracles.brute_force import first_violation, small_sizes
from loopir.testing.oracles.oracles import Case, false_witness, promises

Steps = Callable[[lp.Schedule], lp.Schedule]

SHARED = """
def f(A: "float32[16]", B: "out float32[16]"):
    with alloc("float32[16]") as T:
        for i in bind("threadIdx.x", 16):
            T[i] = A[i] + 1.0
        for j in bind("threadIdx.x", 16):
            B[j] = T[15 - j]
"""
TWO_WRITERS = """
def f(n: "size", A: "float32[n]", Y: "out float32[2, n]"):
    for i in range(2):
        for j in range(n):
            Y[0, 0]: "first" = A[j]
        Y[0, 0] = A[0]
"""
IN_A_GUARD = """
def f(x: "int32[4]", B: "inout float32[1]"):
    with alloc("float32[1]", scope="local") as T:
        for i in range(4):
            T[0] = 2.0
        for i_1 in range(5):
            if i_1 % 2 == 0:
                T[0]: "U" = 1.0
        B[0] = T[0]
"""
ALONG = """
def p(x: "float32[5, 5]", C: "out float32[5]"):
    with alloc("float32[5]") as t:
        for k in range(5):
            with alloc("float32[1]") as S:
                for j in range(5):
                    t[j] = sum(x[k, j], over=k, init=0.0)
                S[0] = t[k]
        for i in range(5):
            C[i] = t[i]
"""
BAND = """
def f(a: "inout float32[64]"):
    for i in range(15):
        for j in range(18):
            if i <= j and j < i + 4:
                a[i * 3 + j + 4] = a[i * 3 + j] * 2.0
"""
LANES = """
def g(A: "float32[8]", B: "out float32[8]"):
    with alloc("float32[8]") as T:
        for i in range(8):
            T[i] = A[i] * 2.0
        with alloc("float32[8]") as U:
            for j in vectorize(8):
                U[j] = T[7 - j] + 1.0
            for k in range(8):
                B[k] = U[k]
"""
GRID = """
def copies(n: "size", A: "float32[n]", C: "out float32[n]"):
    with alloc("float32[n]") as X:
        for i in bind("blockIdx.x", n):
            X[i] = A[i]
        with alloc("float32[n]") as Y:
            for j in bind("blockIdx.x", n):
                Y[j] = A[j]
            for k in bind("blockIdx.x", n):
                C[k] = X[k] + Y[k]
"""
ROWS = """
def f(X: "inout float32[5]"):
    for i in range(3):
        for j in range(3):
            X[j] = X[j] + 1.0
"""
SAME = """
def f(n: "size", A: "float32[n]", B: "out float32[n]", C: "out float32[n]"):
    for i in bind("blockIdx.x", n):
        B[i] = A[i]
    for j in bind("blockIdx.x", n):
        C[j] = B[j]
"""
STARTED = """
def f(T: "inout int32[4]"):
    for j in range(1):
        with alloc("int32[4]") as C:
            for k in range(4):
                C[k] = T[k]
            for x in range(4):
                T[x] = max(C[3 - x], over=j, init=5)
"""
OVERWRITTEN = """
def f(n: "size", A: "inout float32[n]", B: "out float32[n]"):
    with alloc("float32[n]") as T:
        for i in range(n):
            T[i] = A[i] * 2.0
            A[i] = 0.0
        for j in range(n):
            B[j] = T[j] + 1.0
"""
BLOCKS = """
def f(n: "size", A: "float32[n, 8]", B: "out float32[n]"):
    with alloc("float32[n]") as S:
        for i in bind("blockIdx.x", n):
            for k in range(8):
                S[i] = sum(A[i, k], over=k, init=0.0)
            B[i] = maximum(S[i], 0.0)
"""
COPIED = """
def f(A: "float32[3, 3]", S: "inout float32[3]"):
    for i in range(3):
        with alloc("float32[3]") as T:
            for x in range(3):
                T[x] = A[i, 2 - x]
            for y in range(3):
                S[y] = sum(T[y], over=i)
"""
BOUND = """
def f(n: "size", A: "int32[n]", Y: "inout int32[n]"):
    for i in range(n):
        for j in range(A[n - 1] % 3):
            Y[i] += 1
"""
STARTS = """
def f(n: "size", A: "int32[n]", X: "inout int32[n + 2, n]"):
    for i in range(6):
        for j in range(n):
            for k in range(n):
                if i - k == j * 2:
                    X[(j + 2) // 2, k // 2] = min(A[k], over=i, init=X[k + 1, min(k + 1, n - 1)])
"""
PARITY = """
def f(S: "inout float32[7]"):
    for i in range(6):
        if i % 2 == 0:
            S[i + 1] = S[i] + S[i + 1]
"""
DOTS = """
def dots(A: "int8[8]", B: "int8[8]", Y: "inout int32[1]"):
    for q in range(2):
        for k in range(4):
            Y[0] = sum(int32(A[q * 4 + k]) * int32(B[q * 4 + k]), over=(q, k))
"""
AMONG = """
def f(A: "float32[2, 3]", Y: "inout float32[2, 3]"):
    for i in range(2):
        with alloc("float32[3]") as T:
            for x in range(3):
                T[x] = A[i, x]
            for y in range(0):
                Y[i, y] = T[y]
"""
ZERO_PERIOD = """
def f(n: "size", m: "size", a: "inout float32[m + 2]"):
    for x in range(m * n // 12 * 3):
        for j in unroll(4):
            with alloc("float32[m + 2]") as T:
                for y in parallel(m + 2):
                    T[y] = a[y]
                a[(x % (m * n // 12 * 3) * 4 + j) % m] = T[(x % (m * n // 12 * 3) * 4 + j) % m]
"""

REFUSED: dict[str, tuple[str, Steps, str]] = {
    "merged, no iteration is told that there was not": (
        SHARED, lambda s: s.merge("i", "j", side_by_side=True), r"T at \(i=0\) writes T\[0\], which B at \(j=15\)",
    ),
    "fused with a shift, too": (
        SAME, lambda s: s.fuse_loops("i", "j", shift=1, tail="guard"), r"writes B\[0\], which C at \(j=0\)",
    ),
    "a nest with what it alone reads moves, and both are bound": (
        GRID, lambda s: s.reverse_compute_at("C", "i"), "is bound to blockIdx.x, and so is a loop around 'i'",
    ),
    "what is written before is not told as written later": (
        TWO_WRITERS, lambda s: s.cache_write("Y", "local"), "writes Y.* which .* writes later",
    ),
    "what is padded does not run yet, and is no witness": (
        IN_A_GUARD, lambda s: s.pad("U"), "U would write what B touches: what is padded at",
    ),
    "what moves along reads more than there is": (
        ALONG, lambda s: s.compute_at("t", "i"), "S, in the same nest, reads more of t: S at",
    ),
    "what starts a fold over the loop is written before the first copy": (
        STARTED, lambda s: s.pipeline("j", stages=2), "the copies read T, which the rest of 'j' writes",
    ),
    "about a nest on the way": (
        OVERWRITTEN, lambda s: s.reverse_compute_inline("B"), "with B beside T, ",
    ),
    "blocks that run at once would share a row": (
        BLOCKS, lambda s: s.fold_storage("S", 0, 1), "with 1 rows of S, iterations of 'i' are not independent",
    ),
    "a bound from memory where there are no iterations": (
        BOUND, lambda s: s.fuse("i", "j"), "how often 'j' runs is read from memory, and 'i' may have no iterations",
    ),
    "starts that depend on one another, in parts": (
        STARTS, lambda s: s.partition("k"), "X starts outside of 'k', from values that depend on the order",
    ),
    "a copy of more than its block's own": (
        PARITY, lambda s: s.bind("i", "blockIdx.x").cache_read("S", "S", "shared", "i"), "with the copy, iterations",
    ),
    "an instruction that others come between": (
        DOTS, lambda s: s.tensorize("k", "dp4a").atomic("Y"), "dp4a folds into Y, and no instruction of that kind",
    ),
    "a vector in the lanes of another one": (
        BAND, lambda s: s.vectorize("i").vectorize("j"), "'j' stands in the lanes of 'i'",
    ),
    "an iteration that reads what it writes is run twice": (
        ROWS, lambda s: s.split("i", 2, tail="shift_inwards"), "repeats iterations of 'i', which read",
    ),
    "memory of lanes": (
        LANES, lambda s: s.reuse("U", "T"), "U at .* writes U.* where T.* would lie, which U at .* reads later",
    ),
    "copies among no iterations": (
        AMONG, lambda s: s.pipeline("i", stages=2, among="y"), "'y' is no loop of constant length",
    ),
    "rows where a period that is not seen is 0": (
        ZERO_PERIOD, lambda s: s.fold_storage("T", 0, 2), "where an element lies.* analysis takes m . n for any",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_refused_with_what_is_there(what: str) -> None:
    source, step, message = REFUSED[what]
    s = lp.Schedule(lp.parse(source))
    with pytest.raises(ScheduleError, match=message) as refused:
        step(s)
    assert false_witness(s.func, refused.value) is None


TAKEN: dict[str, tuple[str, Steps]] = {
    "a copy of what a loop reads that never runs": (
        """
def f(n: "size", A: "float32[n]", S: "inout float32[1]"):
    for k in range(n + 2):
        if n + 1 - k < 1:
            for j in range(k - n - 3):
                S[0] = sum(A[k - n - 3 + j], over=(k, j))
""",
        lambda s: s.cache_read("S", "A", "local", at="k"),
    ),
    "an update of integers by their bits": (
        """
def f(n: "size", A: "int32[n]", Y: "inout int32[1]"):
    for i in range(n):
        Y[0] = A[i] & Y[0]
""",
        lambda s: s.fold_into_reduce("Y").privatize_reduction("Y", "i", "local"),
    ),
    "a loop that is folded over comes to tell the element": (
        COPIED,
        lambda s: s.skew("i", "x", 2).reverse_compute_inline("S"),
    ),
    "what never runs moves to where it does not either": (
        """
def f(n: "size", A: "int32[n]", X: "inout int32[n]", Y: "inout int32[n]"):
    for i in range(5):
        if i < 0:
            X[i] = -2
    for k in range(n):
        Y[k] = A[k]
""",
        lambda s: s.compute_at("X", "k") if s.why("compute_at", "X", "k") is None else s,
    ),
    "what a stage stores is kept in as many dimensions as it has loops": (
        """
def f(n: "size", B: "int32[]", Y: "out int32[1, n]"):
    for i in range(1):
        for j in range(n):
            Y[i, j] = B[()]
""",
        lambda s: s.reindex("Y", "Y"),
    ),
    "a stage that a layout leaves nothing to do": (
        """
def f(n: "size", A: "float32[n]", X: "inout float32[1]"):
    with alloc("float32[1, 1]") as T:
        for i in range(1):
            for j in range(1):
                T[i, j] = A[0] if 0 < n else 0.0
        for i_1 in range(n):
            for j_1 in range(1):
                if j_1 < 0:
                    X[0] += T[0, 0]
""".replace("A[0] if 0 < n else 0.0", "select(0 < n, A[0], 0.0)"),
        lambda s: s.set_layout("T", "lambda i, j: (j, i)").reverse_compute_inline("X"),
    ),
    "a nest between a maker and who goes into its place": (
        """
def f(A: "float32[1]", Y: "out int32[2, 1]", Z: "out float32[1]"):
    with alloc("float32[1]") as T:
        for i in range(1):
            T[i] = A[-i] + A[i * 2 // 2]
        for i_1 in range(1):
            for j in range(2):
                Y[j, -i_1] = int32(j)
        for o in range(1):
            Z[o] = T[o]
""",
        lambda s: s.reverse_compute_inline("Z"),
    ),
    "a stage that is made anew in each iteration of a loop around is not what it was in the one before": (
        """
def f(n: "size", X: "inout float32[n + 3]"):
    with alloc("float32[n + 1]") as T:
        for s in range(3):
            for j in range(n + 1):
                T[j] = X[j + 2] + 3.0
            for h in range(n + 1):
                X[h + 2] = T[h]
""",
        lambda s: s.reverse_compute_inline("X"),
    ),
    "a loop that two were fused to computes what is read by both": (
        """
def f(n: "size", m: "size", Z: "out int32[n + 2, m]"):
    assume(1 <= m)
    with alloc("int32[n + 2, m]") as T:
        for x in range(m * n + m * 2):
            T[x // m, x % m] = -3
        for o in range(n + 2):
            for p in range(m):
                Z[o, p] = T[o, p]
""",
        lambda s: s.reverse_compute_at("Z", "x"),
    ),
    "loops are fused of which one has no iterations where a selection asks for them": (
        """
def f(n: "size", A: "float32[n]", Y: "inout float32[n]"):
    for k in range((n + 2) // 3):
        for i in range(3):
            if k * 3 + i < n:
                Y[k * 3 + i] = select(n < 3, A[k * 3 + i], A[0])
""",
        lambda s: s.skew("k", "i", 2).peel("k", first=1, last=1).reorder("i", "k").fuse("i", "k"),
    ),
}


@pytest.mark.parametrize("what", TAKEN)
def test_taken_and_right(what: str) -> None:
    source, steps = TAKEN[what]
    s = lp.Schedule(lp.parse(source))
    after = steps(s)
    assert_equivalent(s, after)
    assert promises(Case(s.func, after.func, dict.fromkeys(s.func.sizes, 3), {})) is None


@pytest.mark.parametrize("extent", ["n - i", "i + 1", "i"])
def test_a_loop_that_is_as_long_as_what_is_folded_over_says_is_reversed(extent: str) -> None:
    """Its elements then speak of the loop that is folded over, and the fold is an update in each iteration."""
    s = lp.Schedule(lp.parse(f"""
def triangles(n: "size", A: "float32[n, n]", X: "inout float32[n]"):
    for i in range(n):
        for j in range({extent}):
            X[j] = sum(A[i, j], over=i)
"""))  # fmt: skip
    after = s.reverse("j")
    assert "over" not in lp.text(after.func)
    assert_equivalent(s, after)


def test_a_fold_starts_under_the_guard_of_a_rectangle() -> None:
    """Where i is 0 no term is folded, and the fold starts all the same: at elements of k < i + 1 alone."""
    s = lp.Schedule(
        lp.parse("""
def f(A: "float32[3]", X: "inout float32[1, 2]"):
    for i in range(2):
        for j in range(i):
            for k in range(1):
                X[-k, i] = sum(A[j], over=j, init=A[0])
""")
    )
    made = s.rectangularize("k", skewed="i")
    assert first_violation(s.func, made.func, small_sizes(s.func)) is None
