"""Recurrent layers: what does not wait for an earlier step is one product for all steps, the rest a nest over time."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from functools import lru_cache
from typing import Any

from loopir.frontend.onnx.node import Node, operator
from loopir.ir.grammar import Func
from loopir.ir.parser.parse import parse
from loopir.tensor import functions as f, shapes
from loopir.tensor.called_nests import call
from loopir.tensor.creation import zeros
from loopir.tensor.tensor import Tensor

ACTIVATIONS = ("sigmoid", "tanh")
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
USUAL = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}

GATES_OF_STATE = """
def {name}(t: "size", b: "size", h: "size", g: "{dtype}[t, b, {gates}, h]", R: "{dtype}[{gates}, h, h]",
        {more}state: "inout {dtype}[b, h]", {cell}y: "out {dtype}[t, b, h]"):
    with alloc("{dtype}[b, {gates}, h]") as z:
        for s in range(t):
            for i in range(b):
                for k in range({gates}):
                    for j in range(h):
                        z[i, k, j] = {start}
                        for m in range(h):
                            z[i, k, j] += R[k, j, m] * state[i, m]
"""
"""What each gate is of the last state; `g` is what it is of the input. A step, in which f0 to f2 are activations, makes
the next state of it."""
STEPS = {
    "RNN": """
            for i in range(b):
                for j in range(h):
                    state[i, j] = f0(z[i, 0, j])
                    y[s, i, j] = state[i, j]
""",
    "LSTM": """
            for i in range(b):
                for j in range(h):
                    z[i, 0, j] = f0(z[i, 0, j] + P[0, j] * cell[i, j])
                    z[i, 2, j] = f0(z[i, 2, j] + P[2, j] * cell[i, j])
                    cell[i, j] = z[i, 2, j] * cell[i, j] + z[i, 0, j] * f1(z[i, 3, j])
                    state[i, j] = f0(z[i, 1, j] + P[1, j] * cell[i, j]) * f2(cell[i, j])
                    y[s, i, j] = state[i, j]
""",
    "GRU": """
            for i in range(b):
                for j in range(h):
                    z[i, 0, j] = f0(z[i, 0, j] + g[s, i, 0, j])
                    z[i, 1, j] = f0(z[i, 1, j] + g[s, i, 1, j])
                    z[i, 2, j] = f1(g[s, i, 2, j] + z[i, 1, j] * (z[i, 2, j] + P[j]))
                    state[i, j] = (1.0 - z[i, 0, j]) * z[i, 2, j] + z[i, 0, j] * state[i, j]
                    y[s, i, j] = state[i, j]
""",
    "GRU, reset before the product": """
            for i in range(b):
                for j in range(h):
                    z[i, 0, j] = f0(z[i, 0, j] + g[s, i, 0, j])
                    z[i, 1, j] = f0(z[i, 1, j] + g[s, i, 1, j]) * state[i, j]
            for i in range(b):
                for j in range(h):
                    z[i, 2, j] = g[s, i, 2, j] + P[j]
                    for m in range(h):
                        z[i, 2, j] += R[2, j, m] * z[i, 1, m]
            for i in range(b):
                for j in range(h):
                    state[i, j] = (1.0 - z[i, 0, j]) * f1(z[i, 2, j]) + z[i, 0, j] * state[i, j]
                    y[s, i, j] = state[i, j]
