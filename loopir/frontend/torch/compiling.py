"""The backend of torch.compile: aot_autograd gives graphs of ATen operators, forward and backward; pieces are compiled.

Nothing here raises for a model that eager mode runs: what cannot be compiled, for whatever reason, stays with torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch
from functorch.compile import min_cut_rematerialization_partition
from torch import fx
from torch._decomp import _core_aten_decompositions_post_autograd, decomposition_table
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.utils import make_boxed_func

import loopir.frontend.torch.operators  # noqa: F401  # pyright: ignore[reportUnusedImport]  (fills the table)
from loopir.frontend.torch import foreach, report
from loopir.frontend.torch.attention_states import leave_out_random_states
from loopir.frontend.torch.partition import partition, tensors_of
from loopir.frontend.torch.piece import Piece
from loopir.frontend.torch.piece_sizes import give_sizes
from loopir.frontend.torch.row import OPERATORS

DECOMPOSED = (
    "_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data", "native_layer_norm",
    "native_layer_norm_backward", "native_group_norm", "native_group_norm_backward", "_native_batch_norm_legit",
    "_native_batch_norm_legit_no_training", "_native_batch_norm_legit_functional", "native_batch_norm",
    "native_batch_norm_backward", "_adaptive_avg_pool2d",
    "hardtanh_backward", "gelu_backward", "nll_loss_forward", "nll_loss_backward", "mse_loss", "log_sigmoid_forward",
    "logsumexp", "hardswish", "hardsigmoid", "mish", "addr", "upsample_nearest2d", "upsample_bilinear2d",
    "pixel_shuffle", "linalg_vector_norm",
)  # fmt: skip
"""Operators that torch counts to its core, and that are taken apart all the same, as they have no rows."""


@lru_cache(maxsize=1)
def decompositions() -> dict[Any, Callable[..., Any]]:
    """torch's definitions of operators by others, for those without a row; what draws random numbers stays whole."""
    table = {**_core_aten_decompositions_post_autograd(), **foreach.decompositions()}
    for name in DECOMPOSED:
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads():
            op = getattr(packet, overload)
            if op in decomposition_table:
                table.setdefault(op, decomposition_table[op])
    drawn = torch.Tag.nondeterministic_seeded
    return {op: fn for op, fn in table.items() if str(op) not in OPERATORS and drawn not in getattr(op, "tags", ())}


def compile_graph(gm: fx.GraphModule, example_inputs: Sequence[Any], *, scheduled: bool = True) -> Callable[..., Any]:
    """A graph of ATen operators as a function, with what loopir covers in kernels of its own.

    Unless `scheduled`, kernels are compiled as the expressions are written: what tests of meaning want.
    """
    counts = report.take_report()
    counts.graphs += 1
    try:
        return make_boxed_func(_pieces_compiled(gm, counts, scheduled))
    except Exception as error:  # whatever it is, torch runs the graph
        counts.failures.append(f"{type(error).__name__}: {error}")
        return make_boxed_func(gm.forward)


def _pieces_compiled(gm: fx.GraphModule, counts: report.Report, scheduled: bool) -> Callable[..., Any]:
    _name_views(gm.graph)
    leave_out_random_states(gm.graph)
    found = {x.device for n in gm.graph.nodes for x in tensors_of(n)}
    device = next((d for d in found if d.type == "cuda"), torch.device("cpu"))
    names = partition(gm, device, counts)
    for name in names:
        part = getattr(gm, name)
        give_sizes(gm.graph, name, part)
        try:
            piece = Piece(part.graph, device, scheduled=scheduled)
        except Exception as error:  # the piece stays with torch
            counts.failures.append(f"{type(error).__name__}: {error}")
            continue
        counts.kernels += 1
        setattr(gm, name, _Module(piece))
    gm.recompile()
    return gm.forward


def _name_views(graph: fx.Graph) -> None:
    """Turn each as_strided of a whole dense tensor into another dense one into a view, which it is."""
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.as_strided.default):
        whole, given = node.args[0].meta["val"], node.meta["val"]
        if (whole.is_contiguous() and given.is_contiguous() and whole.numel() == given.numel()
                and whole.storage_offset() == given.storage_offset()):  # fmt: skip
            node.target, node.args, node.kwargs = torch.ops.aten.view.default, (node.args[0], node.args[1]), {}


class _Module(torch.nn.Module):
    """A piece where a graph calls a submodule."""

    def __init__(self, piece: Piece) -> None:
        super().__init__()
        self.forward = self.piece = piece


def backend(gm: fx.GraphModule, example_inputs: Sequence[Any], **_: Any) -> Callable[..., Any]:
    """Compile a graph that dynamo traced: what `torch.compile(backend="loopir")` calls."""
    compiler = aot_autograd(
        fw_compiler=compile_graph, bw_compiler=compile_graph, inference_compiler=compile_graph,
        decompositions=decompositions(), partition_fn=min_cut_rematerialization_partition,
    )  # fmt: skip
    return compiler(gm, example_inputs)
