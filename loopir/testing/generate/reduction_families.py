"""Families of sums of products: with factors that all terms share, or a stage before the sum does."""

from __future__ import annotations

from loopir.testing.generate.draws import Draws, lines, loop_order, zero


def factored(d: Draws) -> str:
    """Rows summed, each term with a factor of its row's, or of a stage's that the sum alone reads, mostly."""
    (decl, n), m = d.size("n"), d.number(1, 6)
    by = d.pick("L[{i}]", "L[{i}]", "c[0]", "(L[{i}] + c[0])", "V[{k}]", "exp(L[{i}])")
    how = d.pick("{0} * {1}", "{0} / {1}", "{1} * {0}", "{0} * (1.0 / {1})")
    start = d.pick("0.0", "0.0", "0.0", "1.0")
    head = f'def factored({decl}A: "float32[{n}, {m}]", V: "float32[{m}]", L: "float32[{n}]", c: "float32[1]"'
    if d.chance():
        term = how.format(d.pick("A[i, k]", "A[i, k] * V[k]", "(A[i, k] - V[k])"), by.format(i="i", k="k"))
        return lines(
            f'{head}, S: "out float32[{n}]"):',
            f"    for i in range({n}):",
            f"        for k in range({m}):",
            f"            S[i] = sum({term}, over=k, init={start})",
        )
    stored = how.format("A[i, k]", by.format(i="i", k="k"))
    seen = d.number(0, 3) == 0
    term = d.pick("P[j, h] * V[h]", "P[j, h]", "V[h] * P[j, h]", "P[j, h] * L[j]")
    return lines(
        f'{head}, S: "out float32[{n}]"{f""", Y: "out float32[{n}]" """ if seen else ""}):',
        f'    with alloc("float32[{n}, {m}]") as P:',
        f"        for i in range({n}):",
        f"            for k in range({m}):",
        f"                P[i, k] = {stored}",
        f"        for j in range({n}):",
        f"            for h in range({m}):",
        f"                S[j] = sum({term}, over=h, init={start})",
        *([f"        for o in range({n}):", "            Y[o] = P[o, 0]"] if seen else []),
    )


def scattered(d: Draws) -> str:
    """Folds into an element whose number is read from memory: of the iteration that folds, or of all of them."""
    (decl, n), t, w = d.size("n"), d.type(), d.number(1, 3)
    own, loops = d.chance(), d.pick("j", "", "j")
    filled = f"L[{d.pick('i + k', 'k', 'i')}]" if own else "L[k]"
    at, fold = f"S[{d.pick('T', 'T', 'L')}[{d.number(0, w - 1)}] % 4]", d.pick("sum", "max", "prod")
    over = "(i, j)" if loops else "i"
    fill = [f'with alloc("int32[{w}]") as T:', f"    for k in range({w}):", f"        T[k] = {filled}"]
    inner = [f"for j in range({d.number(1, 3)}):"] if loops else []
    inner.append(f"{'    ' * len(inner)}{at} = {fold}({d.value('A[i]', t=t)}, over={over})")
    nest = [f"for i in range({n}):", *("    " + x for x in ([*fill, *("    " + y for y in inner)] if own else inner))]
    if d.chance():  # where nothing folds, nothing need be written
        fill = [fill[0], f"    for first in range(min(1, {n})):", *("    " + x for x in fill[1:])]
    body = nest if own else [*fill, *("    " + x for x in nest)]
    head = f'def scattered({decl}A: "{t}[{n}]", L: "int32[{n} + 3]", S: "inout {t}[4]"):'
    return lines(head, *("    " + x for x in body))


def sheared(d: Draws) -> str:
    """A row for each iteration, copied by a loop that runs ahead with it, and folded from a start outside, mostly."""
    (decl, n), t, w, c = d.size("n"), d.type(), d.number(1, 4), d.number(0, 2)
    by = f"{c} * k" if c > 1 else "k" if c else "0"
    over, at = d.pick(("k", "0"), ("(k, y)", "0"), ("k", "y"), ("y", "k"))
    start = d.pick(f", init={zero(t)}", f", init={zero(t)}", "")
    room = f"{n} + 4"
    return lines(
        f'def sheared({decl}A: "{t}[{n}, {w}]", B: "{t}[{w}]", S: "inout {t}[{room}]"):',
        f"    for k in range({n}):",
        f'        with alloc("{t}[{w}]") as T:',
        f"            for x in range({n} * {c} + {w}):",
        f"                if {by} <= x and x < {by} + {w}:",
        f"                    T[x - {by}] = {d.value(f'A[k, x - {by}]', t=t)}",
        f"            for y in range({w}):",
        f"                S[{at}] = {d.pick('sum', 'max', 'prod')}({d.value('T[y]', 'B[y]', t=t)}, over={over}{start})",
    )


