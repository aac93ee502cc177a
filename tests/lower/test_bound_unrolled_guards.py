"""Guards of unrolled loops say in which of their first iterations they are known to hold; nothing else changes."""

import loopir as lp
import schedules
from loopir.ir.parser.parse import parse
from loopir.lower.gpu.bound_unrolled_guards import bound_unrolled_guards
from loopir.lower.target import target

GPU = target("cuda")


def after(guard: str, extent: int = 4, assumed: str = "24 < n") -> str:
    return lp.text(
        bound_unrolled_guards(
            parse(f"""
def f(n: "size", A: "float32[32]", B: "out float32[32]"):
    if {assumed}:
        for t in bind("threadIdx.x", 8):
            for o in unroll({extent}):
                if {guard}:
                    B[o * 8 + t] = A[o * 8 + t]
"""),
            GPU,
        )
    )


def test_a_guard_holds_in_the_first_iterations() -> None:
    assert "if o < 3 or o * 8 + t < n:" in after("o * 8 + t < n")
    assert "if o < 2 or o * 8 + t < n:" in after("o * 8 + t < n", assumed="16 < n and n <= 20")


def test_what_is_not_known_or_always_holds_is_left() -> None:
    for guard, assumed in (("o * 8 + t < n", "4 < n"), ("t < n", "24 < n"), ("n <= o * 8 + t", "24 < n")):
        assert " or " not in after(guard, assumed=assumed)
    assert " or " not in after("o * 8 + t < n", assumed="32 <= n")


def test_a_guard_that_divides_by_the_loop_is_left() -> None:
    """In an iteration that does not come to it the divisor may be 0, which ended in a ValueError."""
    assert " or " not in after("0 < o and 8 // o < n")


def test_rows_nearly_as_long_as_the_longest_are_loaded_without_tests() -> None:
    x = lp.placeholder((lp.symbol("n"), lp.symbol("m")), "float32", name="x")
    source = lp.compile_source(schedules.auto(lp.Schedule(lp.softmax(x)), "cuda")).source
    assert "< 7) ||" in source
    assert source.count("__global__") == 5
