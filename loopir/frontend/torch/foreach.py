"""Operators on lists of tensors, as optimizers have them, taken apart: one operator for each tensor of the lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

PREFIX = "_foreach_"
OTHERWISE: dict[str, Callable[..., Any]] = {
    "norm": torch.linalg.vector_norm,
    "zero": torch.zeros_like,
    "maximum.Scalar": torch.clamp_min,
    "maximum.ScalarList": torch.clamp_min,
    "minimum.Scalar": torch.clamp_max,
    "minimum.ScalarList": torch.clamp_max,
}
"""What is done to each tensor where torch has no function of the same name and arguments."""
LEFT = frozenset(("copy", "clone", "max", "mm", "powsum"))
"""Those that stay as they are."""


def decompositions() -> dict[Any, Callable[..., Any]]:
    """For each operator on lists, and each of its overloads, what it is of operators on tensors."""
    return {op: _for_each_tensor(op, fn) for op, fn in _operators()}


def _operators() -> Iterator[tuple[Any, Callable[..., Any]]]:
    for full in sorted(x for x in dir(torch) if x.startswith(PREFIX) and not x.endswith("_")):
        name, packet = full.removeprefix(PREFIX), getattr(torch.ops.aten, full)
        for overload in packet.overloads() if name not in LEFT else ():
            fn = OTHERWISE.get(f"{name}.{overload}", OTHERWISE.get(name, getattr(torch, name, None)))
            if not overload.endswith("out") and fn is not None and _is_by_element(packet, overload):
                yield getattr(packet, overload), fn


def _is_by_element(packet: Any, overload: str) -> bool:
    """Whether no number for each tensor lies in a tensor of its own."""
    return not any(a.name == "scalars" and str(a.type) == "Tensor" for a in getattr(packet, overload)._schema.arguments)


def _for_each_tensor(op: Any, fn: Callable[..., Any]) -> Callable[..., list[Any]]:
    arguments = op._schema.arguments
    listed = {a.name for a in arguments if str(a.type).startswith("List")}
    scaled = len(arguments) == 4  # by a `value`: addcmul and addcdiv
    by_name = {a.name: "value" if scaled and a.name == "scalars" else a.name for a in arguments}
    keywords = {a.name for a in arguments if a.kwarg_only or by_name[a.name] in ("value", "dtype")}

    def every(*args: Any, **kwargs: Any) -> list[Any]:
        given = dict(zip(by_name, args, strict=False)) | kwargs
        count = next(len(given[x]) for x in given if x in listed)
        out = list[Any]()
        for n in range(count):
            here = {x: v[n] if x in listed else v for x, v in given.items()}
            named = {by_name[x]: v for x, v in here.items() if x in keywords}
            out.append(fn(*(v for x, v in here.items() if x not in keywords), **named))
        return out

    return every
