"""Programs that hold what an instruction does: its nest in a loop, on parts of arrays or on memory of its own kind."""

from __future__ import annotations

import re
from functools import cache
from math import prod

from hypothesis import strategies as st

import loopir.intrinsics  # noqa: F401  (registers the instructions)
from loopir.ir.grammar import Arg, Func, Int
from loopir.ir.ops import INSTRUCTIONS, MEMORIES
from loopir.ir.parser.parse import parse
from loopir.ir.printer import text
from loopir.testing.generate.draws import between, choose, lines

MOST = 2048
"""Iterations of an instruction that may be run again and again."""
OWN = ("shared", "local", "fragment")
"""Memory that an instruction may want its operands in, and that a program has to allocate."""


@st.composite
def instructed(draw: st.DrawFn) -> Func:
    """A program around the nest of some instruction, mostly a small one, that repeats it on one part after another."""
    small = [n for n in _usable() if _iterations(n) <= 64]
    fn = INSTRUCTIONS[choose(draw, small if draw(between(0, 7)) else _usable())]
    n, tiles = draw(between(1, 3)), draw(st.booleans())
    args, owned, fill, drain = list[str](), list[str](), list[str](), list[str]()
    body = "\n".join(text(fn.meaning).splitlines()[1:])
    for a in fn.meaning.args:
        b, name = a.buffer, a.buffer.name
        shape = [x.value for x in b.shape if isinstance(x, Int)]
        along = tiles and len(shape) > 0
        dims = [*shape[:-1], n * shape[-1]] if along else [n, *shape]
        given = f"{name}_all" if b.scope in OWN else name
        args.append(f'{given}: "{a.access + " " if a.access != "in" else ""}{b.dtype.name}{dims}"')
        vs = [f"{name.lower()}{d}" for d in range(len(shape))]
        at = [*vs[:-1], f"part * {shape[-1]} + {vs[-1]}"] if along else ["part", *vs]
        if b.scope not in OWN:
            body = _shifted(body, name, shape[-1] if along else None)
            continue
        owned.append(f'alloc("{b.dtype.name}{shape}", scope="{b.scope}") as {name}')
        here, there = f"{name}[{', '.join(vs) or '()'}]", f"{given}[{', '.join(at)}]"
        if a.access != "out":
            fill += _copy(vs, shape, f'{here}: "{name}_fill" = {there}', f"{name}_f")
        if a.access != "in":
            drain += _copy(vs, shape, f'{there}: "{name}_drain" = {here}', f"{name}_d")
    deep = " " * (12 if owned else 8)
    nest = [deep + x for x in (*fill, *(line[4:] for line in body.splitlines()), *drain)]
    head = [f"def instructed({', '.join(args)}):", f"    for part in range({n}):"]
    return parse(lines(*head, *([f"        with {', '.join(owned)}:"] if owned else []), *nest))


def _shifted(body: str, name: str, run: int | None) -> str:
    """`body` with each element of `name` in part `part` of an array: of its last dimension, or of a first one."""

    def moved(m: re.Match[str]) -> str:
        at = [] if m.group(1) == "()" else m.group(1).split(", ")
        if run is None:
            return f"{name}[{', '.join(['part', *at])}]"
        return f"{name}[{', '.join([*at[:-1], f'part * {run} + {at[-1]}'])}]"

    return re.sub(rf"\b{name}\[([^\]]*)\]", moved, body)


def _copy(vs: list[str], shape: list[int], store: str, loop: str) -> list[str]:
    """A nest around `store`, whose loops are called after `loop`."""
    for v in vs:
        store = re.sub(rf"\b{v}\b", f"{loop}{v}", store)
    out = [f"{'    ' * d}for {loop}{v} in range({size}):" for d, (v, size) in enumerate(zip(vs, shape, strict=True))]
    return [*out, "    " * len(vs) + store]


@cache
def _usable() -> list[str]:
    """Instructions on memory that there is by itself, in which no more is done than can be run."""
    return [n for n, fn in INSTRUCTIONS.items() if _iterations(n) <= MOST and all(map(_plain, fn.meaning.args))]


def _plain(a: Arg) -> bool:
    return a.buffer.scope not in MEMORIES and all(isinstance(x, Int) for x in a.buffer.shape)


def _iterations(name: str) -> int:
    """About as many as the elements that an instruction touches."""
    shapes = [a.buffer.shape for a in INSTRUCTIONS[name].meaning.args]
    return max((prod(x.value for x in shape if isinstance(x, Int)) for shape in shapes), default=1)
