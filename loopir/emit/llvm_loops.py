"""Loops that LLVM is told to leave alone: one that it would get wrong as a vector, or unroll once more.

Where a loop has a branch, LLVM's vectorizer (22.1 does) takes a division on the way to an address, if it is the same in
all lanes, from where lane 0 does it: `if i <= j: y[j - i] = x[i % n]` reads x at an address that nobody computed where
the condition leaves out the first lane. Divisions by constants it does anywhere, and those are most.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from llvmlite import ir

DIVISIONS = ("sdiv", "srem", "udiv", "urem")


def left_alone(module: Any, again: Any, blocks: Iterable[Any], *, branches: bool, unrolled: bool) -> None:
    """Have LLVM leave alone the loop of `blocks`, which `again` closes.

    It is no vector if it `branches` and divides by what is no constant. It is none either, nor unrolled, if a loop in
    it is `unrolled` by now: so much was asked for, and more of it takes half as long again to compile.
    """
    told: list[Any] = []
    if unrolled or (branches and any(_divides(x) for block in blocks for x in block.instructions)):
        told.append(module.add_metadata(["llvm.loop.vectorize.enable", ir.Constant(ir.IntType(1), 0)]))
    if unrolled:
        told.append(module.add_metadata(["llvm.loop.unroll.disable"]))
    if told:
        loop = module.add_metadata([f"loop {len(module.metadata)}"])
        loop.operands = (loop, *told)  # what is called a loop names itself
        again.set_metadata("llvm.loop", loop)


def _divides(x: Any) -> bool:
    return x.opname in DIVISIONS and not isinstance(x.operands[1], ir.Constant)
