"""Kernels come out of the IR: no pass, emitter or analysis knows an operator, or an instruction, by its name."""

import ast
import re
from pathlib import Path

import pytest

import loopir.intrinsics  # noqa: F401
from loopir.ir.ops import INSTRUCTIONS

ROOT = Path(__file__).parents[2] / "loopir"
FILES = sorted(p for room in ("lower", "codegen", "arith", "analysis", "runtime") for p in (ROOT / room).rglob("*.py"))
OPERATORS = r"matmul|gemm|conv\dd|convolution|softmax|attention|\w*norm\b|gelu|silu|relu"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_operator_and_no_instruction_is_known_by_name(path: Path) -> None:
    tree = ast.parse(path.read_text())
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    names |= {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    words = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    c_library = {"norm"}  # a name that CUDA's headers take
    assert not [x for x in names if re.fullmatch(rf"_*({OPERATORS})", x)]
    assert not [x for x in words - c_library if re.fullmatch(OPERATORS, x) or x in INSTRUCTIONS]
