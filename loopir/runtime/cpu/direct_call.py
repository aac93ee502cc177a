"""The shortest way for a call like the last one learnt: NumPy's arrays go to machine code as they are.

What a call of a small kernel costs is Python, and what costs most there is to ask arrays what they are. So the checks
of a plan (see `plans`) are made in machine code too: type, dtype, shape, flags and alignment of each array, and that
none that is written overlaps another; then the kernels are called, on the threads of the pool where the program has
parallel loops. It is driven by a table of words, in which memory for intermediates is lent to one call at a time. What
does not fit it goes the way of plans, as do programs of many kernels, and those whose host makes tests.

NumPy's C API has the fields of an array at fixed places (`PyArrayObject_fields`); an array that is known shows, once,
that they are there.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from math import prod
from typing import Any

import numpy as np

from loopir.runtime.arrays import Bound, Signature
from loopir.runtime.cpu.arena import Arena
from loopir.runtime.llvm_jit import Library

HEAD = object.__basicsize__
FIELDS = {"data": HEAD, "nd": HEAD + 8, "dims": HEAD + 16, "descr": HEAD + 40, "flags": HEAD + 48}
CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400
MAX_ARRAYS, MAX_DIMS, MAX_KERNELS = 16, 8, 32
"""Arrays of a call, dimensions of an array, and kernels of a program: the code for more takes long to compile."""
ROW = 6 + MAX_DIMS
"""Words on an array: type, dtype, dimensions, flags, bits of the address that are 0, bytes; then its shape."""
OTHER = -1
"""What the function gives for a call that does not fit."""

SAME = f"""
define internal i1 @same(ptr %x, ptr %row) {{
entry:
  %descr.at = getelementptr i8, ptr %x, i64 {FIELDS["descr"]}
  %nd.at = getelementptr i8, ptr %x, i64 {FIELDS["nd"]}
  %flags.at = getelementptr i8, ptr %x, i64 {FIELDS["flags"]}
  %dims.at = getelementptr i8, ptr %x, i64 {FIELDS["dims"]}
  %data.at = getelementptr i8, ptr %x, i64 {FIELDS["data"]}
  %want.descr.at = getelementptr i64, ptr %row, i64 1
  %want.nd.at = getelementptr i64, ptr %row, i64 2
  %want.flags.at = getelementptr i64, ptr %row, i64 3
  %low.at = getelementptr i64, ptr %row, i64 4
  %descr = load i64, ptr %descr.at
  %want.descr = load i64, ptr %want.descr.at
  %typed = icmp eq i64 %descr, %want.descr
  %nd.word = load i32, ptr %nd.at
  %nd = zext i32 %nd.word to i64
  %want.nd = load i64, ptr %want.nd.at
  %deep = icmp eq i64 %nd, %want.nd
  %flags.word = load i32, ptr %flags.at
  %flags = zext i32 %flags.word to i64
  %want.flags = load i64, ptr %want.flags.at
  %set = and i64 %flags, %want.flags
  %flagged = icmp eq i64 %set, %want.flags
  %data = load i64, ptr %data.at
  %low = load i64, ptr %low.at
  %rest = and i64 %data, %low
  %aligned = icmp eq i64 %rest, 0
  %there = icmp ne i64 %data, 0
  %one = and i1 %typed, %deep
  %two = and i1 %flagged, %aligned
  %three = and i1 %one, %there
  %fits = and i1 %two, %three
  %dims = load ptr, ptr %dims.at
  br i1 %fits, label %next, label %no
next:
  %d = phi i64 [ 0, %entry ], [ %after, %more ]
  %some = icmp ult i64 %d, %nd
  br i1 %some, label %more, label %yes
more:
  %dim.at = getelementptr i64, ptr %dims, i64 %d
  %dim = load i64, ptr %dim.at
  %at = add i64 %d, 6
  %want.at = getelementptr i64, ptr %row, i64 %at
  %want = load i64, ptr %want.at
  %after = add i64 %d, 1
  %alike = icmp eq i64 %dim, %want
  br i1 %alike, label %next, label %no
yes:
  ret i1 true
no:
  ret i1 false
}}
"""


def _source(written: Sequence[bool], totals: Sequence[int], alone: bool) -> str:
    """`direct(table, x0, x1, ...)` for arrays, some of them `written`, and kernels of `totals` words; by one thread at
    once if `alone`.

    After the rows of the arrays the table has the address of a word that is 1 while the pool's threads live, and one
    that is 1 while a thread is here; then each kernel's address, and by word of it two: whether it is the address of an
    array's data, and which one's, or the word itself.
    """
    code, count = _Lines(), len(written)
    rows = [code.at("%table", n * ROW) for n in range(count)]
    for n in range(count):
        code.demand(
            f"icmp eq i64 {code.word(f'%x{n}', 1)}, {code.word(rows[n], 0)}"
        )  # an object's second word: its type
    for n in range(count):
        code.demand(f"call i1 @same(ptr %x{n}, ptr {rows[n]})")
    data = [code.word(f"%x{n}", FIELDS["data"] // 8) for n in range(count)]
    ends = [code.new(f"add i64 {data[n]}, {code.word(rows[n], 5)}") for n in range(count)]
    for x, y in ((n, k) for n in range(count) for k in range(n) if written[n] or written[k]):
        before = code.new(f"icmp ult i64 {data[x]}, {ends[y]}")
        after = code.new(f"icmp ult i64 {data[y]}, {ends[x]}")
        code.demand(f"xor i1 {code.new(f'and i1 {before}, {after}')}, true")
    code.lines.append(f"  %data = alloca [{count} x i64]")
    for n in range(count):
        code.lines.append(f"  store i64 {data[n]}, ptr {code.at('%data', n)}")
    start = count * ROW
    living = code.new(f"load ptr, ptr {code.at('%table', start)}")
    code.demand(f"icmp eq i64 {code.word(living, 0)}, 1")
    code.lines.append(f"  %busy = getelementptr i64, ptr %table, i64 {start + 1}")
    if alone:
        swap = code.new("cmpxchg ptr %busy, i64 0, i64 1 acquire monotonic")
        code.demand(f"extractvalue {{ i64, i1 }} {swap}, 1")
    at = start + 2
    for total in totals:
        code.demand(f"icmp eq i32 {_called(code, at, total)}, 0", "failed")
        at += 1 + 2 * total
    params = "".join(f", ptr %x{n}" for n in range(count))
    body = "\n".join(code.lines)
    free = "  store atomic i64 0, ptr %busy release, align 8\n" if alone else ""
    return (
        f"{SAME}\ndefine i32 @direct(ptr %table{params}) {{\n{body}\n{free}  ret i32 0\n"
        f"failed:\n{free}  ret i32 {OTHER}\nother:\n  ret i32 {OTHER}\n}}\n"
    )


def _called(code: _Lines, at: int, total: int) -> str:
    """What the kernel of `total` words gives, of which the table tells from word `at` on."""
    kernel = code.new(f"load ptr, ptr {code.at('%table', at)}")
    words: list[str] = []
    for n in range(at + 1, at + 1 + 2 * total, 2):
        is_data = code.new(f"icmp ne i64 {code.word('%table', n)}, 0")
        value = code.word("%table", n + 1)
        index = code.new(f"select i1 {is_data}, i64 {value}, i64 0")
        words.append(code.new(f"select i1 {is_data}, i64 {code.word('%data', index)}, i64 {value}"))
    return code.new(f"call i32 {kernel}({', '.join(f'i64 {w}' for w in words)})")


class _Lines:
    """The lines of a function, each value of which has a new name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.fresh = iter(range(1 << 20))

    def new(self, text: str) -> str:
        name = f"%v{next(self.fresh)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def at(self, base: str, word: int | str) -> str:
        return self.new(f"getelementptr i64, ptr {base}, i64 {word}")

    def word(self, base: str, at: int | str) -> str:
        return self.new(f"load i64, ptr {self.at(base, at)}")

    def demand(self, test: str, other: str = "other") -> None:
        """Go on where `test` holds, and else to the label `other`."""
        label = f"b{next(self.fresh)}"
        self.lines.append(f"  br i1 {self.new(test)}, label %{label}, label %{other}")
        self.lines.append(f"{label}:")


