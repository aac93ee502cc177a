"""Rings filled at several places, products waited for as needed, fragments of other tiles beside one another."""

from __future__ import annotations

import math
import re
from typing import Any

import attention_nests
import ml_dtypes
import numpy as np
import pytest
from attention_programs import reference

import loopir as lp
from loopir.errors import InterpretError, LowerError
from loopir.interp.interpret import interpret
from loopir.ir.grammar import AsyncWait, Func, MBarrierInit, MBarrierWait, Stmt
from loopir.ir.traverse.walk import replace, rewrite, statements
from loopir.lower.gpu.asynchronous.insert_wgmma_waits import GROUP
from loopir.runtime.cuda.disassembler import disassemble

SMALL: dict[str, Any] = {"rows": 64, "keys": 32, "depth": 64, "heads": 1}
CASES: dict[str, dict[str, Any]] = {
    "plain": {"length": 64},
    "overlapped, causal": {"length": 64, "keys": 16, "overlapped": True, "causal": True},
    "in turns, by boxes": {
        "length": 64, "heads": 2, "overlapped": True, "boxes": True, "order": "persistio", "blocks": 1,
    },
}  # fmt: skip


def lowered(**how: Any) -> Func:
    return lp.lower(attention_nests.scheduled(**(SMALL | how)), "cuda")[0]


def ran(func: Func, length: int, causal: bool) -> float:
    """How far off the results are that the interpreter gives, told of races and early reads."""
    rng = np.random.default_rng(0)
    heads = func.args[0].buffer.shape[0]
    shape = (getattr(heads, "value", 1), length, 64)
    q, k, v = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for _ in "qkv")
    out = interpret(func, (q, k, v))["O"].astype(np.float64)
    return float(np.abs(out - reference(q, k, v, mask=(lambda i, j: j <= i) if causal else None)).max())


@pytest.mark.parametrize("name", CASES)
def test_the_lowered_nest_is_right(name: str) -> None:
    how = CASES[name]
    assert ran(lowered(**how), how["length"], how.get("causal", False)) < 0.02


# ---------------------------------------------------------------- seeded faults

OVERLAPPED: dict[str, Any] = {"length": 64, "keys": 16, "overlapped": True}


def faulty(change: str) -> Func:
    func = lowered(**OVERLAPPED)
    waits = [s for s in statements(func.body) if isinstance(s, AsyncWait) and s.group == GROUP]
    awaits = [s for s in statements(func.body) if isinstance(s, MBarrierWait)]
    full = [s for s in awaits if "full" in s.slot.buffer.name]

    def visit(s: Stmt) -> Stmt | tuple[Stmt, ...] | None:
        if change == "a group later" and isinstance(s, AsyncWait) and s is next(w for w in waits if w.pending == 1):
            return replace(s, pending=2)
        if change == "not waited for" and s is waits[0]:
            return ()
        if change == "filled too early" and isinstance(s, MBarrierWait) and s is full[-1]:
            return ()
        return None

    return replace(func, body=rewrite(func.body, visit))


@pytest.mark.parametrize("change", ["a group later", "not waited for", "filled too early"])
def test_a_fault_in_the_waits_is_found(change: str) -> None:
    with pytest.raises(InterpretError):
        ran(faulty(change), 64, causal=False)


# ---------------------------------------------------------------- what is refused


def changed(pattern: str, new: str, **how: Any) -> lp.Schedule:
    text = attention_nests.nest(**(SMALL | OVERLAPPED | how))
    found, count = re.subn(pattern, new, text)
    assert count
    return attention_nests.scheduled(**(SMALL | OVERLAPPED | how), text=found)


