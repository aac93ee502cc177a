"""Random kernels: threads that share memory, fold together, take turns in a loop, or move vectors.

Each is a nest of serial loops that are then bound, step by step, so that the program without bindings says what it
means; what lowering makes of it is put to the interpreter's watch for races, in adversarial orders of threads.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from loopir.errors import ScheduleError
from loopir.ir.grammar import Func
from loopir.ir.parser.parse import parse
from loopir.schedule import Schedule
from loopir.testing.generate.draws import Drawer


@dataclass(frozen=True)
class Bound:
    """A program, and the same with its loops bound."""

    before: Func
    after: Schedule


@st.composite
def kernels(draw: st.DrawFn) -> Bound:
    """A block or two of a few threads, in one of the forms of `FORMS`."""
    made = draw(st.sampled_from(FORMS))(_Kernel(draw))
    s = Schedule(parse(made.source()))
    before = s.func
    for loop, kind in made.kinds.items():
        try:
            s = s.vectorize(loop) if kind == "vectorize" else s.bind(loop, kind)
        except ScheduleError:
            continue
    return Bound(before, s)


class _Kernel(Drawer):
    """Source under construction: arguments, lines, and how loops are to be bound."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.lines: list[str] = []
        self.kinds: dict[str, str] = {}
        self.args = ""

    def add(self, depth: int, *lines: str) -> None:
        self.lines += ["    " * depth + x for x in lines]

    def source(self) -> str:
        return f"def f({self.args}):\n" + "\n".join(self.lines) + "\n"

    def threads(self, loop: str, axis: str = "threadIdx.x") -> str:
        self.kinds[loop] = axis
        return loop


def _shared_writes(k: _Kernel) -> _Kernel:
    """Some threads write what others read, once or in every iteration of a loop."""
    n, m, rounds = k.pick(4, 3, 2), k.pick(4, 3, 2), k.pick(0, 2, 3)
    size = max(n, m) + 1
    scope = k.pick("shared", "shared", "local")
    k.args = f'A: "float32[3, {size}]", X: "inout float32[3, {size}]"'
    t = "t" if rounds else "0"
    depth = 1
    k.add(1, f'with alloc("float32[{size}]", scope="{scope}") as T:')
    if rounds:
        k.add(2, f"for t in range({rounds}):")
        depth = 2
    write = k.pick("i", f"{n - 1} - i")
    k.add(depth + 1, f"for {k.threads('i')} in range({n}):", f"    T[{write}] = A[{t}, i] + 1.0")
    read = k.pick("j", f"{m - 1} - j", f"(j + 1) % {m}", "0", "j + 1") if m <= n else k.pick("0", "j // 2", f"j % {n}")
    if read == "j + 1" and m >= n:
        read = "j"
    if k.chance() and not rounds:
        k.add(depth + 1, f"X[{t}, {m}] = T[{k.pick(0, n - 1)}]")
    guard = k.pick("", "", f"if j < {m - 1}:")
    k.add(depth + 1, f"for {k.threads('j')} in range({m}):")
    k.add(depth + 2, *([guard] if guard else []), ("    " if guard else "") + f"X[{t}, j] = T[{read}] * 2.0")
    return k


def _thread_folds(k: _Kernel) -> _Kernel:
    """Threads fold together: parts of a warp, whole warps, or any number of them."""
    n, rows = k.pick(4, 2, 3, 8, 5, 64), k.pick(1, 2)
    monoid = k.pick("sum", "max")
    k.args = f'A: "float32[{rows}, {n}]", S: "inout float32[{rows}]"'
    init = k.pick(", init=5.0", "")
    k.add(1, f"for r in range({rows}):", f"    for k in range({n}):")
    k.add(3, f"S[r] = {monoid}(A[r, k] + 1.0, over=k{init})")
    k.threads("k")
    if k.chance():
        k.threads("r", k.pick("blockIdx.x", "threadIdx.y"))
    return k


def _thread_vectors(k: _Kernel) -> _Kernel:
    """Threads move four elements each, aligned or not."""
    n, off, step = k.pick(2, 3), k.pick(0, 1, 2, 4), k.pick(4, 5, 6)
    size = step * n + 8
    k.args = f'A: "float32[{size}]", X: "inout float32[{size}]"'
    k.add(
        1, f"for i in range({n}):", "    for v in range(4):", f"        X[i * 4 + v] = A[i * {step} + v + {off}] + 1.0"
    )
    k.threads("i")
    k.kinds["v"] = "vectorize"
    return k


def _copied(k: _Kernel) -> _Kernel:
    """Two steps of copies and uses over a tile, as in a product."""
    n, rounds = k.pick(2, 3, 4), k.pick(2, 3)
    k.args = f'A: "float32[{rounds}, {n}]", X: "inout float32[{n}]"'
    k.add(1, f"for t in range({rounds}):", f'    with alloc("float32[{n}]", scope="shared") as T:')
    k.add(3, f"for {k.threads('i')} in range({n}):", "    T[i] = A[t, i] * 2.0")
    k.add(3, f"for {k.threads('j')} in range({n}):", f"    X[j] = sum(T[{k.pick(f'{n - 1} - j', 'j', '0')}], over=t)")
    return k


FORMS = (_shared_writes, _thread_folds, _thread_vectors, _copied)