@lru_cache(maxsize=64)
def _function(written: tuple[bool, ...], totals: tuple[int, ...], alone: bool) -> tuple[Any, Library]:
    """The function, and what it is in: whoever calls it keeps that, too."""
    library = Library(_source(written, totals, alone))
    return library.bind("direct", ctypes.c_int32, ctypes.c_void_p, *[ctypes.py_object] * len(written)), library


@dataclass(frozen=True)
class Entries:
    """Where a program's kernels are; and those for the threads of a pool, with what they take first, if it has several.

    `living` is a word that is 1 as long as the threads are there.
    """

    alone: Sequence[int]
    shared: Callable[[int], tuple[int, int, int]] | None
    living: Any


class Recorder:
    """A runtime that notes what a host function would run; memory that it asks for is lent from `arena`."""

    device = "cpu"

    def __init__(self, entries: Entries, arena: Arena) -> None:
        self.entries, self.arena = entries, arena
        self.calls: list[tuple[int, tuple[Any, ...]]] = []
        self.held: list[int] = []

    def call(self, n: int, args: tuple[Any, ...]) -> None:
        self.calls.append((self.entries.alone[n], args))

    def parallel(self, n: int, extent: int, args: tuple[Any, ...]) -> None:
        if extent > 1 and self.entries.shared is not None:
            kernel, run, pool = self.entries.shared(n)
            self.calls.append((kernel, (run, pool, *args, extent)))
        elif extent > 0:
            self.calls.append((self.entries.alone[n], (*args, 0, extent)))

    def alloc(self, size: int) -> int:
        self.held.append(self.arena.alloc(size))
        return self.held[-1]

    def free(self, pointer: int) -> None:
        """Nothing: what is lent is kept for the calls to come."""

    def __del__(self) -> None:
        for pointer in self.held:
            self.arena.free(pointer)


