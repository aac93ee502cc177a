"""Tensor cores by `wgmma`: 64 rows by n columns, 32 bytes of the reduced loop, issued by a warpgroup (PTX ISA,
"Asynchronous warpgroup level matrix instructions"; sm_90a alone). How sums are rounded, the hardware says: those of
8-bit floats are kept to some 14 bits from product to product, so long ones are less exact than float32 is.

Both operands come straight from shared memory, each by a descriptor, or the left one from registers, `_ar`, where
something is made of it first; the sums are a fragment that the 128 threads hold. There is one instruction for every n
that is a multiple of 8 up to 256, declared when its name is first used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from loopir.interp.instruction import instruction
from loopir.intrinsics.ops import monoids as monoids, rounding as rounding  # the meanings fold, and round
from loopir.ir.dtypes import BY_NAME
from loopir.ir.ops import FAMILIES, Major


@dataclass(frozen=True)
class Kind:
    """What is multiplied and added up: the operands' type, what is made of an element first, the sums' type, how these
    are spelt, their registers, and whether operands may lie with their other loop along rows. 32 bytes of a row are a
    product's."""

    dtype: str
    of: str
    sums: str
    spelt: str
    register: str = "f"
    either: bool = False
    right: str = ""
    """The right operand's type, where it is another."""

    @property
    def depth(self) -> int:
        return ROW_BYTES // BY_NAME[self.dtype].bytes


OPERAND_KINDS = {
    "bf16": Kind("bfloat16", "float32({})", "float32", "f32.bf16.bf16", either=True),
    "f16": Kind("float16", "float32({})", "float32", "f32.f16.f16", either=True),
    "tf32": Kind("float32", "tf32_below({})", "float32", "f32.tf32.tf32"),
    "s8": Kind("int8", "int32({})", "int32", "s32.s8.s8", "r"),
    "e4m3": Kind("float8_e4m3fn", "float32({})", "float32", "f32.e4m3.e4m3"),
    "e5m2": Kind("float8_e5m2", "float32({})", "float32", "f32.e5m2.e5m2"),
    "e4m3_e5m2": Kind("float8_e4m3fn", "float32({})", "float32", "f32.e4m3.e5m2", right="float8_e5m2"),
    "e5m2_e4m3": Kind("float8_e5m2", "float32({})", "float32", "f32.e5m2.e4m3", right="float8_e4m3fn"),
}
"""By name in instructions. Of a float32 in shared memory tensor cores read the bits of TF32 alone."""
MAX_COLUMNS, ROW_BYTES, INT_COLUMNS_BY_16 = 256, 32, 32
"""Columns of one product; bytes of its rows; columns of integers are multiples of 16 from here on."""

_DESCRIPTOR = """\
__device__ __forceinline__ unsigned long long lp_matrix(const void* p, unsigned long long word) {{
  return word | ((unsigned int)__cvta_generic_to_shared(p) & 0x3FFFFu) >> 4;
}}
"""
_WGMMA = """\
__device__ __forceinline__ void lp_{name}({sums}* d, unsigned long long a, unsigned long long b) {{
  asm volatile("{{\\n.reg .pred p;\\nsetp.ne.b32 p, 1, 0;\\n"
               "wgmma.mma_async.sync.aligned.m64n{n}k{k}.{kind} "
               "{{{registers}}}, %{a}, %{b}, p{more};\\n}}"
               : {outputs}
               : "l"(a), "l"(b));
}}
"""


_LEFT_HELD = """\
__device__ __forceinline__ void lp_{name}({sums}* d, const void* left, unsigned long long b) {{
  const unsigned int* a = (const unsigned int*)left;
  asm volatile("{{\\n.reg .pred p;\\nsetp.ne.b32 p, 1, 0;\\n"
               "wgmma.mma_async.sync.aligned.m64n{n}k{k}.{kind} "
               "{{{registers}}}, {{{words}}}, %{b}, p{more};\\n}}"
               : {outputs}
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}}
"""


def warpgroup_fragment(pack: int) -> str:
    """How the 128 threads of a warpgroup hold 64 rows, `pack` elements of one side by side: of as many columns as four
    threads have, and such tiles one after the other. Sums are held in pairs, operands as many as are in 32 bits."""
    row, column = f"t // 32 * 16 + t % 32 // 4 + v // {pack} % 2 * 8", f"t % 4 * {pack} + v % {pack}"
    return f"fragment(128, {2 * pack}, lambda t, v: ({row}, {column}))"


