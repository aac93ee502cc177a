"""Imports go one way, and stand at the top of their file: the rules of the house, read off the source by `ast`."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from exceptions_list import ROOT, name_of, statements_in, tree_of

PACKAGE = ROOT / "loopir"

MAY_IMPORT = {
    "witness": (),
    "shapes": (),
    "requirements": (),
    "loading": ("requirements",),
    "errors": ("witness",),
    "machines": ("errors",),
    "ir": ("errors", "shapes"),
    "interp": ("errors", "ir", "shapes"),
    "arith": ("errors", "ir"),
    "intrinsics": ("errors", "ir", "interp"),
    "analysis": ("errors", "ir", "interp", "arith"),
    "tensor": ("errors", "ir", "arith", "intrinsics", "analysis"),
    "schedule": ("loading", "errors", "ir", "interp", "arith", "analysis", "intrinsics"),
    "lower": ("errors", "machines", "ir", "interp", "arith", "analysis", "intrinsics"),
    "codegen": ("errors", "ir", "interp", "intrinsics"),
    "runtime": ("errors", "shapes", "requirements", "loading"),
    "show": ("witness", "requirements", "errors", "machines", "ir", "arith", "analysis", "schedule"),
    "build": (
        "loading",
        "errors",
        "machines",
        "ir",
        "interp",
        "intrinsics",
        "schedule",
        "lower",
        "codegen",
        "runtime",
        "show",
    ),
    "frontend": ("errors", "loading", "ir", "interp", "arith", "tensor", "runtime", "build"),
    "testing": (
        "errors",
        "ir",
        "interp",
        "arith",
        "intrinsics",
        "analysis",
        "tensor",
        "schedule",
        "lower",
        "runtime",
        "build",
        "loading",
        "frontend",
    ),
}
"""What each room may import, beside itself."""

ABOVE = ("__init__", "__main__", "build", "schedules", "cli", "pytest_plugin")
"""The files that may know every room."""

OPTIONAL = {"cuda", "sympy", "hypothesis", "matplotlib"}
"""Packages that a function may import when it is called, as not everyone has them or wants to wait for them."""

FILES = sorted(PACKAGE.rglob("*.py"))
EAGER = [p for p in FILES if p.name not in ("__init__.py", "__main__.py", "build.py", "demo.py", "loading.py")]
"""All but the files whose work it is to load what is asked for, by name."""


def room(path: Path) -> str:
    """ "ir" for loopir/ir/printer.py, "build" for loopir/build.py."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The modules that are imported anywhere in `tree`, in full, with the line."""
    for node in statements_in(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute"
            assert node.module
            if node.module == "loopir":
                yield from ((f"loopir.{alias.name}", node.lineno) for alias in node.names)
            else:
                yield node.module, node.lineno


def wrong_imports(path: Path) -> Iterator[str]:
    here = room(path)
    if here in ABOVE:
        return
    allowed = {here, *MAY_IMPORT[here]}
    for module, line in imports(tree_of(path)):
        parts = module.split(".")
        if parts[0] == "schedules" or (parts[0] == "loopir" and (len(parts) == 1 or parts[1] not in allowed)):
            yield f"{name_of(path)}:{line} imports {module}; {here} may import {', '.join(sorted(allowed))}"


def inner_imports(path: Path) -> Iterator[str]:
    for function in statements_in(tree_of(path)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for module, line in imports(function):
                if module.split(".")[0] not in OPTIONAL:
                    yield f"{name_of(path)}:{line} imports {module} inside {function.name}"


def test_imports_go_one_way() -> None:
    assert not [name_of(p) for p in FILES if room(p) not in MAY_IMPORT and room(p) not in ABOVE], "these are in no room"
    assert not [x for p in FILES for x in wrong_imports(p)]


def test_imports_stand_at_the_top() -> None:
    assert not [x for p in EAGER for x in inner_imports(p)]


def test_modules_are_not_loaded_by_name() -> None:
    by_name = {"import_module", "__import__"}
    assert not [
        f"{name_of(p)}:{n.lineno}"
        for p in EAGER
        if any(word in p.read_text() for word in by_name)
        for n in ast.walk(tree_of(p))
        if isinstance(n, ast.Name) and n.id in by_name
    ]


def private_imports(path: Path) -> Iterator[str]:
    for node in statements_in(tree_of(path)):
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        yield from (f"{name_of(path)}:{node.lineno} imports {m}" for m in modules if m.startswith("loopir."))


def test_schedules_use_the_public_names_alone() -> None:
    assert not [x for p in sorted((ROOT / "schedules").rglob("*.py")) for x in private_imports(p)]


def test_the_rules_have_no_cycle() -> None:
    done: set[str] = set()
    while ready := {r for r, needs in MAY_IMPORT.items() if r not in done and set(needs) <= done}:
        done |= ready
    assert done == set(MAY_IMPORT)


def test_a_wrong_import_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test can fail: codegen that imports analysis, an import inside a function."""
    bad = tmp_path / "loopir" / "codegen" / "bad.py"
    bad.parent.mkdir(parents=True)
    bad.write_text("from loopir.analysis import depend\nfrom loopir import lower\ndef f():\n    import json\n")
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path / "loopir")
    monkeypatch.setattr("exceptions_list.ROOT", tmp_path)
    assert len(list(wrong_imports(bad))) == 2
    assert len(list(inner_imports(bad))) == 1