class _Slot:
    """Stands for the address of an argument."""

    def __init__(self, number: int) -> None:
        self.number = number


def direct(
    signature: Signature, bound: Bound, host: Callable[..., None], entries: Entries, arena: Arena
) -> Callable[..., int] | None:
    """What takes the arrays of a call like `bound`, inputs first, and runs it: 0, or OTHER if it is another.

    None for a program that asks for more than kernels and memory, for one of many kernels, or for other arrays.
    """
    arrays = [t.array for t in bound.arrays]
    plain = all(type(x) is np.ndarray and x.ndim <= MAX_DIMS and x.flags.c_contiguous for x in arrays)
    if not _known() or not plain or len(arrays) > MAX_ARRAYS:
        return None
    recorder, slots = Recorder(entries, arena), [_Slot(n) for n in range(len(arrays))]
    try:
        host(recorder, *bound.sizes, *slots)
    except (AttributeError, MemoryError):  # tests, or memory that there is not
        return None
    if not 0 < len(recorder.calls) <= MAX_KERNELS:
        return None
    order = sorted(range(len(arrays)), key=lambda n: signature.args[n].access == "out")
    table: list[int] = []
    for n in order:
        x, spec = arrays[n], signature.args[n]
        flags = CONTIGUOUS | ALIGNED | (WRITEABLE if spec.access != "in" else 0)
        row = [id(np.ndarray), id(x.dtype), x.ndim, flags, spec.numpy.itemsize - 1, prod(x.shape) * spec.numpy.itemsize]
        table += [*row, *x.shape, *[0] * (MAX_DIMS - x.ndim)]
    place = {n: k for k, n in enumerate(order)}
    table += [ctypes.addressof(entries.living), 0]
    for kernel, words in recorder.calls:
        table.append(kernel)
        for w in words:
            table += [1, place[w.number]] if isinstance(w, _Slot) else [0, int(w)]
    totals = tuple(len(words) for _, words in recorder.calls)
    written = tuple(signature.args[n].access != "in" for n in order)
    function, library = _function(written, totals, bool(recorder.held))
    kept = (ctypes.c_int64 * len(table))(*table)
    run = partial(function, ctypes.addressof(kept))
    run.kept = kept, library, recorder, [x.dtype for x in arrays]  # type: ignore[attr-defined]  # while it is called
    return run


@lru_cache(maxsize=1)
def _known() -> bool:
    """Whether arrays are laid out as FIELDS says, and objects are counted by this interpreter alone."""
    if sys.implementation.name != "cpython" or HEAD != 16:
        return False
    x = np.zeros((3, 5), np.float32)

    def read(name: str, kind: Any) -> int:
        return kind.from_address(id(x) + FIELDS[name]).value

    dims = (ctypes.c_int64 * 2).from_address(read("dims", ctypes.c_int64))
    flags = read("flags", ctypes.c_int32)
    wanted = CONTIGUOUS | ALIGNED | WRITEABLE
    at = [read(name, ctypes.c_int64) for name in ("data", "descr")]
    return (*at, read("nd", ctypes.c_int32), *dims, flags & wanted) == (x.ctypes.data, id(x.dtype), 2, 3, 5, wanted)
