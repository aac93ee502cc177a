"""Programs of the forms that people schedule, drawn at random: what a nest drawn statement by statement seldom is.

A family is a text with holes: sizes, offsets, orders of loops, types and operations are drawn, and the rest is there by
construction, so that a step which wants a producer beside its consumer, a copy in a loop or a matrix product has a fair
chance to find one. `loopir.testing.generate.strategies.funcs` draws from these beside nests of any form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import cache

from hypothesis import strategies as st

import loopir.intrinsics  # noqa: F401  (registers the operations)
from loopir.ir.grammar import Func
from loopir.ir.parser.parse import parse
from loopir.schedule.core.doc import examples
from loopir.schedule.core.primitive import PRIMITIVES
from loopir.testing.generate import gpu_families, reduction_families
from loopir.testing.generate.draws import Draws, lines, loop_order, zero
from loopir.testing.oracles.last_writers import asks_memory

WIDE = ("float32", "int32", "float64", "int64", "uint32")
"""The types that a family may take: wide enough for its numbers, and not of truth values."""


# ---------------------------------------------------------------- the families


def pointwise(d: Draws) -> str:
    """Stages of one shape, each of what the one before has at the same place, or mirrored; intermediates or outputs."""
    decl, n = d.size("n")
    t, rank, count = d.type(), d.number(1, 2), d.number(2, 4)
    shape = ", ".join([n, "4"][:rank])
    out = [f'def pointwise({decl}A: "{t}[{shape}]", Y: "out {t}[{shape}]"{_inout(d, t, shape)}):']
    depth, source, names = 1, "A", ["A"]
    for k in range(count):
        last = k == count - 1
        target = "Y" if last else f"T{k}"
        if not last:
            out.append(f'{"    " * depth}with alloc("{t}[{shape}]") as {target}:')
            depth += 1
        v, w = f"i{k}", f"j{k}"
        loops = {v: n, w: "4"} if rank == 2 else {v: n}
        head, inner = loop_order(d, loops, depth)
        back = d.number(0, 5) == 0
        at = ", ".join([v, w][:rank])
        read = ", ".join([f"{n} - 1 - {v}" if back else v, w][:rank])
        more = [f"{d.pick(*names)}[{at}]"] if d.chance() else []
        out += [head, f"{'    ' * inner}{target}[{at}] = {d.value(f'{source}[{read}]', *more, t=t)}"]
        names.append(target)
        source = target
    return lines(*out)


def _inout(d: Draws, t: str, shape: str) -> str:
    return f', X: "inout {t}[{shape}]"' if d.number(0, 3) == 0 else ""


def stencils(d: Draws) -> str:
    """Stages that each read a neighbourhood of the one before, which is as much larger."""
    decl, n = d.size("n")
    t, count, rank = d.type(), d.number(1, 3), d.number(1, 2)
    reach = [d.number(1, 2) for _ in range(count + 1)]
    sizes = [f"{n} + {sum(reach[k:])}" for k in range(count + 1)] + [n]
    dims = [", ".join([s, "3"][:rank]) for s in sizes]
    out = [f'def stencils({decl}A: "{t}[{dims[0]}]", Y: "out {t}[{dims[-1]}]"):']
    depth, source = 1, "A"
    for k in range(count + 1):
        target = "Y" if k == count else f"T{k}"
        if k < count:
            out.append(f'{"    " * depth}with alloc("{t}[{dims[k + 1]}]") as {target}:')
            depth += 1
        v, w = f"i{k}", f"j{k}"
        head, inner = loop_order(d, {v: sizes[k + 1], w: "3"} if rank == 2 else {v: sizes[k + 1]}, depth)
        tail = f", {w}" if rank == 2 else ""
        offsets = sorted({0, reach[k], d.number(0, reach[k])})
        loads = [f"{source}[{v} + {x}{tail}]" if x else f"{source}[{v}{tail}]" for x in offsets]
        out += [head, f"{'    ' * inner}{target}[{v}{tail}] = {d.value(*loads, t=t)}"]
        source = target
    return lines(*out)


def product(d: Draws) -> str:
    """A matrix product, perhaps transposed, with something done to its result."""
    (decl, n), t = d.size("n"), d.type()
    m, k = d.number(1, 5), d.pick("4", "3", n)
    a, b = d.pick("A[i, k]", "A[k, i]"), d.pick("B[k, j]", "B[j, k]")
    shape_a = f"{n}, {k}" if a == "A[i, k]" else f"{k}, {n}"
    shape_b = f"{k}, {m}" if b == "B[k, j]" else f"{m}, {k}"
    epilogue = d.chance()
    head = f'def product({decl}A: "{t}[{shape_a}]", B: "{t}[{shape_b}]", Y: "out {t}[{n}, {m}]"):'
    order, depth = loop_order(d, {"i": n, "j": str(m), "k": k}, 2 if epilogue else 1)
    target = "C" if epilogue else "Y"
    out = [head, *([f'    with alloc("{t}[{n}, {m}]") as C:'] if epilogue else []), order]
    out.append(f"{'    ' * depth}{target}[i, j] = sum({a} * {b}, over=k, init={zero(t)})")
    if epilogue:
        again, depth = loop_order(d, {"i_1": n, "j_1": str(m)}, 2)
        out += [again, f"{'    ' * depth}Y[i_1, j_1] = {d.value('C[i_1, j_1]', t=t)}"]
    return lines(*out)


def dots(d: Draws) -> str:
    """Products of small integers, four at a time, as an instruction does them; or copies of vectors."""
    decl, n = d.size("n")
    left, right = d.pick(("A[i, q * 4 + k]", "B[q * 4 + k]"), ("B[q * 4 + k]", "A[i, q * 4 + k]"))
    r = d.number(3, 4) if d.number(0, 3) == 0 else 4
    start = "" if d.chance() else ", init=0"
    over = d.pick("(q, k)", "(q, k)", "k") if not start else "(q, k)"
    folded = f"Y[i] = sum(int32({left}) * int32({right}), over={over}{start})"
    return lines(
        f'def dots({decl}A: "int8[{n}, 8]", B: "int8[8]", Y: "{"inout" if not start else "out"} int32[{n}]"):',
        f"    for i in range({n}):",
        "        for q in range(2):",
        f"            for k in range({r}):",
        f"                {folded}",
    )


def copied(d: Draws) -> str:
    """Each iteration fills memory of its own from what the loop leaves alone, mostly, and uses it."""
    (decl, n), t, w = d.size("n"), d.type(), d.number(1, 4)
    scope = d.pick("", ', scope="shared"', ', scope="local"')
    source = d.pick("A", "A", "A", "X")
    guard = d.number(0, 3) == 0
    fill = f"T[x] = {source}[i, {d.pick('x', f'{w - 1} - x')}]"
    use = d.pick(f"Y[i, y] = {d.value('T[y]', f'T[{w - 1} - y]', t=t)}", f"X[i, y] = {d.value('T[y]', t=t)}")
    kind = d.pick("store", "store", "fold")
    mat = f"{t}[{n}, {w}]"
    out = [
        f'def copied({decl}A: "{mat}", X: "inout {mat}", Y: "inout {mat}", S: "inout {t}[{w}]"):',
        f"    for i in range({n}):",
        f'        with alloc("{t}[{w}]"{scope}) as T:',
        f"            for x in range({w}):",
    ]
    out += [f"                if i + x < {n}:" if guard else "", f"{'    ' * (5 if guard else 4)}{fill}"]
    out += [f"            for y in range({w}):", f"                if i + y < {n}:" if guard else ""]
    used = use if kind == "store" and not guard else "S[y] = sum(T[y], over=i)"
    out.append(f"{'    ' * (5 if guard else 4)}{used}")
    return lines(*(x for x in out if x))


def scratch(d: Draws) -> str:
    """Memory outside of a loop that each iteration fills anew, mostly, and uses."""
    (decl, n), t, w = d.size("n"), d.type(), d.number(1, 4)
    fill = f"                T[x] = {d.value('A[i, x]', t=t)}"
    some = d.number(0, 5) == 0
    return lines(
        f'def scratch({decl}A: "{t}[{n}, {w}]", Y: "inout {t}[{n}, {w}]"):',
        f'    with alloc("{t}[{w}]") as T:',
        f"        for i in range({n}):",
        f"            for x in range({w}):",
        *([f"                if i + x < {w}:", f"    {fill}"] if some else [fill]),
        f"            for y in range({w}):",
        f"                Y[i, y] = {d.value(f'T[{w - 1} - y]', *(['T[y]'] if d.chance() else []), t=t)}",
    )


def tails(d: Draws) -> str:
    """Tiles that stick out over an edge, copied under a guard and used under one, as pad wants them."""
    decl, n = ('n: "size", ', "n") if d.symbolic else ("", str(d.number(1, 9)))
    t, w = d.type(), d.pick(2, 4, 3)
    stores = d.chance()
    args = f'Y: "inout {t}[{n}]"' if stores else f'S: "out {t}[1]"'
    folded = d.pick("X[h] * X[h]", "X[h]", f"X[h] * A[k * {w} + h]")
    use = f"Y[k * {w} + h] = X[h]" if stores else f"S[0] = sum({folded}, over=(k, h), init={zero(t)})"
    return lines(
        f'def tails({decl}A: "{t}[{n}]", {args}):',
        f"    for k in range(({n} + {w - 1}) // {w}):",
        f'        with alloc("{t}[{w}]", scope="local") as X:',
        f"            for x in range({w}):",
        f"                if k * {w} + x < {n}:",
        f"                    X[x] = A[k * {w} + x]",
        f"            for h in range({w}):",
        f"                if k * {w} + h < {n}:",
        f"                    {use}",
    )


def several(d: Draws) -> str:
    """Statements in one loop that mostly have nothing to do with one another."""
    (decl, n), t = d.size("n"), d.type()
    names = ["P", "Q", "R"][: d.number(2, 3)]
    args = ", ".join(f'{x}: "inout {t}[{n} + 2]"' for x in names)
    inner = d.chance()
    out = [f'def several({decl}A: "{t}[{n} + 2]", {args}):', f"    for i in range({n}):"]
    for k, x in enumerate(names):
        near = d.pick("A[i]", "A[i + 1]", f"{d.pick(*names)}[i + {d.number(0, 2)}]", "A[0]")
        at = d.pick("i", "i", "i + 1", f"{n} - i")
        store = f"{x}[{at}] = {d.value(near, t=t)}"
        if inner and k:
            out += [f"        for j{k} in range(2):", f"            {x}[{at}] = sum(A[j{k}] + {near}, over=j{k})"]
        else:
            out.append(f"        {store}")
    return lines(*out)


def folds(d: Draws) -> str:
    """Rows folded, by one value or by two, in one go or in tiles, and used afterwards."""
    (decl, n), m = d.size("n"), d.number(1, 6)
    t = "float32"
    pair = d.number(0, 2) == 0 and "float32" in d.types and "int32" in d.types
    if pair:
        head = f'def folds({decl}A: "{t}[{n}, {m}]", V: "out {t}[{n}]", W: "out int32[{n}]"):'
        order, depth = loop_order(d, {"i": n, "k": str(m)}, 1)
        name = d.pick("argmax", "argmin")
        fold = f"V[i], W[i] = {name}(A[i, k], int32(index(k)), over=k, init=(A[i, 0], 0))"
        return lines(head, order, f"{'    ' * depth}{fold}")
    t = d.type()
    monoid = d.pick("sum", "max", "min", "prod")
    start = f", init={zero(t)}" if d.chance() else ""
    head = f'def folds({decl}A: "{t}[{n}, {m}]", S: "{"out" if start else "inout"} {t}[{n}]", Y: "out {t}[{n}]"):'
    tiled = d.chance()
    loops = {"i": n, "k": str((m + 1) // 2), "h": "2"} if tiled else {"i": n, "k": str(m)}
    order, depth = loop_order(d, loops, 1)
    guard = f"if k * 2 + h < {m}:" if tiled else ""
    at, over = ("k * 2 + h", "(k, h)") if tiled else ("k", "k")
    if tiled:
        over = "(" + ", ".join(x for x in _order(order) if x in ("k", "h")) + ")"
    body = f"S[i] = {monoid}(A[i, {at}], over={over}{start})"
    rest = ["    " * depth + guard, "    " * (depth + 1) + body] if guard else ["    " * depth + body]
    return lines(head, order, *rest, f"    for r in range({n}):", f"        Y[r] = {d.value('S[r]', t=t)}")


def _order(heads: str) -> list[str]:
    return [line.split()[1] for line in heads.splitlines()]


def sweeps(d: Draws) -> str:
    """A plane updated in place from cells beside: recurrences of all directions."""
    (decl, n), t = d.size("n"), d.type()
    m = d.number(1, 5)
    reads = {(d.number(0, 2), d.number(0, 2)) for _ in range(d.number(1, 3))}
    at = (d.number(0, 2), d.number(0, 2))
    loads = [_cell("X", x, y) for x, y in sorted(reads)]
    guard = d.pick("", "", "", "if j <= i:", "if i + j < 4:")
    body = f"{_cell('X', *at)} = {d.value(*loads, t=t)}"
    inner = [f"            {guard}", f"                {body}"] if guard else [f"            {body}"]
    return lines(
        f'def sweeps({decl}X: "inout {t}[{n} + 2, {m} + 2]"):',
        f"    for i in range({n}):",
        f"        for j in range({m}):",
        *inner,
    )


def _cell(name: str, x: int, y: int) -> str:
    return f"{name}[{f'i + {x}' if x else 'i'}, {f'j + {y}' if y else 'j'}]"


def steps_in_time(d: Draws) -> str:
    """A line updated again and again, in place or by way of another."""
    (decl, n), t, count = d.size("n"), d.type(), d.number(1, 4)
    loads = [f"X[j + {x}]" if x else "X[j]" for x in sorted({d.number(0, 2), d.number(0, 2)})]
    if d.chance():
        body = [f"            X[j + {d.number(0, 2)}] = {d.value(*loads, t=t)}"]
        return lines(f'def steps({decl}X: "inout {t}[{n} + 2]"):', f"    for s in range({count}):",
                     f"        for j in range({n}):", *body)  # fmt: skip
    alloc = f'    with alloc("{t}[{n}]") as T:' if d.chance() else None
    fill, keep = f"T[j] = {d.value(*loads, t=t)}", f"X[h + {d.number(0, 2)}] = T[h]"
    if alloc is not None:
        return lines(f'def steps({decl}X: "inout {t}[{n} + 2]"):', alloc, f"        for s in range({count}):",
                     f"            for j in range({n}):", f"                {fill}",
                     f"            for h in range({n}):", f"                {keep}")  # fmt: skip
    return lines(f'def steps({decl}X: "inout {t}[{n} + 2]", T: "inout {t}[{n}]"):', f"    for s in range({count}):",
                 f"        for j in range({n}):", f"            {fill}",
                 f"        for h in range({n}):", f"            {keep}")  # fmt: skip


def triangles(d: Draws) -> str:
    """A triangle of a matrix, folded or scaled."""
    (decl, n), t = d.size("n"), d.type()
    extent = d.pick("i + 1", "i", f"{n} - i")
    body = d.pick(
        "X[i] = sum(A[i, j], over=j)", f"B[i, j] = {d.value('A[i, j]', t=t)}", "X[j] = sum(A[i, j] * 2, over=i)"
    )
    if t.startswith("float"):
        body = body.replace("* 2,", "* 2.0,")
    return lines(
        f'def triangles({decl}A: "{t}[{n}, {n}]", X: "inout {t}[{n}]", B: "inout {t}[{n}, {n}]"):',
        f"    for i in range({n}):",
        f"        for j in range({extent}):",
        f"            {body}",
    )


def rings(d: Draws) -> str:
    """A window over rows that are made one iteration ahead; or memory of which only a few rows live at a time."""
    (decl, n), t, reach = d.size("n"), d.type(), d.number(1, 2)
    more = d.number(0, 1)
    return lines(
        f'def rings({decl}A: "{t}[{n} + {reach}]", Y: "out {t}[{n}]"):',
        f'    with alloc("{t}[{n} + {reach}]") as T:',
        f"        for j in range({n}):",
        f"            for i in range({reach + 1} - min(j, 1) * {reach}):",
        f"                T[j + min(j, 1) * {reach} + i] = A[j + min(j, 1) * {reach} + i]",
        f"            Y[j] = {d.value('T[j]', f'T[j + {reach - more * (reach - 1)}]', t=t)}",
    )


def dead(d: Draws) -> str:
    """Intermediates that are needed one after the other, in nests that follow one another or in one loop."""
    (decl, n), t = d.size("n"), d.type()
    inside = d.chance()
    pad = "        " if inside else "    "
    row = "r, " if inside else ""
    shape = f"3, {n}" if inside else n
    out = [f'def dead({decl}A: "{t}[{shape}]", B: "out {t}[{shape}]", C: "out {t}[{shape}]"):']
    out += ["    for r in range(3):"] if inside else []
    beside = d.chance()
    first = [f'with alloc("{t}[{n}]") as T:', f"    for i in range({n}):", f"        T[i] = A[{row}i]",
             f"    for j in range({n}):", f"        B[{row}j] = {d.value(f'T[{n} - 1 - j]', t=t)}"]  # fmt: skip
    read = "A" if beside else d.pick("A", "A", "T")
    second = [f'with alloc("{t}[{n}]") as U:', f"    for k in range({n}):",
              f"        U[k] = {d.value(f'{read}[k]' if read == 'T' else f'A[{row}k]', t=t)}",
              f"    for h in range({n}):", f"        C[{row}h] = {d.value(f'U[{n} - 1 - h]', t=t)}"]  # fmt: skip
    if not beside:
        second = ["    " + x for x in second]
    return lines(*out, *(pad + x for x in (*first, *second)))


def invariant(d: Draws) -> str:
    """Work in a loop that is the same in each iteration."""
    (decl, n), t = d.size("n"), d.type()
    whole = d.chance()
    if whole:
        return lines(
            f'def invariant({decl}A: "{t}[{n}]", w: "{t}[3]", Y: "out {t}[{n}]"):',
            f"    for i in range({n}):",
            f'        with alloc("{t}[]") as T:',
            "            for k in range(3):",
            f"                T[()] = sum(w[k], over=k, init={zero(t)})",
            f"            Y[i] = {d.value('A[i]', 'T[()]', t=t)}",
        )
    return lines(
        f'def invariant({decl}A: "{t}[{n}, 3]", w: "{t}[{n}]", Y: "out {t}[{n}, 3]"):',
        f"    for i in range({n}):",
        "        for j in range(3):",
        f"            Y[i, j] = A[i, j] + {d.pick('w[i] * w[i]', 'w[0] * w[i]', 'w[0] * A[0, 0]')}",
    )


def ragged(d: Draws) -> str:
    """Rows whose length is in memory, and elements that are found there."""
    (decl, n), t = d.size("n"), d.type()
    gather = d.chance()
    args = f'{decl}A: "{t}[{n}, 4]", L: "int32[{n}]", S: "inout {t}[{n}]"'
    if gather:
        fold = d.pick("S[i] = A[i, L[i] % 4]", f"S[L[i] % {d.number(1, 3)} * 0] += A[i, 0]", "S[i] = A[i, L[0] % 4]")
        return lines(f"def ragged({args}):", f"    for i in range({n}):", f"        {fold}")
    return lines(
        f"def ragged({args}):",
        f"    for i in range({n}):",
        f"        for k in range({d.pick('L[i] % 5', 'min(L[i] % 7, 4)')} % 5):",
        f"            S[i] = sum(A[i, min(k, 3)], over={d.pick('k', 'k')})",
    )


def scans(d: Draws) -> str:
    """A row in which every element goes on from the one before, forwards mostly."""
    (decl, n), t = d.size("n"), d.type()
    step = d.pick("A[i]", d.value("A[i]", t=t), f"A[{n} - 1 - i]", "S[i + 1]")
    last = d.pick("S[i]", "S[i]", "S[i]", f"select(1 <= i, S[i], A[{n} - 1])", "S[i // 2]")
    fold = d.pick("{} + {}", "{1} + {0}", "maximum({}, {})", "{} * {}").format(last, step)
    store = d.pick(f"S[i + 1] = {fold}", f"S[i + 1] = {fold}", f"if i < {n} - 1:", f"if i % 2 == {n} % 2:")
    return lines(
        f'def scan({decl}A: "{t}[{n}]", S: "inout {t}[{n} + 1]"):',
        f"    for i in range({n}):",
        f"        {store}",
        *((f"            S[i + 1] = {fold}",) if store.endswith(":") else ()),
    )


FAMILIES: dict[str, Callable[[Draws], str]] = {
    f.__name__: f
    for f in (
        pointwise, stencils, product, dots, copied, scratch, tails, several, folds, sweeps, steps_in_time, triangles,
        rings, dead, invariant, scans, ragged, *gpu_families.GPU_FAMILIES,
        *reduction_families.REDUCTION_FAMILIES,
    )
}  # fmt: skip
"""By name, each a text of the draws."""
FROM_MEMORY = ("ragged", "scattered", "asking", "deciding")
"""Families whose bounds or subscripts are read from memory."""
ROUNDED = ("factored",)
"""Families whose values are rounded, by quotients or powers of small integers: drawn only where they are named."""


@st.composite
def forms(
    draw: st.DrawFn,
    names: tuple[str, ...] = tuple(FAMILIES),
    *,
    types: tuple[str, ...] = ("float32", "int32"),
    symbolic: bool = True,
    largest: int = 6,
) -> Func:
    """A program of one of the families `names`, over element types among `types`."""
    wide = tuple(t for t in types if t in WIDE)
    if not wide:
        raise ValueError(f"families take element types among {', '.join(WIDE)}, not {', '.join(types)}")
    family = draw(st.sampled_from(names))
    return parse(FAMILIES[family](Draws(draw, wide, symbolic, largest)))


# ---------------------------------------------------------------- what docstrings show


MAX_COSTLY_NUMBER = 64
"""Numbers above this make a program too long to run again and again."""


@st.composite
def documented(draw: st.DrawFn, names: Collection[str] | None = None, *, memory: bool = True) -> Func:
    """A program that the docstring of a primitive shows a step on; of those in `names`, or of any."""
    return draw(st.sampled_from(_documented(tuple(sorted(PRIMITIVES if names is None else names)), memory=memory)))


@cache
def _documented(names: tuple[str, ...], *, memory: bool) -> list[Func]:
    every = [e for name in names for e in examples(PRIMITIVES[name])]
    taken = [*dict.fromkeys(e.before for e in every if e.after is not None)]
    texts = [*taken, *taken, *dict.fromkeys(e.before for e in every)]  # those of a step that is taken more often
    found = [parse(x) for x in texts if all(int(n) <= MAX_COSTLY_NUMBER for n in re.findall(r"\b\d+\b", x))]
    return [f for f in found if memory or not asks_memory(f)] or _documented(tuple(sorted(PRIMITIVES)), memory=memory)
