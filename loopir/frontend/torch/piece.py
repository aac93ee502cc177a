"""A piece of a graph as a kernel: torch's tensors in, torch's tensors out.

Results that are views of inputs or of other results are made by torch, of what the kernel stored: they share memory and
have strides as in eager mode, and nothing is copied for them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_arg

from loopir.build import Schedule, build
from loopir.frontend.chosen_schedule import chosen_schedule
from loopir.frontend.torch.row import OPERATORS, AtenRow, Requirement, Unsupported
from loopir.frontend.torch.translate import Input, Translation, dense_order
from loopir.runtime.call import Kernel
from loopir.runtime.plans import MAX_PLANS, Run
from loopir.tensor import functions as f
from loopir.tensor.reductions import is_costly
from loopir.tensor.tensor import Tensor

PARTIAL_VIEWS = frozenset((
    "aten.select.int", "aten.slice.Tensor", "aten.split_with_sizes.default", "aten.split.Tensor", "aten.unbind.int",
    "aten.diagonal.default",
))  # fmt: skip
"""Views of a part, for which the whole is not stored if nothing else needs it."""


@dataclass(frozen=True)
class Stored:
    """A result that the kernel stores: its node, and the order of dimensions in which it is stored."""

    node: fx.Node
    order: tuple[int, ...]


@dataclass(frozen=True)
class PieceProgram:
    """A piece as tensor expressions, and what a call of its kernel takes and gives."""

    outputs: tuple[Tensor, ...]
    inputs: dict[str, Input]
    stored: tuple[Stored, ...]
    messages: tuple[str, ...]
    """What the last output, a bool, says is wrong; empty where nothing is required."""


def row_of(node: Any) -> AtenRow | None:
    """The row of a call; that of its call for one of several results."""
    source = node.args[0] if node.target is operator.getitem else node
    return OPERATORS.get(str(source.target)) if isinstance(source, fx.Node) else None


def translate(graph: fx.Graph) -> PieceProgram:
    """The program of a piece. Raises one of `translate.REFUSED` where that cannot be."""
    made, stored, outputs = Translation(), list[Stored](), list[Tensor]()
    bases = bases_of(graph)
    for node in graph.nodes:
        if node.op == "placeholder":
            if isinstance(node.meta["val"], torch.Tensor):
                made.take(node)
        elif node.op == "call_function" and _gives_tensors(node):
            made.add(node)
            value = made.values[node]
            if node in bases:
                stored.append(Stored(node, dense_order(node.meta["val"])))
                outputs.append(_store_result(made, node, stored[-1].order, outputs))
            elif isinstance(value, Tensor) and _readers(node) > 1 and is_costly(value.element):
                made.values[node] = value.named(made.names.identifier(node.name, "t"))
    messages = tuple(dict.fromkeys(r.message for r in made.requirements))
    if made.requirements:
        outputs.append(_violated(made.requirements).named(made.names.identifier("violated", "v")))
    return PieceProgram(tuple(outputs), made.inputs, tuple(stored), messages)


def _violated(requirements: Sequence[Requirement]) -> Tensor:
    """Whether any element of any requirement is outside: those of one shape are folded together."""
    by_shape = dict[str, Tensor]()
    for r in requirements:
        outside = r.outside if r.outside.ndim else r.outside[None]
        known = by_shape.get(key := str(outside.shape))
        by_shape[key] = outside if known is None else f.logical_or(known, outside)
    return reduce(f.logical_or, (f.any(x) for x in by_shape.values()))


def _gives_tensors(node: fx.Node) -> bool:
    value = node.meta["val"]
    return any(isinstance(x, torch.Tensor) for x in (value if isinstance(value, tuple | list) else (value,)))


def _store_result(made: Translation, node: fx.Node, order: tuple[int, ...], taken: Sequence[Tensor]) -> Tensor:
    """Store what `node` gives, its dimensions in `order`; readers read what is stored from now on."""
    value = made.values[node]
    plain = order == tuple(range(len(order)))
    new = value.source is not None and not value.source[0].is_placeholder and all(value is not t for t in taken)
    stage = value if plain and new else value.transpose(order).named(made.names.identifier(node.name, "t"))
    made.values[node] = stage if plain else stage.transpose(tuple(order.index(d) for d in range(len(order))))
    return stage


def _readers(node: fx.Node) -> int:
    """How many calls compute with what `node` gives, also through views of it."""
    return sum(_readers(u) if (row := row_of(u)) is not None and row.view else 1 for u in node.users)


def results_of(graph: fx.Graph) -> list[Any]:
    """What a graph gives, in order."""
    (given,) = next(n for n in reversed(graph.nodes) if n.op == "output").args
    return list(given) if isinstance(given, tuple | list) else [given]


def bases_of(graph: fx.Graph) -> set[fx.Node]:
    """The calls whose results are stored: those that are given, or that views which are given look at."""
    results = [n for n in results_of(graph) if isinstance(n, fx.Node)]
    bases = {_base(n, whole=False) for n in results}
    for n in results:
        if (whole := _base(n, whole=True)).op == "placeholder" or whole in bases:
            bases.discard(_base(n, whole=False))
            bases.add(whole)
    return {b for b in bases if b.op == "call_function"}


def _base(node: fx.Node, *, whole: bool) -> fx.Node:
    """What `node` is a view of in the end; unless `whole`, what is only a part of something counts for itself."""
    while node.op == "call_function" and (row := row_of(node)) is not None and row.view:
        source = node.args[0]
        assert isinstance(source, fx.Node)
        viewed = source if node.target is operator.getitem else node
        if not whole and str(viewed.target) in PARTIAL_VIEWS:
            break
        node = source
    return node


# ---------------------------------------------------------------- calls


class Piece:
    """A kernel of a piece of a graph, called as the piece is."""

    def __init__(self, graph: fx.Graph, device: torch.device, *, scheduled: bool = True) -> None:
        program = translate(graph)
        target = "cuda" if device.type == "cuda" else "llvm"
        schedule = Schedule(list(program.outputs))
        if scheduled or target == "cuda":
            schedule = chosen_schedule(schedule, target)
        threads = None if target == "cuda" else torch.get_num_threads()
        self.schedule, self.kernel = schedule, build(schedule, target, threads=threads)
        self.device, self.messages = device, program.messages
        self._inputs = [_position(graph, program.inputs[a.name]) for a in self.kernel.signature.inputs]
        self._outputs = [_made(s) for s in program.stored]
        if self.messages:
            self._outputs.append((torch.bool, None))
        self._places = _places_in_order(self.kernel)
        self._sizes = _size_getters(graph, self.kernel)
        told = {d.text for a in self.kernel.signature.args for d in a.dims if d is not None}
        self._untold = [(n, x) for n, x in enumerate(self.kernel.signature.sizes) if x not in told]
        self._runs: dict[tuple[int, ...], tuple[Run, Sequence[tuple[int, ...]]]] = {}
        """By sizes, what runs the kernel on addresses, and the shapes of its results."""
        self._views = _view_calls(graph, program.stored)
        single = next(n for n in reversed(graph.nodes) if n.op == "output").args[0]
        self._single = not isinstance(single, tuple | list)

    def __call__(self, *args: Any) -> Any:
        sizes = tuple([get(args) for get in self._sizes])
        known = self._runs.get(sizes)
        shapes = self._result_shapes(sizes) if known is None else known[1]
        given = [_dense(args[n], order) for n, order in self._inputs]
        placed = [torch.empty(shape, dtype=dtype, device=self.device)
                  for shape, (dtype, _) in zip(shapes, self._outputs)]  # fmt: skip
        if known is None or not self._run_unchecked(known[0], given, placed):
            named = {x: sizes[n] for n, x in self._untold}
            self.kernel(*(x.detach() if x.requires_grad else x for x in given), out=tuple(placed), **named)
            self._learn(sizes, shapes)
        if self.messages and placed.pop():
            raise IndexError("; or ".join(self.messages))
        results = [x if back is None else x.permute(back) for x, (_, back) in zip(placed, self._outputs)]
        if self._views is not None:
            return self._views(args, results)
        return results[0] if self._single else tuple(results)

    def _result_shapes(self, sizes: tuple[int, ...]) -> Sequence[tuple[int, ...]]:
        return self.kernel.signature.shapes(*sizes)[len(self._inputs) :]

    def _run_unchecked(self, run: Run, given: Sequence[torch.Tensor], placed: Sequence[torch.Tensor]) -> bool:
        """Run the kernel, unless an argument has no memory of its own or is negated lazily; whether it was run.

        Types, shapes and strides are those that the graph was traced with, and what is placed is new.
        """
        addresses = [x.data_ptr() for x in given]
        if not all(addresses) or any(x.is_neg() for x in given):
            return False
        addresses += [x.data_ptr() for x in placed]
        run([addresses[n] for n in self._places])
        return True

    def _learn(self, sizes: tuple[int, ...], shapes: Sequence[tuple[int, ...]]) -> None:
        """Run calls at these sizes without further checks, if they are short."""
        run = self.kernel.unchecked(sizes)
        if run is not None:
            if len(self._runs) >= MAX_PLANS:
                self._runs.clear()
            self._runs[sizes] = run, shapes


def _places_in_order(kernel: Kernel) -> list[int]:
    """For each argument of a kernel, in order, which one of its inputs and then of its results it is."""
    ordered = [*kernel.signature.inputs, *kernel.signature.outputs]
    return [ordered.index(a) for a in kernel.signature.args]


def _dense(x: torch.Tensor, order: tuple[int, ...] | None) -> torch.Tensor:
    if order is not None:
        x = x.permute(order)
    return x if x.is_contiguous() else x.contiguous()


def _plain(order: tuple[int, ...]) -> bool:
    return order == tuple(range(len(order)))


def _position(graph: fx.Graph, taken: Input) -> tuple[int, tuple[int, ...] | None]:
    """Which argument of the piece an input is, and the order of dimensions in which it is dense."""
    return _placeholders(graph).index(taken.node), None if _plain(taken.order) else taken.order


def _made(s: Stored) -> tuple[torch.dtype, tuple[int, ...] | None]:
    """The type of a result, and the order that brings its dimensions back."""
    back = None if _plain(s.order) else tuple(s.order.index(d) for d in range(len(s.order)))
    return s.node.meta["val"].dtype, back


def _placeholders(graph: fx.Graph) -> list[fx.Node]:
    return [n for n in graph.nodes if n.op == "placeholder"]


def _size_getters(graph: fx.Graph, kernel: Kernel) -> list[Callable[[Sequence[Any]], int]]:
    """What finds each size of the kernel in the arguments of the piece."""
    getters: dict[str, Callable[[Sequence[Any]], int]] = {}
    for k, node in enumerate(_placeholders(graph)):
        fake = node.meta["val"]
        if isinstance(fake, torch.SymInt):
            getters.setdefault(str(fake.node.expr), lambda args, k=k: int(args[k]))
        for d, n in enumerate(fake.shape if isinstance(fake, torch.Tensor) else ()):
            if isinstance(n, torch.SymInt):
                getters.setdefault(str(n.node.expr), lambda args, k=k, d=d: args[k].shape[d])
    for name in kernel.signature.sizes:
        if name not in getters:
            raise Unsupported(f"the size {name}, which no argument has as it is")
    return [getters[name] for name in kernel.signature.sizes]


_RESHAPED: dict[Any, Any] = {
    torch.ops.aten.view.default: torch.ops.aten.reshape.default,
    torch.ops.aten._unsafe_view.default: torch.ops.aten.reshape.default,
}
"""Views as calls that copy where strides leave no other way: a call of torch's own, as attention's on a GPU, may give a
result with other strides than its description says."""


def _view_calls(graph: fx.Graph, stored: Sequence[Stored]) -> Callable[[Sequence[Any], Sequence[Any]], Any] | None:
    """What makes the results of the piece from its arguments and what is stored; None where these are the results."""
    results, kept = results_of(graph), [s.node for s in stored]
    if results == kept:
        return None
    inputs = _placeholders(graph)
    known = {*inputs, *kept}
    calls: list[fx.Node] = []

    def need(node: Any) -> None:
        if isinstance(node, fx.Node) and node not in known:
            known.add(node)
            for x in node.all_input_nodes:
                need(x)
            calls.append(node)

    for n in results:
        need(n)
    if any((row := row_of(c)) is None or not row.view for c in calls):
        raise Unsupported("a result that is neither stored nor a view")
    single = not isinstance(next(n for n in reversed(graph.nodes) if n.op == "output").args[0], tuple | list)

    def run(args: Sequence[Any], made: Sequence[Any]) -> Any:
        env: dict[fx.Node, Any] = {**dict(zip(inputs, args)), **dict(zip(kept, made))}
        for c in calls:
            given, named = map_arg((c.args, c.kwargs), env.__getitem__)
            env[c] = _RESHAPED.get(c.target, c.target)(*given, **named)  # type: ignore[operator, arg-type]
        found = [env[n] if isinstance(n, fx.Node) else n for n in results]
        return found[0] if single else tuple(found)

    return run
