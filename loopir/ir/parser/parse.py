"""Parse the text form: `parse` takes source, `func` a Python function written as a nest.

Both use the standard `ast` module and accept more than the printer writes: ranges with a start or a step, `grid`, `+=`,
`elif`, chained comparisons, loop names used twice. Indices, conditions and values are distinguished by their parts:
loop variables and sizes are indices, elements of buffers are values.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast

from loopir.errors import ParseError
from loopir.ir.dtypes import DType
from loopir.ir.grammar import (
    AXES,
    KINDS,
    SCOPES,
    Add,
    Alloc,
    Arg,
    AsyncCommit,
    AsyncWait,
    Barrier,
    Body,
    Buffer,
    Cond,
    Const,
    Fence,
    Fragment,
    Func,
    If,
    Index,
    InstrRegion,
    Int,
    InTurn,
    Kernel,
    Load,
    Loop,
    Monoid,
    Mul,
    Op,
    Param,
    Prefetch,
    Reduce,
    Scope,
    Size,
    Stmt,
    Store,
    Sync,
    Turn,
    Value,
    Var,
    WarpSpecialized,
    ceildiv,
)
from loopir.ir.ops import MEMORIES, MONOIDS, REGISTRY, find_instruction
from loopir.ir.parser.parse_buffer import Declarations, name_of
from loopir.ir.parser.parse_expr import Names, Sort
from loopir.ir.parser.python_instead import instead_of_loop, instead_of_statement, instead_of_target
from loopir.ir.parser.syntax_tree import syntax_tree
from loopir.ir.recursion import deep
from loopir.ir.traverse.walk import fresh_name, map_stmts, replace, statements, stored_buffers, substitute, take_name
from loopir.ir.verify.unwritten import require_written_first
from loopir.ir.verify.verify import Stage, verify

_UPDATES: dict[type[ast.operator], str] = {ast.Add: "sum", ast.Sub: "sum", ast.Mult: "prod"}


def parse(source: str, *, filename: str = "<nest>", constants: Mapping[str, object] | None = None) -> Func:
    """The Func that `source` spells: one `def`, with the `@monoid` definitions it uses before it.

    `constants` are Python numbers and Monoids that the source may name. Raises ParseError with file, line and
    column where the source is not in the language, and VerifyError where it is but breaks a rule.

        >>> double = lp.parse('''
        ... def double(n: "size", A: "float32[n]", B: "out float32[n]"):
        ...     for i in range(n):
        ...         B[i] = A[i] * 2.0
        ... ''')
    """
    if not isinstance(source, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"parse takes the text of a nest, not a {type(source).__name__}; @lp.func takes a function")
    return _parse(textwrap.dedent(source), filename, constants or {}, 1)


def meaning(program: Callable[..., Any] | str) -> Func:
    """Parse the meaning of an instruction: a nest as a function or as text, whose operands may be in any memory.

    A parameter is annotated "[out|inout] dtype[shape] [scope] [layout]"; without a scope, any memory will do.
    """
    if isinstance(program, str):
        return _parse(textwrap.dedent(program), "<instruction>", {}, 1, "meaning")
    lines, first = inspect.getsourcelines(program)
    filename = inspect.getsourcefile(program) or "<instruction>"
    constants = {**program.__globals__, **inspect.getclosurevars(program).nonlocals}
    return _parse(textwrap.dedent("".join(lines)), filename, constants, max(first, 1), "meaning", defined=True)


@deep(ParseError)
def _parse(
    source: str, filename: str, constants: Mapping[str, object], first: int,
    stage: Stage | None = None, *, defined: bool = False,
) -> Func:  # fmt: skip
    """`parse`, for source that starts at line `first` of its file."""
    try:
        module = syntax_tree(source, filename)
    except SyntaxError as error:
        line = (error.lineno or 1) + first - 1
        raise ParseError(error.msg, (filename, line, error.offset, error.text)) from None
    anywhere = "any" if stage == "meaning" else "global"
    parsed = _Reader(filename, source.splitlines(), constants, first, anywhere, defined=defined).module(module)
    lowered = any(isinstance(s, Kernel | Sync) for s in statements(parsed.body))
    verify(parsed, stage or ("lowered" if lowered else "schedule"))
    return parsed


def condition(source: str, indices: Iterable[str]) -> Cond:
    """The condition that `source` spells, on the sizes and loops named `indices`. ParseError for anything else."""
    try:
        node = syntax_tree(source.strip(), "<condition>", "eval").body
    except SyntaxError as error:
        raise ParseError(error.msg, ("<condition>", error.lineno, error.offset, error.text)) from None
    names = Names(indices={name: Var(name) for name in indices})
    return _Reader("<condition>", [source], {}, names=names).cond(node)


def mapping(source: str, sizes: Iterable[str]) -> tuple[tuple[str, ...], tuple[Index, ...]]:
    """Parse an index map, `lambda i, j: (j, i)`, over its parameters and `sizes`. Raises ParseError for anything else.

    A parameter hides a size of the same name, and is renamed.
    """
    try:
        node = syntax_tree(source.strip(), "<mapping>", "eval").body
    except SyntaxError as error:
        raise ParseError(error.msg, ("<mapping>", error.lineno, error.offset, error.text)) from None
    sizes = {*sizes}
    reader = _Reader("<mapping>", [source], {}, names=Names(indices={name: Var(name) for name in sizes}))
    if not isinstance(node, ast.Lambda):
        reader.fail(node, "a mapping of indices is written lambda i, j: (j, i)")
    given = [a.arg for a in node.args.args]
    dims = tuple(fresh_name(x, {*sizes, *given}) if x in sizes else x for x in given)
    reader.names.indices |= {x: Var(d) for x, d in zip(given, dims, strict=True)}
    return dims, tuple(reader.index(x) for x in reader.items(node.body))


def fragment_layout(source: str) -> Fragment:
    """The layout `fragment(lanes, registers, lambda lane, register: element)`. ParseError for anything else."""
    try:
        node = syntax_tree(source.strip(), "<layout>", "eval").body
    except SyntaxError as error:
        raise ParseError(error.msg, ("<layout>", error.lineno, error.offset, error.text)) from None
    reader = _Reader("<layout>", [source], {}, names=Names(indices={}))
    layout = reader.layout(node)
    if not isinstance(layout, Fragment):
        reader.fail(node, "a fragment is written fragment(lanes, registers, lambda lane, register: element)")
    return layout


def func(fn: Callable[..., Any]) -> Func:
    """Decorator: the nest that a Python function spells, as a Func. The function itself is never run.

    Parameters are annotated with strings: "size" for a size, "[out|inout] dtype[shape]" for an array; without a
    word an array is an input if it is never written, else updated in place. Numbers from around the function may
    be named. Raises ParseError and VerifyError as `parse` does, which has an example.
    """
    if not inspect.isfunction(fn):
        raise ParseError(
            f"@lp.func takes a function written with def, not a {type(fn).__name__}; lp.parse takes its text"
        )
    if fn.__name__ == "<lambda>":
        raise ParseError("a nest is a function written with def, not a lambda")
    try:
        lines, first = inspect.getsourcelines(fn)
        if not re.search(rf"\bdef\s+{re.escape(fn.__name__)}\b", "".join(lines)):
            raise OSError  # of another text that has the name "<string>", such as that of python -c since 3.13
    except OSError:
        reason = "Python keeps no source of what is typed at a prompt or run by exec"
        cure = f"put {fn.__name__} into a file, or give its text to lp.parse"
        raise ParseError(f"the source of {fn.__name__!r} is not to be had: {reason}; {cure}") from None
    constants = {**fn.__globals__, **_enclosing_locals(fn), **inspect.getclosurevars(fn).nonlocals}
    filename = inspect.getsourcefile(fn) or "<nest>"
    parsed = _parse(textwrap.dedent("".join(lines)), filename, constants, max(first, 1), defined=True)
    require_written_first(parsed)
    return parsed


def _enclosing_locals(fn: Callable[..., Any]) -> dict[str, object]:
    """The locals of the function that `fn` is being defined in: annotations, being strings, close over nothing."""
    frame = inspect.currentframe()
    caller = frame.f_back.f_back if frame is not None and frame.f_back is not None else None
    outer, inside, _ = fn.__qualname__.rpartition(".<locals>.")
    return dict(caller.f_locals) if caller is not None and inside and caller.f_code.co_qualname == outer else {}


@dataclass
class _Reader(Declarations):
    """Parses statements, and leaves declarations and expressions to `Declarations` and `Expressions`."""

    filename: str
    source: Sequence[str]
    constants: Mapping[str, object]
    first: int = 1
    scope_of_params: Scope = "global"
    names: Names = field(default_factory=Names)
    taken: set[str] = field(default_factory=set[str])
    labels: set[str] = field(default_factory=set[str])
    monoids: dict[str, Monoid] = field(default_factory=dict[str, Monoid])
    defined: bool = False
    """Whether Python has defined the function: its first decorator, by whatever name, is then ours."""
    sorts: dict[ast.expr, Sort] = field(default_factory=dict[ast.expr, Sort])

    def fail(self, node: ast.AST, message: str) -> NoReturn:
        line = getattr(node, "lineno", 1)
        shown = self.source[line - 1] if line <= len(self.source) else ""
        column = getattr(node, "col_offset", 0) + 1
        raise ParseError(message, (self.filename, line + self.first - 1, column, shown))

    # ------------------------------------------------------------ declarations

    def module(self, module: ast.Module) -> Func:
        definitions = [s for s in module.body if isinstance(s, ast.FunctionDef)]
        for d in definitions[:-1]:
            self.monoids[d.name] = self.monoid(d)
        if not definitions or len(definitions) != len(module.body):
            stray = next((s for s in module.body if not isinstance(s, ast.FunctionDef)), module)
            self.fail(stray, "a nest is one function definition, with @monoid definitions before it")
        return self.function(definitions[-1])

    def monoid(self, d: ast.FunctionDef) -> Monoid:
        decorator = d.decorator_list[0] if len(d.decorator_list) == 1 else None
        if not (
            isinstance(decorator, ast.Call) and name_of(decorator.func) == "monoid" and len(decorator.keywords) == 1
        ):
            self.fail(d, "a definition before the nest is a monoid: @monoid(identity=(...)) with typed parameters")
        params = tuple(Param(a.arg, self.dtype(a.annotation, a)) for a in d.args.args)
        half = len(params) // 2
        if not params or len(params) % 2 or not isinstance(d.body[-1], ast.Return) or d.body[-1].value is None:
            self.fail(d, "a monoid takes its components twice, left then right, and returns the combined ones")
        self.names.params = {p.name: p for p in params}
        types = [p.type for p in params[:half]]
        combine = self.values(self.items(d.body[-1].value), types)
        identity = self.values(self.items(decorator.keywords[0].value), types)
        self.names.params = {}
        return Monoid(d.name, params[:half], params[half:], combine, cast("tuple[Const, ...]", identity))

    def plain(self, d: ast.FunctionDef) -> None:
        """Refuse what would be left out of account: decorators but `lp.func`, and something to return."""
        for n, x in enumerate(d.decorator_list):
            if name_of(x) != "func" and (n or not self.defined):
                self.fail(x, f"@{ast.unparse(x)} does nothing to a nest; take it away")
        if d.returns is not None and not (isinstance(d.returns, ast.Constant) and d.returns.value is None):
            self.fail(d.returns, "a nest returns nothing; what it makes is written into its out parameters")

    def function(self, d: ast.FunctionDef) -> Func:
        self.plain(d)
        if d.args.posonlyargs + d.args.kwonlyargs + d.args.defaults or d.args.vararg or d.args.kwarg:
            self.fail(d, "a nest has plain parameters, with no defaults, * or /")
        self.taken |= {d.name, *(a.arg for a in d.args.args)}
        annotations = [(a, self.annotation(a)) for a in d.args.args]
        self.names.indices = {a.arg: Var(a.arg) for a, spec in annotations if spec.strip() == "size"}
        params, undecided = self.parameters(annotations)
        start = 1 if ast.get_docstring(d) is not None else 0
        assumes: list[Cond] = []
        rest_of_body = d.body[start:]
        while rest_of_body and (call := _call(rest_of_body[0], "assume")) is not None:
            assumes += [self.cond(c) for c in call.args]
            rest_of_body = rest_of_body[1:]
        body = self.body(rest_of_body)
        written = {b for s in body for b in stored_buffers(s)}
        decided = tuple(
            replace(p, access="inout") if isinstance(p, Arg) and p.buffer.name in undecided & written else p
            for p in params
        )
        return Func(d.name, decided, tuple(assumes), body)

    def parameters(self, annotations: Iterable[tuple[ast.arg, str]]) -> tuple[list[Size | Arg], set[str]]:
        """The parameters, and the names of the arrays that are not declared "in", "out" or "inout"."""
        params: list[Size | Arg] = []
        undecided: set[str] = set()
        for a, spec in annotations:
            if spec.strip() == "size":
                params.append(Size(a.arg))
                continue
            word, _, rest = spec.strip().partition(" ")
            access = word if word in ("in", "out", "inout") else ""
            b = self.declaration(a, a.arg, rest if access else spec, self.scope_of_params, None)
            self.names.buffers[a.arg] = b
            if not access:
                undecided.add(a.arg)
            params.append(Arg(b, access or "in"))
        return params, undecided

    def annotation(self, a: ast.arg) -> str:
        if isinstance(a.annotation, ast.Constant) and isinstance(a.annotation.value, str):
            return a.annotation.value
        self.fail(a, f'parameter {a.arg!r} is annotated with a string: "size" or "[out|inout] dtype[shape]"')

    # ------------------------------------------------------------ statements

    def body(self, body: Sequence[ast.stmt]) -> Body:
        out: list[Stmt] = []
        for n, s in enumerate(body):
            match s:
                case ast.Assign(targets=[ast.Name() as target], value=value) if not self.is_known(target.id):
                    return (*out, self.local_scalar(target, value, body[n + 1 :]))
                case _:
                    out += self.stmt(s)
        return tuple(out)

    def is_known(self, name: str) -> bool:
        return name in self.names.buffers or name in self.names.indices or name in self.names.params

    def local_scalar(self, target: ast.Name, value: ast.expr, rest: Sequence[ast.stmt]) -> Stmt:
        """`t = a[i]`, of a name that is new, as memory of no dimension for what follows in its block."""
        given = self.value(value, None)
        name = take_name(target.id, self.taken)
        b = Buffer(name, (), given.dtype, "local")
        saved = dict(self.names.buffers)
        store = Store(self.label(None, name), b, (), given)
        self.names.buffers[target.id] = b
        body = (store, *self.body(rest))
        self.names.buffers = saved
        return Alloc(b, body)

    def stmt(self, s: ast.stmt) -> Body:
        match s:
            case ast.For():
                return (self.loop(s),)
            case ast.If():
                return (If(self.cond(s.test), self.body(s.body), self.body(s.orelse)),)
            case ast.With():
                return (self.scope(s),)
            case ast.Assign(targets=[target], value=value):
                return (self.assign(s, target, value, None),)
            case ast.AnnAssign(target=target, annotation=ast.Constant(value=str(label)), value=ast.expr() as value):
                return (self.assign(s, target, value, label),)
            case ast.AugAssign():
                return (self.augmented(s),)
            case ast.Pass():
                return ()
            case ast.Expr(value=ast.Call(func=ast.Name(id="barrier"), args=[ast.Constant(value=int(threads))])):
                return (Barrier(threads),)
            case ast.Expr(value=ast.Call() as call) if name_of(call.func) == "barrier":
                return (Barrier(cluster=bool(call.keywords)),)
            case ast.Expr(
                value=ast.Call(
                    func=ast.Name(id="take_turn" | "give_turn" as how), args=[of, ast.Constant(value=int(groups))]
                )
            ):
                return (Turn(self.index(of), groups, how == "take_turn"),)
            case ast.Expr(value=ast.Call(func=ast.Name(id="commit"), args=[])):
                return (AsyncCommit(),)
            case ast.Expr(value=ast.Call(func=ast.Name(id="commit"), args=[ast.Constant(value=str(group))])):
                return (AsyncCommit(group),)
            case ast.Expr(value=ast.Call(func=ast.Name(id="wait"), args=[ast.Constant(value=int(pending))])):
                return (AsyncWait(pending),)
            case ast.Expr(
                value=ast.Call(
                    func=ast.Name(id="wait"), args=[ast.Constant(value=int(pending)), ast.Constant(value=str(group))]
                )
            ):
                return (AsyncWait(pending, group),)
            case ast.Expr(value=ast.Call(func=ast.Name(id="fence"), args=[ast.Constant(value=str(kind))])):
                return (Fence(kind),)
            case ast.Expr(value=ast.Call(func=ast.Name(id="prefetch"), args=[element])):
                load = self.value(element, None)
                if not isinstance(load, Load):
                    self.fail(s, "what is prefetched is an element: prefetch(A[i])")
                return (Prefetch(load),)
            case ast.Expr(value=ast.Constant(value=x)) if x is ...:
                self.fail(s, "... stands for lines that were left out of this text; lp.text(s.func) has them all")
            case _:
                self.fail(s, instead_of_statement(s))

    def loop(self, s: ast.For) -> Stmt:
        call = s.iter
        if not isinstance(call, ast.Call) or s.orelse:
            self.fail(s, instead_of_loop(s))
        saved = dict(self.names.indices)
        start, step = Int(0), Int(1)
        targets = [name_of(t) for t in self.items(s.target)]
        if name_of(call.func) == "range" and len(targets) == 1 and 1 <= len(call.args) <= 3:
            start, step, extent = self.range(call)
            heads = [self.head(targets[0], extent, "serial")]
        else:
            heads = self.heads(s, call, targets)
        body = self.body(s.body)
        self.names.indices = saved
        if (start, step) != (Int(0), Int(1)):
            var = heads[0][0]
            body = tuple(_shorter_loops(substitute(x, {var: Var(var) * step + start})) for x in body)
        for var, extent, how in reversed(heads):
            body = (Loop(var, extent, how, body),)
        return body[0]

    def heads(self, s: ast.For, call: ast.Call, targets: Sequence[str]) -> list[tuple[str, Index, str]]:
        """The loops that `for targets in call` declares, where that is no `range`: name, extent and kind of each."""
        kind, args = name_of(call.func), call.args
        if kind == "grid" and len(targets) == len(args):
            return [self.head(n, e, "serial") for n, e in zip(targets, args, strict=True)]
        if len(targets) == 1 and kind == "bind" and len(args) == 2:
            axis = args[0].value if isinstance(args[0], ast.Constant) else None
            if axis not in AXES:
                self.fail(call, f"a loop is bound to one of {', '.join(AXES)}")
            return [self.head(targets[0], args[1], axis)]
        if len(targets) == 1 and kind in KINDS and len(args) == 1:
            return [self.head(targets[0], args[0], kind)]
        self.fail(s, instead_of_loop(s))

    def range(self, call: ast.Call) -> tuple[Index, Index, Index]:
        """Start, step and number of iterations of a range."""
        if len(call.args) == 1:
            return Int(0), Int(1), self.index(call.args[0])
        start, stop = self.index(call.args[0]), self.index(call.args[1])
        step = self.index(call.args[2]) if len(call.args) == 3 else Int(1)
        if not isinstance(step, Int) or step.value <= 0:
            self.fail(
                call,
                "the step of a range is a positive integer constant; to count down, write n - 1 - i under range(n)",
            )
        return start, step, ceildiv(_cancelled(stop - start), step)

    def head(self, name: str, extent: ast.expr | Index, kind: str) -> tuple[str, Index, str]:
        """A loop's unique name, extent and kind; inside it `name` means that loop."""
        var = take_name(name, self.taken)
        length = extent if isinstance(extent, Index) else self.index(extent)
        self.names.indices[name] = Var(var)
        return var, length, kind

    def scope(self, s: ast.With) -> Stmt:
        match s.items[0].context_expr:
            case ast.Call(func=ast.Name(id="kernel"), args=[ast.Constant(value=str(name))]) if len(s.items) == 1:
                return Kernel(name, self.body(s.body))
            case ast.Call(func=ast.Name(id="turns"), args=[], keywords=[]) if len(s.items) == 1:
                return InTurn(self.body(s.body))
            case ast.Call(func=ast.Name(id="role"), args=[ast.Constant(int(own)), ast.Constant(int(others))]):
                return WarpSpecialized((own, others), self.body(s.body))
            case ast.Call(func=ast.Name(id=name), args=[], keywords=[]) if (
                len(s.items) == 1 and (fn := find_instruction(name)) is not None
            ):
                return InstrRegion(fn, self.body(s.body))
            case _:
                pass
        saved = dict(self.names.buffers)
        allocated = [self.alloc(item) for item in s.items]
        body = self.body(s.body)
        self.names.buffers = saved
        for b in reversed(allocated):
            body = (Alloc(b, body),)
        return body[0]

    def alloc(self, item: ast.withitem) -> Buffer:
        call, target = item.context_expr, item.optional_vars
        if not (
            isinstance(call, ast.Call) and _is_call_of(call, "alloc") and isinstance(target, ast.Name) and call.args
        ):
            self.fail(call, 'memory is taken by: with alloc("dtype[shape]", scope=..., layout=...) as name')
        options = {k.arg: k.value for k in call.keywords}
        given = options.get("scope")
        scope = str(given.value) if isinstance(given, ast.Constant) else "global"
        scopes = (*SCOPES, *MEMORIES)
        if scope not in scopes or not isinstance(call.args[0], ast.Constant) or set(options) - {"scope", "layout"}:
            self.fail(call, f'alloc takes "dtype[shape]", a scope of {", ".join(scopes)}, and a layout')
        name = take_name(target.id, self.taken)
        layout = self.layout(options["layout"]) if "layout" in options else None
        b = self.declaration(call, name, str(call.args[0].value), scope, layout)
        self.names.buffers[target.id] = b
        return b

    def label(self, explicit: str | None, default: str) -> str:
        label = explicit or fresh_name(default, self.labels)
        self.labels.add(label)
        return label

    def target(self, node: ast.expr) -> tuple[Buffer, tuple[Index, ...]]:
        if not isinstance(node, ast.Subscript) and self.scalar(node) is None:
            self.fail(node, instead_of_target(node, self.names.buffers, self.names.indices))
        element = self.load(node)
        return element.buffer, element.at

    def assign(self, s: ast.stmt, target: ast.expr, value: ast.expr, label: str | None) -> Stmt:
        elements = [self.target(t) for t in self.items(target)]
        buffers, places = tuple(b for b, _ in elements), {at for _, at in elements}
        name = name_of(value.func) if isinstance(value, ast.Call) else ""
        known = self.monoids.get(name) or self.constants.get(name)
        folds = isinstance(value, ast.Call) and (value.keywords or len(value.args) == len(elements))
        if isinstance(value, ast.Call) and folds and (isinstance(known, Monoid) or name in MONOIDS):
            if len(places) != 1:
                self.fail(s, f"{name} writes one place of several buffers, so their indices are the same")
            types = tuple(b.dtype for b in buffers)
            monoid = known if isinstance(known, Monoid) else self.named_monoid(value, name, types)
            return self.reduce(value, buffers, places.pop(), monoid, label)
        if len(elements) != 1:
            reason = "several elements are written at once only by a reduction; write each in a line of its own"
            self.fail(s, f"{reason}, and what it overwrites to a scalar before, as t = a[i]")
        b, at = elements[0]
        return Store(self.label(label, b.name), b, at, self.typed(value, b.dtype))

    def typed(self, node: ast.expr, t: DType) -> Value:
        value = self.value(node, t)
        if value.dtype != t:
            self.fail(node, f"{value.dtype} stands where {t} is wanted; cast it: {t}(...)")
        return value

    def named_monoid(self, node: ast.AST, name: str, types: tuple[DType, ...]) -> Monoid:
        try:
            return MONOIDS[name](types)
        except (ValueError, TypeError):
            self.fail(node, f"{name} folds another number of values than {len(types)}, each into a buffer of its own")

    def reduce(
        self, call: ast.Call, buffers: tuple[Buffer, ...], at: tuple[Index, ...], monoid: Monoid, label: str | None
    ) -> Stmt:
        options = {k.arg: k.value for k in call.keywords}
        if set(options) - {"over", "init", "atomic", "label"}:
            self.fail(call, "a reduction takes its values, over=, init=, atomic= and label=")
        types = [b.dtype for b in buffers]
        over: list[str] = []
        for x in self.items(options["over"]) if "over" in options else ():
            loop = self.names.indices.get(name_of(x))
            if not isinstance(loop, Var):
                self.fail(x, "over= names loops around the reduction")
            over.append(loop.name)
        init = self.values(self.items(options["init"]), types) if "init" in options else None
        explicit = options.get("label")
        chosen = str(explicit.value) if isinstance(explicit, ast.Constant) else label
        values = self.values(call.args, types)
        flag = options.get("atomic")
        if flag is not None and not (isinstance(flag, ast.Constant) and isinstance(flag.value, bool)):
            self.fail(flag, "atomic= is True or False")
        atomic = isinstance(flag, ast.Constant) and flag.value is True
        return Reduce(self.label(chosen, buffers[0].name), buffers, at, monoid, values, tuple(over), init, atomic)

    def augmented(self, s: ast.AugAssign) -> Stmt:
        b, at = self.target(s.target)
        value = self.typed(s.value, b.dtype)
        name = _UPDATES.get(type(s.op))
        if name is None or not (b.dtype.is_float or b.dtype.is_integer):
            self.fail(s, "an element is updated by +=, -= or *=; write other updates out")
        if isinstance(s.op, ast.Sub):
            match value:
                case Const(number, t) if t.is_float or t.holds(-int(number)):
                    value = Const(-number, t)
                case _:
                    value = Op(REGISTRY["neg"], (value,))
        return Reduce(self.label(None, b.name), (b,), at, MONOIDS[name]((b.dtype,)), (value,))

    def values(self, items: Sequence[ast.expr], types: Sequence[DType]) -> tuple[Value, ...]:
        if len(items) != len(types):
            self.fail(items[0] if items else ast.Pass(), f"{len(items)} values are given for {len(types)}")
        return tuple(self.typed(x, t) for x, t in zip(items, types, strict=True))


