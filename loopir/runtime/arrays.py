"""The caller's arrays: what they are, whether they fit a kernel, and new ones of the same kind for the results.

Everything is checked before anything runs: types, shapes, devices, contiguity, and that no written array overlaps
another. Signatures are plain data, with sizes as Python expressions, as this room knows nothing of the IR.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from operator import index
from typing import Any, cast

import ml_dtypes as ml_dtypes  # NumPy knows bfloat16 and floats of 8 bits by name from here on
import numpy as np

from loopir.errors import positive
from loopir.runtime.strided import Extent, contiguous_copier, share_memory, warn_of_copy
from loopir.shapes import Given, Linear, sizes_of

UNTOLD = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
"""Types that an array interface has no word for."""
Check = Callable[..., bool]
SCOPE = {"lp_min": min, "lp_max": max, "lp_positive": positive}
"""What the expressions of a signature may call."""


@dataclass(frozen=True, slots=True)
class ArgSpec:
    """An array parameter; `shape` are Python expressions over the sizes, and `dims` what is linear of them."""

    name: str
    dtype: str
    shape: tuple[str, ...]
    access: str
    dims: tuple[Linear | None, ...]

    @property
    def numpy(self) -> np.dtype[Any]:
        return np.dtype(self.dtype)


@dataclass(frozen=True)
class Signature:
    """What a kernel takes: sizes, arrays, and the assumptions as (expression, text)."""

    name: str
    sizes: tuple[str, ...]
    args: tuple[ArgSpec, ...]
    assumes: tuple[tuple[str, str], ...] = ()
    shapes: Callable[..., tuple[tuple[int, ...], ...]] = field(init=False)
    checks: tuple[tuple[Check, str], ...] = field(init=False)

    def __post_init__(self) -> None:
        names = ", ".join(self.sizes)
        shapes = ", ".join(f"({''.join(f'lp_max(0, {d}), ' for d in a.shape)})" for a in self.args)
        object.__setattr__(self, "shapes", eval(f"lambda {names}: ({shapes}{',' if shapes else ''})", dict(SCOPE)))
        made = tuple((eval(f"lambda {names}: {code}", dict(SCOPE)), text) for code, text in self.assumes)
        object.__setattr__(self, "checks", made)

    @property
    def spelled(self) -> str:
        """How a call is written, for who got one wrong."""
        into, out = (
            ", ".join(f"{a.name}: {a.dtype}[{', '.join(a.shape)}]" for a in x) for x in (self.inputs, self.outputs)
        )
        return f"the call is {self.name}({into}), in the order in which they were declared, and gives {out or None}"

    @property
    def inputs(self) -> tuple[ArgSpec, ...]:
        return tuple(a for a in self.args if a.access != "out")

    @property
    def outputs(self) -> tuple[ArgSpec, ...]:
        return tuple(a for a in self.args if a.access == "out")


@dataclass(frozen=True, slots=True)
class BorrowedArray:
    """An array as it was given: where it lies, and what it is."""

    array: Any
    pointer: int
    shape: tuple[int, ...]
    dtype: str
    contiguous: bool
    device: str
    writable: bool
    strides: tuple[int, ...] | None

    @property
    def item(self) -> int:
        return np.dtype(self.dtype).itemsize

    @property
    def bytes(self) -> int:
        return prod(self.shape) * self.item

    @property
    def steps(self) -> tuple[int, ...]:
        """Bytes from one element to the next, by dimension."""
        if self.strides is None:
            return tuple(self.item * prod(self.shape[n + 1 :]) for n in range(len(self.shape)))
        unit = self.item if _is_torch(self.array) else 1
        return tuple(x * unit for x in self.strides)

    @property
    def extent(self) -> Extent:
        return Extent(self.pointer, self.shape, self.steps, self.item)


@dataclass(frozen=True, slots=True)
class Bound:
    """The arguments of one call, checked: sizes in order, arrays in order, and what to return.

    A contiguous copy stands in for each of `copied`, which are not contiguous.
    """

    sizes: tuple[int, ...]
    arrays: tuple[BorrowedArray, ...]
    results: tuple[Any, ...]
    copied: dict[str, BorrowedArray] = field(default_factory=dict[str, BorrowedArray])

    def write_back(self, signature: Signature) -> None:
        """Copy what was written into copies to where the caller looks for it."""
        for a, t in zip(signature.args, self.arrays, strict=True):
            if a.access != "in" and a.name in self.copied:
                self.copied[a.name].array[...] = t.array


def borrow(x: Any, spec: ArgSpec) -> BorrowedArray:
    """`x` as an array; TypeError if it is none."""
    if type(x) is np.ndarray:
        return _numpy(x)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, getattr(torch, "Tensor", ())):
        return _torch(x, spec)
    if isinstance(x, bool | int | float) and not isinstance(x, np.generic):
        return _numpy(_scalar(x, spec))
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(f"{spec.name} has a mask, and kernels have none; fill it first, as {spec.name}.filled(0) does")
    if isinstance(x, np.generic):
        return _numpy(_lone(np.asarray(x)))
    with _foreign(x, spec):
        if hasattr(x, "__cuda_array_interface__"):
            return _cuda(x)
        if isinstance(x, np.ndarray):
            return _numpy(np.asarray(x))
        if hasattr(x, "__array_interface__"):
            _require_room(x.__array_interface__)
            return _numpy(np.asarray(x))
        if hasattr(x, "__dlpack__"):
            return _numpy(np.from_dlpack(x))
    try:
        view = memoryview(x)
    except TypeError:
        raise TypeError(
            f"{spec.name} is a {type(x).__name__}; a kernel takes arrays: NumPy's, or anything with DLPack or a buffer"
        ) from None
    with _foreign(x, spec):
        return _numpy(np.asarray(view))


def _require_room(interface: Mapping[str, Any]) -> None:
    """Refuse an array interface over a buffer that is shorter than its shape says: NumPy does not look."""
    data, strides = interface.get("data"), interface.get("strides")
    if data is None or isinstance(data, tuple):
        return
    shape, item = tuple(map(index, interface["shape"])), np.dtype(interface["typestr"]).itemsize
    steps = tuple(map(index, strides)) if strides is not None else tuple(
        item * prod(shape[n + 1 :]) for n in range(len(shape))
    )  # fmt: skip
    reached = [(d - 1) * s for d, s in zip(shape, steps, strict=True)]
    first = index(interface.get("offset", 0)) + sum(min(0, x) for x in reached)
    last = index(interface.get("offset", 0)) + sum(max(0, x) for x in reached) + item
    if prod(shape) and not (first >= 0 and last <= memoryview(data).nbytes):
        raise ValueError(
            f"its shape {shape} takes bytes {first} to {last}, and its buffer has {memoryview(data).nbytes}"
        )


@contextmanager
def _foreign(x: Any, spec: ArgSpec) -> Iterator[None]:
    """Say in words that `x` could not tell what it holds: what it raises when it is asked may be anything."""
    try:
        yield
    except Exception as error:
        raise TypeError(
            f"{spec.name}: {type(x).__name__} cannot be shared with NumPy: {type(error).__name__}: {error}"
        ) from None


def _lone(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy of one number, which nobody would see written."""
    a.flags.writeable = False
    return a


