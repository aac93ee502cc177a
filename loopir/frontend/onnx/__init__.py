"""ONNX models as programs: `lp.from_onnx`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import loopir.frontend.onnx.operators  # noqa: F401  # pyright: ignore[reportUnusedImport]  (fills the table)
from loopir.errors import ModelError
from loopir.frontend.onnx.importing import Importer
from loopir.frontend.onnx.reading import read_model
from loopir.frontend.onnx.values import Array
from loopir.ir.grammar import Func
from loopir.tensor.nest import to_func
from loopir.tensor.tensor import Tensor

__all__ = ["OnnxProgram", "import_model"]


@dataclass(frozen=True)
class OnnxProgram:
    """A model as tensor expressions. `lp.Schedule(program)` schedules it.

    A kernel of it takes `program.arguments(x, y)`: the inputs that are read, then the tensors that the model holds.
    """

    inputs: dict[str, Tensor]
    """The inputs, by the model's names."""
    outputs: dict[str, Tensor]
    constants: tuple[Array, ...]
    """The tensors of the model that are arguments of the kernel, in order."""
    func: Func
    """The program as a loop nest."""

    def __loopir_func__(self, *others: Tensor) -> Func:
        return self.func if not others else to_func([*self.outputs.values(), *others])

    def arguments(self, *args: Any, **named: Any) -> tuple[Any, ...]:
        """What a kernel of this program is called with, given the inputs in the model's order or by name."""
        names = list(self.inputs)
        given = {**dict(zip(names, args, strict=False)), **named}
        if len(args) > len(names) or given.keys() != set(names):
            raise TypeError(f"the model's inputs are {', '.join(names) or 'none'}; {len(args) + len(named)} are given")
        read = {a.buffer.name for a in self.func.args}
        return (*(given[k] for k, x in self.inputs.items() if x.source and _own_name(x) in read), *self.constants)


def _own_name(x: Tensor) -> str:
    return (x.name or "").partition("#")[0]


def import_model(model: Any, values: Mapping[str, Any], sizes: Mapping[str, int]) -> OnnxProgram:
    """Read a model; see `from_onnx`."""
    proto, folder = read_model(model)
    reader = Importer(proto, folder, sizes, values)
    reader.go()
    outputs: dict[str, Tensor] = {}
    for name, value in reader.outputs.items():
        if isinstance(value, list) or value is None:
            raise ModelError(f"the output {name!r} is a sequence, or nothing, and kernels give tensors")
        taken = value if isinstance(value, Tensor) else reader.tensor(value, f"the output {name!r}")
        stored = taken.source is not None and not taken.source[0].is_placeholder
        outputs[name] = taken if stored else taken.named(reader.identifier(name, "y"))
    if not outputs:
        raise ModelError("the model has no outputs; a program computes at least one")
    func = to_func(list(outputs.values()))
    held = [reader.stored[a.buffer.name] for a in func.args if a.buffer.name in reader.stored]
    return OnnxProgram(reader.inputs, outputs, tuple(held), func)
