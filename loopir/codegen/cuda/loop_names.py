"""Shorten the names of loops that splitting and fusing have made long."""

from __future__ import annotations

from itertools import count

from loopir.ir.grammar import AXES, Buffer, Kernel, Loop, Var
from loopir.ir.traverse.walk import nodes, statements

LONGEST = 8
"""Characters of a name that is left as it is."""


def short_loop_names(kernel: Kernel) -> dict[str, str]:
    """Names for the loops of `kernel` whose own are longer than LONGEST: of blocks, warps and threads what they are, of
    others the first loop that they were made of, and a number. No two names of the kernel become one."""
    loops = [s for s in statements(kernel.body) if isinstance(s, Loop)]
    taken = {n.name for n in nodes(kernel) if isinstance(n, Var | Buffer)} | {s.var for s in loops}
    kinds = {s.kind: s.var for s in loops if s.kind in AXES}
    found: dict[str, str] = {}
    for loop in dict.fromkeys(s.var for s in loops):
        if len(loop) > LONGEST:
            kind = next((k for k, var in kinds.items() if var == loop), None)
            found[loop] = _unused(loop.partition("_")[0] if kind is None else _of_axis(kind, kinds), kind, taken)
            taken.add(found[loop])
    return found


def _of_axis(kind: str, kinds: dict[str, str]) -> str:
    """What the index of an axis is called: with its letter where there are several axes of its kind."""
    what, _, letter = kind.partition(".")
    group = [k for k in kinds if k.startswith(what)]
    if what == "threadIdx" and kinds.get("threadIdx.x") == "lane":
        return "warp" if len(group) == 2 else f"warp_{letter}"
    name = {"blockIdx": "block", "threadIdx": "thread"}.get(what, what)
    return name if len(group) == 1 else f"{name}_{letter}"


def _unused(root: str, kind: str | None, taken: set[str]) -> str:
    """`root`, numbered where that is taken; loops inside a thread are always numbered."""
    numbered = (f"{root}_{n}" for n in count(1))
    return root if kind is not None and root not in taken else next(x for x in numbered if x not in taken)
