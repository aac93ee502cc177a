"""What random schedules have found, each as the smallest script that showed it."""

from __future__ import annotations

import numpy as np
import pytest

import loopir as lp
from loopir.codegen.cuda.emit import emit
from loopir.errors import LowerError, ScheduleError
from loopir.lower.pipeline import lower
from loopir.testing.oracles.equivalence import assert_equivalent
from loopir.testing.oracles.oracles import Case, false_witness, judge


def test_a_block_of_no_threads_starts_nothing() -> None:
    """The first value of the fold was lost: no thread was there to store it."""
    s = lp.Schedule(
        lp.parse("""
def f(A: "float32[1]", Y: "out int32[]"):
    for i in range(0):
        Y[()] = max(0, over=i, init=3)
""")
    )
    with pytest.raises(ScheduleError, match="never runs"):
        s.bind("i", "threadIdx.x")


def test_what_never_runs_in_a_loop_is_computed_in_no_iteration_of_it() -> None:
    """reverse_compute_at looked for a statement that its own guards had removed."""
    s = lp.Schedule(
        lp.parse("""
def f(n: "size", A: "float32[n]", B: "int32[n, 4]", Y: "out float32[]"):
    assume(1 <= n)
    with alloc("float32[n]") as T:
        for i in range(n):
            if i == 1:
                T[i]: "T_init" = A[0]
                for j in range(B[n - 1, 1] % 3):
                    T[i] = prod(A[0], over=j)
            else:
                for j_1 in range(B[n - 1, 1] % 3):
                    T[i] = prod(A[i // 2], over=j_1, init=A[0])
        for i_1 in range(n - 1):
            Y[()] = max(minimum(A[0], T[0]), over=i_1, init=A[0])
""")
    )
    with pytest.raises(ScheduleError, match="no iteration of 'j' would compute Y"):
        s.reverse_compute_at("Y", "j")


def test_threads_fold_a_triangle_together() -> None:
    """bind asked where an element is inside with an extent that spoke of the loop it had taken away."""
    s = lp.Schedule(
        lp.parse("""
def f(A: "float32[1]", X: "inout float32[1, 1]"):
    for i in range(3):
        for j in range(i + 1):
            X[0, 0] = sum(A[0], over=i)
""")
    )
    assert s.bind("i", "threadIdx.x").loop("i").kind == "threadIdx.x"


def test_a_witness_speaks_of_the_statements_there_are() -> None:
    """rfactor named a statement that it had made up to ask: "X value 0"."""
    s = lp.Schedule(
        lp.parse("""
def f(A: "float32[1]", X: "inout int32[1]"):
    for i in range(2):
        X[0] = sum(X[0], over=i)
""")
    )
    with pytest.raises(ScheduleError, match=r"X at \(i=0\) writes X\[0\], which X at \(i=1\) reads later"):
        s.rfactor("X", "i")


def test_a_loop_that_an_element_speaks_of_only_inside_a_division() -> None:
    """compute_inline subtracted a term that was not there, and ended with a KeyError."""
    s = lp.Schedule(
        lp.parse("""
def f(n: "size", A: "float32[n, 4]", Y: "out float32[n, 4]"):
    with alloc("float32[n, 4]") as T:
        for i in range(n * 4):
            T[i // 4, i % 4] = A[i // 4, i % 4] + float32(i)
        for j in range(n):
            for k in range(4):
                Y[j, k] = T[j, k]
""")
    )
    with pytest.raises(ScheduleError, match="which does not tell i"):
        s.compute_inline("T")


def test_a_refused_wavefront_tells_the_iterations_of_the_nest_that_was_given() -> None:
    """The witness named iterations of the nest as it had been skewed, which had the same names."""
    s = lp.Schedule(
        lp.parse("""
def f(n: "size", X: "inout float32[1]", A: "float32[n]"):
    for i in range(n):
        for j in range(n):
            X[0] = X[0] * A[j]
""")
    )
    error = s.why("wavefront", "i", "j")
    assert error is not None
    assert false_witness(s.func, error) is None


