"""Emit the host function in C: checks of the arguments, allocations and serial loops around compiled kernels.

It is what `loopir.codegen.host` emits in Python, for programs that run without Python. All index arithmetic is checked:
an overflow, a divisor that is not positive, or memory that is not there sets `lp_status`, after which nothing more is
run. A parallel loop is divided among the threads of OpenMP if the file is compiled with it, else it runs serially.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from loopir.codegen.overflow import index_bounds
from loopir.codegen.params import kernels_of, params_of
from loopir.errors import LowerError
from loopir.ir.dtypes import DType
from loopir.ir.grammar import (
    Add,
    Alloc,
    And,
    Body,
    Buffer,
    Cmp,
    Cond,
    FloorDiv,
    Func,
    If,
    Index,
    Int,
    Kernel,
    Loop,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Stmt,
    Var,
    Xor,
)
from loopir.ir.magnitude import LIMIT
from loopir.ir.printer import text
from loopir.ir.recursion import deep
from loopir.ir.traverse.walk import statements

STATUS = {
    "OK": "the outputs are complete",
    "NO_MEMORY": "memory for an intermediate cannot be allocated; the outputs are not complete",
    "BAD_SIZE": "a size is negative, or does not satisfy what the program assumes; nothing was run",
    "TOO_LARGE": "at these sizes an index does not fit 64 bits; nothing was run",
    "BAD_POINTER": "an array is NULL, or is not aligned to its element; nothing was run",
    "OVERLAP": "an array that is written overlaps another one; nothing was run",
    "OUT_OF_BOUNDS": "a subscript read from memory is outside its array; the outputs are not complete",
    "BAD_CPU": "this CPU lacks instructions of the one that the kernels were compiled for; nothing was run",
}
"""What the function returns, from 0 on, and what it means."""

_RESERVED_WORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char class co_await co_return co_yield compl
complex concept const const_cast consteval constexpr constinit continue decltype default delete do double
dynamic_cast else enum errno explicit export extern false final float for friend goto if imaginary import inline int
linux long main module mutable namespace new noexcept noreturn not not_eq nullptr operator or or_eq override private
protected public register reinterpret_cast requires restrict return short signed sizeof static static_assert
static_cast struct switch template this thread_local throw true try typedef typeid typename typeof union unix
unsigned using virtual void volatile wchar_t while xor xor_eq I
"""
RESERVED = frozenset(_RESERVED_WORDS.split())
"""Keywords of C and C++, and macros that compilers and <complex.h> define, which name no argument."""

_HOST_PRELUDE = """\
static inline int64_t lp_fail(int code, int *status) { if (!*status) *status = code; return 0; }
static inline int64_t lp_add(int64_t a, int64_t b, int *status) {
  int64_t c;
  return __builtin_add_overflow(a, b, &c) ? lp_fail(@_TOO_LARGE, status) : c;
}
static inline int64_t lp_mul(int64_t a, int64_t b, int *status) {
  int64_t c;
  return __builtin_mul_overflow(a, b, &c) ? lp_fail(@_TOO_LARGE, status) : c;
}
static inline int64_t lp_div(int64_t a, int64_t b, int *status) {
  return b <= 0 ? lp_fail(@_BAD_SIZE, status) : a / b - (a % b < 0);
}
static inline int64_t lp_mod(int64_t a, int64_t b, int *status) {
  return b <= 0 ? lp_fail(@_BAD_SIZE, status) : a % b + (a % b < 0 ? b : 0);
}
static inline int64_t lp_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t lp_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline void *lp_alloc(int64_t bytes, int *status) {
  if (*status) return NULL;
  void *memory = bytes > INT64_MAX - 64 ? NULL : aligned_alloc(64, (size_t)(bytes / 64 + 1) * 64);
  if (!memory) lp_fail(@_NO_MEMORY, status);
  return memory;
}
static inline void lp_free(void *memory) { free(memory); }
static inline int lp_overlap(const void *a, int64_t a_bytes, const void *b, int64_t b_bytes) {
  uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
  return x < y + (uintptr_t)b_bytes && y < x + (uintptr_t)a_bytes;
}
static inline int64_t lp_parts(int64_t extent) {
#ifdef _OPENMP
  return lp_min(extent, 2 * (int64_t)omp_get_max_threads());
#else
  return lp_min(extent, 1);
#endif
}
static inline int64_t lp_begin(int64_t extent, int64_t parts, int64_t part) {
  return extent / parts * part + lp_min(part, extent % parts);
}
"""


