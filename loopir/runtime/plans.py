"""The short way for a call like an earlier one: NumPy arrays of the same types and shapes.

A plan keeps what `arrays.bind` found out from types and shapes; addresses, strides and overlaps are checked at every
call. Whatever is unusual goes the long way, which also says what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from loopir.runtime.arrays import Bound, Signature, address

MOST = 256
"""Plans kept; after as many combinations of shapes they are made anew."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One combination of types and shapes: the sizes, and what each output is."""

    sizes: tuple[int, ...]
    outputs: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]
    bytes: tuple[int, ...]
    """Of every argument, in order."""


Ready = tuple[tuple[int, ...], list[int], tuple[Any, ...]]
"""The arguments of one call, checked: sizes and addresses in order, and what to return."""


class Plans:
    """The plans of one kernel."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.written = [n for n, a in enumerate(signature.args) if a.access != "in"]
        self.made = [n for n, a in enumerate(signature.args) if a.access == "out"]
        self.inplace = len(self.made) < len(self.written)
        self.items = [a.numpy.itemsize for a in signature.args]
        self._plans: dict[tuple[Any, ...], Plan] = {}

    def ready(self, args: Sequence[Any], out: Sequence[Any] | None) -> Ready | None:
        """The call with `args`, if it is like an earlier one and nothing is wrong with it."""
        key = _key(args)
        plan = None if key is None else self._plans.get(key)
        if plan is None:
            return None
        if out is None:
            results = tuple([np.empty(shape, dtype) for shape, dtype in plan.outputs])
        elif type(out) is tuple and _key(out) == tuple([x for pair in plan.outputs for x in pair]):
            results = out
        else:
            return None
        arrays = list(args)
        for n, x in zip(self.made, results, strict=True):
            arrays.insert(n, x)
        pointers = [address(x) for x in arrays]
        for x, pointer, item in zip(arrays, pointers, self.items, strict=True):
            if pointer % item or not x.flags.c_contiguous:
                return None
        for n in self.written if out is not None or self.inplace else ():  # new arrays are writable and apart
            if not arrays[n].flags.writeable or not _alone(n, pointers, plan.bytes):
                return None
        return plan.sizes, pointers, results

    def learn(self, args: Sequence[Any], bound: Bound) -> None:
        """Keep what was found out about a call that went the long way."""
        key = _key(args)
        if key is None or len(args) != len(self.signature.inputs):
            return
        if len(self._plans) >= MOST:
            self._plans.clear()
        shapes = [t.shape for t in bound.arrays]
        outputs = tuple((shapes[n], self.signature.args[n].numpy) for n in self.made)
        sizes = tuple(prod(shape) * item for shape, item in zip(shapes, self.items, strict=True))
        self._plans[key] = Plan(bound.sizes, outputs, sizes)


def _alone(n: int, pointers: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether argument `n` shares no memory with another one."""
    begin, end = pointers[n], pointers[n] + sizes[n]
    return all(
        k == n or begin >= pointer + size or pointer >= end
        for k, (pointer, size) in enumerate(zip(pointers, sizes, strict=True))
    )


def _key(arrays: Sequence[Any]) -> tuple[Any, ...] | None:
    """Shapes and types, if all are plain NumPy arrays."""
    key: list[Any] = []
    for x in arrays:
        if type(x) is not np.ndarray:
            return None
        key += (x.shape, x.dtype)
    return tuple(key)
