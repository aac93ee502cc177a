"""Comparisons: bool from two values of one type. Every one but `ne` is false where a side is NaN."""

from __future__ import annotations

import numpy as np

from loopir.ir.ops import Intrinsic

ANY = frozenset({"float", "int", "uint", "bool"})


def _comparison(name: str, symbol: str, meaning: np.ufunc, ordered: str, signed: str, unsigned: str) -> Intrinsic:
    llvm = {"float": f"fcmp {ordered}", "int": f"icmp {signed}", "uint": f"icmp {unsigned}", "bool": f"icmp {unsigned}"}
    cuda = dict.fromkeys(ANY, f"({{0}} {symbol} {{1}})")
    return Intrinsic(
        name, 2, ANY, meaning, result="bool", infix=symbol, commutes=symbol in ("==", "!="), cuda=cuda, llvm=llvm
    )


lt = _comparison("lt", "<", np.less, "olt", "slt", "ult")
le = _comparison("le", "<=", np.less_equal, "ole", "sle", "ule")
eq = _comparison("eq", "==", np.equal, "oeq", "eq", "eq")
ne = _comparison("ne", "!=", np.not_equal, "une", "ne", "ne")
