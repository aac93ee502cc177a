"""Families for what GPUs of late have: copies that a copy engine or warps of their own may make, and floats of 8 bits.

Nothing is bound here: steps bind, pipeline, specialize and tensorize these nests as any other. Boxes are as small as
the copy engine takes them, two rows of sixteen, so that threads and elements are few.
"""

from __future__ import annotations

from loopir.ir.ops import find_instruction
from loopir.testing.generate.draws import Draws, lines

BOX = "float32[{}, 16]"
for _name in ("tma_load_2x16_f32", "tma_store_2x16_f32"):
    assert find_instruction(_name)  # one of a family is drawn only after it has been asked for


def fed(d: Draws) -> str:
    """Each iteration brings a box or two of an array to shared memory and uses them: what may be copied ahead."""
    (decl, n), boxes = d.size("n"), d.number(1, 2)
    source = d.pick("A", "A", "A", "Y")
    first = d.pick("i", "i * 2", "i + 1")
    inner = "    " * (boxes - 1)
    row = "q * 2 + x" if boxes == 2 else "x"
    load = f"{d.pick('T[0, w]', f'T[{2 * boxes - 1}, w]')}"
    use = d.pick(f"Y[i, w] = {d.value(load, 'T[1, 15 - w]')}", f"Y[0, w] = sum({load}, over=i)")
    return lines(
        f'def fed({decl}A: "{BOX.format(f"{n} * 2 + 4")}", Y: "inout {BOX.format(f"{n} * 2 + 4")}"):',
        f"    for i in range({n}):",
        f'        with alloc("{BOX.format(2 * boxes)}", scope="shared") as T:',
        *(["            for q in range(2):"] if boxes == 2 else []),
        f"            {inner}for x in range(2):",
        f"                {inner}for y in range(16):",
        f"                    {inner}T[{row}, y] = {source}[{first} + {row}, y]",
        "            for w in range(16):",
        f"                {use}",
    )


def leaving(d: Draws) -> str:
    """Each iteration makes a box of its results in shared memory, from where it goes to its place, or to another's."""
    decl, n = d.size("n")
    to = d.pick("i * 2", "i * 2", "i + 1")
    return lines(
        f'def leaving({decl}A: "{BOX.format(n)}", Y: "inout {BOX.format(f"{n} * 2 + 1")}"):',
        f"    for i in range({n}):",
        f'        with alloc("{BOX.format(2)}", scope="shared") as T:',
        "            for w in range(16):",
        f"                T[0, w] = {d.value('A[i, w]', 'A[i, 15 - w]')}",
        f"                T[1, w] = {d.value('A[i, w]')}",
        "            for x in range(2):",
        "                for y in range(16):",
        f"                    Y[{to} + x, y] = T[x, y]",
    )


def eights(d: Draws) -> str:
    """Floats of 8 bits, widened to be multiplied or scaled, and rounded to where they are kept."""
    (decl, n), m = d.size("n"), d.number(1, 5)
    t, u = d.pick("float8_e4m3fn", "float8_e5m2"), d.pick("float8_e4m3fn", "float8_e5m2", "float32", "bfloat16")
    if d.chance():
        return lines(
            f'def eights({decl}A: "{t}[{n}, {m}]", B: "{t}[{m}, 4]", Y: "out float32[{n}, 4]"):',
            f"    for i in range({n}):",
            "        for j in range(4):",
            f"            for k in range({m}):",
            "                Y[i, j] = sum(float32(A[i, k]) * float32(B[k, j]), over=k, init=0.0)",
        )
    read = d.pick("T[i_1, j_1]", f"T[{n} - 1 - i_1, j_1]")
    return lines(
        f'def eights({decl}A: "{t}[{n}, {m}]", s: "float32[{m}]", Y: "out {u}[{n}, {m}]"):',
        f'    with alloc("{t}[{n}, {m}]") as T:',
        f"        for i in range({n}):",
        f"            for j in range({m}):",
        f"                T[i, j] = {d.pick('A[i, j]', f'{t}(float32(A[i, j]) * s[j])')}",
        f"        for i_1 in range({n}):",
        f"            for j_1 in range({m}):",
        f"                Y[i_1, j_1] = {u}({d.value(f'float32({read})', 's[j_1]')})",
    )


def versions(d: Draws) -> str:
    """Loops in which a question is asked whose answer is the same in all of their iterations."""
    decl, n = ('n: "size", ', "n") if d.symbolic else ("", str(d.number(1, 6)))
    t, w = d.type(), d.number(2, 4)
    asked = d.pick(
        f"{n} < 3", f"2 <= {n}", f"{n} % {w} == 0", "i < 2", f"k * {w} + {w - 1} < {n}", f"i < k and 1 < {n}"
    )
    other = d.pick("A[0]", f"A[{n} - 1 - i % {n}]")
    return lines(
        f'def versions({decl}A: "{t}[{n}]", Y: "inout {t}[{n}]"):',
        f"    for k in range(({n} + {w - 1}) // {w}):",
        f"        for i in range({w}):",
        f"            if k * {w} + i < {n}:",
        f"                Y[k * {w} + i] = select({asked}, {d.value(f'A[k * {w} + i]', t=t)}, {other})",
    )


GPU_FAMILIES = (fed, leaving, eights, versions)
BOXES = ("fed", "leaving")
"""Families with more elements than brute force should look at."""
FLOATS = (*BOXES, "eights", "factored")
"""Families in which there is float32, whatever types are asked for."""
