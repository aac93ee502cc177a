"""Translate a part of an FX graph to tensor expressions, node by node, by the table of operators.

The graph is torch's after aot_autograd: no mutation, every node with the shape and type of its result (`meta["val"]`).
What a row gives is held to these: another shape is refused, another type converted.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as KIND, elementwise_dtypes
from torch.fx.node import map_arg

from loopir.errors import LoopirError
from loopir.frontend.identifiers import Names
from loopir.frontend.torch.row import OPERATORS, AtenRow, Requirement, Result, Unsupported
from loopir.frontend.torch.values import SizeTable, dtype_name
from loopir.tensor.core import cast, stage_reduction
from loopir.tensor.index import dimension, same
from loopir.tensor.tensor import Tensor, placeholder

PROMOTIONS = {"default": KIND.DEFAULT, "float": KIND.INT_TO_FLOAT, "bool": KIND.ALWAYS_BOOL}
REFUSED = (LoopirError, TypeError, ValueError, LookupError, ArithmeticError, AttributeError, AssertionError)
"""What a row may raise for a use that it does not cover."""


@dataclass(frozen=True)
class Input:
    """A tensor that a program takes: the node that gives it, and the order of dimensions in which it is dense."""

    node: fx.Node
    order: tuple[int, ...]


@dataclass
class Translation:
    """The expressions of the nodes translated so far, and what the program takes and requires."""

    sizes: SizeTable = field(default_factory=SizeTable)
    names: Names = field(default_factory=Names)
    values: dict[fx.Node, Any] = field(default_factory=dict)
    inputs: dict[str, Input] = field(default_factory=dict)
    requirements: list[Requirement] = field(default_factory=list)

    def take(self, node: fx.Node) -> None:
        """Declare what `node` gives as an input. Unsupported for what is no tensor, or of a type that loopir lacks."""
        fake = node.meta["val"]
        order = dense_order(fake)
        shape = [self.sizes.convert(d) for d in fake.shape]
        name = self.names.identifier(node.name, "x")
        stored = placeholder([shape[d] for d in order], dtype_name(fake.dtype), name=name)
        plain = order == tuple(range(len(order)))
        self.values[node] = stored if plain else stored.transpose(tuple(order.index(d) for d in range(len(order))))
        self.inputs[name] = Input(node, order)

    def add(self, node: fx.Node) -> None:
        """Translate `node`, whose arguments are translated or numbers. Raises one of REFUSED where that cannot be."""
        if node.target is operator.getitem:
            value = self.values[node.args[0]][node.args[1]]  # type: ignore[index]
            if value is None:
                raise Unsupported(f"result {node.args[1]} of {node.args[0]}")
            self.values[node] = value
            return
        row = OPERATORS.get(str(node.target))
        if row is None:
            raise Unsupported("no row")
        given = node.meta["val"]
        several = isinstance(given, tuple | list)
        results = [self._result(x) for x in (given if several else (given,))]
        args, kwargs = (map_arg(x, self._value) for x in (node.args, node.kwargs))
        args, kwargs = (_deep(x, self._number) for x in (args, kwargs))
        if row.promotion is not None:
            args = _promoted(row, node.args, args)
        if row.informed:
            args = (tuple(results) if several else results[0], *args)
        made = row.make(*args, **kwargs)
        made = self._collected(made)
        listed = list(made) if several else [made]
        if len(listed) > len(results):
            raise Unsupported(f"{len(listed)} results of {len(results)}")
        fitted = [None if e is None else self._fitted(e, r) for e, r in zip(listed, results, strict=False)]
        fitted += [None] * (len(results) - len(fitted))
        self.values[node] = tuple(fitted) if several else fitted[0]

    def _value(self, node: fx.Node) -> Any:
        if node in self.values:
            return self.values[node]
        return node.meta["val"]  # a size

    def _number(self, x: Any) -> Any:
        if isinstance(x, torch.SymInt):
            return self.sizes.convert(x)
        if isinstance(x, torch.SymFloat):
            return self.sizes.real(x)
        if isinstance(x, torch.SymBool | complex):
            raise Unsupported(f"the number {x}")
        return dtype_name(x) if isinstance(x, torch.dtype) else x

    def _result(self, fake: Any) -> Any:
        if not isinstance(fake, torch.Tensor):
            return None
        shape = tuple(self.sizes.convert(d) for d in fake.shape)
        return Result(shape, dtype_name(fake.dtype), rounded_products(fake))

    def _collected(self, made: Any) -> Any:
        """What a row gives, less its requirements."""
        if isinstance(made, tuple):
            self.requirements += [x for x in made if isinstance(x, Requirement)]
            left = tuple(x for x in made if not isinstance(x, Requirement))
            return left[0] if len(left) == 1 and len(left) < len(made) else left
        return made

    def _fitted(self, e: Any, result: Result) -> Any:
        e = cast(stage_reduction(e), result.dtype)
        dims = [dimension(d, "result")[0] for d in result.shape]
        if len(dims) != e.ndim or not all(same(a, b, e.symbols | self._declared) for a, b in zip(e.dims, dims)):
            raise Unsupported(f"a row that gives the shape {e.shape} for {result.shape}")
        return e

    @property
    def _declared(self) -> dict[str, Any]:
        return {k: s for x in self.sizes.symbols.values() for k, s in x.symbols.items()}


def rounded_products(fake: torch.Tensor) -> frozenset[str]:
    """The products that torch's settings allow to be made in TF32, for a result like `fake`: of float32 on a GPU.

    See "CUDA semantics, TensorFloat-32" in torch's notes: by default convolutions are, and products of matrices are
    after `torch.set_float32_matmul_precision("high")`.
    """
    if fake.device.type != "cuda" or fake.dtype != torch.float32:
        return frozenset()
    backends: Any = torch.backends
    settings = {"matmul": backends.cuda.matmul, "conv": backends.cudnn.conv}
    return frozenset(name for name, x in settings.items() if x.fp32_precision == "tf32")


def dense_order(fake: torch.Tensor) -> tuple[int, ...]:
    """The order of dimensions in which a tensor has its elements side by side; the plain one if there is none."""
    plain = tuple(range(fake.ndim))
    try:
        strides = [int(s.node.hint if isinstance(s, torch.SymInt) else s) for s in fake.stride()]
    except (RuntimeError, TypeError, ValueError):
        strides = None
    if strides is None or fake.is_contiguous():
        return plain
    order = tuple(sorted(plain, key=lambda d: (-strides[d], d)))
    return order if fake.permute(order).is_contiguous() else plain


def _promoted(row: AtenRow, given: Sequence[Any], args: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments, those that are promoted in the type that torch computes in."""
    first = row.skipped
    asked = [a.meta["val"] if isinstance(a, fx.Node) else a for a in given[first:]]
    counted = [a for a in asked if isinstance(a, torch.Tensor | int | float | complex | torch.SymInt | torch.SymFloat)]
    computed, _ = elementwise_dtypes(*counted, type_promotion_kind=PROMOTIONS[row.promotion or "default"])
    t = dtype_name(computed)
    return (*args[:first], *(cast(stage_reduction(a), t) if isinstance(a, Tensor) else a for a in args[first:]))


def _deep(x: Any, fn: Callable[[Any], Any]) -> Any:
    """`fn` of each leaf of nested tuples, lists and dicts."""
    if isinstance(x, tuple | list):
        return tuple(_deep(y, fn) for y in x) if isinstance(x, tuple) else [_deep(y, fn) for y in x]
    if isinstance(x, Mapping):
        return {k: _deep(y, fn) for k, y in x.items()}
    return fn(x)