@pytest.mark.parametrize("n", [0, 2])
def test_a_grid_of_no_blocks_still_does_what_stands_beside_its_loop(n: int) -> None:
    """Where a loop bound to blocks had no iterations, the rest of its kernel was not run either."""
    s = lp.Schedule(
        lp.parse("""
def f(n: "size", A: "float32[n]", Y: "out float32[2, 2]", Z: "inout float32[2, n + 1]"):
    for i in range(2):
        for j in range(n):
            Z[i, j] = A[j]
        for k in range(2):
            Y[i, k] = 1.0
""")
    )
    s = s.bind("i", "threadIdx.x").bind("j", "blockIdx.x")
    at = {"n": n}
    arrays = {"A": np.ones(n, np.float32), "Z": np.ones((2, n + 1), np.float32)}
    assert judge(Case(s.func, s.func, at, arrays), ["adversarial threads"]) is None


def test_threads_that_run_nothing_ask_the_bound_of_a_loop_all_the_same() -> None:
    """Thread 1 read T for the bound of i while thread 0, which alone was seen to read it, wrote it in the loop."""
    s = lp.Schedule(
        lp.parse("""
def f(X: "inout int32[4]"):
    for j in bind("threadIdx.x", 2):
        for i in range(X[0] % 3):
            if j == 0:
                X[0] = X[0] * 3
""")
    )
    with pytest.raises(LowerError, match="which is to have decided by then what to run"):
        lp.lower(s, "cuda")


def test_a_kernel_of_nothing_is_no_kernel() -> None:
    """What simplification leaves empty was looked into for its first loop."""
    s = lp.Schedule(
        lp.parse("""
def f(Y: "out int32[1]"):
    for i in range(1):
        Y[i] = 0
    for k in range(1):
        if k < 0:
            Y[0] = sum(Y[0], over=k, init=Y[0])
""")
    )
    assert s.build("llvm")().tolist() == [0]


def test_the_ends_of_a_loop_whose_length_is_in_memory_are_not_known() -> None:
    """cache_read took what such a loop makes of (i + 2) % 4 for an end of it, outside of the loop."""
    s = lp.Schedule(
        lp.parse("""
def f(A: "float32[4]", L: "int32[1]", Y: "out float32[]"):
    for i in range(L[0] % 3):
        Y[()] = min(A[(i + 2) % 4], over=i, init=A[0])
""")
    )
    assert s.cache_read("Y", "A", "shared").buffer("A_shared").shape == s.buffer("A").shape


DOTS = """
def dots(n: "size", A: "int8[n, 8]", B: "int8[8]", Y: "out int32[n]"):
    for i in range(n):
        for q in range(2):
            for k in range(4):
                Y[i] = sum(int32(A[i, q * 4 + k]) * int32(B[q * 4 + k]), over=(q, k), init=0)
"""


def test_threads_do_not_fold_together_what_an_instruction_folds() -> None:
    """Lowering took the instruction apart, and ended with a VerifyError."""
    s = lp.Schedule(lp.parse(DOTS)).tensorize("k", "dp4a").bind("q", "threadIdx.x")
    with pytest.raises(LowerError, match="Y is folded by dp4a, and over a loop that is bound to threads"):
        lp.lower(s, "cuda")


def test_brute_force_does_what_instructions_do() -> None:
    s = lp.Schedule(lp.parse(DOTS)).tensorize("k", "dp4a")
    error = s.why("parallel", "q")
    assert error is not None
    assert false_witness(s.func, error) is None


def test_lanes_of_two_kernels_have_names_of_their_own() -> None:
    s = lp.Schedule(
        lp.parse("""
def f(X: "out float32[2]", Y: "out float32[2]"):
    for i in bind("warpgroup", 2):
        X[i] = 1.0
    for j in bind("warpgroup", 2):
        Y[j] = 1.0
""")
    )
    lp.lower(s, "cuda")


def test_a_fold_whose_start_would_be_lost_with_the_first_part_is_not_parted() -> None:
    """Nothing of X was left in the first part, which alone was to start it."""
    s = lp.Schedule(
        lp.parse("""
def f(A: "float32[5]", T: "inout float32[1]", X: "inout float32[1]"):
    for i in range(5):
        if i < 1:
            T[0] = A[i]
        else:
            X[0] = sum(A[i], over=i, init=2.0)
""")
    )
    with pytest.raises(ScheduleError, match="but one at whose other side X starts all the same"):
        s.partition("i")
    assert_equivalent(s, s.peel("i", first=1))


