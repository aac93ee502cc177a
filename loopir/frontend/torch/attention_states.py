"""What torch's attention gives on a GPU beside numbers: states of random numbers, which are left out where none are
drawn."""

from __future__ import annotations

import operator

import torch
from torch import fx

PREFIX = "aten._scaled_dot_product_"
NUMBERS = 2
"""The first results of attention: what is attended to, and the logarithm of each row's sum."""


def leave_out_random_states(graph: fx.Graph) -> None:
    """Let attention without dropout give its numbers alone, and of these the last only where it is read.

    Its derivative takes the states that dropout was drawn by, and reads none of them then: it gets memory with nothing
    written to it.
    """
    for node in list(graph.nodes):
        if not str(node.target).startswith(PREFIX) or not _draws_nothing(node):
            continue
        results = node.meta["val"]
        if len(results) <= NUMBERS or not all(u.target is operator.getitem for u in node.users):
            continue  # on a CPU there are no states
        for user in list(node.users):
            if not user.users:
                graph.erase_node(user)
            elif user.args[1] >= NUMBERS and isinstance(user.meta["val"], torch.Tensor):
                _replace_by_memory(graph, user)
        node.meta["val"] = results[: 1 + max((u.args[1] for u in node.users), default=0)]


def _draws_nothing(node: fx.Node) -> bool:
    """Whether an attention, not its derivative, has no dropout."""
    arguments = [x.name for x in node.target._schema.arguments]  # type: ignore[union-attr]
    if "dropout_p" not in arguments or arguments[0] != "query":
        return False
    at = arguments.index("dropout_p")
    dropped = node.args[at] if at < len(node.args) else node.kwargs.get("dropout_p", 0.0)
    return isinstance(dropped, float | int) and dropped == 0.0


def _replace_by_memory(graph: fx.Graph, node: fx.Node) -> None:
    fake = node.meta["val"]
    with graph.inserting_after(node):
        memory = graph.call_function(
            torch.empty, (tuple(fake.shape),), {"dtype": fake.dtype, "device": fake.device}
        )  # fmt: skip
    memory.meta["val"] = fake
    node.replace_all_uses_with(memory)
    graph.erase_node(node)