def c_identifier(name: str) -> bool:
    """Whether C and C++ take `name` for a function or an argument, and the C host file defines no such name."""
    plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) is not None
    return plain and name not in RESERVED and not name.startswith("lp_") and not name.endswith("_t")


def kernel_symbol(name: str, number: int) -> str:
    """What the kernel of this number is called in the object file of a program `name`."""
    return f"lp_{name}_kernel_{number}"


def c_type(dtype: DType) -> str:
    """The C type that holds an element; floats of 16 and 8 bits, which C lacks, as the integers of their bits."""
    if dtype.is_float and dtype.bits >= 32:
        return "float" if dtype.bits == 32 else "double"
    return f"{'int' if dtype.kind == 'int' else 'uint'}{8 * dtype.bytes}_t"


@deep(LowerError)
def c_host(func: Func, lowered: Func, name: str, *, checks: bool, cpu_tests: Sequence[str] = ()) -> tuple[str, str]:
    """The C file and the header of `func`, lowered to `lowered`, as the function `name`.

    Without `checks` the caller promises what they would find; tests of subscripts that memory brings stay, as they
    stand in the kernels. `cpu_tests` are C conditions that hold on a CPU that can run the kernels.
    """
    host = _CHost(func, lowered, name)
    return host.source(checks, cpu_tests), host.header(checks)


def _spelled_names(func: Func, lowered: Func) -> dict[str, str]:
    """For each name of the program one that C and C++ take, and no two the same."""
    found = dict.fromkeys([*lowered.sizes, *(a.buffer.name for a in (*func.args, *lowered.args))])
    for s in statements(lowered.body):
        if isinstance(s, Loop | Alloc):
            found[s.var if isinstance(s, Loop) else s.buffer.name] = None
    spelled: dict[str, str] = {}
    used: set[str] = set()
    for given in found:
        macro_like = len(given) > 1 and given.upper() == given
        base = f"a{given}_" if not c_identifier(given) or macro_like else given
        while base in used:
            base += "_"
        used.add(base)
        spelled[given] = base
    return spelled