def _scalar(x: float, spec: ArgSpec) -> np.ndarray[Any, Any]:
    """A Python number as an array without dimensions, if it is one of the type's."""
    taken = {"b": bool, "i": bool | int, "u": bool | int}.get(spec.numpy.kind, bool | int | float)
    if not isinstance(x, taken):
        raise TypeError(f"{spec.name} is {x!r}, and the kernel takes {spec.dtype}")
    try:
        return _lone(np.asarray(x, spec.numpy))
    except OverflowError:
        raise ValueError(f"{spec.name} is {x}, which {spec.dtype} does not hold") from None


def _numpy(a: np.ndarray[Any, Any]) -> BorrowedArray:
    name = a.dtype.name
    if not a.dtype.isnative:
        name = f"byte-swapped {name}"
    flags = a.flags
    return BorrowedArray(a, address(a), a.shape, name, flags.c_contiguous, "cpu", flags.writeable, a.strides)


def _array_facts(a: np.ndarray[Any, Any]) -> int:
    return a.__array_interface__["data"][0]


def _read(a: np.ndarray[Any, Any]) -> int:
    """NumPy's C API has the address of the data first in the object; to ask NumPy for it takes eight times as long."""
    return ctypes.c_size_t.from_address(id(a) + object.__basicsize__).value


