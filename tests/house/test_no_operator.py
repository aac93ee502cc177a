"""Kernels come out of the IR: no pass, emitter or analysis knows an operator, or an instruction, by its name."""

import ast
import re
from pathlib import Path

from exceptions_list import ROOT, name_of, tree_of

import loopir.intrinsics  # noqa: F401
from loopir.ir.ops import INSTRUCTIONS

ROOMS = ("lower", "codegen", "arith", "analysis", "runtime")
FILES = sorted(p for room in ROOMS for p in (ROOT / "loopir" / room).rglob("*.py"))
OPERATORS = r"matmul|gemm|conv\dd|convolution|softmax|attention|\w*norm\b|gelu|silu|relu"


def known_by_name(path: Path) -> list[str]:
    tree = tree_of(path)
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    names |= {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    words = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    c_library = {"norm"}  # a name that CUDA's headers take
    found = [x for x in names if re.fullmatch(rf"_*({OPERATORS})", x)]
    found += [x for x in words - c_library if re.fullmatch(OPERATORS, x) or x in INSTRUCTIONS]
    return [f"{name_of(path)}: {x}" for x in found]


def test_no_operator_and_no_instruction_is_known_by_name() -> None:
    assert not [x for p in FILES for x in known_by_name(p)]
