"""`memory_report`: sectors and banks are counted as a GPU does, and each fault that was put in by hand is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

import loopir as lp
import schedules
from loopir.ir.grammar import AsyncWait
from loopir.ir.traverse.walk import rewrite
from loopir.testing import memory_report

KERNEL = """
def f(A: "float32[2, 64]", B: "out float32[2, 64]"):
    with kernel("k0"):
        for b in bind("blockIdx.x", 2):
            for t in bind("threadIdx.x", 64):
                with alloc("float32[64]", scope="shared") as S:
                    S[t] = A[b, t]
                    barrier()
                    B[b, t] = S[63 - t]
"""


def report(source: str) -> lp.testing.MemoryReport:
    return memory_report(lp.parse(source))


def test_a_kernel_without_fault() -> None:
    found = report(KERNEL)
    assert found, str(found)
    assert found.fault is None
    assert (found.uncoalesced, found.bank_conflicts, found.misaligned) == (0, 0, 0)
    by_name = {(a.statement, a.buffer): a for a in found.accesses}
    assert by_name["S", "A"].instructions == 4
    assert by_name["S", "A"].taken == 4 * 4
    assert by_name["B", "S"].taken == by_name["B", "S"].needed == 4


USE = "                    barrier()\n                    B[b, t] = S[63 - t]\n"
FAULTS = {
    "no barrier": (USE, USE.replace("                    barrier()\n", ""), r"(reads|writes) S\[\d+\] .*, no barrier"),
    "a race in a warp": ("S[t] = A[b, t]", "S[t // 2] = A[b, t]", r"statement S .* writes S.* thread .*: a race"),
    "a race between blocks": ("B[b, t]", "B[0, t]", r"B\[0, \d+\] .* different blocks: a race"),
    "a divergent barrier": (
        USE, USE.replace("barrier()", "if t < 40:\n                        barrier()").replace("63 - t", "t"),
        "a barrier that thread .* does not reach: it diverges",
    ),
    "out of bounds": ("S[63 - t]", "S[64 - t]", r"statement B at \(b=\d, t=0\) touches S\[64\].* out of bounds"),
    "never written": ("S[t] =", "if t < 63:\n                        S[t] =", r"B\[0, 0\] is never written"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_told(name: str) -> None:
    old, new, message = FAULTS[name]
    assert old in KERNEL
    found = report(KERNEL.replace(old, new))
    assert not found
    assert found.fault is not None
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(found.fault)
    assert "fault: f: " in str(found)


COPIED = """
def f(A: "float32[3, 32]", C: "out float32[32]"):
    for b in bind("blockIdx.x", 1):
        for ko in range(3):
            with alloc("float32[32]", scope="shared") as As:
                for x in bind("threadIdx.x", 8):
                    for v in range(4):
                        As[x * 4 + v] = A[ko, x * 4 + v]
                for i in bind("threadIdx.x", 32):
                    C[i] = sum(As[31 - i] * As[i], over=ko, init=0.0)
"""


def test_an_asynchronous_copy_is_one_vector_and_has_to_be_waited_for() -> None:
    s = lp.Schedule(lp.parse(COPIED)).tensorize("v", "cp_async_f32").pipeline("ko", stages=2)
    found = memory_report(s)
    assert found, str(found)
    assert found.uncoalesced == found.bank_conflicts == 0
    (lowered,) = lp.lower(s, "cuda")
    never = replace(lowered, body=rewrite(lowered.body, lambda x: () if isinstance(x, AsyncWait) else None))
    assert never != lowered
    told = memory_report(never).fault
    assert told is not None
    assert "has not waited for" in told


BOXES = """
def f(A: "float32[6, 8, 16]", B: "out float32[6, 2, 128]"):
    for t in bind("blockIdx.x", 2):
        for u in range(3):
            for o in range(4):
                with alloc("float32[2, 16]", scope="shared") as T:
                    for i in range(2):
                        for j in range(16):
                            T[i, j] = A[u * 2 + t, o + i, j]
                    for g in bind("warpgroup", 2):
                        for w in bind("warp.x", 4):
                            for l in bind("lane", 32):
                                B[u * 2 + t, g, w * 32 + l] = sum(T[g, l % 16], over=o, init=0.0)
