"""Whether every access of a nest is inside its buffer, for all sizes that the Func assumes; else the least that is not.

What comes from memory (a gather, a data-dependent bound) is not known here: such an index is left out, and the
interpreter checks it when the nest runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from loopir.analysis.access import Access, Statement, statements_of
from loopir.analysis.depend import SIZE, domain
from loopir.analysis.system import System, combine
from loopir.ir.grammar import Buffer, Func
from loopir.ir.verify import evaluate
from loopir.ir.walk import nodes


@dataclass(frozen=True, slots=True)
class Outside:
    """An access outside its buffer: the statement, its iteration, the element it touches, and the sizes."""

    statement: str
    iteration: dict[str, int]
    buffer: str
    element: tuple[int, ...]
    shape: tuple[int, ...]
    sizes: dict[str, int]

    def __str__(self) -> str:
        at = ", ".join(f"{k}={v}" for k, v in self.iteration.items())
        sizes = "" if not self.sizes else f" (at {', '.join(f'{k}={v}' for k, v in self.sizes.items())})"
        element = ", ".join(map(str, self.element))
        return f"{self.statement} at ({at}) touches {self.buffer}[{element}], and its shape is {self.shape}{sizes}"


def outside(func: Func, label: str | None = None) -> Outside | None:
    """The first access, in textual order, that may leave its buffer, at the smallest sizes; None is a proof.

    With `label`, accesses of that statement alone.
    """
    buffers = {n.name: n for n in nodes(func) if isinstance(n, Buffer)}
    for s in statements_of(func):
        if label is not None and s.label != label:
            continue
        for access in s.accesses:
            found = _leaves(func, s, access, buffers[access.buffer])
            if found is not None:
                return found
    return None


def _leaves(func: Func, s: Statement, access: Access, b: Buffer) -> Outside | None:
    for ix, size in zip(access.at, b.shape, strict=True):
        if ix is None:
            continue
        for below in (True, False):
            system, names = _instances(func, s, access)
            at = system.linear(ix, "s", names)
            end = system.linear(size, "s", names)
            wrong = combine({"": -1}, at, -1) if below else combine(at, end, -1)
            found = system.smallest(
                [*(f"{SIZE}{n}" for n in func.sizes), *(f"s.{v}" for v in s.dims)], [(wrong, False)]
            )
            if found is not None and None not in access.at:
                return _told(func, s, access, b, found)
    return None


def _instances(func: Func, s: Statement, access: Access) -> tuple[System, dict[str, str | int]]:
    """An instance of `s` at any sizes, doing `access`."""
    system = System()
    names: dict[str, str | int] = {n: f"{SIZE}{n}" for n in func.sizes}
    system.constraints += [({f"{SIZE}{n}": 1}, False) for n in func.sizes]
    for c in func.assumes:
        system.require(c, "n", names)
    names |= {v: f"s.{v}" for v in s.dims}
    domain(system, s, access, "s", names)
    return system, names


def _told(func: Func, s: Statement, access: Access, b: Buffer, point: dict[str, int]) -> Outside:
    sizes = {n: point[f"{SIZE}{n}"] for n in func.sizes}
    iteration = {v: point[f"s.{v}"] for v in s.dims}
    env = {**sizes, **iteration}
    element = tuple(evaluate(x, env) for x in access.at if x is not None)
    shape = tuple(evaluate(d, sizes) for d in b.shape)
    return Outside(s.name, iteration, b.name, element, shape, sizes)
