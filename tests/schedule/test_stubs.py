"""The stub of methods is what the registry says, and Python that has each primitive once."""

import ast

from loopir.schedule.core.primitive import PRIMITIVES
from loopir.schedule.stubs import PATH, source


def test_the_stub_is_up_to_date() -> None:
    assert PATH.read_text() == source()


def test_each_primitive_is_a_method_with_its_parameters() -> None:
    (methods,) = (n for n in ast.parse(source()).body if isinstance(n, ast.ClassDef))
    found = {f.name: f for f in methods.body if isinstance(f, ast.FunctionDef)}
    own = {n: f for n, f in PRIMITIVES.items() if f.__module__.startswith("loopir.schedule.primitives.")}
    assert found.keys() == own.keys()
    assert all(ast.get_docstring(f) for f in found.values())
