"""A program as written, in C: the loops that a C programmer would write, for g++ to optimize.

The nest without a schedule is lowered, which makes the starts of reductions explicit and addresses flat, and each loop
and statement is printed as it stands. Threads, if several are asked for, take the outermost loop of each nest that may
be parallel (`#pragma omp parallel for`). The functions are those of math.h, which g++ takes in vectors from glibc's
libmvec under -ffast-math.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import loopir as lp
from loopir.ir import grammar as ir

COMPILER = shutil.which("g++")
FLAGS = ("-O3", "-march=native", "-ffast-math", "-fno-trapping-math", "-shared", "-fPIC", "-fopenmp", "-w")
TYPES = {
    "float32": "float", "float64": "double", "float16": "_Float16", "bool": "bool",
    **{f"{u}int{n}": f"{u}int{n}_t" for u in ("", "u") for n in (8, 16, 32, 64)},
}  # fmt: skip
INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==",
         "ne": "!=", "and_": "&", "or_": "|", "xor": "^", "shl": "<<", "shr": ">>"}  # fmt: skip
HEAD = """\
#include <cmath>
#include <cstdint>
#include <cstdlib>
template <class T> static inline T lesser(T a, T b) { return a < b ? a : b; }
template <class T> static inline T greater(T a, T b) { return a > b ? a : b; }
template <class T> static inline T sigmoid(T x) { return T(1) / (T(1) + std::exp(-x)); }
template <class T> static inline T rsqrt(T x) { return T(1) / std::sqrt(x); }
static inline int64_t lp_down(int64_t a, int64_t b) { return a / b - (a % b < 0); }
static inline int64_t lp_rest(int64_t a, int64_t b) { return a % b + (a % b < 0 ? b : 0); }
"""


def compiled(s: lp.Schedule, threads: int = 1) -> Any:
    """The function of plain C that means what `s`, which has constant sizes, does; it takes the arrays in order.

    LookupError for what this printer has no C for.
    """
    if COMPILER is None:
        raise LookupError("there is no g++")
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "plain.cpp"), Path(folder, "plain.so")
        source.write_text(text(s, threads), encoding="utf-8")
        done = subprocess.run([COMPILER, *FLAGS, str(source), "-o", str(made)], capture_output=True, check=False)
        if done.returncode:
            raise LookupError(f"g++ does not take it: {done.stderr.decode()[:400]}")
        fn: Any = ctypes.CDLL(str(made)).program

    def call(*arrays: Any) -> None:
        fn(*(ctypes.c_void_p(x.ctypes.data) for x in arrays))

    return call


def text(s: lp.Schedule, threads: int) -> str:
    """The C of `s`; of several kernels, the intermediate arrays are kept from call to call."""
    free = {x for x in s.loops() if s.why("parallel", x) is None} if threads > 1 else set[str]()
    lines = list[str]()
    memory = dict[str, str]()
    for func in lp.lower(s, "llvm"):
        lines += _body(func.body, "  ", free, memory)
    arguments = ", ".join(f"{_type(a.buffer.dtype)}* __restrict {a.buffer.name}" for a in s.func.args)
    static = [f"static {t}* __restrict {name} = ({t}*)aligned_alloc(64, {size});" for name, (t, size) in
              ((n, m.split(":")) for n, m in memory.items())]  # fmt: skip
    return "\n".join((HEAD, *static, f'extern "C" void program({arguments}) {{', *lines, "}"))


def _type(t: Any) -> str:
    if t.name not in TYPES:
        raise LookupError(f"no C for {t.name}")
    return TYPES[t.name]


def _body(body: tuple[ir.Stmt, ...], indent: str, free: set[str], memory: dict[str, str]) -> Iterator[str]:
    for s in body:
        match s:
            case ir.Kernel():
                yield from _body(s.body, indent, free, memory)
            case ir.Loop():
                if s.var in free:
                    yield f"{indent}#pragma omp parallel for"
                yield f"{indent}for (int64_t {s.var} = 0; {s.var} < {_index(s.extent)}; ++{s.var}) {{"
                yield from _body(s.body, indent + "  ", set() if s.var in free else free, memory)
                yield indent + "}"
            case ir.If():
                yield f"{indent}if ({_cond(s.cond)}) {{"
                yield from _body(s.then, indent + "  ", free, memory)
                yield indent + "}"
                if s.orelse:
                    yield indent + "else {"
                    yield from _body(s.orelse, indent + "  ", free, memory)
                    yield indent + "}"
            case ir.Alloc():
                count = int(np.prod([d.value for d in s.buffer.shape if isinstance(d, ir.Int)], dtype=np.int64))
                memory[s.buffer.name] = f"{_type(s.buffer.dtype)}:{-(-count * s.buffer.dtype.bytes // 64) * 64}"
                yield from _body(s.body, indent, free, memory)
            case ir.Store():
                yield f"{indent}{s.buffer.name}[{_index(s.at[0])}] = {_value(s.value, {})};"
            case ir.Reduce():
                yield from _fold(s, indent)
            case _:
                raise LookupError(f"no C for {type(s).__name__}")


def _fold(s: ir.Reduce, indent: str) -> Iterator[str]:
    at = _index(s.at[0])
    given = {p.name: f"{b.name}[{at}]" for p, b in zip(s.monoid.left, s.buffers, strict=True)}
    if len(s.buffers) == 1:
        given[s.monoid.right[0].name] = _value(s.values[0], {})
        yield f"{indent}{s.buffers[0].name}[{at}] = {_value(s.monoid.combine[0], given)};"
        return
    yield indent + "{"
    for n, (p, v) in enumerate(zip(s.monoid.right, s.values, strict=True)):
        yield f"{indent}  {_type(v.dtype)} right{n} = {_value(v, {})};"
        given[p.name] = f"right{n}"
    for n, v in enumerate(s.monoid.combine):
        yield f"{indent}  {_type(v.dtype)} new{n} = {_value(v, given)};"
    for n, b in enumerate(s.buffers):
        yield f"{indent}  {b.name}[{at}] = new{n};"
    yield indent + "}"


def _index(ix: ir.Index) -> str:
    match ix:
        case ir.Int(value):
            return str(value)
        case ir.Var(name):
            return name
        case ir.Add(a, b):
            return f"({_index(a)} + {_index(b)})"
        case ir.Mul(a, b):
            return f"({_index(a)} * {_index(b)})"
        case ir.Min(a, b) | ir.Max(a, b):
            name = "lesser" if isinstance(ix, ir.Min) else "greater"
            return f"{name}<int64_t>({_index(a)}, {_index(b)})"
        case ir.FloorDiv(a, b) | ir.Mod(a, b):
            return f"{'lp_down' if isinstance(ix, ir.FloorDiv) else 'lp_rest'}({_index(a)}, {_index(b)})"
        case ir.ValueToIndex(value):
            return f"(int64_t)({_value(value, {})})"
        case _:
            raise LookupError(f"no C for {type(ix).__name__}")


def _cond(c: ir.Cond, given: Mapping[str, str] | None = None) -> str:
    match c:
        case ir.And(terms) | ir.Or(terms):
            joined = (" && " if isinstance(c, ir.And) else " || ").join(_cond(x, given) for x in terms)
            return f"({joined})" if terms else str(int(isinstance(c, ir.And)))
        case ir.Not(term):
            return f"!({_cond(term, given)})"
        case ir.Cmp():
            return f"({_index(c.a)} {c.op} {_index(c.b)})"
        case ir.ValueToCond(value):
            return _value(value, given or {})
        case _:
            raise LookupError(f"no C for {type(c).__name__}")


def _value(v: ir.Value, given: Mapping[str, str]) -> str:
    match v:
        case ir.Const(value, t):
            number = repr(value) if np.isfinite(value) else ("-" if value < 0 else "") + "INFINITY"
            return f"{_type(t)}({number})"
        case ir.Load(buffer, at):
            return f"{buffer.name}[{_index(at[0])}]"
        case ir.IndexToValue(x, t):
            return f"{_type(t)}({_index(x) if isinstance(x, ir.Index) else _cond(x)})"
        case ir.Cast(value, t):
            return f"{_type(t)}({_value(value, given)})"
        case ir.Select():
            return f"({_cond(v.cond, given)} ? {_value(v.a, given)} : {_value(v.b, given)})"
        case ir.Param(name):
            return given[name]
        case ir.Op():
            return _operation(v, given)
        case _:
            raise LookupError(f"no C for {type(v).__name__}")


def _operation(v: ir.Op, given: Mapping[str, str]) -> str:
    name, t, args = v.fn.name, _type(v.dtype), [_value(a, given) for a in v.args]
    if name in INFIX:
        inner = f"({args[0]} {INFIX[name]} {args[1]})"
        return inner if v.fn.result == "bool" else f"{t}{inner}"
    if name == "isnan":
        return f"({args[0]} != {args[0]})"
    if name == "neg":
        return f"{t}(-{args[0]})"
    if name == "invert":
        return f"{t}({'!' if v.dtype.name == 'bool' else '~'}{args[0]})"
    if name in ("max", "min", "maximum", "minimum"):
        return f"{'greater' if name.startswith('max') else 'lesser'}<{t}>({', '.join(args)})"
    if name in ("sigmoid", "rsqrt"):
        return f"{name}<{'float' if v.dtype.is_narrow else t}>({args[0]})"
    spelled = {"abs": "fabs", "round": "rint"}.get(name, name)
    wide = "double" if t == "double" else "float"
    if spelled == "fabs" and not v.dtype.is_float:
        return f"{t}(std::abs({args[0]}))"
    if spelled not in FUNCTIONS:
        raise LookupError(f"no C for {name}")
    return f"{t}(std::{spelled}({', '.join(f'({wide})({a})' for a in args)}))"


FUNCTIONS = ("exp", "exp2", "log", "sqrt", "tanh", "erf", "sin", "cos", "tan", "pow", "fabs", "rint", "floor", "ceil",
             "fma", "log1p", "expm1", "atan", "asin", "acos", "atan2", "sinh", "cosh")  # fmt: skip
