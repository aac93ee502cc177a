"""Asynchronous copies of 16, 8 or 4 bytes from global to shared memory (PTX ISA, cp.async; sm_80 on).

Rows that start where vectors of 16 bytes cannot are copied by 8 or 4 bytes. Elements of 4 bytes are copied one by one,
so a copy may transpose a matrix of them."""

from __future__ import annotations

from loopir.interp.instruction import Pointer, instruction

_CP_ASYNC = """\
__device__ __forceinline__ void lp_cp_async(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
               :: "r"((unsigned int)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from)) : "memory");
}
"""


def _short(count: int) -> str:
    """The function that copies so many bytes, 8 or 4, through the L1 cache."""
    return f"""\
__device__ __forceinline__ void lp_cp_async_{count}(void* to, const void* from) {{
  asm volatile("cp.async.ca.shared.global [%0], [%1], {count};"
               :: "r"((unsigned int)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from)) : "memory");
}}
"""


def _declare_copy(
    short: str, dtype: str, count: int, name: str = "", suffix: str = "", prelude: str = _CP_ASYNC
) -> None:
    run = Pointer((0,), run=count)
    instruction(
        cuda=f"lp_cp_async{suffix}({{dst}}, {{src}});", cuda_prelude=prelude, at={"dst": run, "src": run},
        asynchronous="copies", doc=f"{count} elements of {dtype}, while the thread goes on.",
    )(f"""
def cp_async_{short}{name}(dst: "out {dtype}[{count}] shared", src: "{dtype}[{count}] global"):
    for e in range({count}):
        dst[e] = src[e]
""")  # fmt: skip


for _name, _dtype, _count in (
    ("bf16", "bfloat16", 8), ("f16", "float16", 8), ("f32", "float32", 4), ("i8", "int8", 16), ("u8", "uint8", 16),
    ("e4m3", "float8_e4m3fn", 16), ("e5m2", "float8_e5m2", 16),
):  # fmt: skip
    _declare_copy(_name, _dtype, _count)
    for _bytes in (8, 4):
        _elements = _count * _bytes // 16
        _declare_copy(_name, _dtype, _elements, f"x{_elements}", f"_{_bytes}", _short(_bytes))
_declare_copy("i32", "int32", 1, "x1", "_4", _short(4))