REFUSED = {
    "another buffer of the ring": (r"Ks\[\(jo \+ 1\) % 2, jsb", "Ks[jo % 2, jsb", "uses another one, too"),
    "a lane that does not hold it": (r"jub // 2 % 4", "jub % 4", "which lane"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_proved_is_refused(name: str) -> None:
    pattern, new, told = REFUSED[name]
    with pytest.raises(LowerError, match=told):
        lp.lower(changed(pattern, new), "cuda")


def test_groups_are_waited_for_one_by_one() -> None:
    """The scores of the next block are there while the products of this one are still under way."""
    waits = [s.pending for s in statements(lowered(**OVERLAPPED).body) if isinstance(s, AsyncWait) and s.group == GROUP]
    assert waits == [0, 1, 0, 0]


def test_each_ring_has_one_pair_of_barriers() -> None:
    """K is filled before the loop and in it, V in it and after it, Q once."""
    func = lowered(**OVERLAPPED)
    assert len([s for s in statements(func.body) if isinstance(s, MBarrierInit)]) == 2 * 3
    assert len({s.slot.buffer.name for s in statements(func.body) if isinstance(s, MBarrierWait)}) == 2 * 3


def alone(rows: int) -> str:
    row = f"y // 64 * {rows * 64} + x * 64 + (y // 8 % 8 ^ x % 8) * 8 + y % 8"
    return f'scope="shared", layout=mapped(lambda slot, x, y: slot * {rows * 64} + {row})'


def filled_twice() -> lp.Schedule:
    """One buffer, filled twice, and two products of it that nothing between them waits for."""

    def fill(p: str, to: str, array: str, rows: int, begin: int) -> str:
        return f"""
        with role(24, 240):
            for r{p} in range({rows}):
                for x{p} in range(64):
                    {to}[0, r{p}, x{p}]: "fill{p}" = {array}[{begin} + r{p}, x{p}]"""

    def product(p: str, to: str) -> str:
        one, other = f"Qs[0, w{p} * 64 + i{p}, o{p} * 16 + d{p}]", f"Ks[0, j{p}, o{p} * 16 + d{p}]"
        terms = f"float32({one}) * float32({other}), over=(o{p}, d{p}), init=0.0"
        return f"""
        for w{p} in bind("warpgroup", 1):
            for o{p} in unroll(4):
                for i{p} in range(64):
                    for j{p} in range(16):
                        for d{p} in range(16):
                            {to}[w{p} * 64 + i{p}, j{p}]: "{to}" = sum({terms})"""

    def stored(p: str, of: str, begin: int) -> str:
        return f"""
        for u{p} in bind("warpgroup", 1):
            for v{p} in range(64):
                for y{p} in range(16):
                    O[u{p} * 64 + v{p}, {begin} + y{p}]: "O{p}" = {of}[u{p} * 64 + v{p}, y{p}]"""

    text = f"""
def f(Q: "bfloat16[64, 64]", K: "bfloat16[32, 64]", O: "out float32[64, 32]"):
    with alloc("bfloat16[1, 64, 64]", {alone(64)}) as Qs, alloc("bfloat16[1, 16, 64]", {alone(16)}) as Ks, alloc("float32[64, 16]", scope="fragment") as S, alloc("float32[64, 16]", scope="fragment") as T:
{fill("q", "Qs", "Q", 64, 0)}{fill("a", "Ks", "K", 16, 0)}{product("a", "S")}{fill("b", "Ks", "K", 16, 16)}{product("b", "T")}{stored("a", "S", 0)}{stored("b", "T", 16)}
"""  # noqa: E501
    s = lp.Schedule(lp.parse(text))
    for p, rows in (("q", 64), ("a", 16), ("b", 16)):
        s = s.tensorize(f"r{p}", f"tma_load_{rows}x64_bf16")
    return s.tensorize("ia", "wgmma_m64n16k16_bf16_bt").tensorize("ib", "wgmma_m64n16k16_bf16_bt")


def test_a_buffer_is_given_back_before_its_next_turn_is_waited_for() -> None:
    func = lp.lower(filled_twice(), "cuda")[0]
    rng = np.random.default_rng(0)
    q, k = (rng.integers(-4, 5, n).astype(ml_dtypes.bfloat16) for n in ((64, 64), (32, 64)))
    wanted = q.astype(np.float32) @ k.astype(np.float32).T
    np.testing.assert_array_equal(interpret(func, (q, k))["O"], wanted)


# ---------------------------------------------------------------- what ptxas makes of it

TILES: dict[str, dict[str, Any]] = {
    "128 x 176, depth 128": {"rows": 128, "keys": 176, "depth": 128},
    "128 x 128, depth 128, causal": {
        "rows": 128, "keys": 128, "depth": 128, "causal": True, "descending": True, "peel": True,
    },
    "128 x 192, depth 64": {"rows": 128, "keys": 192, "depth": 64},
}  # fmt: skip


@pytest.mark.parametrize("name", TILES)
def test_nothing_is_spilled_and_each_product_is_one_instruction(name: str) -> None:
    """Products serialised by ptxas (messages C75xx) would end the build."""
    how = TILES[name]
    length = 2 * math.lcm(how["rows"], how["keys"])
    made = lp.compile_source(attention_nests.scheduled(**how, heads=4, length=length, overlapped=True), "sm_90a")
    (used,) = made.resources.values()
    assert (used.spill_stores, used.spill_loads) == (0, 0)
    issued = [line for line, _ in disassemble(made.cubin) if "HGMMA" in line]
    assert len(issued) == 2 * (how["depth"] // 16 + how["keys"] // 16)  # of a turn, and of the first or the last one
