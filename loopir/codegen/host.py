"""Emit the host function in Python: allocations, serial loops and launches around the kernels.

It is called as `host(lp_rt, sizes..., buffers...)`; `lp_rt` is the target's runtime, with `alloc(bytes)`, `free`, and
what `spell` uses to run a kernel. Names that start with `lp_` are reserved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loopir.codegen.fast_division import reciprocal
from loopir.codegen.overflow import index_bounds, small_size
from loopir.errors import LowerError, positive, spelled
from loopir.interp.python_expr import DEEPEST, PythonExpr, PythonLines
from loopir.ir.grammar import Alloc, Body, Buffer, Func, If, Index, Kernel, Loop, Stmt, ValueToCond, ValueToIndex
from loopir.ir.magnitude import LIMIT
from loopir.ir.printer import text


def host_source(func: Func, spell: Callable[[int, Kernel], list[str]]) -> str:
    """Python source of the host part of a lowered `func`; `spell(n, kernel)` gives the lines that run kernel n."""
    return _Host(func, spell).source()


def host_function(source: str) -> Callable[..., None]:
    """The function defined by the text of `host_source`."""
    scope: dict[str, Any] = {"lp_min": min, "lp_max": max, "lp_range": range, "lp_positive": positive}
    scope["lp_require_int64"] = require_int64
    scope["lp_reciprocal"] = reciprocal
    exec(compile(source, "<host>", "exec"), scope)
    return scope["host"]


class _Spelling(PythonExpr):
    """Indices and conditions of the host function, with names that no user's name collides with."""

    smaller, larger = "lp_min", "lp_max"

    def checked(self, divisor: Index) -> str:
        return f"lp_positive({self.index(divisor)}, {text(divisor)!r})"

    def from_memory(self, part: ValueToIndex | ValueToCond) -> str:
        raise LowerError(f"{text(part)} is read from memory, and the host would have to know it before it launches")


_spelling = _Spelling()
python_index, python_cond = _spelling.index, _spelling.cond


def require_int64(program: str, most: int, /, **sizes: int) -> None:
    """Raise ValueError if an index of `program` may reach `most` at these sizes, and compiled code would overflow."""
    if most >= LIMIT:
        at = ", ".join(f"{n}={spelled(size)}" for n, size in sizes.items())
        raise ValueError(
            f"{program} is called with {at}, and then an index may come to {spelled(most)}; compiled code counts in "
            f'64 bits. Nothing was run; built for "interpret", the program takes any size'
        )


def host_bytes(b: Buffer) -> str:
    """The size of a row-major buffer in bytes, as a Python expression."""
    return " * ".join([str(b.dtype.bytes), *(f"lp_max(0, {python_index(d)})" for d in b.shape)])


class _Host(PythonLines):
    def __init__(self, func: Func, spell: Callable[[int, Kernel], list[str]]) -> None:
        super().__init__()
        self.func, self.spell, self.count = func, spell, 0

    def source(self) -> str:
        names = ["lp_rt", *self.func.sizes, *(a.buffer.name for a in self.func.args)]
        self.emit(0, f"def host({', '.join(names)}):")
        self.require_int64()
        with self.inside(*names):
            self.body(self.func.body, 1)
        return self.joined()

    def require_int64(self) -> None:
        """Before anything runs, refuse sizes that bring an index beyond 64 bits."""
        sizes, bounds = self.func.sizes, index_bounds(self.func)
        if bounds:
            self.emit(1, f"if lp_max({', '.join(sizes)}, 0) > {small_size(bounds, sizes)}:")
            given = ", ".join(f"{n}={n}" for n in sizes)
            most = ", ".join(map(python_index, bounds))
            self.emit(2, f"lp_require_int64({self.func.name!r}, lp_max({most}, 0), {given})")

    def body(self, body: Body, depth: int) -> None:
        if depth > DEEPEST:
            self.emit(depth, self.called(lambda: self.body(body, 1)))
            return
        self.emit(depth, "pass")
        for s in body:
            self.stmt(s, depth)

    def stmt(self, s: Stmt, depth: int) -> None:
        match s:
            case Kernel():
                for line in self.spell(self.count, s):
                    self.emit(depth, line)
                self.count += 1
            case Alloc(b, body):
                if b.layout is not None:
                    raise LowerError(
                        f"{b.name} has a layout and is allocated by the host; layouts are for kernels' memory"
                    )
                self.emit(depth, f"{b.name} = lp_rt.alloc({host_bytes(b)})")
                self.emit(depth, "try:")
                with self.inside(b.name):
                    self.body(body, depth + 1)
                self.emit(depth, "finally:")
                self.emit(depth + 1, f"lp_rt.free({b.name})")
            case Loop(var, extent, _, body):
                self.emit(depth, f"for {var} in lp_range({python_index(extent)}):")
                with self.inside(var):
                    self.body(body, depth + 1)
            case If(cond, then, orelse):
                self.emit(depth, f"if {python_cond(cond)}:")
                self.body(then, depth + 1)
                self.emit(depth, "else:")
                self.body(orelse, depth + 1)
            case _:
                raise LowerError(f"{type(s).__name__} is left on the host")