def _in_lines(words: list[str], each: int, between: str) -> str:
    """`words` with commas, `each` of them to a line; `between` ends a line and begins the next."""
    return f",{between}".join(", ".join(words[n : n + each]) for n in range(0, len(words), each))


def _declare_wgmma(columns: str, steps: str, short: str, first: str | None, transposed: str | None) -> None:
    """Each operand lies with the reduced loop along its rows, or with its other loop, which the descriptor tells."""
    n, kind = int(columns), OPERAND_KINDS[short]
    left, right, k, registers = first == "_at", transposed is None, kind.depth, first == "_ar"
    if not _is_wide(n, kind) or int(steps) != k or ((left or right) and not kind.either):
        return
    name = f"wgmma_m64n{n}k{k}_{short}{first or ''}{transposed or ''}"
    majors: dict[str, Major] = {"B": "mn" if right else "k"}
    majors |= {} if registers else {"A": "mn" if left else "k"}
    where = f"fragment {warpgroup_fragment(4 // BY_NAME[kind.dtype].bytes)}" if registers else "shared"
    a, b = "A[k, i]" if left else "A[i, k]", "B[k, j]" if right else "B[j, k]"
    instruction(
        level="warpgroup",
        cuda=f"lp_{name}({{C}}, {'{A}' if registers else 'lp_matrix({A}, {A_word})'}, lp_matrix({{B}}, {{B_word}}));",
        cuda_prelude=f"{_DESCRIPTOR.format()}\n{_spelling(name, n, kind, left=left, right=right, registers=registers)}",
        asynchronous="products", arch="sm_90a", matrices=majors,
        doc=_doc(n, kind, left=left, right=right, registers=registers),
    )(f"""
def {name}(C: "inout {kind.sums}[64, {n}] fragment {warpgroup_fragment(2)}",
           A: "{kind.dtype}[{f'{k}, 64' if left else f'64, {k}'}] {where}",
           B: "{kind.right or kind.dtype}[{f'{k}, {n}' if right else f'{n}, {k}'}] shared"):
    for i, j, k in grid(64, {n}, {k}):
        C[i, j] += {kind.of.format(a)} * {kind.of.format(b)}
""")  # fmt: skip


def _doc(columns: int, kind: Kind, *, left: bool, right: bool, registers: bool) -> str:
    """What the instruction computes, in a sentence."""
    of = f"{kind.dtype} and {kind.right}" if kind.right else kind.dtype
    return (
        f"C += A{'.T' if left else ''} @ B{'' if right else '.T'} of {of}, 64 x {kind.depth} by {columns} columns, "
        f"{kind.of.format('each')}, in {kind.sums}{', A from registers' if registers else ''}."
    )


def _is_wide(columns: int, kind: Kind) -> bool:
    """Whether there is an instruction of so many columns."""
    unit = 16 if kind.register == "r" and columns > INT_COLUMNS_BY_16 else 8
    return 8 <= columns <= MAX_COLUMNS and columns % unit == 0


def _spelling(name: str, columns: int, kind: Kind, *, left: bool, right: bool, registers: bool) -> str:
    """The function of CUDA C that issues the instruction."""
    count, signs = columns // 2, "" if kind.register == "r" else ", 1, 1"
    turns = f", {int(right)}" if registers else f", {int(left)}, {int(right)}"
    return (_LEFT_HELD if registers else _WGMMA).format(
        name=name, n=columns, k=kind.depth, kind=kind.spelt, sums={"f": "float", "r": "int"}[kind.register], a=count,
        b=count + (4 if registers else 1), words=", ".join(f"%{count + i}" for i in range(4)),
        more=signs + (turns if kind.either else ""),
        registers=_in_lines([f"%{i}" for i in range(count)], 16, '"\n               "'),
        outputs=_in_lines([f'"+{kind.register}"(d[{i}])' for i in range(count)], 8, "\n                 "),
    )  # fmt: skip


FAMILIES.append((re.compile(rf"wgmma_m64n(\d+)k(\d+)_({'|'.join(OPERAND_KINDS)})(_at|_ar)?(_bt)?"), _declare_wgmma))
