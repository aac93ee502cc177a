"""The short way for a call like an earlier one: arrays of one library, of the same types and shapes.

A plan keeps what `arrays.bind` found out from types and shapes; addresses, strides and overlaps are checked at every
call. Whatever is unusual goes the long way, which also says what is wrong. NumPy's arrays go it to the CPU, torch's
tensors on the GPU to the GPU.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np

from loopir.runtime.arrays import Bound, Signature, address, empty_like

MOST = 256
"""Plans kept; after as many combinations of shapes they are made anew."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One combination of types and shapes: the sizes, what each output is, and the bytes of every argument."""

    sizes: tuple[int, ...]
    outputs: tuple[tuple[tuple[int, ...], int], ...]
    """Shape, and which argument of the signature it is."""
    placed: tuple[Any, ...]
    """What arrays given for the outputs are like, in the words of the library."""
    bytes: tuple[int, ...]


class Ready(NamedTuple):
    """The arguments of one call, checked: sizes and addresses in order, what to return, and the stream to run on."""

    sizes: tuple[int, ...]
    pointers: list[int]
    results: tuple[Any, ...]
    stream: int


class Plans:
    """The plans of one kernel, for arrays of the library that its target's arrays come from."""

    def __init__(self, signature: Signature, device: str) -> None:
        self.signature = signature
        self.library: Library = Torch() if device == "cuda" else NumPy()
        self.written = [n for n, a in enumerate(signature.args) if a.access != "in"]
        self.made = [n for n, a in enumerate(signature.args) if a.access == "out"]
        self.inplace = len(self.made) < len(self.written)
        every = range(len(signature.args))
        self.pairs = [(n, k) for n in self.written for k in every if k != n and (k not in self.written or n < k)]
        """Written arguments, each with one that it may not overlap."""
        self.items = [a.numpy.itemsize for a in signature.args]
        self._plans: dict[tuple[Any, ...], Plan] = {}

    def ready(self, args: Sequence[Any], out: Sequence[Any] | None) -> Ready | None:
        """The call with `args`, if it is like an earlier one and nothing is wrong with it."""
        library = self.library
        key = library.key(args)
        plan = None if key is None else self._plans.get(key)
        if plan is None:
            return None
        if out is None:
            results = tuple([library.empty(shape, self.signature.args[n], args) for shape, n in plan.outputs])
        elif type(out) is tuple and library.key(out) == plan.placed:
            results = out
        else:
            return None
        arrays = list(args)
        for n, x in zip(self.made, results, strict=True):
            arrays.insert(n, x)
        pointers = [library.address(x) for x in arrays]
        for x, pointer, item in zip(arrays, pointers, self.items, strict=True):
            if pointer % item or not library.plain(x):
                return None
        if out is not None or self.inplace:  # new arrays are writable and apart
            for n in self.written:
                if not library.writable(arrays[n]):
                    return None
            for n, k in self.pairs:
                begin, other = pointers[n], pointers[k]
                if begin < other + plan.bytes[k] and other < begin + plan.bytes[n]:
                    return None
        return Ready(plan.sizes, pointers, results, library.stream())

    def learn(self, args: Sequence[Any], bound: Bound) -> None:
        """Keep what was found out about a call that went the long way."""
        key, placed = self.library.key(args), self.library.key(bound.results)
        if key is None or placed is None or len(args) != len(self.signature.inputs) or not args:
            return
        if len(self._plans) >= MOST:
            self._plans.clear()
        shapes = [t.shape for t in bound.arrays]
        outputs = tuple((shapes[n], n) for n in self.made)
        sizes = tuple(prod(shape) * item for shape, item in zip(shapes, self.items, strict=True))
        self._plans[key] = Plan(bound.sizes, outputs, placed, sizes)


class NumPy:
    """NumPy's arrays, for the CPU."""

    address: Callable[[Any], int] = staticmethod(address)

    def key(self, arrays: Sequence[Any]) -> tuple[Any, ...] | None:
        """Shapes and types, if all are plain arrays of the library."""
        key: list[Any] = []
        for x in arrays:
            if type(x) is not np.ndarray:
                return None
            key += (x.shape, x.dtype)
        return tuple(key)

    def plain(self, x: Any) -> bool:
        """Whether the elements lie in row-major order."""
        return x.flags.c_contiguous

    def writable(self, x: Any) -> bool:
        return x.flags.writeable

    def empty(self, shape: tuple[int, ...], spec: Any, args: Sequence[Any]) -> Any:
        return np.empty(shape, spec.numpy)

    def stream(self) -> int:
        return 0


class Torch:
    """torch's tensors on the first GPU. torch is not imported: who has a tensor has it."""

    def __init__(self) -> None:
        self._raw: Callable[[int], int] | None = None

    def key(self, arrays: Sequence[Any]) -> tuple[Any, ...] | None:
        key: list[Any] = []
        for x in arrays:
            if type(x).__name__ != "Tensor" or x.get_device() != 0:
                return None
            key += (x.shape, x.dtype)
        return tuple(key)

    def address(self, x: Any) -> int:
        return x.data_ptr()

    def plain(self, x: Any) -> bool:
        return not x.requires_grad and not x.is_neg() and not x.is_sparse and x.is_contiguous()

    def writable(self, x: Any) -> bool:
        return True

    def empty(self, shape: tuple[int, ...], spec: Any, args: Sequence[Any]) -> Any:
        return empty_like(args[0], shape, spec)

    def stream(self) -> int:
        """The stream that torch works on; its raw handle where torch tells it, which takes a tenth of the time."""
        raw = self._raw
        if raw is None:
            torch: Any = sys.modules["torch"]
            asked = getattr(torch._C, "_cuda_getCurrentRawStream", None)
            raw = self._raw = asked or (lambda _: torch.cuda.current_stream().cuda_stream)
        return raw(0)


Library = NumPy | Torch
