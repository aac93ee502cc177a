"""Programs like one that is given: other sizes, types and operations in the same form.

What a docstring shows a step on is one program, and a rule that is right for it may be wrong for the next. Here all
numbers that are alike, or one of them, become another number, one type another, one operation another, and the whole
may stand in a loop of its own; what is then no program, as it leaves its arrays or reads what nobody wrote, is dropped.
"""

from __future__ import annotations

import re
from math import prod

from hypothesis import strategies as st

from loopir.errors import LoopirError
from loopir.ir.grammar import Func, InstrRegion, Int, Loop
from loopir.ir.parser.parse import parse
from loopir.ir.printer import text
from loopir.ir.traverse.walk import StmtPath, leaf_paths, loops, statements
from loopir.testing.generate.draws import between, choose
from loopir.testing.oracles.brute_force import first_violation, larger_sizes, runs, small_sizes

NUMBER = re.compile(r"(?<![\w.\"])\d+(?![\w.\"])")
TYPES = {
    "float32": ("float16", "bfloat16", "float64"),
    "int32": ("int64", "int16", "uint32"),
    "float16": ("bfloat16", "float32"),
    "bfloat16": ("float16", "float32"),
}
OPERATIONS = ((" * ", " + "), (" + ", " - "), (" * ", " - "), ("sum(", "max("), ("max(", "min("), ("exp(", "abs("))
MOST_TRIPS = 2000
"""A statement that runs more often makes a program too long to run again and again."""
LARGEST_NUMBER = 40
"""No number becomes larger, as the program is to be run again and again."""
SMALLER = (4, 8, 16, 32)
"""What a number that is larger becomes."""


@st.composite
def varied(draw: st.DrawFn, func: Func, most: int = 3) -> Func:
    """`func` after up to `most` changes that leave it a program."""
    fixed = any(
        isinstance(s, InstrRegion) or (isinstance(s, Loop) and s.kind != "serial") for s in statements(func.body)
    )
    for _ in range(draw(between(1, most))):
        kind = draw(between(0, 4))
        source = text(func)
        if kind < 3:
            source = _numbers(draw, source)
        elif kind == 3 and not fixed:
            source = _types(draw, source)
        else:
            one, other = choose(draw, OPERATIONS)
            source = source.replace(one, other, 1)
        func = _program(source) or func
    return func


def _numbers(draw: st.DrawFn, source: str) -> str:
    """All numbers that are alike, or one place, as another number."""
    head, colon, body = source.partition("\n")
    found = [int(x.group()) for x in NUMBER.finditer(source)]
    if not found:
        return source
    old = choose(draw, sorted(set(found)))
    near = between(max(0, old - 3), min(LARGEST_NUMBER, old + 3)) if old <= LARGEST_NUMBER else st.sampled_from(SMALLER)
    new = str(draw(near))
    if draw(between(0, 3)):
        return NUMBER.sub(lambda m: new if int(m.group()) == old else m.group(), source)
    places = [m for m in NUMBER.finditer(body) if int(m.group()) == old]
    if not places:
        return source
    at = choose(draw, places)
    return f"{head}{colon}{body[: at.start()]}{new}{body[at.end() :]}"


def _types(draw: st.DrawFn, source: str) -> str:
    old = choose(draw, sorted(TYPES))
    return re.sub(rf"\b{old}\b", choose(draw, TYPES[old]), source)


def _program(source: str) -> Func | None:
    """What `source` says, if that is a program that runs, and keeps what its loops promise."""
    try:
        func = parse(source)
        if longest(func) > MOST_TRIPS or not small_sizes(func):
            return None
        few = [at for at in small_sizes(func) if all(n < 3 for n in at.values())] + larger_sizes(func)
        serial = all(x.kind == "serial" for x in loops(func.body))
        holds = all(runs(func, [at]) for at in few) and (serial or first_violation(func, func, few[-2:]) is None)
        return func if holds else None
    except (LoopirError, ValueError, OverflowError, TypeError):
        return None


def longest(func: Func) -> int:
    """How often that statement runs that runs most often, but for loops whose length is no number."""
    return max((_trips(p) for p in leaf_paths(func.body)), default=0)


def _trips(p: StmtPath) -> int:
    """How often a statement runs, but for loops whose length is no number."""
    return prod(x.extent.value for x in p.loops if isinstance(x.extent, Int))
