"""The caller's arrays: what they are, whether they fit a kernel, and new ones of the same kind for the results.

Everything is checked before anything runs: types, shapes, devices, contiguity, and that no written array overlaps
another. Signatures are plain data, with sizes as Python expressions, as this room knows nothing of the IR.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
Check = Callable[..., bool]
SCOPE = {"lp_min": min, "lp_max": max}
"""What the expressions of a signature may call."""


@dataclass(frozen=True, slots=True)
class ArgSpec:
    """An array parameter; `shape` are Python expressions over the sizes."""

    name: str
    dtype: str
    shape: tuple[str, ...]
    access: str

    @property
    def numpy(self) -> np.dtype[Any]:
        return BFLOAT16 if self.dtype == "bfloat16" else np.dtype(self.dtype)


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
    def inputs(self) -> tuple[ArgSpec, ...]:
        return tuple(a for a in self.args if a.access != "out")

    @property
    def outputs(self) -> tuple[ArgSpec, ...]:
        return tuple(a for a in self.args if a.access == "out")


@dataclass(frozen=True, slots=True)
class Taken:
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
    def bytes(self) -> int:
        size = BFLOAT16.itemsize if self.dtype == "bfloat16" else np.dtype(self.dtype).itemsize
        return prod(self.shape) * size


@dataclass(frozen=True, slots=True)
class Bound:
    """The arguments of one call, checked: sizes in order, arrays in order, and what to return."""

    sizes: tuple[int, ...]
    arrays: tuple[Taken, ...]
    results: tuple[Any, ...]


def take(x: Any, spec: ArgSpec) -> Taken:
    """`x` as an array; TypeError if it is none."""
    if type(x) is np.ndarray:
        return _numpy(x, x)
    kind = type(x).__module__.partition(".")[0]
    if kind == "torch":
        return _torch(x, spec)
    if hasattr(x, "__cuda_array_interface__"):
        return _cuda(x)
    if isinstance(x, bool | int | float | np.generic):
        return _numpy(np.asarray(x, spec.numpy), x)
    if isinstance(x, np.ndarray):
        return _numpy(x, x)
    if hasattr(x, "__dlpack__"):
        try:
            return _numpy(np.from_dlpack(x), x)
        except (BufferError, RuntimeError, TypeError) as error:
            raise TypeError(f"{spec.name}: {type(x).__name__} cannot be shared with NumPy: {error}") from None
    if hasattr(x, "__array_interface__"):
        return _numpy(np.asarray(x), x)
    raise TypeError(f"{spec.name} is a {type(x).__name__}; a kernel takes arrays (NumPy, or anything with DLPack)")


def _numpy(a: np.ndarray[Any, Any], owner: Any) -> Taken:
    name = "bfloat16" if a.dtype == BFLOAT16 else a.dtype.name
    if not a.dtype.isnative:
        name = f"byte-swapped {name}"
    interface = a.__array_interface__["data"]
    return Taken(owner if owner is a else a, interface[0], a.shape, name, a.flags.c_contiguous, "cpu",
                 a.flags.writeable, a.strides)  # fmt: skip


def _torch(x: Any, spec: ArgSpec) -> Taken:
    if x.requires_grad:
        raise TypeError(f"{spec.name} requires a gradient, and kernels have none; pass {spec.name}.detach()")
    return Taken(x, x.data_ptr(), tuple(x.shape), str(x.dtype).removeprefix("torch."), x.is_contiguous(),
                 "cpu" if x.device.type == "cpu" else str(x.device), True, None)  # fmt: skip


def _cuda(x: Any) -> Taken:
    interface = x.__cuda_array_interface__
    shape, strides = tuple(interface["shape"]), interface.get("strides")
    dtype = np.dtype(interface["typestr"])
    pointer, readonly = interface["data"]
    dense = strides is None or _dense(shape, strides, dtype.itemsize)
    name = "bfloat16" if str(getattr(x, "dtype", "")) == "bfloat16" else dtype.name
    return Taken(x, pointer or 0, shape, name, dense, "cuda:0", not readonly, strides)


def _dense(shape: Sequence[int], strides: Sequence[int], item: int) -> bool:
    expected = item
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != expected and prod(shape):
            return False
        expected *= size
    return True


# ---------------------------------------------------------------- binding


def bind(
    signature: Signature, args: Sequence[Any], named: Mapping[str, Any], out: Sequence[Any] | None, device: str
) -> Bound:
    """The arguments of one call, checked against `signature`; results are made where `out` gives none.

    Raises TypeError for what is no array or has another dtype, ValueError for shapes, devices, strides and overlaps.
    """
    given = _matched(signature, args, named)
    taken = {a.name: _typed(take(given[a.name], a), a) for a in signature.inputs}
    sizes = _sizes(signature, taken)
    shapes = signature.shapes(*sizes)
    for a, shape in zip(signature.args, shapes, strict=True):
        if a.access != "out" and taken[a.name].shape != shape:
            raise ValueError(_misfit(signature, a, taken[a.name].shape, shape, sizes))
    for check, text in signature.checks:
        if not check(*sizes):
            raise ValueError(f"{signature.name} assumes {text}, and is called with {_listed(signature, sizes)}")
    results = _results(signature, taken, out, sizes, shapes, device)
    for a in signature.args:
        _usable(signature, a, taken[a.name], device)
    _apart(signature, taken)
    return Bound(sizes, tuple(taken[a.name] for a in signature.args), results)


def _matched(signature: Signature, args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    wanted = [a.name for a in signature.inputs]
    listed = ", ".join(wanted)
    if len(args) > len(wanted):
        raise TypeError(f"{signature.name} takes {len(wanted)} arrays ({listed}), and {len(args)} are given")
    given = dict(zip(wanted, args, strict=False))
    for name, x in named.items():
        if name not in wanted:
            raise TypeError(f"{signature.name} has no argument {name!r}; it takes {listed}")
        if name in given:
            raise TypeError(f"{signature.name} is given {name} twice")
        given[name] = x
    missing = [n for n in wanted if n not in given]
    if missing:
        raise TypeError(f"{signature.name} takes {len(wanted)} arrays ({listed}); {', '.join(missing)} is missing")
    return given


def _typed(t: Taken, a: ArgSpec) -> Taken:
    if t.dtype != a.dtype:
        raise TypeError(f"{a.name} holds {t.dtype}, and the kernel takes {a.dtype}; convert it with astype")
    return t


def _sizes(signature: Signature, taken: Mapping[str, Taken]) -> tuple[int, ...]:
    found: dict[str, int] = {}
    for a in signature.inputs:
        shape = taken[a.name].shape
        if len(shape) != len(a.shape):
            raise ValueError(f"{a.name} has {len(shape)} dimensions {shape}, and the kernel takes {len(a.shape)}")
        for d, n in zip(a.shape, shape, strict=True):
            if d in signature.sizes and found.setdefault(d, n) != n:
                raise ValueError(
                    f"{a.name} has shape {shape}, which makes {d} {n}; another argument makes it {found[d]}"
                )
    missing = [n for n in signature.sizes if n not in found]
    if missing:
        raise ValueError(f"{signature.name}: no input has {missing[0]} as a dimension, so it is not known")
    return tuple(found[n] for n in signature.sizes)


def _listed(signature: Signature, sizes: Sequence[int]) -> str:
    return ", ".join(f"{n}={v}" for n, v in zip(signature.sizes, sizes, strict=True))


def _misfit(signature: Signature, a: ArgSpec, got: tuple[int, ...], want: tuple[int, ...], sizes: Sequence[int]) -> str:
    where = f" ({_listed(signature, sizes)})" if signature.sizes else ""
    return f"{a.name} has shape {got}, and the kernel takes {want}{where}"


def _results(
    signature: Signature, taken: dict[str, Taken], out: Sequence[Any] | None, sizes: Sequence[int],
    shapes: Sequence[tuple[int, ...]], device: str,
) -> tuple[Any, ...]:  # fmt: skip
    outputs = [(a, shape) for a, shape in zip(signature.args, shapes, strict=True) if a.access == "out"]
    if out is not None:
        if not isinstance(out, tuple | list) or len(out) != len(outputs):
            count = len(out) if isinstance(out, tuple | list) else "one array, not a tuple"
            raise TypeError(f"out= is a tuple of {len(outputs)} arrays; {count} given")
        for (a, shape), x in zip(outputs, out, strict=True):
            taken[a.name] = _typed(take(x, a), a)
            if taken[a.name].shape != shape:
                raise ValueError(_misfit(signature, a, taken[a.name].shape, shape, sizes))
        return tuple(out)
    like = next((t.array for t in taken.values()), None)
    made = tuple(empty_like(like, shape, a) for a, shape in outputs)
    for (a, _), x in zip(outputs, made, strict=True):
        taken[a.name] = take(x, a)
    return made


def empty_like(like: Any, shape: tuple[int, ...], a: ArgSpec) -> Any:
    """A new array of the kind and on the device of `like`."""
    kind = type(like).__module__.partition(".")[0]
    if kind == "torch":
        torch = sys.modules["torch"]
        return torch.empty(shape, dtype=getattr(torch, a.dtype), device=like.device)
    if kind == "cupy":
        return sys.modules["cupy"].empty(shape, dtype=a.numpy)
    return np.empty(shape, a.numpy)


def _usable(signature: Signature, a: ArgSpec, t: Taken, device: str) -> None:
    if not t.contiguous:
        strides = "" if t.strides is None else f" with strides {t.strides}"
        raise ValueError(
            f"{a.name} of shape {t.shape} is not contiguous in row-major order{strides}; "
            f"pass a copy, as np.ascontiguousarray({a.name}) makes"
        )
    if a.access != "in" and not t.writable:
        raise ValueError(f"{a.name} is written by {signature.name}, and it is read-only")
    if t.device != "cpu" and device == "cpu":
        raise ValueError(f"{a.name} is on {t.device}, and {signature.name} was built for the CPU; build it for cuda")


def _apart(signature: Signature, taken: Mapping[str, Taken]) -> None:
    """Refuse a written array that shares memory with another one."""
    for a in signature.args:
        if a.access == "in":
            continue
        x = taken[a.name]
        for b in signature.args:
            y = taken[b.name]
            if (
                a is not b
                and x.device == y.device
                and x.pointer < y.pointer + y.bytes
                and y.pointer < x.pointer + x.bytes
            ):
                raise ValueError(f"{a.name}, which {signature.name} writes, overlaps {b.name}; pass a copy of one")
