"""Random kernels of the newer kind: warps that only copy, blocks that share copies, tiles in turn, boxes that leave.

Each is a text with holes, bound as a schedule would bind it, and the steps that make it so. Boxes are of two rows of
sixteen elements, and blocks of one warpgroup or two, so that the interpreter has few threads to run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from hypothesis import strategies as st

from loopir.errors import ScheduleError
from loopir.ir.parser.parse import parse
from loopir.schedule import Schedule
from loopir.testing.generate.draws import choose
from loopir.testing.generate.gpu_programs import Bound

T = TypeVar("T")
Pick = Callable[..., int]
LOAD, STORE = "tma_load_2x16_f32", "tma_store_2x16_f32"

FILLED = """
def f(A: "float32[{tiles}, {rows}, 16]", B: "inout float32[{tiles}, {groups}, 4, 32]"):
    for t in bind("blockIdx.x", {blocks}):
        for u in range(({tiles} - t + {blocks} - 1) // {blocks}):
            for o in range({turns}):
                with alloc("float32[{high}, 16]", scope="shared") as T:
                    for q in range({boxes}):
                        for i in range(2):
                            for j in range(16):
                                T[q * 2 + i, j] = A[u * {blocks} + t, o + q * 2 + i, j]
                    for g in bind("warpgroup", {groups}):
                        for w in bind("warp.x", 4):
                            for l in bind("lane", 32):
                                B[u * {blocks} + t, g, w, l] = sum(T[{read}, l % 16], over=o)
"""
"""Blocks that stay take tile after tile; each has turns, in which boxes come and all warpgroups read them."""

IN_TURN = """
def f(n: "size", A: "float32[{tiles}, {rows}, 16]", B: "inout float32[{tiles}, {groups}, 4, 32]"):
    for t in bind("blockIdx.x", 1):
        for u in range({tiles}):
            for g in range({groups}):
                if {guard}:
                    for o in range({turns}):
                        with alloc("float32[2, 16]", scope="shared") as T:
                            for i in range(2):
                                for j in range(16):
                                    T[i, j] = A[u, o + g + i, j]
                            for w in bind("warp.x", 4):
                                for l in bind("lane", 32):
                                    B[u, g, w, l] = sum(T[{read}, l % 16], over=o)
"""
"""Warpgroups that have the tiles in turn, some of them none."""

ALTERNATING = """
def f(A: "float32[{tiles}, {rows}, 16]", B: "inout float32[{tiles}, {groups}, 4, 32]",
        C: "inout float32[{tiles}, {groups}, 4, 32]"):
    for t in bind("blockIdx.x", {blocks}):
        for u in range(({tiles} - t + {blocks} - 1) // {blocks}):
            for o in range({turns}):
                with alloc("float32[2, 16]", scope="shared") as T:
                    for i in range(2):
                        for j in range(16):
                            T[i, j] = A[u * {blocks} + t, o + i, j]
                    for g in bind("warpgroup", {groups}):
                        for w in bind("warp.x", 4):
                            for l in bind("lane", 32):
                                B[u * {blocks} + t, g, w, l] = sum(T[{read}, l % 16], over=o)
                    for h in bind("warpgroup", {groups}):
                        for x in bind("warp.x", 4):
                            for m in bind("lane", 32):
                                C[u * {blocks} + t, h, x, m] = max(T[1 - {read}, m % 16], over=o)
"""
"""Warpgroups that take turns with one of two loops, or with both."""

SHARED = """
def f(A: "float32[{tiles}, 8, 16]", B: "inout float32[{tiles}, 2, 4, 32]"):
    for r in bind("cluster", 2):
        for u in range({tiles}):
            for o in range({turns}):
                with alloc("float32[4, 16]", scope="shared") as T:
                    for p in range(2):
                        for i in range(2):
                            for j in range(16):
                                T[p * 2 + i, j] = A[u, {first} + p * 2 + i, j]
                    for w in bind("warp.x", 4):
                        for l in bind("lane", 32):
                            B[u, r, w, l] = sum(T[{read}, l % 16], over=o)
"""
"""Blocks of a cluster that copy the same, or, once in a while, not."""

LEAVING = """
def f(A: "float32[{rows}, 16]", C: "out float32[{rows}, 16]"):
    for b in bind("blockIdx.x", 1):
        for t in range({times}):
            with alloc("float32[{room}, 16]", scope="shared") as T:
                for s in range({slices}):
                    for i in bind("threadIdx.x", 2):
                        for j in range(16):
                            T[s % {slots} * 2 + i, j] = A[(t * {slices} + s) * 2 + i, j] * 2.0
                    for r in range(2):
                        for c in range(16):
                            C[(t * {slices} + s) * 2 + r, c] = T[s % {slots} * 2 + r, c]
"""
"""Threads make boxes, which one of them has copied out while the next ones are made."""


@dataclass(frozen=True)
class Form:
    """A text, what draws its holes, and the steps, of which those that are refused are left out."""

    text: str
    holes: Callable[[Pick], dict[str, object]]
    steps: Callable[[Schedule, int], list[tuple[str, tuple[object, ...], dict[str, object]]]]


def _filled_ring(pick: Pick) -> dict[str, object]:
    boxes, turns = pick(1, 2), pick(2, 1, 3)
    rows = 2 * boxes + turns
    tiles, blocks = pick(1, 2, 3), pick(1, 2)
    return {"tiles": tiles, "blocks": blocks, "turns": turns, "boxes": boxes, "rows": rows, "high": 2 * boxes,
            "groups": pick(1, 2), "read": pick(0, 1)}  # fmt: skip


def _alternating(pick: Pick) -> dict[str, object]:
    turns, blocks = pick(2, 1, 3), pick(1, 2)
    return {"tiles": pick(1, 2, 3), "blocks": blocks, "turns": turns, "rows": turns + 1, "groups": pick(2, 2, 3),
            "read": pick(0, 1)}  # fmt: skip


def _in_turn(pick: Pick) -> dict[str, object]:
    guard = ("0 <= u", "g + u != 1", "u < n", "g < n")[pick(0, 1, 2, 3)]
    return {"tiles": pick(1, 2, 3), "groups": 2, "turns": ("2", "1", "3", "n")[pick(0, 1, 2, 3)], "guard": guard,
            "rows": "n + 6", "read": pick(0, 1)}  # fmt: skip


def _shared_ring(pick: Pick) -> dict[str, object]:
    return {
        "tiles": pick(1, 2),
        "turns": pick(2, 1, 3),
        "first": ("o", "o", "o + r")[pick(0, 1, 2)],
        "read": pick(0, 3),
    }


def _leaving(pick: Pick) -> dict[str, object]:
    times, slices, slots = pick(1, 2), pick(2, 3, 4), pick(1, 2)
    return {"times": times, "slices": slices, "slots": slots, "room": 2 * slots, "rows": 2 * times * slices}


def _roles(s: Schedule, stages: int) -> list[tuple[str, tuple[object, ...], dict[str, object]]]:
    return [("tensorize", ("i", LOAD), {}), ("specialize_warps", ("o",), {"stages": stages})]


def _alternating_steps(s: Schedule, stages: int) -> list[tuple[str, tuple[object, ...], dict[str, object]]]:
    """Turns with one of the loops, or with both, of up to three warpgroups beside the one that copies."""
    ahead = ("specialize_warps", ("o",), {"stages": stages, "registers": (24, 160)})
    return [("tensorize", ("i", LOAD), {}), ahead, ("alternate", ("g", "h") if stages == 2 else ("h",), {})]


FORMS: dict[str, Form] = {
    "filled": Form(FILLED, _filled_ring, _roles),
    "in turn": Form(IN_TURN, _in_turn, lambda s, n: [*_roles(s, n), ("bind", ("g", "warpgroup"), {})]),
    "alternating": Form(ALTERNATING, _alternating, _alternating_steps),
    "shared": Form(SHARED, _shared_ring, lambda s, n: [("multicast", ("p",), {}), *_roles(s, n)]),
    "leaving": Form(LEAVING, _leaving, lambda s, n: [("tensorize", ("r", STORE), {})]),
}


@st.composite
def warp_kernels(draw: st.DrawFn, *names: str) -> Bound:
    """A kernel of one of the forms called `names`, or of any."""
    form = FORMS[draw(st.sampled_from(names or tuple(FORMS)))]

    def pick(*options: int) -> int:
        return choose(draw, options)

    before = parse(form.text.format(**form.holes(pick)))
    s = Schedule(before)
    for name, args, kwargs in form.steps(s, pick(2, 3)):
        try:
            s = getattr(s, name)(*args, **kwargs)
        except ScheduleError:
            continue
    return Bound(before, s)
