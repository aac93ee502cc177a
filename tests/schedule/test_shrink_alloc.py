"""Memory moves into the loop that uses it alone, as large as one iteration needs."""

import pytest
from test_placement_cases import CHAIN, nest, same

from loopir.errors import ScheduleError
from loopir.ir.grammar import Int


def test_a_window_computes_what_other_readers_need() -> None:
    s = nest(CHAIN.replace("U[k] * 3.0", "U[k] * T[8 - k]"))
    after = s.compute_at("T", "j", store="root")
    same(s, after)
    with pytest.raises(ScheduleError, match=r"T.* would lie where T.* lies, which is still to be read"):
        after.fold_storage("T", 0, 2)
    fewer = nest(CHAIN.replace("range(8):\n        U[j]", "range(7):\n        U[j]").replace("U[k] * 3.0", "T[k + 1]"))
    with pytest.raises(ScheduleError, match=r"T\[8\] .*would not be computed: no .* 'j' reads it, and B does"):
        fewer.compute_at("T", "j", store="root")


def test_what_later_iterations_read_stays_in_memory() -> None:
    s = nest("""
with alloc("float32[9]") as T:
    for i in range(3):
        for x in range(5 - min(i, 1) * 3):
            T[i * 2 + min(i, 1) * 3 + x] = A[i * 2 + min(i, 1) * 3 + x] * 2.0
        for j in range(2):
            B[i * 2 + j] = T[i * 2 + j] + T[i * 2 + 4]
""")
    after = s.compute_at("T", "j")
    same(s, after)
    assert 'alloc("float32[9]") as T' in str(after)


def test_a_buffer_that_two_statements_of_the_loop_fill_is_settled_once() -> None:
    s = nest("""
with alloc("float32[8]") as S:
    for i in range(8):
        for k in range(8):
            S[i] = sum(A[k], over=k, init=0.0)
    for j in range(8):
        B[j] = maximum(S[j], 0.0)
""")
    s = s.split("k", 5, tail="peel")
    after = s.reverse_compute_at("B", "i")
    assert after.buffer("S").shape == (Int(1),)
    same(s, after)


def test_memory_of_a_reduction_stays_outside_of_the_loop_that_it_folds_over() -> None:
    s = nest(
        """
for i in range(9):
    with alloc("float32[]") as T:
        for k_o in range(1):
            for k_i in range(3):
                T[()] = sum(A[k_o * 3 + k_i + i // 2], over=(k_o, k_i), init=0.0)
        B[i] = A[i] + T[()]
""",
        'A: "float32[9]", B: "inout float32[9]"',
    )
    same(s, s.reverse_compute_at("B", "k_o"))
