"""loopir: tensor expressions to loop nests, rescheduled step by step with proof, run on the GPU and the CPU.

The public names of the package; each is loaded when first used, so that `import loopir` is quick and brings in
neither CUDA, LLVM nor sympy.
"""

from __future__ import annotations

import sys
from difflib import get_close_matches
from types import ModuleType
from typing import TYPE_CHECKING, Any

from loopir.loading import load

if TYPE_CHECKING:
    from typing import no_type_check

    from loopir import schedules as schedules, testing as testing
    from loopir.build import (
        TYPICAL_SIZE as TYPICAL_SIZE,
        Schedule as Schedule,
        buffer_bytes as buffer_bytes,
        caches as caches,
        compile_source as compile_source,
        cpu_features as cpu_features,
        describe_target as describe_target,
        local_cpu as local_cpu,
        local_machine as local_machine,
        lower as lower,
        predict as predict,
        resolve_target as resolve_target,
        thread_count as thread_count,
        vector_unit as vector_unit,
    )
    from loopir.errors import (
        BoundsError as BoundsError,
        CompileError as CompileError,
        ExprError as ExprError,
        InterpretError as InterpretError,
        LoopirError as LoopirError,
        LowerError as LowerError,
        ModelError as ModelError,
        NanError as NanError,
        ParseError as ParseError,
        ScheduleError as ScheduleError,
        TargetError as TargetError,
        VerifyError as VerifyError,
        Witness as Witness,
    )
    from loopir.frontend import from_onnx as from_onnx, jit as jit, torch_report as torch_report
    from loopir.interp.instruction import Pointer as Pointer, instruction as instruction
    from loopir.interp.interpret import interpret as interpret
    from loopir.ir.grammar import Func as Func
    from loopir.ir.ops import Memory as Memory
    from loopir.ir.parser.parse import parse as parse
    from loopir.ir.printer import text as text
    from loopir.machines import Machine as Machine, machine as machine, scheduling_for as scheduling_for
    from loopir.schedule.composite import composite as composite
    from loopir.schedule.schedule import primitive as primitive
    from loopir.schedule.transform.fix_sizes import fix_sizes as fix_sizes
    from loopir.schedule.transform.subprogram import Nest as Nest, Part as Part, extract as extract, nests as nests
    from loopir.tensor import *  # noqa: F403

    func = no_type_check  # "size" and "float32[n, m]" are no types: a checker leaves what is decorated so alone

__version__ = "0.1.0"

_HOME = {
    "testing": "loopir.testing",
    "schedules": "loopir.schedules",
    "TYPICAL_SIZE": "loopir.build",
    "Schedule": "loopir.build",
    "compile_source": "loopir.build",
    "local_cpu": "loopir.build",
    "local_machine": "loopir.build",
    "buffer_bytes": "loopir.build",
    "lower": "loopir.build",
    "predict": "loopir.build",
    "resolve_target": "loopir.build",
    "describe_target": "loopir.build",
    "caches": "loopir.build",
    "cpu_features": "loopir.build",
    "thread_count": "loopir.build",
    "vector_unit": "loopir.build",
    "Func": "loopir.ir.grammar",
    "interpret": "loopir.interp.interpret",
    "func": "loopir.ir.parser.parse",
    "parse": "loopir.ir.parser.parse",
    "from_onnx": "loopir.frontend",
    "jit": "loopir.frontend",
    "torch_report": "loopir.frontend",
    "text": "loopir.ir.printer",
    "instruction": "loopir.interp.instruction",
    "interp": "loopir.tensor",
    "Pointer": "loopir.interp.instruction",
    "Memory": "loopir.ir.ops",
    "Machine": "loopir.machines",
    "machine": "loopir.machines",
    "scheduling_for": "loopir.machines",
    "primitive": "loopir.schedule.schedule",
    "composite": "loopir.schedule.composite",
    "extract": "loopir.schedule.transform.subprogram",
    "fix_sizes": "loopir.schedule.transform.fix_sizes",
    "Part": "loopir.schedule.transform.subprogram",
    "Nest": "loopir.schedule.transform.subprogram",
    "nests": "loopir.schedule.transform.subprogram",
} | dict.fromkeys(
    (
        *("LoopirError", "ParseError", "VerifyError", "ExprError", "ScheduleError"),
        *(
            "LowerError",
            "ModelError",
            "CompileError",
            "TargetError",
            "BoundsError",
            "NanError",
            "InterpretError",
            "Witness",
        ),
    ),
    "loopir.errors",
)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    if name in ("schedules", "testing"):
        value: Any = load(_HOME[name])
    elif name in _HOME:
        load("loopir.intrinsics")  # the operations that a nest may name
        value = getattr(load(_HOME[name]), name)
    else:
        tensor = load("loopir.tensor")
        if name not in tensor.__all__:
            close = get_close_matches(name, __dir__(), n=3)
            hint = f"did you mean {' or '.join(close)}?" if close else "see dir(loopir)"
            hint = load("loopir.tensor.other_names").function_instead(name) or hint
            raise AttributeError(f"loopir has no {name!r}; {hint}")
        value = getattr(tensor, name)
    globals()[name] = value
    return value


class _Package(ModuleType):
    """This package, whose public names stay what they are: importing the package `loopir.lower` would rebind the
    function.

    `from loopir.lower.pipeline import ...` finds the room all the same.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if type(value) is ModuleType and name not in _HOME:
            value.__class__ = _UncalledModule
        if not (isinstance(value, ModuleType) and name in _HOME and value.__name__ != _HOME[name]):
            super().__setattr__(name, value)


class _UncalledModule(ModuleType):
    """A package or module in this one, which says what is written in place of a call of it."""

    def __call__(self, *_: object, **__: object) -> None:
        hint = load("loopir.tensor.other_names").MODULES.get(self.__name__.partition(".")[2], "")
        raise TypeError(f"{self.__name__} is a module, which is not called{hint and f'; {hint}'}")


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted({*_HOME, *load("loopir.tensor").__all__, "__version__"})
