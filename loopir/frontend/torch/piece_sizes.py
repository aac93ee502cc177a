"""Give a piece of a graph the sizes that it computes with, where none of its own tensors has these as they are.

A convolution with a stride makes s // 2 of a size s, and what reads its result alone may still ask for s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import fx

from loopir.frontend.torch.partition import tensors_of


def give_sizes(graph: fx.Graph, name: str, part: fx.GraphModule) -> None:
    """Make sizes arguments of the submodule `part`, called `name` in `graph`, that its tensors are made of and that it
    has not: those that arguments of `graph` are, or have."""
    (call,) = graph.find_nodes(op="call_module", target=name)
    inputs = part.graph.find_nodes(op="placeholder")
    known = {n.node.expr for x in inputs for n in plain_sizes(x)}
    asked = {s for x in part.graph.nodes for n in _numbers_of_sizes(x) for s in n.node.expr.free_symbols}
    for s in sorted(asked - known, key=str):
        given = _source_of(graph, s)
        if given is None:
            continue
        with part.graph.inserting_after(inputs[-1]):
            inputs.append(part.graph.placeholder(f"size_{s}"))
        inputs[-1].meta["val"] = given.meta["val"]
        call.args = (*call.args, given)
    part.recompile()


def symbolic(sizes: Sequence[Any]) -> Iterator[torch.SymInt]:
    return (n for n in sizes if isinstance(n, torch.SymInt))


def plain_sizes(node: fx.Node) -> Iterator[torch.SymInt]:
    """The sizes that are symbols by themselves and that `node` is, or has."""
    fake = node.meta.get("val")
    sizes = fake.shape if isinstance(fake, torch.Tensor) else (fake,)
    return (n for n in symbolic(sizes) if n.node.expr.is_Symbol)


def _numbers_of_sizes(node: fx.Node) -> Iterator[torch.SymInt | torch.SymFloat]:
    """The numbers made of sizes that `node` is, or that its tensors have as sizes."""
    fake = node.meta.get("val")
    if isinstance(fake, torch.SymInt | torch.SymFloat):
        yield fake
    for t in tensors_of(node):
        yield from symbolic(t.shape)


def _source_of(graph: fx.Graph, size: Any) -> fx.Node | None:
    """What gives `size` in `graph`: an argument, or one dimension of an argument."""
    inputs = graph.find_nodes(op="placeholder")
    last = inputs[-1] if inputs else None
    for x in inputs:
        fake = x.meta.get("val")
        if isinstance(fake, torch.SymInt) and fake.node.expr == size:
            return x
    for x in inputs:
        fake = x.meta.get("val")
        for d, n in enumerate(fake.shape if isinstance(fake, torch.Tensor) else ()):
            if isinstance(n, torch.SymInt) and n.node.expr == size:
                with graph.inserting_after(last):
                    given = graph.call_function(torch.ops.aten.sym_size.int, (x, d))
                given.meta["val"] = n
                return given
    return None