def test_memory_that_is_shared_by_what_runs_at_once_is_not_reused() -> None:
    """The iterations of i1 had been independent as T1 was not T0."""
    s = lp.Schedule(
        lp.parse("""
def f(A: "float32[6]", Y: "out float32[4]"):
    with alloc("float32[6]") as T0:
        for i0 in range(6):
            T0[i0] = A[i0]
        with alloc("float32[5]") as T1:
            for i1 in parallel(5):
                T1[i1] = T0[i1] + T0[i1 + 1]
            for i2 in range(4):
                Y[i2] = T1[i2] + T1[i2 + 1]
""")
    )
    with pytest.raises(ScheduleError, match="iterations of 'i1' are not independent"):
        s.reuse("T1", "T0")


def test_two_of_a_buffer_whose_layout_is_not_known_to_keep_them_apart() -> None:
    """double_buffer and pipeline made a layout that the verifier did not believe, and ended with its error."""
    s = lp.Schedule(
        lp.parse("""
def f(n: "size", A: "float32[3, n]", B: "out float32[3, n]"):
    for r in range(3):
        with alloc("float32[n]", layout=mapped(lambda i: i * 2)) as T:
            for i in range(n):
                T[i] = A[r, i]
            for j in range(n):
                B[r, j] = T[n - j - 1]
""")
    )
    for call in (lambda: s.double_buffer("T", "r"), lambda: s.pipeline("r", stages=2)):
        with pytest.raises(ScheduleError, match="not known to lie apart"):
            call()


def test_what_a_thread_has_for_itself_is_not_updated_atomically() -> None:
    """atomicAdd on memory of a thread ended the launch with an error on the GPU."""
    s = lp.Schedule(
        lp.parse("""
def f(w: "float32[3]", Y: "out float32[2]"):
    for i in bind("threadIdx.x", 2):
        with alloc("float32[]") as T:
            for k in range(3):
                T[()] = sum(w[k], over=k, init=0.0, atomic=True)
            Y[i] = T[()]
""")
    )
    assert "atomicAdd" not in emit(lower(s.func, "cuda")).source


def test_a_copy_is_as_large_as_what_it_is_of_where_a_size_that_may_be_0_would_divide() -> None:
    """At m = 0 its shape was divided by m."""
    s = lp.Schedule(
        lp.parse("""
def f(n: "size", m: "size", A: "float32[n]", B: "out float32[n, m]"):
    for q in range(n * m):
        B[q // m, q % m] = A[q // m]
""")
    )
    assert s.cache_read("B", "A", "shared").build("interpret")(np.ones(3, np.float32), m=0).shape == (3, 0)


def test_differences_of_iterations_reach_as_far_down_as_up() -> None:
    """Ends that are not symmetric any more were looked at from above alone, and lanes ran together that depend."""
    s = lp.Schedule(
        lp.parse("""
def scan(a: "inout float32[19]"):
    for i_o in range(2):
        for i_i in range(3):
            if i_o * 3 + i_i < 4:
                for j in range(2):
                    a[i_o * 6 + i_i * 2 + j + 1] = a[i_o * 6 + i_i * 2 + j] + a[i_o * 6 + i_i * 2 + j + 1]
""")
    )
    with pytest.raises(ScheduleError, match="the lanes of 'i_i' would run together"):
        s.vectorize("i_i")


def test_a_fold_that_is_fused_away_still_starts_before_what_stood_before_it() -> None:
    """Y saw what was there before the fold had started."""
    s = lp.Schedule(
        lp.parse("""
def f(A: "int32[3]", Y: "out int32[5, 1]"):
    with alloc("int32[3]") as T:
        for i in range(3):
            T[i] = A[i] + 1
        for i_1 in range(5):
            for j in range(1):
                Y[i_1, j] = T[0]
                T[0] = sum(A[j // 2] * 2, over=j, init=A[0])
""")
    )
    with pytest.raises(ScheduleError, match="T_1 starts over from its init when it enters 'j'"):
        s.fuse("i_1", "j")