_PROBE = np.empty(1)
address = _read if sys.implementation.name == "cpython" and _read(_PROBE) == _array_facts(_PROBE) else _array_facts
"""Where the first element of an array lies."""


def _torch(x: Any, spec: ArgSpec) -> BorrowedArray:
    name, torch = spec.name, sys.modules["torch"]
    if type(x).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        raise TypeError(f"{name} is a {type(x).__name__}, which has no memory of its own; pass a plain torch.Tensor")
    if x.requires_grad:
        raise TypeError(f"{name} requires a gradient, and kernels have none; pass {name}.detach()")
    if str(x.layout) != "torch.strided" or x.is_neg() or x.is_conj():
        raise TypeError(f"{name} is sparse, or a lazy view; pass {name}.to_dense().resolve_neg()")
    if x.device.type == "meta":
        raise ValueError(f"{name} is on torch's meta device, which has no memory; pass a tensor that holds elements")
    device = "cpu" if x.device.type == "cpu" else f"{x.device.type}:{x.device.index or 0}"
    try:
        pointer, behind = x.data_ptr(), x.untyped_storage().nbytes() - x.storage_offset() * x.element_size()
    except RuntimeError as error:  # inside torch's transformations tensors have no memory
        raise TypeError(f"{name}: torch tells no address of its memory: {str(error).splitlines()[0]}") from None
    reached = sum((n - 1) * step for n, step in zip(x.shape, x.stride(), strict=True)) + 1
    if x.numel() and behind < reached * x.element_size():
        raise ValueError(
            f"{name} of shape {tuple(x.shape)} takes {reached * x.element_size()} bytes, and its storage has "
            f"{max(0, behind)}: it was freed or resized; pass a tensor that holds its elements"
        )
    return BorrowedArray(x, pointer, tuple(x.shape), str(x.dtype).removeprefix("torch."), x.is_contiguous(), device,
    True,
                 tuple(x.stride()))  # fmt: skip


def _cuda(x: Any) -> BorrowedArray:
    interface = x.__cuda_array_interface__
    shape, strides = tuple(map(index, interface["shape"])), interface.get("strides")
    if min(shape, default=0) < 0 or (strides is not None and len(strides) != len(shape)):
        raise ValueError(f"its shape is {shape} and its strides are {strides}")
    dtype = np.dtype(interface["typestr"])
    pointer, readonly = interface["data"]
    dense = strides is None or _dense(shape, strides, dtype.itemsize)
    name = told if (told := str(getattr(x, "dtype", ""))) in UNTOLD else dtype.name
    name = name if dtype.isnative else f"byte-swapped {name}"
    device = f"cuda:{getattr(getattr(x, 'device', None), 'id', 0)}"
    return BorrowedArray(x, index(pointer or 0), shape, name, dense, device, not readonly, strides)


def _dense(shape: Sequence[int], strides: Sequence[int], item: int) -> bool:
    expected = item
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != expected and prod(shape):
            return False
        expected *= size
    return True


def stream_of(arrays: Sequence[BorrowedArray]) -> int:
    """The stream, by its handle, that the library of the first array on a GPU works on now; 0 is the default one."""
    for t in arrays:
        if t.device != "cpu":
            kind = type(t.array).__module__.partition(".")[0]
            if kind == "torch":
                return sys.modules["torch"].cuda.current_stream(t.array.device).cuda_stream
            if kind == "cupy":
                return sys.modules["cupy"].cuda.get_current_stream(t.array.device.id).ptr
            return getattr(t.array, "__cuda_array_interface__", {}).get("stream") or 0
    return 0


def stream_asker(arrays: Sequence[BorrowedArray]) -> Callable[[int], int]:
    """What tells, of a GPU by its number, the stream that the library of these arrays works on.

    It is torch's raw handle where torch tells that, which takes a tenth of the time.
    """
    kind = type(arrays[0].array).__module__.partition(".")[0] if arrays else ""
    library: Any = sys.modules.get(kind)
    if kind == "cupy":
        return lambda gpu: library.cuda.get_current_stream(gpu).ptr
    if kind == "torch" and arrays[0].device != "cpu":
        asked = getattr(library._C, "_cuda_getCurrentRawStream", None)
        return asked or (lambda gpu: library.cuda.current_stream(gpu).cuda_stream)
    return lambda gpu: 0