""",
}


@lru_cache(maxsize=64)
def _loop_over_time(op: str, step: str, dtype: str, activations: tuple[str, ...]) -> Func:
    """The loop over time of one direction."""
    more = {"RNN": "", "GRU": f'P: "{dtype}[h]", ', "LSTM": f'P: "{dtype}[3, h]", '}[op]
    cell = f'cell: "inout {dtype}[b, h]", ' if op == "LSTM" else ""
    start = "0.0" if op == "GRU" else "g[s, i, k, j]"
    head = GATES_OF_STATE.format(name=op.lower(), dtype=dtype, gates=GATES[op], more=more, cell=cell, start=start)
    body = STEPS[step]
    for k, activation in enumerate(activations):
        body = body.replace(f"f{k}(", f"{activation}(")
    return parse(head.strip("\n") + body)


@operator("RNN", "GRU", "LSTM")
def recurrent(n: Node) -> tuple[Any, ...]:
    """All states, the last ones and, of an LSTM, the last cells; sequences of one length, in one or two directions."""
    x, directions = _input(n), _directions(n)
    usual = USUAL[n.op]
    named = n.attr("activations") or [*usual] * len(directions)
    given = [str(name).lower() for name in named]
    if len(given) != len(usual) * len(directions) or not {*given} <= {*ACTIVATIONS} or n.attr("activation_alpha"):
        raise n.unsupported(f"the activations {named}; there are Sigmoid and Tanh")
    made = [_direction(n, x, d, backwards, tuple(given[d * len(usual) : (d + 1) * len(usual)]))
            for d, backwards in enumerate(directions)]  # fmt: skip
    first = bool(n.attr("layout", 0))
    lines = f.stack([states for states, *_ in made], 2 if first else 1)
    ends = [f.stack([one[k] for one in made], 1 if first else 0) for k in range(1, len(made[0]))]
    return (lines, *ends)


def _input(n: Node) -> Tensor:
    """The input, time first; what is not covered is refused."""
    if n.has(4) and any(k != n.tensor(0).shape[bool(n.attr("layout", 0))] for k in n.sizes(4)):
        raise n.unsupported("sequences of several lengths")
    if n.attr("clip") or n.attr("input_forget", 0):
        raise n.unsupported("clip and input_forget")
    x = n.tensor(0)
    return x.transpose((1, 0, 2)) if n.attr("layout", 0) else x


def _directions(n: Node) -> list[bool]:
    """Whether each direction goes backwards."""
    return {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[n.attr("direction", "forward")]


def _direction(n: Node, x: Tensor, d: int, backwards: bool, activations: tuple[str, ...]) -> tuple[Tensor, ...]:
    """The states of one direction, each over time and batch, and the last ones."""
    gates, dtype = GATES[n.op], "float32" if x.dtype.is_narrow else x.dtype.name
    weights, recurrence = (n.tensor(k)[d].astype(dtype) for k in (1, 2))
    h = weights.shape[0] // gates if isinstance(weights.shape[0], int) else n.attr("hidden_size")
    t, b = x.shape[:2]
    steps = (shapes.flip(x, 0) if backwards else x).astype(dtype)
    gated = (steps @ weights.T).reshape(t, b, gates, h)
    bias = n.tensor(3)[d].astype(dtype).reshape(2, gates, h) if n.has(3) else zeros((2, gates, h), dtype)
    step, more = n.op, []
    if n.op == "GRU":
        step += "" if n.attr("linear_before_reset", 0) else ", reset before the product"
        keep = bias[1] * shapes.expand_dims(f.concatenate([zeros((2,), dtype) + 1.0, zeros((1,), dtype)]), 1)
        gated, more = gated + (bias[0] + keep), [bias[1, 2]]
    else:
        gated = gated + (bias[0] + bias[1])
    if n.op == "LSTM":
        more = [n.tensor(7)[d].astype(dtype).reshape(3, h) if n.has(7) else zeros((3, h), dtype)]
    states = [_start(n, k, d, (b, h), dtype) for k in ((5, 6) if n.op == "LSTM" else (5,))]
    made = call(_loop_over_time(n.op, step, dtype, activations), gated, recurrence.reshape(gates, h, h), *more, *states)
    *ends, lines = made
    lines = shapes.flip(lines, 0) if backwards else lines
    if n.attr("layout", 0):
        lines = lines.transpose((1, 0, 2))
    return tuple(e.astype(x.dtype) for e in (lines, *ends))


def _start(n: Node, k: int, d: int, shape: tuple[Any, Any], dtype: str) -> Tensor:
    """The state before the first step: input `k`, or zeros."""
    if not n.has(k):
        return zeros(shape, dtype)
    given = n.tensor(k)
    return (given[:, d] if n.attr("layout", 0) else given[d]).astype(dtype)
