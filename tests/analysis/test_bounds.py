"""What is seen without the solver to be inside a buffer is what is shown one by one, and no more."""

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import loopir.intrinsics  # noqa: F401
from loopir.analysis.regions.bounds import BoundsContext, unproved_accesses
from loopir.ir.parser.parse import parse
from loopir.schedule.core.find import all_buffers
from loopir.testing.generate.steps import schedules
from loopir.testing.generate.strategies import funcs


def check(source: str) -> None:
    func = parse(source)
    for b in all_buffers(func):
        found = [(x, ends) for _, x, ends in unproved_accesses(func, b.name)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(BoundsContext, "holds", lambda *_: False)
            assert found == [(x, ends) for _, x, ends in unproved_accesses(func, b.name)]


@given(st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_accesses_a_constant_apart_are_told_by_the_outermost(data: st.DataObject) -> None:
    s = data.draw(schedules(data.draw(funcs()), most=2, primitives=("split", "peel", "fuse", "skew")))
    check(str(s))


@pytest.mark.parametrize(("least", "most"), [(0, 2), (1, 2), (0, 3), (-1, 2)])
def test_the_first_and_the_last_of_a_window(least: int, most: int) -> None:
    window = " + ".join(f"A[i + {c}]" for c in range(least, most + 1))
    head = 'def f(n: "size", A: "float32[n + 2]", B: "out float32[n]"):'
    source = f"{head}\n    for i in range(n):\n        B[i] = {window}\n"
    check(source)
    assert bool([*unproved_accesses(parse(source), "A")]) == (least < 0 or most > 2)


@pytest.mark.parametrize(("rows", "lanes", "below"), [(4, 4, "n"), (3, 4, "n"), (4, 5, "n"), (4, 4, "n + 1")])
def test_rows_of_a_group_that_vectors_run_across(rows: int, lanes: int, below: str) -> None:
    """Of vectors v below n, elements 4 * v + c are below 4 * n: of rows of n these are 4."""
    source = f"""
def f(n: "size", A: "float32[{rows}, n]", B: "out float32[4 * n + 8]"):
    for b in range((n + 15) // 16):
        for l in range(16):
            if b * 16 + l < {below}:
                for c in range({lanes}):
                    B[b * 64 + l * 4 + c] = A[(b * 64 + l * 4 + c) // n, (b * 64 + l * 4 + c) % n]
"""
    assert bool([*unproved_accesses(parse(source), "A")]) == (rows < 4 or lanes > 4 or below != "n")
    check(source)


@pytest.mark.parametrize("extent", ["m * n", "(m + 1) * ((n + 1) // 2)", "m * 2 * ((n + 3) // 4)", "2 * (m * n)"])
def test_a_loop_of_a_product_runs_only_where_no_factor_is_0(extent: str) -> None:
    text = f"""
def f(n: "size", m: "size", T: "float32[n]", Y: "inout float32[1]"):
    for x in range({extent}):
        Y[0] = Y[0] + T[(n - 1) // 2]
"""
    assert not list(unproved_accesses(parse(text)))
    assert list(unproved_accesses(parse(text.replace("(n - 1) // 2", "(n - 2) // 2"))))


@pytest.mark.parametrize(
    ("dtype", "index", "size", "tested"),
    [
        ("uint8", "x[i]", 256, False), ("uint8", "x[i]", 255, True), ("int8", "x[i]", 256, True),
        ("uint8", "opaque(int64(x[i]))", 256, False), ("uint16", "opaque(uint8(x[i]))", 256, False),
        ("uint16", "opaque(int32(x[i]))", 65535, True),
    ],
)  # fmt: skip
def test_a_number_from_memory_is_in_the_range_of_its_type(dtype: str, index: str, size: int, tested: bool) -> None:
    f = parse(f'def f(x: "{dtype}[8]", h: "inout int32[{size}]"):\n    for i in range(8):\n        h[{index}] += 1')
    assert bool([*unproved_accesses(f)]) == tested