def asking(d: Draws) -> str:
    """Elements, lengths and guards that memory tells, which is filled only where something asks it, mostly."""
    (decl, n), t = d.size("n"), d.type()
    fill = d.pick((f"for h in range(min(1, {n})):", "    T[0] = L[h]"), ("T[0] = L[0]",))
    body, of = d.pick(
        (f"Y[i] = {d.value('X[T[0] % 4]', 'A[i]', t=t)}", "2"),
        (f"Y[i] = sum({d.value('X[T[0] % 4]', 'A[j]', t=t)}, over=j)", "2"),
        (f"Y[i] = sum({d.value('A[i]', t=t)}, over=j)", "T[0] % 3"),
        (f"Y[j] = {d.value('A[i]', t=t)}", "min(T[0] % 4, 2)"),
        (f"Y[i] = sum({d.value('A[i]', t=t)}, over=j)", f"T[0] % 3 + {n} - 1"),
    )
    band = f"if {n} - i - 1 <= j and j < T[0] % 3 + {n} - i - 1:"  # as skewing a loop of T[0] % 3 makes it
    guard = band if "- 1" in of else d.pick("", "", "if T[0] < 2:", "if i < 3:")
    nest = [f"for i in range({n}):", f"    for j in range({of}):", f"        {guard}", f"            {body}"]
    nest = nest if guard else [nest[0], nest[1], f"        {body}"]
    head = f'def asking({decl}A: "{t}[{n} + 4]", L: "int32[{n} + 1]", X: "{t}[4]", Y: "inout {t}[{n} + 4]"):'
    return lines(head, '    with alloc("int32[1]") as T:', *("        " + x for x in (*fill, *nest)))


def deciding(d: Draws) -> str:
    """Tiles that stick out over an edge, under a guard around conditions and lengths that memory tells."""
    (decl, n), t, w = d.size("n"), d.type(), d.number(1, 3)
    at = f"i * {w} + {{}}"
    edge, own = f"if {at} < {n}:", f"if {at} < {n}: " if d.chance() else ""
    asked = d.pick("K[k]", "K[k]", f"L[{at.format('k')}]", "L[0]", f"K[{w - 1} - k]" if not own else "K[k]")
    control = d.pick(f"if {asked} < 2:", f"for j in range({asked} % 3):", f"if {asked} < 2 and i < 2:")
    over = "(i, k, j)" if control.startswith("for") else "(i, k)"
    return lines(
        f'def deciding({decl}A: "{t}[{n}]", L: "int32[{n} + 1]", S: "out {t}[1]"):',
        f'    S[0]: "start" = {zero(t)}',
        f"    for i in range(({n} + {w - 1}) // {w}):",
        f'        with alloc("{t}[{w}]", scope="local") as T, alloc("int32[{w}]", scope="local") as K:',
        f"            for x in range({w}):",
        f"                {edge.format('x')}",
        f"                    T[x] = A[{at.format('x')}]",
        f"            for y in range({w}):",
        f"                {own.format('y')}K[y] = {d.pick('1', 'L[0]')}",
        f"            for k in range({w}):",
        f"                {edge.format('k')}",
        f"                    {control}",
        f"                        S[0] = {d.pick('sum', 'max', 'sum')}({d.value('T[k]', t=t)}, over={over})",
    )


def constant_folds(d: Draws) -> str:
    """Rows that numbers are folded into, of which some leave what is there; a few elements are read afterwards."""
    (decl, n), t, w = d.size("n"), d.type(), d.number(1, 6)
    point = ".0" if t.startswith("float") else ""
    idle = {"prod": f"1{point} * 1{point}", "sum": f"0{point}", "max": "-inf" if point else "0"}
    monoid = d.pick(*idle)
    value = d.pick(idle[monoid], idle[monoid], f"2{point}", f"A[0] * 0{point} + 1{point}")
    order, depth = loop_order(d, {"i": n, "j": str(w)}, 2)
    read = d.pick(f"T[{d.number(0, w - 1)}]", f"T[r % {w}]", f"T[{d.number(0, w - 1)}] + T[0]")
    return lines(
        f'def constant_folds({decl}A: "{t}[1]", Y: "out {t}[{n}]"):',
        f'    with alloc("{t}[{w}]") as T:',
        order,
        f"{'    ' * depth}T[j] = {monoid}({value}, over=i, init={d.number(0, 3)}{point})",
        f"        for r in range({n}):",
        f"            Y[r] = {read}",
    )


REDUCTION_FAMILIES = (factored, scattered, sheared, asking, deciding, constant_folds)
