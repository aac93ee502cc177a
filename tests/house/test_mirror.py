"""Each module has a test file that is found by its name: `x.py` by `test_x.py`, or `p/x.py` by `test_p_x.py`."""

from functools import cache

from exceptions_list import ROOT, SOURCES, listed, name_of

TESTED_TOGETHER = (
    "loopir/schedule/primitives/",
    "loopir/intrinsics/",
    "loopir/frontend/onnx/operators/",
    "loopir/frontend/torch/",
    "loopir/testing/mutants/",
)
"""Where one test runs all files: the docstrings of primitives, each operation on each target, ONNX's own tests, models
in torch, whose import takes seconds, all mutants."""


@cache
def untested() -> set[str]:
    tests = {p.stem for p in (ROOT / "tests").rglob("test_*.py")}
    modules = [p for p in SOURCES if p.stem not in ("__init__", "__main__", "_methods")]
    return {
        name_of(p)
        for p in modules
        if not {f"test_{p.stem}", f"test_{p.parent.name}_{p.stem}"} & tests
        and not name_of(p).startswith(TESTED_TOGETHER)
    }


def test_each_module_has_a_test_that_is_found_by_its_name() -> None:
    new = sorted(untested() - set(listed("no_test_of_that_name")))
    assert not new, f"call the file of its tests tests/<room>/test_<module>.py: {new}"


def test_the_list_shrinks() -> None:
    gone = set(listed("no_test_of_that_name")) - untested()
    assert not gone, f"take these out of tests/house/exceptions.toml: {gone}"
