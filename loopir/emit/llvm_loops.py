"""Loops that LLVM must not turn into vectors, as it would get them wrong.

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


def keep_scalar(module: Any, again: Any, blocks: Iterable[Any]) -> None:
    """Have LLVM leave alone the loop of `blocks`, which `again` closes, if it divides by what is no constant."""
    if not any(_divides(x) for block in blocks for x in block.instructions):
        return
    disabled = ir.Constant(ir.IntType(1), 0)
    leave = module.add_metadata(["llvm.loop.vectorize.enable", disabled])
    loop = module.add_metadata([f"scalar {len(module.metadata)}"])
    loop.operands = (loop, leave)  # what is called a loop names itself
    again.set_metadata("llvm.loop", loop)


def _divides(x: Any) -> bool:
    return x.opname in DIVISIONS and not isinstance(x.operands[1], ir.Constant)
