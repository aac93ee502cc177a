"""The primitive that CONTRIBUTING shows is one: it runs as it stands there, and keeps the rules of all others."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import test_primitives as rules

from loopir.schedule import Schedule
from loopir.schedule.core.doc import Example, examples
from loopir.schedule.core.primitive import PRIMITIVES

ROOT = Path(__file__).parents[2]


@pytest.fixture
def shown() -> Iterator[str]:
    """The name of the primitive in CONTRIBUTING, which is there for one test."""
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    module = ModuleType("shown")
    sys.modules["shown"] = module
    before = set(PRIMITIVES)
    exec(compile(code, "CONTRIBUTING.md", "exec", dont_inherit=True), vars(module))
    (name,) = set(PRIMITIVES) - before
    yield name
    del PRIMITIVES[name], sys.modules["shown"]
    delattr(Schedule, name)


def test_the_primitive_in_contributing_keeps_the_rules(shown: str) -> None:
    rules.test_a_primitive_says_what_it_does_and_what_it_refuses(shown)
    cases: list[Example] = list(examples(PRIMITIVES[shown]))
    for e in cases:
        if e.refusal is not None:
            rules.test_what_is_refused_names_the_call_and_the_reason(shown, e)
        else:
            rules.test_before_becomes_after(shown, e)
            rules.test_the_meaning_stays(shown, e)


def test_what_contributing_names_is_there() -> None:
    said = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(r"`((?:schedule|analysis|ir|lower|codegen|runtime|testing)/[\w/]+\.py)`", said)
    assert len(named) > 5
    for name in named:
        assert (ROOT / "loopir" / name).is_file(), name
    for path, names in re.findall(r"`((?:schedule|analysis)/[\w/]+\.py)` \(([^)]*)\)", said):
        source = (ROOT / "loopir" / path).read_text()
        assert all(f"def {n}" in source for n in re.findall(r"`(\w+)`", names)), path