"""


def test_boxes_are_counted_and_barriers_in_memory_are_no_accesses() -> None:
    """Warps with a role: whoever waits at a barrier moves nothing, and a box is no vector."""
    s = lp.Schedule(lp.parse(BOXES)).tensorize("i", "tma_load_2x16_f32").specialize_warps("o", stages=2)
    found = memory_report(s)
    assert found, str(found)
    assert {a.buffer for a in found.accesses} == {"A", "B", "T"}
    assert (found.uncoalesced, found.bank_conflicts, found.misaligned) == (0, 0, 0)
    (boxes,) = (a for a in found.accesses if a.buffer == "A")
    assert (boxes.instructions, boxes.taken) == (6 * 4, 6 * 4 * 4)


COLUMNS = """
def f(A: "float32[32, 32]", B: "out float32[32, 32]"):
    for b in bind("blockIdx.x", 1):
        with alloc("float32[32, 32]", scope="shared") as T:
            for k in range(32):
                for i in bind("threadIdx.x", 32):
                    T[k, i] = A[k, i]
            for k_1 in range(32):
                for j in bind("threadIdx.x", 32):
                    B[k_1, j] = T[j, k_1]
"""


def test_columns_of_32_meet_in_one_bank_and_rows_of_33_do_not() -> None:
    s = lp.Schedule(lp.parse(COLUMNS))
    found = memory_report(s)
    assert found.bank_conflicts == 32 * 31
    assert "B in b, i, k_1 reads T (shared): 32 instructions, 1024 turns of the banks, 32 would do" in str(found)
    assert "lanes 0, 1, 2, 3 want different words of bank 0, 32 ways" in str(found)
    assert memory_report(s.set_layout("T", "lambda i, j: i * 33 + j")).bank_conflicts == 0


def test_rows_apart_are_uncoalesced() -> None:
    x = lp.placeholder((32, 32), "float32", name="x")
    s = lp.Schedule(lp.compute((32, 32), lambda i, j: x[j, i] * 2.0, name="y"))
    found = memory_report(s.bind("i", "threadIdx.y").bind("j", "threadIdx.x"))
    assert found.uncoalesced == 32 * (32 - 4)
    assert "y in j, i reads x (global): 32 instructions, 1024 sectors, 128 would do: uncoalesced" in str(found)
    assert "lanes 0 and 1 are 128 bytes apart" in str(found)
    turned = memory_report(schedules.transpose(s, "y"))
    assert (turned.uncoalesced, turned.bank_conflicts) == (0, 0)


def test_halves_of_words_and_whole_vectors_are_counted_as_they_go() -> None:
    """Two lanes in one word are one turn; lanes with 16 bytes go by quarters of the warp."""
    source = COLUMNS.replace("float32", "float16").replace("T[j, k_1]", "T[k_1, j]")
    halves = memory_report(lp.Schedule(lp.parse(source)))
    assert halves.bank_conflicts == 0
    assert [a.taken for a in halves.accesses if a.scope == "global"] == [32 * 2] * 2
    wide = """
def f(A: "float32[128]", B: "out float32[128]"):
    for t in bind("threadIdx.x", 32):
        for v in vectorize(4):
            B[t * 4 + v] = A[t * 4 + v]
"""
    (read, write) = memory_report(lp.Schedule(lp.parse(wide))).accesses
    assert (
        (read.instructions, read.taken, read.needed) == (write.instructions, write.taken, write.needed) == (1, 16, 16)
    )


def test_a_vector_off_its_multiple_is_told() -> None:
    source = """
def f(A: "float32[132]", B: "out float32[128]"):
    with kernel("k"):
        for t in bind("threadIdx.x", 32):
            for v in vectorize(4):
                B[t * 4 + v] = A[t * 4 + v + 1]
"""
    found = memory_report(lp.parse(source))
    assert not found
    assert found.misaligned == 1
    assert "start off a multiple of their vector" in str(found)


def test_sizes_and_orders_of_threads() -> None:
    n = lp.symbol("n")
    x = lp.placeholder((n,), "float32", name="x")
    s = lp.Schedule(lp.compute((n,), lambda i: x[i] + 1.0, name="y")).split("i", 32)
    s = s.bind("i_o", "blockIdx.x").bind("i_i", "threadIdx.x")
    for seed in range(2):
        found = memory_report(s, sizes={"n": 70}, seed=seed)
        assert found
        assert sum(a.instructions for a in found.accesses if a.write) == 3
