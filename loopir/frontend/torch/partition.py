"""Part a graph by capability: what loopir translates goes to it in large pieces, the rest stays with torch.

Whether a call is covered is found out by translating it alone, with its own arguments: a row refuses what it lacks.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from loopir.frontend.torch.piece import row_of
from loopir.frontend.torch.report import Report
from loopir.frontend.torch.row import Unsupported
from loopir.frontend.torch.translate import REFUSED, Translation


class Support(OperatorSupportBase):
    """Which calls of one graph go to loopir; the reasons of the others are in `refused`."""

    def __init__(self, graph: fx.Graph, device: torch.device) -> None:
        self.device = device
        self.results: dict[fx.Node, Any] = {}
        self.refused: dict[fx.Node, str] = {}
        for node in graph.nodes:
            if node.op != "call_function":
                continue
            if node.target is operator.getitem:
                self._is_result(node)
            elif isinstance(node.target, torch._ops.OpOverload):
                try:
                    self.results[node] = self._translated(node)
                except REFUSED as error:
                    self.refused[node] = _reason(error)

    def is_node_supported(self, submodules: Any, node: fx.Node) -> bool:
        return node in self.results

    def _is_result(self, node: fx.Node) -> None:
        """Note whether `node` takes one of several results that loopir gives."""
        source: Any = node.args[0]
        if source in self.results and self.results[source][node.args[1]] is not None:
            self.results[node] = self.results[source][node.args[1]]

    def _translated(self, node: fx.Node) -> Any:
        alone = Translation()
        for x in (node, *node.all_input_nodes):
            for fake in tensors_of(x):
                self._require_usual(fake)
        for x in node.all_input_nodes:
            if isinstance(x.meta["val"], torch.Tensor):
                alone.take(x)
            elif isinstance(x.meta["val"], tuple | list):
                raise Unsupported("a list that another call gives")
        alone.add(node)
        made = alone.values[node]
        for user in node.users:
            index = user.args[1] if user.target is operator.getitem else None
            if isinstance(index, int) and isinstance(made, tuple) and made[index] is None and user.users:
                raise Unsupported(f"result {index}")
        return made

    def _require_usual(self, fake: torch.Tensor) -> None:
        if fake.device != self.device:
            raise Unsupported(f"a tensor on {fake.device}")
        if fake.layout != torch.strided or fake.is_quantized or fake.is_neg() or fake.is_conj():
            raise Unsupported("a sparse, quantized or lazily negated tensor")
        if any(isinstance(d, int) and d == 0 for d in fake.shape):
            raise Unsupported("a tensor without elements")


def tensors_of(node: fx.Node) -> Iterator[torch.Tensor]:
    """The tensors that a node gives."""
    value = node.meta.get("val")
    yield from (x for x in (value if isinstance(value, tuple | list) else (value,)) if isinstance(x, torch.Tensor))


def _reason(error: Exception) -> str:
    if isinstance(error, Unsupported):
        return str(error)
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def partition(gm: fx.GraphModule, device: torch.device, report: Report) -> list[str]:
    """Put what goes to loopir into submodules of `gm`, and give their names."""
    support = Support(gm.graph, device)
    proposed = CapabilityBasedPartitioner(gm, support, allows_single_node_partition=True)
    found = [p for p in proposed.propose_partitions() if any(_is_work(n) for n in p.nodes)]
    taken = {n for p in found for n in p.nodes}
    for node in gm.graph.nodes:
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
            plain = next(tensors_of(node), None) is None
            light = plain or (node not in taken and node not in support.refused)
            report.count(str(node.target), None if node in taken else support.refused.get(node, ""), light=light)
    before = {name for name, _ in gm.named_children()}
    proposed.fuse_partitions(found)
    return [name for name, _ in gm.named_children() if name not in before]


def _is_work(node: fx.Node) -> bool:
    """Whether a call computes anything: a view of memory or a tensor of one number is not worth a kernel."""
    row = row_of(node)
    return row is not None and not row.view and not row.creates
