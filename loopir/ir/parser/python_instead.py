"""What is written in a nest for what people bring from Python and NumPy, for messages."""

from __future__ import annotations

import ast
from collections.abc import Mapping

SIZE = 'the size of a dimension is a parameter, n: "size", of a: "float32[n]"'
ALLOCATION = 'memory of its own a nest gets from a block: with alloc("float32[4]") as c:'
CALLS = {
    "len": SIZE,
    "range": "a loop over a range is a statement of its own: for i in range(n)",
    "print": 's.build("interpret", watch="a") prints what is written to a',
    "sum": "a sum is a loop: total = float32(0), then total += a[i] under for i in range(n)",
    "alloc": ALLOCATION, "zeros": ALLOCATION, "empty": ALLOCATION, "ones": ALLOCATION, "full": ALLOCATION,
    "zeros_like": ALLOCATION, "empty_like": ALLOCATION,
    "float": "float(x) is float32(x) or float64(x) here", "int": "int(x) is int32(x) or int64(x) here",
}  # fmt: skip
"""What is written for functions that a nest does not have."""
STATEMENT = "a statement is a for, an if, a with alloc(...), or an assignment to an element"
_STATEMENTS: dict[type[ast.stmt], str] = {
    ast.While: "there is no while: write the most iterations that it can have, for t in range(100), and in them an if "
    "of its condition",
    ast.Break: "there is no break: keep whether the loop goes on in an int32 element, and put what follows under an if "
    "of it",
    ast.Continue: "there is no continue: put what follows under an if of the opposite condition",
    ast.Return: 'a nest gives nothing back: write to a parameter that is annotated "out dtype[shape]"',
    ast.FunctionDef: "no function is defined inside a nest: define it outside as a nest, or write its loops here",
    ast.Assert: "there is no assert: assume(n % 4 == 0) in the first lines states a fact about sizes",
    ast.AnnAssign: "a number has the type of its value: write t = a[i], or t = float32(a[i]), with no annotation",
    ast.Assign: "an assignment writes one element: write each in a line of its own",
    ast.Import: "nothing is imported inside a nest: import before it",
    ast.ImportFrom: "nothing is imported inside a nest: import before it",
    ast.Global: "a nest names numbers from around it, with no global",
    ast.Nonlocal: "a nest names numbers from around it, with no nonlocal",
    ast.Try: "there is no try: nothing in a nest raises; an if tests what is to be avoided",
    ast.Raise: "there is no raise: write what went wrong to an int32 output",
    ast.Delete: "nothing is deleted: memory from a with alloc(...) lives as long as its block",
}
_LOOPS = "a loop runs over range(...), grid(...), parallel(n), vectorize(n), unroll(n) or bind(axis, n)"


def instead_of_statement(s: ast.stmt) -> str:
    """What is written for a statement that no nest has."""
    if isinstance(s, ast.Expr):
        if isinstance(s.value, ast.Call) and isinstance(s.value.func, ast.Name) and s.value.func.id in CALLS:
            return f"{STATEMENT}; {CALLS[s.value.func.id]}"
        if isinstance(s.value, ast.Yield | ast.YieldFrom):
            return _STATEMENTS[ast.Return]
    return _STATEMENTS.get(type(s), STATEMENT)


def instead_of_loop(s: ast.For) -> str:
    """What is written for a for that is none of a nest."""
    if s.orelse:
        return "a loop has no else: put what follows after it, in a line of its own"
    over = s.iter.args[0] if isinstance(s.iter, ast.Call) and s.iter.args else s.iter
    called = s.iter.func.id if isinstance(s.iter, ast.Call) and isinstance(s.iter.func, ast.Name) else ""
    if isinstance(over, ast.Name) and (over is s.iter or called in ("enumerate", "reversed", "zip")):
        return f"{_LOOPS}: for i in range(n), and {over.id}[i] is the element"
    return _LOOPS


def instead_of_target(node: ast.expr, buffers: Mapping[str, object], sizes: Mapping[str, object]) -> str:
    """What is written for the left side of an assignment that is no element."""
    if isinstance(node, ast.Name) and node.id in buffers:
        return f"{node.id} is a whole array: write its elements in a loop, for i in range(n): {node.id}[i] = ..."
    if isinstance(node, ast.Name) and node.id in sizes:
        return f"{node.id} is a size or a loop, and stays what it is; write another name"
    if isinstance(node, ast.Name | ast.Tuple | ast.List):
        return _STATEMENTS[ast.Assign]
    return "an assignment writes an element, name[index, ...], or memory of no dimension, by its name"


def instead_of_expression(node: ast.expr, buffers: Mapping[str, object]) -> str:
    """What is written for an expression that no nest has."""
    said = ast.unparse(node)
    said = said if len(said) <= 40 else f"{said[:37]}..."
    if isinstance(node, ast.Constant):
        return f"{said} is no value of a nest, which are numbers and bools"
    if isinstance(node, ast.Attribute):
        if isinstance(node.value, ast.Name) and node.value.id in buffers:
            return (
                f"an array has no {said} in a nest; {SIZE if node.attr in ('shape', 'size') else 'a[i] is an element'}"
            )
        name = node.attr.upper()
        return f"a nest names numbers by one word: {name} = {said} before it, and {name} in it"
    if isinstance(node, ast.List | ast.Tuple | ast.Dict | ast.Set | ast.ListComp | ast.GeneratorExp):
        return f"a nest has no lists, tuples or dicts: an array is a parameter, and {ALLOCATION.removesuffix(':')}"
    if isinstance(node, ast.Lambda):
        return "a nest has no lambda: write the expression where it is used"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return "a matrix product is loops: for i, j, k in grid(n, m, p): c[i, j] += a[i, k] * b[k, j]"
    return f"{said} is not in the language of nests"