def _is_call_of(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Call) and name_of(node.func) == name


def _call(s: ast.stmt, name: str) -> ast.Call | None:
    call = s.value if isinstance(s, ast.Expr) else None
    return call if isinstance(call, ast.Call) and name_of(call.func) == name else None


def _cancelled(x: Index) -> Index:
    """A sum without terms of both signs, if it has some: 32 for b * 32 + 32 - b * 32."""
    terms = list(_signed_terms(x, negative=False))
    left: list[tuple[bool, Index]] = []
    for negative, term in terms:
        if (not negative, term) in left:
            left.remove((not negative, term))
        else:
            left.append((negative, term))
    if len(left) == len(terms):
        return x
    number = sum(-x.value if negative else x.value for negative, x in left if isinstance(x, Int))
    added, taken = ([x for n, x in left if n == negative and not isinstance(x, Int)] for negative in (False, True))
    total: Index = Int(0)
    for x in (*added, *(Int(n) for n in (number,) if n > 0 or not added)):
        total = total + x
    for x in (*taken, *(Int(-n) for n in (number,) if n < 0 and added)):
        total = total - x
    return total


def _signed_terms(x: Index, *, negative: bool) -> Iterator[tuple[bool, Index]]:
    """The terms of a sum, and whether each is subtracted."""
    match x:
        case Add(a, b):
            yield from _signed_terms(a, negative=negative)
            yield from _signed_terms(b, negative=negative)
        case Mul(Int(-1), a) | Mul(a, Int(-1)):
            yield from _signed_terms(a, negative=not negative)
        case _:
            yield negative, x


def _shorter_loops(s: Stmt) -> Stmt:
    """`s` with the lengths of its loops in few terms."""
    s = map_stmts(s, _shorter_loops)
    return replace(s, extent=_cancelled(s.extent)) if isinstance(s, Loop) else s
