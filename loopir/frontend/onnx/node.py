"""A node of a graph, as the rows of the table of operators see it, and that table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Protocol, TypeAlias

import numpy as np

from loopir.errors import ModelError
from loopir.frontend.onnx.values import Array, Value, as_size, is_symbolic
from loopir.tensor.tensor import Tensor


class Reader(Protocol):
    """What reads the graph around a node."""

    def tensor(self, value: Value, what: str) -> Tensor: ...

    def known(self, value: Value, what: str) -> Array: ...

    def subgraph(self, graph: Any, inputs: Sequence[Value]) -> list[Value]: ...


@dataclass
class Node:
    """One use of an operator: its inputs, None where one is left out, and its attributes."""

    op: str
    name: str
    version: int
    inputs: list[Value]
    attributes: dict[str, Any]
    outputs: int
    reader: Reader
    used: set[int] = field(default_factory=set[int])
    """The outputs that have a name."""

    @property
    def what(self) -> str:
        return f"{self.op} {self.name!r}" if self.name else self.op

    def has(self, n: int) -> bool:
        """Whether input `n` is there."""
        return n < len(self.inputs) and self.inputs[n] is not None

    def value(self, n: int) -> Value:
        """Input `n` as it is."""
        if not self.has(n):
            raise ModelError(f"{self.what} lacks its input {n}; the model is not well-formed")
        return self.inputs[n]

    def tensor(self, n: int) -> Tensor:
        """Input `n` as an expression."""
        return self.reader.tensor(self.value(n), f"input {n} of {self.what}")

    def optional(self, n: int) -> Tensor | None:
        """Input `n` as an expression, if it is there."""
        return self.tensor(n) if self.has(n) else None

    def tensors(self) -> list[Tensor]:
        """All inputs, as expressions."""
        return [self.tensor(n) for n in range(len(self.inputs))]

    def known(self, n: int) -> Array:
        """The elements of input `n`; ModelError where they are known only at a call."""
        return self.reader.known(self.value(n), f"{self.what} depends on its input {n}")

    def sizes(self, n: int) -> list[Any]:
        """The elements of input `n` as sizes: integers, and indices made from symbols."""
        return [as_size(x) for x in self.known(n).reshape(-1)]

    def ints(self, n: int) -> list[int]:
        """The elements of input `n` as integers."""
        found = self.sizes(n)
        if not all(isinstance(x, int) for x in found):
            raise self.unsupported(f"its input {n} has sizes that are known only at the call, {found}")
        return found

    def scalar(self, n: int) -> Any:
        """The one element of input `n`, as a number of Python's or a size."""
        found = self.known(n)
        if found.size != 1:
            raise self.unsupported(f"its input {n} has the shape {found.shape}, where one number is meant")
        return as_size(found.item()) if is_symbolic(found) else found.reshape(()).item()

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute, or what stands for it."""
        return self.attributes.get(name, default)

    def ints_of(self, n: int, name: str, since: int) -> list[int] | None:
        """Integers that are an attribute `name` before version `since` and input `n` from then on; None without."""
        if self.version < since or name in self.attributes:
            return self.attr(name)
        return self.ints(n) if self.has(n) else None

    def axis(self, rank: int, default: int = 0, name: str = "axis") -> int:
        """The attribute `axis`, counted from 0."""
        given = self.attr(name, default)
        if not -rank <= given < max(rank, 1):
            raise ModelError(f"{self.what} is along axis {given} of {rank} dimensions; the model is not well-formed")
        return given % rank if rank else 0

    def unsupported(self, reason: str) -> ModelError:
        """The error for a use of an operator that its row does not cover."""
        return ModelError(f"{self.what} is not supported here: {reason}", missing=[f"{self.op} ({reason})"])


Row: TypeAlias = "Callable[[Node], Any]"
OPERATORS: dict[tuple[str, str], Row] = {}
"""By domain and name: what makes the outputs of a node."""


def operator(*names: str, domain: str = "") -> Callable[[Row], Row]:
    """Register a row of the table, under all its names."""

    def register(row: Row) -> Row:
        for name in names:
            OPERATORS[domain, name] = row
        return row

    return register


def elementwise(names: dict[str, Callable[..., Any]]) -> None:
    """Rows for operators that are a function of their inputs' elements, in order."""
    for name, fn in names.items():

        @wraps(fn)
        def row(n: Node, fn: Callable[..., Any] = fn) -> Any:
            return fn(*n.tensors())

        OPERATORS["", name] = row


def typed(x: Any, like: Tensor) -> Any:
    """The number `x` in the type of `like`."""
    return np.asarray(x).astype(like.dtype.numpy)[()] if isinstance(x, int | float | bool) else x
