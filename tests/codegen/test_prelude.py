"""Only the declarations that a kernel refers to stand above it."""

from __future__ import annotations

import re

import loopir as lp
import schedules
from loopir.codegen.cuda.emit import emit
from loopir.codegen.cuda.narrow_floats import NARROW_PRELUDE as NARROW
from loopir.codegen.cuda.prelude import defined_names, definitions, referenced
from loopir.codegen.cuda.values import VALUE_PRELUDE

SMALL = """\
// Two numbers: not called.
struct __align__(8) lp_pair { int x, y; };
__device__ int lp_one() { return 1; }
__device__ int lp_many(int one,
                       int two) {
  return one + two;
}
template <class T> __device__ T lp_two(T x) {
  return x + lp_one();
}
#if __CUDA_ARCH__ >= 890
__device__ int lp_three() { return 3; }
#else
__device__ int lp_three() { return lp_two(1) + lp_one(); }
#endif
template <> __device__ float lp_two<float>(float x) { return x; }
"""


def test_a_prelude_falls_into_functions_types_and_conditions() -> None:
    names = [sorted(defined_names(x)) for x in definitions(SMALL)]
    assert names == [["lp_pair"], ["lp_one"], ["lp_many"], ["lp_two"], ["lp_three"], ["lp_two"]]
    for text in (VALUE_PRELUDE, NARROW):
        assert "\n".join(definitions(text)) == text.rstrip("\n")
        assert all(defined_names(x) for x in definitions(text))


def test_what_is_called_by_way_of_others_is_there_too_and_overloads_come_together() -> None:
    assert referenced([SMALL], ["x = 3;"]) == []
    assert [sorted(defined_names(x)) for x in referenced([SMALL, SMALL], ["y = lp_three();"])] == [
        ["lp_one"], ["lp_two"], ["lp_three"], ["lp_two"]
    ]  # fmt: skip


def test_every_declaration_of_an_emitted_source_is_used() -> None:
    x = lp.placeholder((64, 96), "bfloat16", name="x")
    made = schedules.gpu(lp.Schedule(lp.softmax(lp.cast(x, "float32"), axis=-1).named("y")), arch="sm_90a")
    (lowered,) = lp.lower(made, "cuda")
    source = emit(lowered).source
    above = source[: source.index('extern "C"')]
    for name in re.findall(r"^[_a-z].*?\b(lp_\w+)(?:<\w+>)?\(", above, re.MULTILINE):
        assert len(re.findall(rf"\b{name}\b", source)) > len(re.findall(rf"^[_a-z].*\b{name}\b", above, re.MULTILINE))
    assert "lp_lane_xor" in above
    assert "lp_to_f16" not in above


def test_arguments_of_templates_are_none_of_calls() -> None:
    x = lp.placeholder((4,), "float32", name="x")
    s = lp.Schedule(lp.maximum(x.astype("int32"), 0).named("y")).bind("i", "threadIdx.x")
    assert "lp_max(T a, T b)" in emit(lp.lower(s, "cuda")[0]).source