# ---------------------------------------------------------------- binding


def call_sizes(signature: Signature, args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, int]:
    """The sizes of a call with these arguments, by name; as `bind`, it raises for what does not fit."""
    given, told = _matched(signature, args, named)
    taken = {a.name: _typed(borrow(given[a.name], a), a) for a in signature.inputs}
    return dict(zip(signature.sizes, _sizes(signature, taken, told), strict=True))


def bind(
    signature: Signature, args: Sequence[Any], named: Mapping[str, Any], out: Sequence[Any] | None, device: str
) -> Bound:
    """The arguments of one call, checked against `signature`; results are made where `out` gives none.

    Raises TypeError for what is no array or has another dtype, ValueError for shapes, devices, strides and overlaps.
    """
    try:
        return _bound(signature, args, named, out, device)
    except (TypeError, ValueError) as error:
        error.add_note(signature.spelled)
        raise


def _bound(
    signature: Signature, args: Sequence[Any], named: Mapping[str, Any], out: Sequence[Any] | None, device: str
) -> Bound:
    given, told = _matched(signature, args, named)
    wanted = [(a, given[a.name]) for a in signature.inputs] + _given_outputs(signature, out)
    taken = {a.name: _typed(borrow(x, a), a) for a, x in wanted}
    sizes = _sizes(signature, taken, told)
    shapes = signature.shapes(*sizes)
    for a, shape in zip(signature.args, shapes, strict=True):
        if a.name in taken and taken[a.name].shape != shape:
            raise ValueError(_misfit(signature, a, taken[a.name].shape, shape, sizes))
    for check, text in signature.checks:
        if not check(*sizes):
            least = text.removeprefix("1 <= ")
            cure = f'; lp.symbol("{least}", min=0) is a size that may be 0' if least in signature.sizes else ""
            raise ValueError(f"{signature.name} assumes {text}, and is called with {_listed(signature, sizes)}{cure}")
    for a, t in ((a, taken[a.name]) for a in signature.args if a.name in taken):
        _usable(signature, a, t, device)
    copied = {name: t for name, t in taken.items() if not t.contiguous}
    stand_ins = {a.name: _stand_in(signature, a, copied[a.name]) for a in signature.args if a.name in copied}
    results = tuple(out) if out is not None else _results(signature, taken, shapes)
    for a in signature.outputs:
        _usable(signature, a, taken[a.name], device)
    _require_no_overlap(signature, taken)
    taken |= stand_ins
    return Bound(sizes, tuple(taken[a.name] for a in signature.args), results, copied)


def _stand_in(signature: Signature, a: ArgSpec, t: BorrowedArray) -> BorrowedArray:
    """A contiguous copy of `t`; a warning tells of it."""
    copier = contiguous_copier(t.array)
    assert copier is not None  # or it was refused
    try:
        copy = borrow(copier(), a)
    except (MemoryError, RuntimeError):  # torch has the second
        raise ValueError(
            f"{a.name} of shape {t.shape} is not contiguous, and memory has no room for the {t.bytes} bytes of a copy"
        ) from None
    warn_of_copy(signature.name, a.name, _contiguous_copy(t, a.name)[0], a.access != "in")
    return copy


def _matched(
    signature: Signature, args: Sequence[Any], named: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, int]]:
    """Inputs by name, and the sizes that are given by name."""
    wanted = [a.name for a in signature.inputs]
    listed = ", ".join(wanted)
    if len(args) > len(wanted):
        raise TypeError(f"{signature.name} takes {_array_count(wanted)}, and {len(args)} are given")
    given = dict(zip(wanted, args, strict=False))
    told: dict[str, int] = {}
    for name, x in named.items():
        if name in signature.sizes:
            told[name] = _byte_size(name, x)
        elif name not in wanted:
            outputs = [a.name for a in signature.outputs]
            given_as = ", ".join(outputs) + "," * (len(outputs) == 1)
            cure = f"; {name} is an output: out=({given_as}) gives the memory for it" if name in outputs else ""
            raise TypeError(f"{signature.name} has no argument {name!r}; it takes {listed or 'no arrays'}{cure}")
        elif name in given:
            raise TypeError(f"{signature.name} is given {name} twice")
        else:
            given[name] = x
    missing = [n for n in wanted if n not in given]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        raise TypeError(
            f"{signature.name} takes {_array_count(wanted)}; {' and '.join(missing)} {are} missing{_one_by_one(args)}"
        )
    return given, told


