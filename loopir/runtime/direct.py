"""The shortest way for a call like the last one learnt: NumPy's arrays go to machine code as they are.

What a call of a small kernel costs is Python, and what costs most there is to ask arrays what they are. So the checks
of a plan (see `plans`) are made in machine code too: type, dtype, shape, flags and alignment of each array, and that
none that is written overlaps another; then the kernel is called. It is told by a table of words. What does not fit it
goes the way of plans. Programs that are one kernel on one thread take this way, others cost more than they save.

NumPy's C API has the fields of an array at fixed places (`PyArrayObject_fields`); an array that is known shows, once,
that they are there.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from math import prod
from typing import Any

import numpy as np

from loopir.runtime.arrays import Bound, Signature
from loopir.runtime.llvm_jit import Library

HEAD = object.__basicsize__
FIELDS = {"data": HEAD, "nd": HEAD + 8, "dims": HEAD + 16, "descr": HEAD + 40, "flags": HEAD + 48}
CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400
MOST = 8
"""Arrays of a call, and dimensions of an array."""
ROW = 6 + MOST
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
  %one = and i1 %typed, %deep
  %two = and i1 %flagged, %aligned
  %fits = and i1 %one, %two
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


def _source(count: int, total: int) -> str:
    """`direct(table, x0, x1, ...)` for `count` arrays and a kernel of `total` words.

    After the rows of the arrays the table has the kernel's address, and by word of the kernel two: whether it is the
    address of an array's data, and which one's, or the word itself.
    """
    lines: list[str] = []
    fresh = iter(range(1 << 20))

    def new(text: str) -> str:
        lines.append(f"  %v{(n := next(fresh))} = {text}")
        return f"%v{n}"

    def word(base: str, at: int | str) -> str:
        return new(f"load i64, ptr {new(f'getelementptr i64, ptr {base}, i64 {at}')}")

    def demand(test: str) -> None:
        label = f"b{next(fresh)}"
        lines.append(f"  br i1 {test}, label %{label}, label %other")
        lines.append(f"{label}:")

    rows = [new(f"getelementptr i64, ptr %table, i64 {n * ROW}") for n in range(count)]
    for n in range(count):
        demand(new(f"icmp eq i64 {word(f'%x{n}', 1)}, {word(rows[n], 0)}"))  # an object's second word is its type
    for n in range(count):
        demand(new(f"call i1 @same(ptr %x{n}, ptr {rows[n]})"))
    data = [word(f"%x{n}", FIELDS["data"] // 8) for n in range(count)]
    ends = [new(f"add i64 {data[n]}, {word(rows[n], 5)}") for n in range(count)]
    written = [new(f"and i64 {word(rows[n], 3)}, {WRITEABLE}") for n in range(count)]
    for n in range(count):
        for k in range(n):
            either = new(f"icmp ne i64 {new(f'or i64 {written[n]}, {written[k]}')}, 0")
            before, after = new(f"icmp ult i64 {data[n]}, {ends[k]}"), new(f"icmp ult i64 {data[k]}, {ends[n]}")
            both = new(f"and i1 {new(f'and i1 {before}, {after}')}, {either}")
            demand(new(f"xor i1 {both}, true"))
    lines.append(f"  %data = alloca [{count} x i64]")
    for n in range(count):
        lines.append(f"  store i64 {data[n]}, ptr {new(f'getelementptr i64, ptr %data, i64 {n}')}")
    kernel = new(f"load ptr, ptr {new(f'getelementptr i64, ptr %table, i64 {count * ROW}')}")
    words: list[str] = []
    for n in range(total):
        at = count * ROW + 1 + 2 * n
        is_data = new(f"icmp ne i64 {word('%table', at)}, 0")
        value = word("%table", at + 1)
        index = new(f"select i1 {is_data}, i64 {value}, i64 0")
        words.append(new(f"select i1 {is_data}, i64 {word('%data', index)}, i64 {value}"))
    code = new(f"call i32 {kernel}({', '.join(f'i64 {w}' for w in words)})")
    params = "".join(f", ptr %x{n}" for n in range(count))
    body = "\n".join(lines)
    return (
        f"{SAME}\ndefine i32 @direct(ptr %table{params}) {{\n{body}\n  ret i32 {code}\nother:\n  ret i32 {OTHER}\n}}\n"
    )


@lru_cache(maxsize=64)
def _function(count: int, total: int) -> tuple[Any, Library]:
    """The function, and what it is in: whoever calls it keeps that, too."""
    library = Library(_source(count, total))
    return library.bind("direct", ctypes.c_int32, ctypes.c_void_p, *[ctypes.py_object] * count), library


class Recorder:
    """A runtime that notes what a host function would run."""

    device = "cpu"

    def __init__(self, one_thread: bool) -> None:
        self.one_thread = one_thread
        self.calls: list[tuple[int, tuple[Any, ...]]] = []

    def call(self, n: int, args: tuple[Any, ...]) -> None:
        self.calls.append((n, args))

    def parallel(self, n: int, extent: int, args: tuple[Any, ...]) -> None:
        if extent > 1 and not self.one_thread:
            raise LookupError
        if extent > 0:
            self.calls.append((n, (*args, 0, extent)))


class _Slot:
    """Stands for the address of an argument."""

    def __init__(self, number: int) -> None:
        self.number = number


def direct(
    signature: Signature, bound: Bound, host: Callable[..., None], addresses: Sequence[int], *, one_thread: bool
) -> Callable[..., int] | None:
    """What takes the arrays of a call like `bound`, inputs first, and runs it: 0, or OTHER if it is another.

    None for a program that is not one kernel, of those at `addresses`, on one thread, or for other arrays.
    """
    arrays = [t.array for t in bound.arrays]
    plain = all(type(x) is np.ndarray and x.ndim <= MOST and x.flags.c_contiguous for x in arrays)
    if not _known() or not plain or len(arrays) > MOST:
        return None
    recorder, slots = Recorder(one_thread), [_Slot(n) for n in range(len(arrays))]
    try:
        host(recorder, *bound.sizes, *slots)
    except (LookupError, AttributeError):  # threads, or memory for intermediates, or tests
        return None
    if len(recorder.calls) != 1:
        return None
    order = sorted(range(len(arrays)), key=lambda n: signature.args[n].access == "out")
    table: list[int] = []
    for n in order:
        x, spec = arrays[n], signature.args[n]
        flags = CONTIGUOUS | ALIGNED | (WRITEABLE if spec.access != "in" else 0)
        row = [id(np.ndarray), id(x.dtype), x.ndim, flags, spec.numpy.itemsize - 1, prod(x.shape) * spec.numpy.itemsize]
        table += [*row, *x.shape, *[0] * (MOST - x.ndim)]
    (kernel, words), place = recorder.calls[0], {n: k for k, n in enumerate(order)}
    table.append(addresses[kernel])
    for w in words:
        table += [1, place[w.number]] if isinstance(w, _Slot) else [0, int(w)]
    function, library = _function(len(arrays), len(words))
    kept = (ctypes.c_int64 * len(table))(*table)
    run = partial(function, ctypes.addressof(kept))
    run.kept = kept, library, [x.dtype for x in arrays]  # type: ignore[attr-defined]  # as long as it is called
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
