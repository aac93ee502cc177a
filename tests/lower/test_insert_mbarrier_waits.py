"""Copies that count bytes: where lowering waits for them, and what the interpreter tells of a wait that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import loopir as lp
from loopir.codegen.cuda.emit import emit
from loopir.errors import InterpretError, ScheduleError
from loopir.interp.interpret import interpret
from loopir.ir.grammar import Barrier, Body, ExpectTx, Func, If, InstrCall, Int, Load, Loop, MBarrierWait, Stmt
from loopir.ir.traverse.walk import rewrite, statements

TILES = """
def f(n: "size", A: "float32[n, 16, 32]", B: "out float32[n, 8]"):
    for t in bind("blockIdx.x", {blocks}):
        for u in range((n - t + {blocks} - 1) // {blocks}):
            for o in range(5):
                with alloc("float32[8, 32]", scope="shared"{layout}) as T:
                    for i in range(8):
                        for j in range(32):
                            T[i, j] = A[u * {blocks} + t, {row}, j]
                    for l in bind("threadIdx.x", 8):
                        for k in range(32):
                            B[u * {blocks} + t, l] = sum(T[l, k] * {weight}, over=(o, k), init=0.0)
"""
SWIZZLED = ", layout=mapped(lambda i, j: i * 32 + (j // 4 ^ i) * 4 + j % 4)"


def tiles(stages: int = 1, layout: str = SWIZZLED, blocks: int = 2, row: str = "o + i") -> lp.Schedule:
    text = TILES.format(layout=layout, blocks=blocks, row=row, weight="float32(k)")
    s = lp.Schedule(lp.parse(text)).tensorize("i", "tma_load_8x32_f32")
    return s.pipeline("o", stages=stages) if stages > 1 else s


def array(n: int) -> np.ndarray:
    return np.arange(n * 16 * 32, dtype=np.float32).reshape(n, 16, 32) % 251


def wanted(a: np.ndarray) -> np.ndarray:
    return np.stack([(a[:, o : o + 8] * np.arange(32)).sum(2) for o in range(5)]).sum(0)


def run(func: Func, n: int = 3, seed: int = 0) -> np.ndarray:
    return interpret(func, (array(n),), seed=seed)["B"]


@pytest.mark.parametrize("stages", [1, 2, 3, 4, 5, 6, 8])
@pytest.mark.parametrize("layout", ["", SWIZZLED])
def test_what_is_copied_is_there_when_it_is_read(stages: int, layout: str) -> None:
    (func,) = lp.lower(tiles(stages, layout), "cuda")
    for n in (1, 3, 5):
        assert np.array_equal(run(func, n), wanted(array(n)))
    assert all(
        s.span == (128 if layout else 0) for x in statements(func.body) if isinstance(x, InstrCall) for s in x.boxes
    )


def awaited(func: Func) -> list[tuple[MBarrierWait, list[Stmt]]]:
    """Each wait, with the loops around it."""
    found: list[tuple[MBarrierWait, list[Stmt]]] = []

    def visit(body: Body, around: list[Stmt]) -> None:
        for s in body:
            if isinstance(s, MBarrierWait):
                found.append((s, around))
            for inner in lp.ir.traverse.walk.bodies(s):
                visit(inner, [*around, s])

    visit(func.body, [])
    return found


@pytest.mark.parametrize("stages", [2, 4])
def test_copies_run_ahead_and_one_wait_stands_in_the_loop(stages: int) -> None:
    (func,) = lp.lower(tiles(stages), "cuda")
    ((wait, around),) = awaited(func)
    assert wait.slot.buffer.shape == (Int(stages),)
    assert isinstance(around[-1], Loop)
    assert around[-1].var == "o"
    copies = [n for n, s in enumerate(around[-1].body) if any(isinstance(x, InstrCall) for x in statements((s,)))]
    assert max(copies) < around[-1].body.index(wait)  # the coming copies are begun before this one is waited for


def changed(func: Func, change: Callable[[Stmt], Stmt | Body | None]) -> Func:
    return replace(func, body=rewrite(func.body, change))


def shifted(slot: Load, by: int) -> Load:
    size = slot.buffer.shape[0]
    return replace(slot, at=((slot.at[0] + by) % size,))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda s: () if isinstance(s, MBarrierWait) else None,
            "filling by itself; that its bytes are there has not been waited",
        ),
        (
            lambda s: replace(s, slot=shifted(s.slot, 1)) if isinstance(s, MBarrierWait) else None,
            "filling by itself|a deadlock|passes ring",
        ),
        (lambda s: replace(s, turn=1) if isinstance(s, MBarrierWait) else None, "filling by itself|a deadlock"),
        (lambda s: replace(s, bytes=s.bytes + 16) if isinstance(s, ExpectTx) else None, "a deadlock"),
        (
            lambda s: replace(s, bytes=s.bytes - 16) if isinstance(s, ExpectTx) else None,
            "once more than|a deadlock|filling",
        ),
        (lambda s: () if isinstance(s, ExpectTx) else None, "a deadlock|passes ring"),
        (lambda s: () if isinstance(s, Barrier) else None, "a race|has not been waited"),
    ],
)
def test_a_wrong_wait_is_told(change: Callable[[Stmt], Stmt | Body | None], told: str) -> None:
    (func,) = lp.lower(tiles(3), "cuda")
    with pytest.raises(InterpretError, match=told):
        run(changed(func, change))


def test_a_wrong_swizzle_gives_wrong_sums() -> None:
    (func,) = lp.lower(tiles(2), "cuda")

    def plain(s: Stmt) -> Stmt | None:
        return replace(s, boxes=tuple(replace(b, span=0) for b in s.boxes)) if isinstance(s, InstrCall) else None

    assert not np.array_equal(run(changed(func, plain)), wanted(array(3)))


def test_one_thread_copies() -> None:
    (func,) = lp.lower(tiles(3), "cuda")
    picked = [s for s in statements(func.body) if isinstance(s, If) and any(isinstance(x, ExpectTx) for x in s.then)]
    assert len(picked) == 2
    assert all(any(isinstance(x, InstrCall | Loop) for x in s.then) for s in picked)


def test_layouts_and_strides_that_no_box_has_are_refused() -> None:
    with pytest.raises(ScheduleError, match="the rows of a box of 8 x 32 of T do not follow one another"):
        tiles(layout=", layout=mapped(lambda i, j: i * 36 + j)")
    odd = TILES.replace("16, 32]", "16, 33]").format(layout="", blocks=2, row="o + i", weight="1.0")
    with pytest.raises(ScheduleError, match="33 elements from one index of dimension 1 to the next are not known"):
        lp.Schedule(lp.parse(odd)).tensorize("i", "tma_load_8x32_f32")


def test_a_launch_makes_the_maps() -> None:
    module = emit(lp.lower(tiles(2), "cuda")[0])
    (kernel,) = module.kernels
    (made,) = kernel.maps
    assert (made.buffer, made.box, made.span) == ("A", (1, 8, 32), 128)
    assert "const __grid_constant__ lp_map lp_map_0" in module.source
    assert lp.compile_source(tiles(2)).cubin


EDGES = """
def f(n: "size", m: "size", A: "float32[n, m]", B: "out float32[n, m]"):
    assume(m % 4 == 0)
    for i in bind("blockIdx.x", (n + 7) // 8):
        for j in range((m + 31) // 32):
            with alloc("float32[8, 32]", scope="shared") as T:
                for x in range(8):
                    for y in range(32):
                        T[x, y] = select({test}, A[i * 8 + x, j * 32 + y], 0.0)
                for l in bind("threadIdx.x", 8):
                    for k in range(32):
                        if i * 8 + l < n and j * 32 + k < m:
                            B[i * 8 + l, j * 32 + k] = T[7 - l, k] + T[l, k]
"""


@pytest.mark.parametrize(("n", "m"), [(8, 32), (9, 40), (3, 4)])
def test_outside_of_an_array_is_nothing(n: int, m: int) -> None:
    s = lp.Schedule(lp.parse(EDGES.format(test="i * 8 + x < n and j * 32 + y < m"))).tensorize("x", "tma_load_8x32_f32")
    (func,) = lp.lower(s.pipeline("j", stages=3), "cuda")
    a = np.arange(n * m, dtype=np.float32).reshape(n, m)
    rows = np.zeros((-(-n // 8) * 8, m), np.float32)
    rows[:n] = a
    want = a + rows.reshape(-1, 8, m)[:, ::-1].reshape(-1, m)[:n]
    assert np.array_equal(interpret(func, (a,))["B"], want)


BETWEEN = """
def f(n: "size", m: "size", A: "float32[n, 3, m]", B: "out float32[n, 2, m]"):
    assume(m % 4 == 0)
    for h in range(2):
        for i in bind("blockIdx.x", (n + 7) // 8):
            for j in range((m + 31) // 32):
                with alloc("float32[8, 32]", scope="shared") as T:
                    for x in range(8):
                        for y in range(32):
                            T[x, y] = select(i * 8 + x < n and j * 32 + y < m, A[i * 8 + x, h + 1, j * 32 + y], 0.0)
                    for l in bind("threadIdx.x", 8):
                        for k in range(32):
                            if i * 8 + l < n and j * 32 + k < m:
                                B[i * 8 + l, h, j * 32 + k] = T[7 - l, k] + T[l, k]
"""


@pytest.mark.parametrize(("n", "m"), [(8, 32), (9, 40), (3, 4)])
def test_rows_of_a_box_lie_along_any_dimension(n: int, m: int) -> None:
    s = lp.Schedule(lp.parse(BETWEEN)).tensorize("x", "tma_load_8x32_f32").pipeline("j", stages=3)
    (func,) = lp.lower(s.bind("h", "blockIdx.y"), "cuda")
    a = np.arange(n * 3 * m, dtype=np.float32).reshape(n, 3, m)
    rows = np.zeros((-(-n // 8) * 8, 2, m), np.float32)
    rows[:n] = a[:, 1:]
    want = a[:, 1:] + rows.reshape(-1, 8, 2, m)[:, ::-1].reshape(-1, 2, m)[:n]
    assert np.array_equal(interpret(func, (a,))["B"], want)
    ((made,),) = [kernel.maps for kernel in emit(func).kernels]
    assert made.box == (8, 1, 32)


def test_a_box_whose_columns_lie_before_its_rows_is_refused() -> None:
    turned = BETWEEN.replace("A[i * 8 + x, h + 1, j * 32 + y]", "A[j * 32 + y, h + 1, i * 8 + x]").replace(
        "< m, ", "< n, "
    )
    with pytest.raises(ScheduleError, match="columns of a box lie along the last dimension of the array, and its rows"):
        lp.Schedule(lp.parse(turned)).tensorize("x", "tma_load_8x32_f32")


def test_another_test_than_what_is_inside_is_refused() -> None:
    s = lp.Schedule(lp.parse(EDGES.format(test="i * 8 + x < n - 1 and j * 32 + y < m")))
    with pytest.raises(ScheduleError, match=r"which is not whether A.* is inside A"):
        s.tensorize("x", "tma_load_8x32_f32")


TWICE = """
def f(A: "float32[6, 8, 32]", B: "out float32[8]", C: "out float32[8]"):
    for t in bind("blockIdx.x", 1):
        with alloc("float32[6, 8, 32]", scope="shared") as T:
            for o in range(6):
                for i in range(8):
                    for j in range(32):
                        T[o, i, j] = A[o, i, j]
            for l in bind("threadIdx.x", 8):
                for p in range(6):
                    for k in range(32):
                        B[l] = sum(T[p, l, k], over=(p, k), init=0.0)
            for l1 in bind("threadIdx.x", 8):
                for q in range(6):
                    for m in range(32):
                        C[l1] = sum(T[q, l1, m] * 2.0, over=(q, m), init=0.0)
"""


def test_a_barrier_of_many_turns_is_passed_by_all_before_the_next_ends() -> None:
    """Each copy is waited for at once, as two loops read; nothing else would keep threads from being a turn late."""
    (func,) = lp.lower(lp.Schedule(lp.parse(TWICE)).tensorize("i", "tma_load_8x32_f32"), "cuda")
    a = np.arange(6 * 8 * 32, dtype=np.float32).reshape(6, 8, 32) % 17
    for seed in range(3):
        found = interpret(func, (a,), seed=seed)
        assert np.array_equal(found["B"], a.sum((0, 2)))
        assert np.array_equal(found["C"], 2 * a.sum((0, 2)))
    late = changed(func, lambda s: replace(s, body=s.body[:-1]) if _waits_last(s) else None)
    with pytest.raises(InterpretError, match=r"a deadlock|passes ring"):
        interpret(late, (a,))


def _waits_last(s: Stmt) -> bool:
    """Whether a loop ends with a wait and a barrier."""
    return isinstance(s, Loop) and s.body[-1:] == (Barrier(),) and any(isinstance(x, MBarrierWait) for x in s.body)
