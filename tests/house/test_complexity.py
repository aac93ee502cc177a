"""No function has a cyclomatic complexity over 20 (radon's, which counts boolean operators) without a listed reason."""

from functools import cache

from exceptions_list import SOURCES, listed, name_of
from radon.complexity import cc_visit

CAP = 20


@cache
def over_the_cap() -> dict[str, int]:
    """Functions and methods over the cap: `file::name`, and how complex they are."""
    found: dict[str, int] = {}
    for path in SOURCES:
        for block in cc_visit(path.read_text()):
            for one in (block, *getattr(block, "closures", ())):
                if one.letter in "FM" and one.complexity > CAP:
                    owner = f"{one.classname}." if getattr(one, "classname", None) else ""
                    found[f"{name_of(path)}::{owner}{one.name}"] = one.complexity
    return found


def test_no_function_is_too_complex() -> None:
    new = {name: n for name, n in over_the_cap().items() if name not in listed("complexity")}
    assert not new, f"split these, or list them in tests/house/exceptions.toml with a reason: {new}"


def test_the_list_shrinks() -> None:
    gone = set(listed("complexity")) - set(over_the_cap())
    assert not gone, f"take these out of tests/house/exceptions.toml: {gone}"