def _one_by_one(args: Sequence[Any]) -> str:
    """How arrays are given that came in one list or dict."""
    if len(args) == 1 and isinstance(args[0], list | tuple | dict) and args[0]:
        found = list(cast("dict[Any, Any]", args[0]).values() if isinstance(args[0], dict) else args[0])
        if any(hasattr(x, "shape") for x in found):
            return f"; arrays are given one by one, as kernel({'**' if isinstance(args[0], dict) else '*'}arrays)"
    return ""


def _array_count(names: Sequence[str]) -> str:
    listed = f" ({', '.join(names)})" if names else ""
    return f"{len(names)} array{'' if len(names) == 1 else 's'}{listed}"


def _byte_size(name: str, x: Any) -> int:
    try:
        value = index(x)
    except TypeError:
        raise TypeError(f"{name} is a size, and {x!r} is no integer") from None
    if value < 0:
        raise ValueError(f"{name} is a size, and {value} is below 0")
    return value


def outputs_in_order(signature: Signature, out: Sequence[Any] | Mapping[str, Any] | None) -> Sequence[Any] | None:
    """The caller's arrays for the outputs, if there are any; those given by name in the order of the signature."""
    if not isinstance(out, Mapping):
        return out
    names = [a.name for a in signature.outputs]
    for name in (*out, *names):
        if name not in names or name not in out:
            lacks = f"there is no output {name!r}" if name not in names else f"out= lacks {name!r}"
            raise TypeError(f"{lacks}; the outputs are {', '.join(names)}")
    return tuple(out[name] for name in names)


def _given_outputs(signature: Signature, out: Sequence[Any] | None) -> list[tuple[ArgSpec, Any]]:
    """The caller's arrays for the outputs, if there are any."""
    if out is None:
        return []
    if not isinstance(out, tuple | list) or len(out) != len(signature.outputs):
        count = len(out) if isinstance(out, tuple | list) else "one array, not a tuple, is"
        names = [a.name for a in signature.outputs]
        form = f"out=({', '.join(names)}{',' if len(names) == 1 else ''})"
        raise TypeError(f"out= is a tuple of {_array_count(names)}; {count} given; write {form}")
    return list(zip(signature.outputs, out, strict=True))


def _typed(t: BorrowedArray, a: ArgSpec) -> BorrowedArray:
    if t.dtype != a.dtype:
        cure = "convert it with astype"
        if a.access == "out":
            cure = f"make one of {a.dtype}, which is filled"
        elif str(t.dtype).startswith("complex"):
            cure = "pass copies of its .real and .imag as two arrays"
        raise TypeError(f"{a.name} holds {t.dtype}, and the kernel takes {a.dtype}; {cure}")
    return t


def _sizes(signature: Signature, taken: Mapping[str, BorrowedArray], told: Mapping[str, int]) -> tuple[int, ...]:
    given = [Given(a.name, a.dims, taken[a.name].shape) for a in signature.args if a.name in taken]
    for a in given:
        if len(a.shape) != len(a.dims):
            count = f"{len(a.shape)} dimension{'s' * (len(a.shape) != 1)}"
            raise ValueError(f"{a.name} has {count} {a.shape}, and the kernel takes {len(a.dims)}")
    found = sizes_of(given, told)
    for a in given:
        for d, n in zip(a.dims, a.shape, strict=True):
            if d is not None and found.get(d.text, n) != n:
                raise ValueError(
                    f"{a.name} has shape {a.shape}, which makes {d.text} {n}; another argument makes it {found[d.text]}"
                )
    missing = [n for n in signature.sizes if n not in found]
    if missing:
        raise ValueError(f"{signature.name}: no array given tells {missing[0]}; give it by name, as {missing[0]}=4")
    return tuple(found[n] for n in signature.sizes)


