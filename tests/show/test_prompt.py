"""What a bare prompt, a notebook, `help` and a type checker make of the names that README uses."""

import inspect
import linecache
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import loopir as lp
import schedules

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What README's blocks of code leave behind."""
    found: dict[str, Any] = {}
    for block in BLOCKS:
        name = f"<README.md {len(found)}>"
        linecache.cache[name] = (len(block), None, block.splitlines(keepends=True), name)
        exec(compile(block, name, "exec"), found)
    return found


ASKED = (
    *("s", "s.func", "s.explain('k')", "s.report(n=64)", "s.diff()", "s.script()", "s.validate()", "s.cost"),
    *("s.loop('k')", "s.why('parallel', 'k')", "s.why('parallel', 'k').witness", "s.suggest()", "s.beside(s)"),
    *("sweep", "s.accesses('C')[0]", "s.trace[0]", "s.explain('k').carried[0].witness"),
)


@pytest.mark.parametrize("asked", ASKED)
def test_a_prompt_shows_what_print_does(asked: str, names: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(asked, "<stdin>", "single"), names)
    shown = capsys.readouterr().out
    value = eval(asked, names)
    assert shown == f"{value}".rstrip("\n") + "\n" * (1 + f"{value}".count("\n", len(f"{value}".rstrip("\n"))))
    assert not re.search(r"\\n|^<|\w+\(\w+=", shown.replace("(k=", "(").replace("(i=", "("))


def test_a_prompt_shows_the_refusal_of_the_readme(names: dict[str, Any]) -> None:
    before = lp.Schedule(names["sweep"])
    assert repr(before.why("reorder", "j", "i")) in README
    assert repr(names["s"]) in README
    assert repr(names["s"].validate()) == "proved: C"
    assert repr(names["s"].trace) == '(reorder("i", "k", "j"), split("j", 16), vectorize("j_i"), parallel("i"))'


NOTEBOOK = (
    *("s", "s.validate()", "s.cost", "s.accesses('C')[0]", "s.why('parallel', 'k')", "s.explain('k')", "s.suggest()"),
    *("s.why('parallel', 'k').witness", "s.report(n=64)", "s.beside(s)"),
)


@pytest.mark.parametrize("asked", NOTEBOOK)
def test_a_notebook_has_a_page_of_each(asked: str, names: dict[str, Any]) -> None:
    page = eval(asked, names)._repr_html_()
    assert page.startswith(("<pre", "<style"))
    assert ("<svg" in page) == ("why" in asked or "explain" in asked)


def test_a_witness_in_what_is_not_proved_is_shown() -> None:
    first = lp.parse('def f(A: "float32[4]", B: "out float32[4]"):\n    for i in range(4):\n        B[i] = A[i]\n')
    from loopir.analysis.dataflow.equivalence import validate

    found = validate(first, lp.parse(lp.text(first).replace("= A[i]", "= A[3 - i]")))
    assert repr(found) == str(found)
    assert repr(found.wrong) == str(found.wrong)
    assert "wrong: B[" in found._repr_html_()


# ---------------------------------------------------------------- help, types


def test_help_shows_what_a_person_types() -> None:
    split = inspect.signature(lp.Schedule.split)
    assert list(split.parameters) == ["self", "loop", "factor", "tail", "names"]
    assert split.return_annotation is lp.Schedule
    assert "'guard', 'exact'" in str(split)
    build = inspect.signature(lp.Schedule(lp.placeholder((4,), name="A") + 1.0).build)
    assert list(build.parameters) == ["target", "arch", "fma", "threads", "checks", "watch"]


def test_help_of_every_primitive_names_no_func() -> None:
    from loopir.schedule.core.primitive import PRIMITIVES

    for name in PRIMITIVES:
        signature = inspect.signature(getattr(lp.Schedule, name))
        assert next(iter(signature.parameters)) == "self"
        assert "Func" not in str(signature)


def test_a_type_checker_takes_the_readme(tmp_path: Path) -> None:
    code = "".join(BLOCKS) + 'k2: int = s.build("llvm")\nC2: int = C\nD2: int = A[1:].T\n'
    (tmp_path / "readme.py").write_text(code)
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "readme.py"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout
    types = re.findall(r'error: Type "(\w+)" is not assignable to declared type "int"', told)
    assert (types, told.count("error:")) == (["Built", "Tensor", "Tensor"], 3), told


def test_plans_predictions_and_compiled_functions_are_shown_in_words() -> None:
    x = lp.placeholder((lp.symbol("n"), 64), "float32", name="x")
    s = lp.Schedule(x.sum(axis=1))
    assert re.fullmatch(r"[\d.]+ [mun]s predicted, 1 kernel(, .*B moved)?", repr(lp.predict(s, "llvm")))
    assert repr(schedules.plan(s, "llvm")) == str(schedules.plan(s, "llvm"))
    assert repr(lp.jit(lambda a, b: a + b)) == "<lp.jit of <lambda>(a, b), 0 kernels so far>"