class _CHost:
    def __init__(self, func: Func, lowered: Func, name: str) -> None:
        self.func, self.lowered, self.name = func, lowered, name
        self.names = _spelled_names(func, lowered)
        self.kernels = {id(k): n for n, k in enumerate(kernels_of(lowered))}
        self.tests = tuple(a.buffer for a in lowered.args[len(func.args) :])
        self.lines: list[str] = []

    def status(self, code: str) -> str:
        return f"{self.name.upper()}_{code}"

    # ------------------------------------------------------------ header

    @property
    def prototype(self) -> str:
        sizes = [f"int64_t {self.names[n]}" for n in self.func.sizes]
        arrays = [
            f"{'const ' if a.access == 'in' else ''}{c_type(a.buffer.dtype)} *{self.names[a.buffer.name]}"
            for a in self.func.args
        ]
        return f"int {self.name}({', '.join([*sizes, *arrays]) or 'void'})"

    def header(self, checks: bool) -> str:
        lines = [f"// {line}" for line in self.contract(checks)]
        guard = f"LOOPIR_{self.name.upper()}_H"
        lines += [f"#ifndef {guard}", f"#define {guard}", "", "#include <stdint.h>", ""]
        lines += ["#ifdef __cplusplus", 'extern "C" {', "#endif", "", "enum {"]
        lines += [f"  {self.status(code)} = {n},  // {means}" for n, (code, means) in enumerate(STATUS.items())]
        lines += ["};", "", f"{self.prototype};", "", "#ifdef __cplusplus", "}", "#endif", "", f"#endif  // {guard}"]
        return "\n".join([*lines, ""])

    def contract(self, checks: bool) -> Iterator[str]:
        """What a caller has to know, line by line."""
        yield f"{self.name}: compiled by loopir. Sizes come first, then the arrays, in this order:"
        for n in self.func.sizes:
            yield f"  {self.names[n]}: a size, at least 0"
        for a in self.func.args:
            b, bits = a.buffer, "" if c_type(a.buffer.dtype)[0] in "fd" or not a.buffer.dtype.is_float else ", as bits"
            shape = ", ".join(map(text, b.shape))
            yield f"  {self.names[b.name]}: {a.access}, {b.dtype}[{shape}]{bits}"
        renamed = [f"{b} is {self.names[b]}" for b in self.parameters() if self.names[b] != b]
        if renamed:
            yield f"In shapes and assumptions the program's own names stand: {', '.join(renamed)}."
        yield "Arrays are row-major, without gaps, and aligned to their element. None that is written ('out' or"
        yield "'inout') overlaps another one. A bool is a byte that is 0 or 1."
        for c in self.func.assumes:
            yield f"Assumed of the sizes: {text(c)}"
        yield (
            "Arguments are checked before anything runs."
            if checks
            else (
                "Built without checks: arguments that break this contract are not noticed, and behaviour is undefined."
            )
        )
        yield "Several threads may call it at once, on arrays that do not overlap where they are written."

    def parameters(self) -> list[str]:
        return [*self.func.sizes, *(a.buffer.name for a in self.func.args)]

    # ------------------------------------------------------------ source

    def source(self, checks: bool, cpu_tests: Sequence[str]) -> str:
        self.emit(0, f'#include "{self.name}.h"', "", "#include <stddef.h>", "#include <stdlib.h>")
        self.emit(0, "#ifdef _OPENMP", "#include <omp.h>", "#endif", "")
        self.emit(0, _HOST_PRELUDE.replace("@", self.name.upper()))
        for k in kernels_of(self.lowered):
            params = params_of(k)
            types = ["int64_t"] * len(params.integers) + ["void *"] * len(params.buffers)
            types += ["int64_t", "int64_t"] if _parallel(k) else []
            self.emit(0, f"int32_t {kernel_symbol(self.name, self.kernels[id(k)])}({', '.join(types) or 'void'});")
        self.emit(0, "", f"{self.prototype} {{", "  int lp_status = 0;")
        if checks:
            self.checks(cpu_tests)
        for b in self.tests:
            count = " * ".join(str(d.value) for d in b.shape if isinstance(d, Int))
            self.emit(1, f"int64_t {self.names[b.name]}[{count}] = {{0}};")
        self.body(self.lowered.body, 1)
        for b in self.tests:
            words = self.names[b.name]
            self.emit(1, f"for (size_t lp_n = 0; lp_n < sizeof {words} / sizeof *{words}; lp_n += 3)")
            self.emit(2, f"if ({words}[lp_n]) lp_fail({self.status('OUT_OF_BOUNDS')}, &lp_status);")
        self.emit(1, "return lp_status;")
        self.emit(0, "}", "")
        return "\n".join(self.lines)

    def emit(self, depth: int, *lines: str) -> None:
        self.lines += ["  " * depth + line for line in lines]

    def require(self, condition: str, code: str) -> None:
        self.emit(1, f"if (!lp_status && !({condition})) lp_fail({self.status(code)}, &lp_status);")

    def checks(self, cpu_tests: Sequence[str]) -> None:
        """Tests of the arguments, in the order in which calls from Python make them."""
        for test in cpu_tests:
            self.require(test, "BAD_CPU")
        for n in self.func.sizes:
            self.require(f"{self.names[n]} >= 0", "BAD_SIZE")
        arrays = [(a, self.names[a.buffer.name]) for a in self.func.args]
        self.emit(1, "if (lp_status) return lp_status;")
        for n, (a, _) in enumerate(arrays):
            self.emit(1, f"const int64_t lp_bytes_{n} = {self.bytes(a.buffer)};")
        for c in self.func.assumes:
            self.require(self.cond(c), "BAD_SIZE")
        for bound in index_bounds(self.lowered):
            self.require(f"{self.index(bound)} < INT64_C({LIMIT})", "TOO_LARGE")
        for n, (a, pointer) in enumerate(arrays):
            aligned = f"(uintptr_t){pointer} % {a.buffer.dtype.bytes} == 0"
            self.require(f"({pointer} || !lp_bytes_{n}) && {aligned}", "BAD_POINTER")
        for n, (a, x) in enumerate(arrays):
            for m, (b, y) in enumerate(arrays[:n]):
                if a.access != "in" or b.access != "in":
                    self.require(f"!lp_overlap({x}, lp_bytes_{n}, {y}, lp_bytes_{m})", "OVERLAP")
        self.emit(1, "if (lp_status) return lp_status;")

    # ------------------------------------------------------------ statements

    def body(self, body: Body, depth: int) -> None:
        for s in body:
            self.stmt(s, depth)

    def stmt(self, s: Stmt, depth: int) -> None:
        match s:
            case Kernel():
                self.run(s, depth)
            case Alloc(b, body):
                if b.layout is not None:
                    raise LowerError(f"{b.name} has a layout and is allocated by the host; layouts are for kernels")
                self.emit(depth, "{")
                self.emit(depth + 1, f"void *{self.names[b.name]} = lp_alloc({self.bytes(b)}, &lp_status);")
                self.body(body, depth + 1)
                self.emit(depth + 1, f"lp_free({self.names[b.name]});")
                self.emit(depth, "}")
            case Loop(var, extent, _, body):
                v, end = self.names[var], f"lp_end_{depth}"
                self.emit(
                    depth, f"for (int64_t {v} = 0, {end} = {self.index(extent)}; !lp_status && {v} < {end}; ++{v}) {{"
                )
                self.body(body, depth + 1)
                self.emit(depth, "}")
            case If(cond, then, orelse):
                self.emit(depth, f"if ({self.cond(cond)}) {{")
                self.body(then, depth + 1)
                self.emit(depth, "} else {")
                self.body(orelse, depth + 1)
                self.emit(depth, "}")
            case _:
                raise LowerError(f"{type(s).__name__} is left on the host")

    def run(self, k: Kernel, depth: int) -> None:
        params = params_of(k)
        arguments = [*(self.names[n] for n in params.integers)]
        arguments += [f"(void *){self.names[b.name]}" for b in params.buffers]
        called, root = kernel_symbol(self.name, self.kernels[id(k)]), _parallel(k)
        if root is None:
            self.emit(depth, f"if (!lp_status && {called}({', '.join(arguments)}))")
            self.emit(depth + 1, f"lp_fail({self.status('NO_MEMORY')}, &lp_status);")
            return
        part = [f"lp_begin(lp_extent, lp_count, lp_part{more})" for more in ("", " + 1")]
        self.emit(depth, "{")
        self.emit(depth + 1, f"const int64_t lp_extent = {self.index(root.extent)};")
        self.emit(depth + 1, "const int64_t lp_count = lp_status ? 0 : lp_parts(lp_extent);", "int lp_failed = 0;")
        self.emit(0, "#ifdef _OPENMP", "#pragma omp parallel for schedule(dynamic) reduction(| : lp_failed)", "#endif")
        self.emit(depth + 1, "for (int64_t lp_part = 0; lp_part < lp_count; ++lp_part)")
        self.emit(depth + 2, f"lp_failed |= {called}({', '.join([*arguments, *part])}) != 0;")
        self.emit(depth + 1, f"if (lp_failed) lp_fail({self.status('NO_MEMORY')}, &lp_status);")
        self.emit(depth, "}")

    # ------------------------------------------------------------ indices and conditions

    def bytes(self, b: Buffer) -> str:
        total = str(b.dtype.bytes)
        for d in b.shape:
            total = f"lp_mul({total}, lp_max(0, {self.index(d)}), &lp_status)"
        return total

    def index(self, ix: Index) -> str:
        calls: Mapping[type[Index], str] = {Add: "lp_add", Mul: "lp_mul", FloorDiv: "lp_div", Mod: "lp_mod"}
        match ix:
            case Int(value) if abs(value) < LIMIT:
                return f"INT64_C({value})"
            case Int(value):
                raise LowerError(f"{value} does not fit 64 bits, and C counts in them")
            case Var(name):
                return self.names[name]
            case Add(a, b) | Mul(a, b) | FloorDiv(a, b) | Mod(a, b):
                return f"{calls[type(ix)]}({self.index(a)}, {self.index(b)}, &lp_status)"
            case Min(a, b) | Max(a, b):
                return f"{'lp_min' if isinstance(ix, Min) else 'lp_max'}({self.index(a)}, {self.index(b)})"
            case Xor(a, b):
                return f"({self.index(a)} ^ {self.index(b)})"
            case _:
                raise LowerError(f"{text(ix)} is read from memory, and the host would have to know it before it runs")

    def cond(self, c: Cond) -> str:
        match c:
            case And(terms):
                return f"({' && '.join(map(self.cond, terms)) or '1'})"
            case Or(terms):
                return f"({' || '.join(map(self.cond, terms)) or '0'})"
            case Not(term):
                return f"(!{self.cond(term)})"
            case Cmp(op, a, b):
                return f"({self.index(a)} {op} {self.index(b)})"
            case _:
                raise LowerError(f"{text(c)} is read from memory, and the host would have to know it before it runs")


def _parallel(k: Kernel) -> Loop | None:
    """The loop that is a kernel's whole body, if it is parallel: a range of it is run by a call."""
    first = k.body[0] if len(k.body) == 1 else None
    return first if isinstance(first, Loop) and first.kind == "parallel" else None