def _listed(signature: Signature, sizes: Sequence[int]) -> str:
    return ", ".join(f"{n}={v}" for n, v in zip(signature.sizes, sizes, strict=True))


def _misfit(signature: Signature, a: ArgSpec, got: tuple[int, ...], want: tuple[int, ...], sizes: Sequence[int]) -> str:
    where = f" ({_listed(signature, sizes)})" if signature.sizes else ""
    return f"{a.name} has shape {got}, and the kernel takes {want}{where}"


def _results(
    signature: Signature, taken: dict[str, BorrowedArray], shapes: Sequence[tuple[int, ...]]
) -> tuple[Any, ...]:
    """New arrays for the outputs, of the kind and on the device of the first input."""
    like = next((t.array for t in taken.values()), None)
    made: list[Any] = []
    for a, shape in zip(signature.args, shapes, strict=True):
        if a.access == "out":
            made.append(empty_like(like, shape, a))
            taken[a.name] = borrow(made[-1], a)
    return tuple(made)


def empty_like(like: Any, shape: tuple[int, ...], a: ArgSpec) -> Any:
    """A new array of the kind and on the device of `like`."""
    kind = type(like).__module__.partition(".")[0]
    if kind == "torch":
        torch = sys.modules["torch"]
        return torch.empty(shape, dtype=getattr(torch, a.dtype), device=like.device)
    if kind == "cupy":
        with like.device:
            return sys.modules["cupy"].empty(shape, dtype=a.numpy)
    return np.empty(shape, a.numpy)


def _usable(signature: Signature, a: ArgSpec, t: BorrowedArray, device: str) -> None:
    own_places = a.access == "in" or t.extent.elements_apart
    if not t.contiguous and (contiguous_copier(t.array) is None or not own_places):
        copy, unit = _contiguous_copy(t, a.name)
        strides = "" if t.strides is None else f": its strides are {t.strides} {unit}"
        after = "" if a.access == "in" else f", and assign it back after the call, as {signature.name} writes it"
        raise ValueError(
            f"{a.name} of shape {t.shape} is not contiguous in row-major order{strides}; "
            f"pass a copy, as {copy} makes{after}"
        )
    if not t.pointer and prod(t.shape):
        raise ValueError(f"{a.name} of shape {t.shape} has no memory: its address is 0; pass an array that has")
    if t.pointer % a.numpy.itemsize:
        raise ValueError(f"{a.name} does not start at a multiple of {a.numpy.itemsize} bytes; pass {a.name}.copy()")
    if a.access != "in" and not t.writable:
        raise ValueError(f"{a.name} is written by {signature.name}, and it is read-only")
    if t.device != "cpu" and device == "cpu":
        raise ValueError(f"{a.name} is on {t.device}, and {signature.name} was built for the CPU; build it for cuda")
    if t.device not in ("cpu", "cuda:0"):
        raise ValueError(f"{a.name} is on {t.device}, and {signature.name} runs on cuda:0; move it there")


def _contiguous_copy(t: BorrowedArray, name: str) -> tuple[str, str]:
    """How a contiguous copy is made of such an array, and what its strides count."""
    if _is_torch(t.array):
        return f"{name}.contiguous()", "elements"
    return f"{'np' if t.device == 'cpu' else 'cupy'}.ascontiguousarray({name})", "bytes"


def _is_torch(x: Any) -> bool:
    return type(x).__module__.partition(".")[0] == "torch"


def _require_no_overlap(signature: Signature, taken: Mapping[str, BorrowedArray]) -> None:
    """Refuse a written array that shares memory with another one, unless one of the two is only read, and a copy is
    made of either."""
    for a in signature.args:
        if a.access == "in":
            continue
        x = taken[a.name]
        for b in signature.args:
            y = taken[b.name]
            apart = b.access == "in" and not (x.contiguous and y.contiguous)
            if a is not b and x.device == y.device and not apart and share_memory(x.extent, y.extent):
                raise ValueError(f"{a.name}, which {signature.name} writes, overlaps {b.name}; pass a copy of one")
