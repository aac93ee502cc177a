"""What CONTRIBUTING shows runs as it stands there: a primitive, a pass, an operation, a schedule."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopir as lp
from loopir.intrinsics.ops.arith import FLOAT
from loopir.ir.ops import REGISTRY, Intrinsic
from loopir.lower.pipeline import PASSES
from loopir.lower.target import target

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()


def test_the_primitive_in_contributing_is_one_of_ours() -> None:
    """As it stands in its file, where its docstring is run like every other one."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert code == (ROOT / "loopir/schedule/primitives/loops/reverse.py").read_text()


def test_what_contributing_names_is_there() -> None:
    named = re.findall(r"`((?:schedule|analysis|ir|lower|codegen|runtime|testing)/[\w/]+\.py)`", PAGE)
    assert len(named) > 5
    for name in named:
        assert (ROOT / "loopir" / name).is_file(), name
    for path, names in re.findall(r"`((?:schedule|analysis)/[\w/]+\.py)` \(([^)]*)\)", PAGE):
        source = (ROOT / "loopir" / path).read_text()
        assert all(f"def {n}" in source for n in re.findall(r"`(\w+)`", names)), path


def block_with(words: str) -> str:
    """The code on the page, marked `py`, that has `words`."""
    (code,) = (c for c in re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL) if words in c)
    return "from __future__ import annotations\n" + code.replace("from __future__ import annotations\n", "")


def test_the_pass_in_contributing_drops_what_it_says() -> None:
    scope: dict[str, Any] = {}
    exec(block_with("def drop_self_copies"), scope)
    nest = """
def f(a: "inout float32[8]", b: "out float32[8]"):
    for i in range(8):
        {}b[i] = a[i]
"""
    func = lp.parse(nest.format("a[i] = a[i]\n        "))
    assert lp.text(scope["drop_self_copies"](func, target("llvm"))).strip() == nest.format("").strip()


def test_the_dump_in_contributing_names_the_passes(capsys: pytest.CaptureFixture[str]) -> None:
    exec(block_with("show="), {"lp": lp, "s": lp.Schedule(lp.placeholder((8,), "float32", name="x") * 2.0)})
    printed = capsys.readouterr().out
    assert all(f"---- {p.name}\n" in printed for p in PASSES if "cuda" in p.targets)


def test_the_operation_in_contributing_is_the_same_on_a_cpu() -> None:
    code = block_with("copysign = ")
    try:
        exec(code, {"Intrinsic": Intrinsic, "FLOAT": FLOAT, "np": np})
        s = lp.Schedule(
            lp.parse("""
def f(a: "float32[4]", b: "float32[4]", c: "out float32[4]"):
    for i in range(4):
        c[i] = copysign(a[i], b[i])
""")
        )
        a, b = (np.array(x, np.float32) for x in ([1, -2, 0, 3], [-1, 1, -1, 0]))
        for t in ("llvm", "interpret"):
            assert np.array_equal(s.build(t)(a, b).view(np.int32), np.copysign(a, b).view(np.int32))
        assert "copysignf(" in lp.compile_source(s).source
    finally:
        REGISTRY.pop("copysign", None)


def test_the_schedule_in_contributing_keeps_the_meaning_and_refuses_others() -> None:
    scope: dict[str, Any] = {"lp": lp}
    exec(block_with("def row_sums"), scope)
    n = lp.symbol("n")
    x = lp.placeholder((n, 20), "float32", name="x")
    s = lp.Schedule(x.sum(axis=1))
    t = scope["row_sums"](s, "sum")
    assert [step.name for step in t.trace] == ["row_sums"]
    assert str(t.validate()).startswith("proved")
    with pytest.raises(lp.ScheduleError, match="is no sum of rows"):
        scope["row_sums"](lp.Schedule(x * 2.0), lp.Schedule(x * 2.0).stages[0])
