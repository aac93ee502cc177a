"""Folds, scans and stores under guards: programs in which a step has to keep which iterations do what.

`funcs` draws a guard now and then; here nearly everything stands under one, which speaks of what is folded over, of
other loops, of a size, or of all at once. Whatever is drawn is in bounds at every size, as arrays have room for the sum
of three loops, and is read after it was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from hypothesis import strategies as st

from loopir.ir.grammar import Func
from loopir.ir.parser.parse import parse
from loopir.testing.generate.draws import Draws, lines

MAX_EXTENT, OWN = 4, 4
"""The most iterations of a loop of constant extent, and the elements of memory that each iteration has."""
LETTERS = ("ikq", "jhp")
"""What the loops of a nest are called."""


@st.composite
def guarded(draw: st.DrawFn, *, plain: bool | None = None, memory: bool = False) -> Func:
    """A Func of a nest or two, two or three loops deep, of folds, scans and stores under guards; most folds start.

    If it is `plain`, that is one nest of constant extents around sums and stores, whose elements are sums of loops.
    Else other monoids, sizes, empty loops and triangles, subscripts of all affine kinds, memory of the program's own or
    of an iteration's, that is read or not, and stages one after the other are drawn, too. Half of all are plain.
    `memory` allows lengths, guards and subscripts that read it.
    """
    d = Draws(draw, ("float32",), symbolic=True, largest=MAX_EXTENT)
    return parse(_Guarded(d, plain=d.chance() if plain is None else plain, memory=memory).text())


class _Guarded:
    """Draws one program, from the top."""

    def __init__(self, d: Draws, *, plain: bool, memory: bool) -> None:
        self.d, self.plain, self.memory = d, plain, memory
        self.sized = self.rich()
        self.room = "n * 3 + 12" if self.sized else "16"
        self.own = ("T", "U")[: d.pick(1, 2)] if self.rich() else ()
        """Memory of the program's own, each a stage that is made of the one before."""
        self.seen = ["X", "X", "Y", *self.own]
        self.changed = self.seen if d.chance() else ["X", "X", "Y"]
        self.sizes: dict[str, str] = {}
        self.labels = 0

    def rich(self, one_in: int = 3) -> bool:
        """Now and then, and never in a plain program."""
        return not self.plain and self.d.number(0, one_in - 1) == one_in - 1

    def label(self, hint: str) -> str:
        self.labels += 1
        return f"{hint}{self.labels}"

    # ------------------------------------------------------------ nests

    def text(self) -> str:
        size = 'n: "size", ' if self.sized else ""
        args = [f'A: "float32[{self.room}]"', *(f'{x}: "inout float32[{self.room}]"' for x in "XY")]
        if not self.plain:
            args += [f'Z: "inout float32[{self.room}, {self.room}]"', f'W: "inout int32[{self.room}]"']
        nests = [line for letters in LETTERS[: 1 + self.rich()] for line in self.nest(letters)]
        if self.own and not self.rich(5):  # else nobody reads it, and whatever is done to it is legal
            looked = self.d.pick(self.room, self.room, "3", *(["n"] if self.sized else []))
            nests += [f"for o in range({looked}):", f'    Y[o]: "seen" = {" + ".join(f"{x}[o]" for x in self.own)}']
        for name, source in [*zip(self.own, ("A", *self.own), strict=False)][::-1]:
            head = f'with alloc("float32[{self.room}]") as {name}:'
            nests = [head, *_in([*self.stage(name, source, f"g{name.lower()}"), *nests])]
        return lines(f"def f({size}{', '.join(args)}):", *_in(nests))

    def stage(self, name: str, source: str, var: str) -> list[str]:
        """A nest that writes all of `name`, of the elements of `source`, which are as many."""
        if self.d.chance():
            return self.fill(name, self.room, var, source)
        inner, label = f"{var}_r", self.label("stage")
        self.sizes[inner] = "3"
        value = self.d.pick(f"{source}[{var} // 2 + {inner}]", f"{source}[{inner}]")
        fold = f'{name}[{var}] = {self.d.pick("sum", "max")}({value}, over={inner}, init=1.0, label="{label}")'
        told = self.d.pick(f"{inner} < 2", f"1 <= {inner}", f"{inner} % 2 == 0")  # by which the fold starts everywhere
        body = [f"if {told}:", *_in([fold])] if self.d.chance() else [fold]
        return [f"for {var} in range({self.room}):", f"    for {inner} in range(3):", *_in(_in(body))]

    def fill(self, name: str, count: str, var: str, source: str = "A", offset: str = "") -> list[str]:
        """A nest that copies to all of `name`, forwards or backwards."""
        at = self.d.pick(var, f"{count} - 1 - {var}")
        return [f"for {var} in range({count}):", f'    {name}[{at}]: "{self.label("fill")}" = {source}[{var}{offset}]']

    def nest(self, letters: str) -> list[str]:
        d = self.d
        names = d.draw(st.permutations(letters))[: d.pick(2, 2, 3)]
        for k, v in enumerate(names):
            self.sizes[v] = self.extent(names[:k])
        return self.loop(names, 0, local=None)

    def extent(self, outer: Sequence[str]) -> str:
        constant = str(self.d.number(1, MAX_EXTENT))
        if not self.rich():
            return constant
        if self.memory and self.rich():
            return self.d.pick(*(f"W[{w}] % 4" for w in (*outer, "0")))
        sizes = ("n", "n", "n - 1", "min(n, 3)") if self.sized else ("0", constant)
        return self.d.pick(*sizes, *(f"{w} + 1" for w in outer if self.sizes[w] in map(str, range(MAX_EXTENT + 1))))

    def loop(self, names: Sequence[str], depth: int, local: str | None) -> list[str]:
        """The loops `names` from `depth` on; `local` is memory of an iteration's own, and the loop that it is in."""
        d, v, around = self.d, names[depth], names[: depth + 1]
        head = [f"for {v} in range({self.sizes[v]}):"]
        before = [f'Y[{v}]: "{self.label("m")}" = X[{v}]'] if d.number(0, 3) == 0 else []
        if depth + 1 == len(names):
            return [*head, *_in([*before, *self.leaves(around, local)])]
        if local is None and self.rich(5):
            inner = self.loop(names, depth + 1, v)
            used = [f"for u{v} in range({OWN}):", f"    {self.use(v)}"] if d.chance() else []
            filled = self.fill("R", str(OWN), f"e{v}", offset=f" + {v}")
            filled = [f"if {v} < {self.sizes[v]}:", *_in(filled)] if self.rich() else filled
            return [*head, *_in([*before, f'with alloc("float32[{OWN}]") as R:', *_in([*filled, *inner, *used])])]
        inner = self.loop(names, depth + 1, local)
        return [*head, *_in([*before, *(self.under(around, inner) if self.rich(5) else inner)])]

    def use(self, v: str) -> str:
        """What an iteration of `v` makes of its own memory in the end."""
        label, u = self.label("use"), f"u{v}"
        return self.d.pick(f'Y[{v} + {u}]: "{label}" = R[{u}]', f'X[{v}] = sum(R[{u}], over={u}, label="{label}")')

    def leaves(self, names: Sequence[str], local: str | None) -> list[str]:
        out: list[str] = []
        for _ in range(self.d.pick(1, 1, 2)):
            out += self.under(names, [self.leaf(names, local)])
            out += ["else:", f"    {self.leaf(names, local)}"] if self.d.chance() else []
        return out

    def under(self, names: Sequence[str], body: Sequence[str]) -> list[str]:
        return [f"if {self.cond(names, 2)}:", *_in(body)]

    # ------------------------------------------------------------ guards

    def cond(self, names: Sequence[str], deep: int) -> str:
        d = self.d
        v, w = d.pick(*names), d.pick(*names)
        if self.sized and self.rich(4):
            return d.pick(f"{v} < n - 1", f"{v} == n - 1", f"{v} + {w} < n", "2 < n", f"n <= {v} + 2")
        if self.memory and self.rich(4):
            return d.pick(f"W[{v}] < {d.number(0, 3)}", f"W[{v}] % 2 == 0", f"A[{v}] < X[{w}]")
        if self.rich(6):
            return d.pick(f"{v} % 2 == 0", f"{v} // 2 == {w}", f"{v} - {w} < 1", f"2 <= {v}")
        match d.number(0, 6 if deep else 3):
            case 0:
                return f"{v} {d.pick('==', '!=')} {d.pick('0', '1', f'{self.sizes[v]} - 1')}"
            case 1:
                return f"{v} {d.pick('<', '<=')} {d.pick(1, 2)}"
            case 2:
                return f"{v} + {w} < {d.pick(2, 3)}"
            case 3:
                return f"{v} <= {w}"
            case 4:
                return f"not ({self.cond(names, deep - 1)})"
            case _:
                return f"({self.cond(names, deep - 1)}) {d.pick('and', 'or')} ({self.cond(names, deep - 1)})"

    # ------------------------------------------------------------ statements

    def leaf(self, names: Sequence[str], local: str | None) -> str:
        """A store, a fold, or a step of a scan in the loops `names`."""
        d = self.d
        over = [*_closed([v for v in names if d.chance()], names, self.sizes)]
        b = d.pick(*self.changed)
        if local is not None and d.chance():
            b, over = "R", [v for v in over if names.index(v) > names.index(local)]
        free = [v for v in names if v not in over]
        at = self.element(b, free)
        if self.rich(6) and b != "R":
            v = d.pick(*names)
            return f'{b}[{v} + 1]: "{self.label("scan")}" = {b}[{v}] + {self.read(names, local)}'
        if self.memory and self.rich(6):
            return f'W[{self.at(free)}]: "{self.label("w")}" = int32(index({d.pick(*names)}))'
        if not over or d.number(0, 3) == 0:
            return f'{at}: "{self.label("t")}" = {self.read(names, local)}'
        if b != "R" and self.rich(10):
            return self.argmax(names, over, free)
        monoid = d.pick("max", "min", "prod") if self.rich() else "sum"
        start = d.pick("", ", init=2.0", f", init={self.read(free, None)}")
        value = self.read(names, local)
        return f'{at} = {monoid}({value}, over=({", ".join(over)},){start}, label="{self.label("s")}")'

    def argmax(self, names: Sequence[str], over: Sequence[str], free: Sequence[str]) -> str:
        at, start = self.at(free), self.d.pick("", f", init=({self.read(free, None)}, 0)")
        folded = f"{self.read(names, None)}, int32(index({names[-1]}))"
        return f'X[{at}], W[{at}] = argmax({folded}, over=({", ".join(over)},){start}, label="{self.label("s")}")'

    def element(self, b: str, names: Sequence[str]) -> str:
        """An element of `b` that speaks of none but `names`."""
        if b == "R":
            return f"R[({self.at(names)}) % {OWN}]"
        if self.rich(6):
            return f"Z[{self.at(names)}, {self.at(names)}]"
        return f"{b}[{self.at(names)}]"

    def at(self, names: Sequence[str]) -> str:
        """The sum of `names`, or another subscript made of some of them."""
        d = self.d
        if not names or not self.rich():
            return " + ".join(names) or "0"
        v, w = d.pick(*names), d.pick(*names)
        if self.memory and self.rich(5):
            return f"W[{v}] % 5"
        back = f"{self.sizes[v]} - 1 - {v}"
        return d.pick(v, f"{v} + 1", back, back, f"{v} + {w}", f"{v} // 2", f"{v} % 2", f"({v} + {w}) // 2",
                      f"({v} + {w}) % 3", f"{v} * 2", f"{w} - min({v}, {w})", "1")  # fmt: skip

    def read(self, names: Sequence[str], local: str | None) -> str:
        first = f"A[{self.at(names)}]"
        if not self.rich():
            return first
        other = self.element(self.d.pick(*self.seen, *(["R"] if local in names else [])), names)
        kinds = [f"{first} + {other}", other, *([f"{other} if {self.cond(names, 0)} else {first}"] if names else [])]
        return self.d.pick(*kinds)


def _closed(over: Sequence[str], names: Sequence[str], sizes: Mapping[str, str]) -> Iterator[str]:
    """`over` with the loops of `names` that run as far as one of these says, which start with it."""
    taken: set[str] = set()
    for v in names:
        if v in over or not taken.isdisjoint(re.findall(r"\w+", sizes[v])):
            taken.add(v)
            yield v


def _in(body: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in body]
