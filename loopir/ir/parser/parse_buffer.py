"""Parse buffer declarations: element type, shape, scope and layout."""

from __future__ import annotations

import ast

from loopir.ir.dtypes import BY_NAME, COMPLEX, DType
from loopir.ir.grammar import SCOPES, Buffer, Fragment, Layout, Mapped, Scope, Strided, Var
from loopir.ir.ops import MEMORIES
from loopir.ir.parser.parse_expr import Expressions
from loopir.ir.parser.syntax_tree import syntax_tree


def name_of(node: ast.AST | None) -> str:
    """The last name of `a`, `m.a`, or nothing."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


class Declarations(Expressions):
    """Parses declarations; the statement parser resolves names and raises errors."""

    def items(self, node: ast.expr) -> list[ast.expr]:
        return list(node.elts) if isinstance(node, ast.Tuple) else [node]

    def dtype(self, node: ast.expr | None, at: ast.AST) -> DType:
        spec = node.value if isinstance(node, ast.Constant) else None
        if isinstance(spec, str) and spec in BY_NAME:
            return BY_NAME[spec]
        self.fail(at, f"an element type is one of {', '.join(BY_NAME)}, as a string")

    def declaration(self, node: ast.AST, name: str, spec: str, scope: Scope, layout: Layout | None) -> Buffer:
        """The buffer that `dtype[shape]`, perhaps followed by a layout, declares."""
        declared, after, placed = spec.strip().replace("[]", "[()]").partition("] ")
        word, _, rest = placed.partition(" ")
        if word in SCOPES or word in MEMORIES:
            scope, placed = word, rest
        try:
            tree = syntax_tree(declared + ("]" if after else ""), mode="eval").body
            if placed:
                layout = self.layout(syntax_tree(placed, mode="eval").body)
        except SyntaxError:
            tree = None
        if isinstance(tree, ast.Name) and tree.id in BY_NAME:
            return Buffer(name, (), BY_NAME[tree.id], scope, layout)
        if not isinstance(tree, ast.Subscript) or name_of(tree.value) not in BY_NAME:
            types = ", ".join(BY_NAME)
            if declared.startswith("complex"):
                self.fail(node, COMPLEX)
            self.fail(node, f"{spec!r} declares no array; write dtype[shape], the dtype one of {types}")
        dims = [] if isinstance(tree.slice, ast.Tuple) and not tree.slice.elts else self.items(tree.slice)
        return Buffer(name, tuple(self.index(x) for x in dims), BY_NAME[name_of(tree.value)], scope, layout)

    def layout(self, node: ast.expr) -> Layout:
        match node:
            case ast.Call(func=ast.Name(id="strided"), args=args):
                return Strided(tuple(self.index(x) for x in args))
            case ast.Call(func=ast.Name(id="mapped"), args=[ast.Lambda(args=parameters, body=body)]):
                dims = tuple(a.arg for a in parameters.args)
                saved = dict(self.names.indices)
                self.names.indices |= {d: Var(d) for d in dims}
                at = self.index(body)
                self.names.indices = saved
                return Mapped(dims, at)
            case ast.Call(
                func=ast.Name(id="fragment"),
                args=[ast.Constant(value=int(lanes)), ast.Constant(value=int(count)), ast.Lambda() as place],
            ) if len(place.args.args) == 2:
                dims = (place.args.args[0].arg, place.args.args[1].arg)
                saved = dict(self.names.indices)
                self.names.indices |= {d: Var(d) for d in dims}
                element = tuple(self.index(x) for x in self.items(place.body))
                self.names.indices = saved
                return Fragment(lanes, count, dims, element)
            case _:
                self.fail(
                    node,
                    "a layout is strided(s, ...), mapped(lambda i, ...: index) or fragment(lanes, registers, "
                    "lambda lane, register: (row, column))",
                )
