"""Functions of LLVM that a test builds, verified, compiled and called: numbers and addresses come in, one goes out."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from loopir.codegen.llvm.builder import Builder
from loopir.codegen.llvm.ir_text import I32, I64, POINTER, Function, Module, Operand, vector
from loopir.runtime.llvm_jit import Library


def compiled(take: str, body: Callable[..., Operand]) -> Callable[..., int]:
    """The function that `body` builds, of a builder and an argument for each letter of `take`: p is a pointer, i a
    number of 64 bits. It returns such a number."""
    module = Module()
    fn = Function("f", I64, [({"p": POINTER, "i": I64}[x], x, "") for x in take])
    module.functions.append(fn)
    b = Builder(module, fn)
    b.ret(body(b, *fn.args))
    text, _ = module.written(False)
    llvm.parse_assembly(text).verify()
    kinds = [{"p": ctypes.c_void_p, "i": ctypes.c_int64}[x] for x in take]
    library = Library(text, left=False)
    bound = library.bind("f", ctypes.c_int64, *kinds)
    bound.library = library  # which lives as long
    return bound


def lanes(count: int, make: Callable[[Builder, Operand], Operand], given: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The `count` lanes of what `make` makes of a vector of the 32-bit numbers `given`."""

    def body(b: Builder, source: Operand, to: Operand) -> Operand:
        made = make(b, b.load(vector(I32, len(given)), source, 4))
        assert made.type is vector(I32, count)
        b.store(made, to, 4)
        return b.cast("ptrtoint", to, I64)

    source, out = given.astype(np.int32), np.zeros(count, np.int32)
    compiled("pp", body)(source.ctypes.data, out.ctypes.data)
    return out
