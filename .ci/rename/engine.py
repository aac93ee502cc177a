"""Move modules and rename names in a tree of Python, by scopes and imports and not by text."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

TOPS = ("loopir", "schedules", "tests", "benchmarks", "tutorials", "docs", ".ci")
FUNCS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass
class Scope:
    kind: str  # module, class, function
    parent: "Scope | None"
    names: set[str] = field(default_factory=set)
    params: set[str] = field(default_factory=set)
    globals: set[str] = field(default_factory=set)
    node: ast.AST | None = None


class Source:
    """A file: text, tree, byte offsets to characters."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self.lines = text.splitlines(keepends=True)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))
        self.ascii = [line.isascii() for line in self.lines]

    def at(self, line: int, col: int) -> int:
        if not self.ascii[line - 1]:
            col = len(self.lines[line - 1].encode()[:col].decode(errors="replace"))
        return self.starts[line - 1] + col

    def span(self, node: ast.AST) -> tuple[int, int]:
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)


def bound_in(node: ast.AST, scope: Scope) -> None:
    """Collect the names bound directly in the body of a scope's node (not in nested scopes)."""

    def visit(n: ast.AST) -> None:
        if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            scope.names.add(n.name)
            for d in n.decorator_list:
                visit(d)
            if isinstance(n, ast.ClassDef):
                return
            for d in (*n.args.defaults, *(x for x in n.args.kw_defaults if x)):
                visit(d)
            return
        if isinstance(n, ast.Lambda):
            for d in (*n.args.defaults, *(x for x in n.args.kw_defaults if x)):
                visit(d)
            return
        if isinstance(n, COMPS):
            visit(n.generators[0].iter)
            # walrus inside binds here
            for m in ast.walk(n):
                if isinstance(m, ast.NamedExpr):
                    scope.names.add(m.target.id)
            return
        if isinstance(n, ast.Name) and isinstance(n.ctx, (ast.Store, ast.Del)):
            scope.names.add(n.id)
        elif isinstance(n, ast.alias):
            if n.name != "*" and scope.kind == "module":  # an import in a function is taken for one at the top
                scope.names.add(n.asname or n.name.split(".")[0])
        elif isinstance(n, ast.ExceptHandler) and n.name:
            scope.names.add(n.name)
        elif isinstance(n, ast.MatchAs) and n.name:
            scope.names.add(n.name)
        elif isinstance(n, ast.MatchStar) and n.name:
            scope.names.add(n.name)
        elif isinstance(n, ast.MatchMapping) and n.rest:
            scope.names.add(n.rest)
        elif isinstance(n, ast.Global):
            scope.globals.update(n.names)
        elif isinstance(n, ast.Nonlocal):
            scope.globals.update(n.names)  # treated as not local; resolution goes outwards
        for c in ast.iter_child_nodes(n):
            visit(c)

    body = node.body if isinstance(node.body, list) else [node.body]
    for s in body:
        visit(s)
    scope.names -= scope.globals


class Tree:
    """All files of a checkout."""

    def __init__(self, root: Path) -> None:
        self.root = root
        out = subprocess.check_output(["git", "-C", str(root), "ls-files"], text=True).split("\n")
        self.files = [f for f in out if f and (root / f).exists()]
        self.sources: dict[str, Source] = {}
        self.module_of: dict[str, str] = {}
        self.path_of: dict[str, str] = {}
        for f in self.files:
            if f.endswith(".py") and f.split("/")[0] in TOPS:
                self.sources[f] = Source((root / f).read_text())
                mod = f[:-3].replace("/", ".")
                if mod.endswith(".__init__"):
                    mod = mod[: -len(".__init__")]
                self.module_of[f] = mod
                self.path_of[mod] = f
        self.defs: dict[str, set[str]] = {}
        self.imports: dict[str, dict[str, tuple[str, str | None]]] = {}
        self.aliased = "loopir.schedules" in self.path_of  # another name of the package `schedules`
        for f, src in self.sources.items():
            mod = self.module_of[f]
            self.defs[mod], self.imports[mod] = self.tables(src.tree, mod, f.endswith("__init__.py"))

    def canon(self, module: str) -> str:
        """The name of a module by where its file is."""
        if self.aliased and (module == "loopir.schedules" or module.startswith("loopir.schedules.")):
            return module[len("loopir.") :]
        return module

    def full(self, n: ast.ImportFrom, module: str, package: bool) -> str:
        """What an import is from, in full."""
        if n.level == 0:
            return self.canon(n.module or "")
        parts = module.split(".")
        parts = parts[: len(parts) - n.level + package]
        return ".".join([*parts, *([n.module] if n.module else [])])

    def tables(self, tree: ast.Module, module: str = "", package: bool = False) -> tuple[set[str], dict[str, tuple[str, str | None]]]:
        scope = Scope("module", None)
        bound_in(tree, scope)
        imports: dict[str, tuple[str, str | None]] = {}
        for n in ast.walk(tree):
            if isinstance(n, ast.ImportFrom):
                for a in n.names:
                    if a.name != "*":
                        imports.setdefault(a.asname or a.name, (self.full(n, module, package), a.name))
            elif isinstance(n, ast.Import):
                for a in n.names:
                    if a.asname:
                        imports.setdefault(a.asname, (self.canon(a.name), None))
                    else:
                        top = a.name.split(".")[0]
                        imports.setdefault(top, (top, None))
        return {n for n in scope.names if n not in imports}, imports

    def resolve(self, module: str, name: str, depth: int = 0) -> tuple[str, str | None] | None:
        """(defining module, name); (module, None) if it is a module; None if unknown."""
        if depth > 12:
            return None
        if module in self.defs:
            if name in self.imports[module]:
                m, n = self.imports[module][name]
                if n is None:
                    return (m, None)
                if m != module:
                    return self.resolve(m, n, depth + 1)
            elif name in self.defs[module]:
                return (module, name)
            if f"{module}.{name}" in self.path_of:
                return (self.canon(f"{module}.{name}"), None)
            return (module, name) if module in self.path_of else None
        return None


class Renamer:
    def __init__(
        self, tree: Tree, moves: dict[str, str], renames: dict[str, dict[str, str]], attrs: dict[str, str]
    ) -> None:
        self.tree, self.moves, self.renames, self.attrs = tree, moves, renames, attrs
        self.notes: list[str] = []
        self.classes = self._classes()
        self.new_modules = {moves.get(m, m): m for m in tree.path_of}

    # ---- what things are called
    def new_name(self, module: str, name: str) -> str:
        return self.renames.get(module, {}).get(name, name)

    def new_module(self, module: str) -> str:
        if module in self.moves:
            return self.moves[module]
        return module

    def _classes(self) -> dict[str, set[str]]:
        """By class name, its fields and methods."""
        found: dict[str, set[str]] = defaultdict(set)
        for src in self.tree.sources.values():
            for n in ast.walk(src.tree):
                if isinstance(n, ast.ClassDef):
                    for m in n.body:
                        if isinstance(m, (ast.FunctionDef, ast.AsyncFunctionDef)):
                            found[n.name].add(m.name)
                        elif isinstance(m, ast.AnnAssign) and isinstance(m.target, ast.Name):
                            found[n.name].add(m.target.id)
        return found

    # ---- one file
    def edit(self, src: Source, module: str, name: str) -> str:
        """The text of a file with names and imports exchanged."""
        package = name.endswith("__init__.py")
        defs, imports = self.tree.tables(src.tree, module, package)
        self.place = (module, package)
        local = self.tree.defs.get(module)
        edits: list[tuple[int, int, str]] = []
        taken: set[int] = set()

        def put(a: int, b: int, text: str) -> None:
            if a in taken or src.text[a:b] == text:
                return
            taken.add(a)
            edits.append((a, b, text))

        # what each module-level name of this file becomes
        becomes: dict[str, str] = {}
        keep_as: dict[str, str] = {}
        modules: dict[str, str] = {}  # local name -> module
        for n in defs:
            if local is not None and (new := self.new_name(module, n)) != n:
                becomes[n] = new
        imported_new: dict[str, tuple[str, str]] = {}
        for local_name, (m, n) in imports.items():
            if n is None:
                modules[local_name] = m
                continue
            found = self.tree.resolve(m, n)
            if found is None:
                continue
            if found[1] is None:
                old = found[0]
                if old not in self.tree.path_of:
                    continue  # a module that is not ours, under another name
                modules[local_name] = old
                new = self.new_module(old)
                if local_name == n and new.rsplit(".", 1)[-1] != n:
                    becomes[local_name] = new.rsplit(".", 1)[-1]
            else:
                new = self.new_name(found[0], found[1])
                if new != n:
                    imported_new[local_name] = (n, new)
                    if local_name == n:
                        becomes[local_name] = new

        all_bound: dict[int, Scope] = {}
        uses: dict[str, list[tuple[int, int, list[Scope]]]] = defaultdict(list)
        conflicts: dict[str, list[str]] = defaultdict(list)
        top = Scope("module", None, node=src.tree)
        bound_in(src.tree, top)
        fstrings: list[tuple[ast.JoinedStr, set[str]]] = []

        def lookup(name_: str, scope: Scope) -> Scope:
            s: Scope | None = scope
            first = True
            while s is not None:
                if s.kind == "module":
                    return s
                if name_ in s.globals:
                    s = s.parent
                    first = False
                    continue
                if name_ in s.names and (s.kind != "class" or first):
                    return s
                first = first and s.kind == "comp"  # a comprehension's first iterator sees the class; near enough
                s = s.parent
            return top

        def chain(scope: Scope) -> list[Scope]:
            got: list[Scope] = []
            s: Scope | None = scope
            while s is not None and s.kind != "module":
                if s.kind != "class":
                    got.append(s)
                s = s.parent
            return got

        def use(n_id: str, a: int, b: int, scope: Scope) -> None:
            if n_id in becomes and lookup(n_id, scope) is top:
                uses[n_id].append((a, b, chain(scope)))

        in_type = [0]
        spoken_modules = {
            self.tree.canon(n.value) for n in ast.walk(src.tree)
            if isinstance(n, ast.Constant) and isinstance(n.value, str) and self.tree.canon(n.value) in self.tree.path_of
        }  # fmt: skip

        def quoted(text: str) -> bool:
            return in_type[0] > 0 and re.fullmatch(r"[A-Za-z_][\w\[\], |.]*", text) is not None

        def visit_fstring(node: ast.JoinedStr, scope: Scope) -> None:
            a, b = src.span(node)
            ids: dict[str, str] = {}
            ats: dict[str, str] = {}
            for m in ast.walk(node):
                if isinstance(m, ast.Name) and m.id in becomes and lookup(m.id, scope) is top:
                    ids[m.id] = m.id
                if isinstance(m, ast.Attribute) and m.attr in self.attrs:
                    ats[m.attr] = self.attrs[m.attr]
                if isinstance(m, ast.keyword) and m.arg in self.attrs:
                    ats.setdefault(m.arg, self.attrs[m.arg])
            fstrings.append((node, set(ids)))
            for i in ids:
                uses[i].append((a, -b, chain(scope)))  # negative end: a segment
            if ats:
                uses["\0attrs"].append((a, -b, []))

        def visit_function(n: ast.AST, scope: Scope) -> None:
            args = n.args
            every = [*args.posonlyargs, *args.args, *args.kwonlyargs]
            every += [x for x in (args.vararg, args.kwarg) if x]
            for d in (*args.defaults, *(x for x in args.kw_defaults if x)):
                visit(d, scope)
            for x in every:
                if x.annotation:
                    in_type[0] += 1
                    visit(x.annotation, scope)
                    in_type[0] -= 1
            if not isinstance(n, ast.Lambda):
                for d in n.decorator_list:
                    visit(d, scope)
                if n.returns:
                    in_type[0] += 1
                    visit(n.returns, scope)
                    in_type[0] -= 1
            inner = Scope("function", scope, node=n)
            bound_in(n, inner)
            inner.params = {x.arg for x in every}
            inner.names |= inner.params
            body = n.body if isinstance(n.body, list) else [n.body]
            for s in body:
                visit(s, inner)

        def def_name(n: ast.AST) -> tuple[int, int]:
            a = src.at(n.lineno, n.col_offset)
            m = re.compile(r"(?:async\s+)?(?:def|class)\s+(\w+)").match(src.text, a)
            assert m, src.text[a : a + 60]
            return m.span(1)

        def field_call(n: ast.Call) -> bool:
            f = n.func
            called = f.id if isinstance(f, ast.Name) else f.attr if isinstance(f, ast.Attribute) else ""
            return called in ("replace", "cls", "record", "asdict", "_replace", "renewed") or called in self.classes or called == "type"

        def visit(n: ast.AST, scope: Scope) -> None:
            if isinstance(n, ast.JoinedStr):
                visit_fstring(n, scope)
                return
            if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)):
                a, b = def_name(n)
                if scope.kind == "class":
                    if n.name in self.attrs:
                        put(a, b, self.attrs[n.name])
                else:
                    use(n.name, a, b, scope)
                visit_function(n, scope)
                return
            if isinstance(n, ast.Lambda):
                visit_function(n, scope)
                return
            if isinstance(n, ast.ClassDef):
                a, b = def_name(n)
                use(n.name, a, b, scope)
                for x in (*n.bases, *n.decorator_list):
                    visit(x, scope)
                for k in n.keywords:
                    visit(k.value, scope)
                inner = Scope("class", scope, node=n)
                bound_in(n, inner)
                for s in n.body:
                    visit(s, inner)
                return
            if isinstance(n, COMPS):
                inner = Scope("comp", scope, node=n)
                for g in n.generators:
                    for m in ast.walk(g.target):
                        if isinstance(m, ast.Name):
                            inner.names.add(m.id)
                visit(n.generators[0].iter, scope)
                for i, g in enumerate(n.generators):
                    visit(g.target, inner)
                    if i:
                        visit(g.iter, inner)
                    for c in g.ifs:
                        visit(c, inner)
                if isinstance(n, ast.DictComp):
                    visit(n.key, inner)
                    visit(n.value, inner)
                else:
                    visit(n.elt, inner)
                return
            if isinstance(n, ast.Name):
                a, b = src.span(n)
                if scope.kind == "class" and isinstance(n.ctx, ast.Store) and n.id in self.attrs:
                    put(a, b, self.attrs[n.id])
                else:
                    use(n.id, a, b, scope)
                return
            if isinstance(n, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__slots__" for t in n.targets):
                for x in ast.walk(n.value):
                    if isinstance(x, ast.Constant) and x.value in self.attrs:
                        a, b = src.span(x)
                        put(a + 1, b - 1, self.attrs[x.value])
            if isinstance(n, ast.Constant) and isinstance(n.value, str) and quoted(n.value):
                a, b = src.span(n)
                if src.text[a] in "'\"" and src.text[a : a + 3] != '"""':
                    for m in re.finditer(r"[A-Za-z_]\w*", src.text[a:b]):
                        if m[0] in becomes and (n.value in becomes or in_type[0]):
                            uses[m[0]].append((a + m.start(), a + m.end(), []))
                return
            if isinstance(n, (ast.arg, ast.AnnAssign)) and n.annotation is not None:
                in_type[0] += 1
                visit(n.annotation, scope)
                in_type[0] -= 1
                if isinstance(n, ast.AnnAssign):
                    visit(n.target, scope)
                    if n.value is not None:
                        alias = isinstance(n.annotation, ast.Name) and n.annotation.id == "TypeAlias"
                        in_type[0] += alias
                        visit(n.value, scope)
                        in_type[0] -= alias
                return
            if isinstance(n, (ast.Assign, ast.AugAssign)) and scope.kind == "module":
                target = n.targets[0] if isinstance(n, ast.Assign) else n.target
                if isinstance(target, ast.Name) and (target.id == "__all__" or target.id[:1].isupper() and not target.id.isupper()):
                    in_type[0] += 1
                    for c in ast.iter_child_nodes(n):
                        visit(c, scope)
                    in_type[0] -= 1
                    return
            if isinstance(n, ast.Global):
                a, b = src.span(n)
                for i in n.names:
                    if i in becomes:
                        m = re.search(rf"\b{i}\b", src.text[a:b])
                        uses[i].append((a + m.start(), a + m.end(), []))
                return
            if isinstance(n, ast.Attribute):
                dotted = self._dotted(n)
                if dotted and dotted[0] in modules and lookup(dotted[0], scope) is top:
                    a, b = src.span(n)
                    new = self._chain(modules[dotted[0]], dotted, becomes.get(dotted[0], dotted[0]), imports)
                    if new is not None:
                        first = src.span(self._first(n))
                        put(a, b, new)
                        return
                if n.attr in self.attrs:
                    b = src.at(n.end_lineno, n.end_col_offset)
                    put(b - len(n.attr), b, self.attrs[n.attr])
                visit(n.value, scope)
                return
            if isinstance(n, ast.Call):
                for k in n.keywords:
                    if k.arg in self.attrs and field_call(n):
                        a = src.at(k.lineno, k.col_offset)
                        put(a, a + len(k.arg), self.attrs[k.arg])
                f = n.func
                called = f.id if isinstance(f, ast.Name) else f.attr if isinstance(f, ast.Attribute) else ""
                factory = next((k for k in n.keywords if k.arg == "default_factory"), None)
                if factory is not None:
                    in_type[0] += 1
                    visit(factory.value, scope)
                    in_type[0] -= 1
                    visit(n.func, scope)
                    return
                if called in ("cast", "TypeVar"):
                    in_type[0] += 1
                    for c in n.args:
                        visit(c, scope)
                    in_type[0] -= 1
                    visit(n.func, scope)
                    for k in n.keywords:
                        visit(k.value, scope)
                    return
                if called in ("setattr", "delattr", "object", "getattr", "hasattr") and len(n.args) >= 2:
                    owner, what = n.args[0], n.args[1]
                    dotted = self._dotted(owner)
                    if dotted and dotted[0] in modules and isinstance(what, ast.Constant) and isinstance(what.value, str):
                        mod, rest = modules[dotted[0]], dotted[1:]
                        while rest and self.tree.canon(f"{mod}.{rest[0]}") in self.tree.path_of:
                            mod, rest = self.tree.canon(f"{mod}.{rest[0]}"), rest[1:]
                        got = self.tree.resolve(mod, what.value) if not rest else None
                        if got and got[1] == what.value:
                            a, b = src.span(what)
                            put(a + 1, b - 1, self.new_name(got[0], what.value))
                    elif isinstance(what, ast.Constant) and isinstance(what.value, str) and name.startswith(("tests", "bench")):
                        news: set[str] = set()  # of some module that this file has hold of
                        for mod in {*modules.values(), *spoken_modules}:
                            got = self.tree.resolve(mod, what.value) if mod in self.tree.defs else None
                            if got and got[1] == what.value and what.value in self.tree.defs.get(got[0], ()):
                                news.add(self.new_name(got[0], what.value))
                        if not news and "_" in what.value.strip("_"):  # one that has this name alone
                            news = {names[what.value] for names in self.renames.values() if what.value in names}
                        if len(news) == 1:
                            a, b = src.span(what)
                            put(a + 1, b - 1, news.pop())
                if called in ("getattr", "hasattr", "setattr", "attrgetter", "field"):
                    for x in n.args:
                        if isinstance(x, ast.Constant) and x.value in self.attrs:
                            a, b = src.span(x)
                            put(a + 1, b - 1, self.attrs[x.value])
            if isinstance(n, ast.MatchClass):
                seg_a, seg_b = src.span(n)
                for k in n.kwd_attrs:
                    if k in self.attrs:
                        m = re.search(rf"\b{k}\s*=", src.text[seg_a:seg_b])
                        put(seg_a + m.start(), seg_a + m.start() + len(k), self.attrs[k])
            if isinstance(n, ast.ImportFrom) or isinstance(n, ast.Import):
                return  # done below
            for c in ast.iter_child_nodes(n):
                visit(c, scope)

        for s in src.tree.body:
            visit(s, top)

        # conflicts: a use under a scope that binds the new name
        for old, found in list(uses.items()):
            if old == "\0attrs":
                continue
            new = becomes[old]
            why = ""
            if new in top.names and new not in becomes:
                why = "module"
            elif [o for o, x in becomes.items() if x == new and o != old]:
                why = f"two become {new}"
            for a, b, scopes in found:
                for s in scopes:
                    if new in s.names:
                        line = src.text.count("\n", 0, a) + 1
                        why = f"line {line}" + (" (parameter)" if new in s.params else "")
            if why:
                conflicts[old].append(why)
        for old, why in conflicts.items():
            if old in imports:
                keep_as[old] = becomes.pop(old)
                self.notes.append(f"{name}: {keep_as[old]} imported as {old} ({'; '.join(why)})")
            else:
                self.notes.append(f"CONFLICT {name}: {old} -> {becomes[old]} ({'; '.join(why)}); not renamed here")
                becomes.pop(old)

        # names in f-strings and elsewhere
        segments: dict[tuple[int, int], dict[str, str]] = defaultdict(dict)
        for old, found in uses.items():
            if old != "\0attrs" and old not in becomes:
                continue
            for a, b, _ in found:
                if b < 0:
                    if old == "\0attrs":
                        segments[(a, -b)].update({"." + k: "." + v for k, v in self.attrs.items()})
                    else:
                        segments[(a, -b)][old] = becomes[old]
                else:
                    put(a, b, becomes[old])
        for (a, b), what in segments.items():
            put(a, b, self._in_braces(src.text[a:b], what))

        # imports
        for n in ast.walk(src.tree):
            if isinstance(n, ast.ImportFrom):
                found_import = self._import_from(n, becomes, keep_as)
                if found_import is None:
                    continue
                new, groups = found_import
                a, b = src.span(n)
                if len(groups) == 1:  # in place, so that comments stay
                    m = re.compile(r"from\s+([\w.]+)").match(src.text, a)
                    assert m
                    put(m.start(1), m.end(1), next(iter(groups)))
                    for x, part in zip(n.names, next(iter(groups.values())), strict=True):
                        put(src.at(x.lineno, x.col_offset), src.at(x.end_lineno, x.end_col_offset), part)
                else:
                    put(a, b, new.replace("\n", "\n" + " " * n.col_offset))
            elif isinstance(n, ast.Import):
                for x in n.names:
                    if x.name.split(".")[0] in ("loopir", "schedules"):
                        a, b = src.at(x.lineno, x.col_offset), src.at(x.end_lineno, x.end_col_offset)
                        new = self.spelled(self.new_module(self.tree.canon(x.name)), x.name)
                        put(a, b, new + (f" as {x.asname}" if x.asname else ""))

        # the fragments of mutants
        for n in ast.walk(src.tree):
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "Mutant":
                if len(n.args) >= 5 and isinstance(n.args[2], ast.Constant):
                    where = n.args[2].value
                    mod = "loopir." + where.split(":")[0]
                    a, b = src.span(n.args[2])
                    put(a + 1, b - 1, self.new_where(where))
                    own = self.local_names(mod, where.split(":")[1])
                    for x in n.args[3:5]:
                        a, b = src.span(x)
                        put(a, b, self.in_text_of(mod, src.text[a:b], own))

        edits.sort()
        out, last = [], 0
        for a, b, text in edits:
            if a < last:
                self.notes.append(f"OVERLAP {name}: at {src.text[a:b]!r}")
                continue
            out += [src.text[last:a], text]
            last = b
        out.append(src.text[last:])
        self._becomes = becomes
        return "".join(out)

    # ---- helpers
    @staticmethod
    def _dotted(n: ast.AST) -> list[str] | None:
        parts: list[str] = []
        while isinstance(n, ast.Attribute):
            parts.append(n.attr)
            n = n.value
        if isinstance(n, ast.Name):
            return [n.id, *reversed(parts)]
        return None

    @staticmethod
    def _first(n: ast.AST) -> ast.AST:
        while isinstance(n, ast.Attribute):
            n = n.value
        return n

    def _chain(self, module: str, dotted: list[str], first: str, imports: dict) -> str | None:
        """`a.b.c` from a name that is a module."""
        m, i = module, 1
        while i < len(dotted) and f"{m}.{dotted[i]}" in self.tree.path_of and dotted[i] not in self.tree.imports.get(m, {}):
            m, i = f"{m}.{dotted[i]}", i + 1
        direct = imports.get(dotted[0], ("", None))
        if i == 1:
            head = first
        elif direct[1] is None and direct[0] == dotted[0]:  # import loopir.x.y
            head = self.new_module(m)
        elif direct[1] is None:  # import loopir as lp
            new = self.new_module(m)
            base = self.new_module(module)
            if not new.startswith(base + "."):
                return None
            head = first + new[len(base) :]
        else:
            new, base = self.new_module(m), self.new_module(module)
            if not new.startswith(base + "."):
                self.notes.append(f"cannot spell {'.'.join(dotted)}")
                return None
            head = first + new[len(base) :]
        rest = dotted[i:]
        if rest:
            found = self.tree.resolve(m, rest[0]) if m in self.tree.defs else None
            if found and found[1]:
                rest = [self.new_name(found[0], found[1]) if found[1] == rest[0] else rest[0], *rest[1:]]
            rest = [rest[0], *(self.attrs.get(r, r) for r in rest[1:])]
        return ".".join([head, *rest])

    def spelled(self, module: str, was: str) -> str:
        """The new name of a module as an import that was spelled `was` spells it: relative, or by another name."""
        if was.startswith("."):
            here = self.new_module(self.place[0]).split(".")
            here = here if self.place[1] else here[:-1]
            there = module.split(".")
            same = 0
            while same < min(len(here), len(there)) and here[same] == there[same]:
                same += 1
            return "." * (len(here) - same + 1) + ".".join(there[same:])
        if was.startswith("loopir.schedules") and module.split(".")[0] == "schedules":
            return f"loopir.{module}"
        if was == "loopir" and module == "schedules":
            return "loopir.schedules"
        return module

    def _import_from(self, n: ast.ImportFrom, becomes: dict[str, str], keep_as: dict[str, str]) -> tuple[str, dict[str, list[str]]] | None:
        module = self.tree.full(n, *self.place)
        if module.split(".")[0] not in ("loopir", "schedules"):
            return None
        was = "." * n.level + (n.module or "")
        groups: dict[str, list[str]] = {}
        changed = False
        for a in n.names:
            if a.name == "*":
                groups.setdefault(self.new_module(module), []).append("*")
                changed |= self.new_module(module) != module
                continue
            found = self.tree.resolve(module, a.name)
            target, new = self.new_module(module), a.name
            if found and found[1] is None and self.tree.canon(f"{module}.{a.name}") == found[0]:
                full = self.new_module(found[0])
                if "." in full:
                    target, _, new = full.rpartition(".")
            elif found and found[1] is not None:
                new = self.new_name(found[0], found[1]) if found[1] == a.name else a.name
            if a.asname:
                if a.asname == a.name:
                    asname = f" as {new}"
                else:
                    asname = f" as {a.asname}"
                    if new == a.asname:
                        asname = ""
            else:
                asname = f" as {a.name}" if a.name in keep_as else ""
            part = new + asname
            changed |= target != module or part != (a.name + (f" as {a.asname}" if a.asname else ""))
            groups.setdefault(target, []).append(part)
        groups = {self.spelled(m, was): parts for m, parts in groups.items()}
        if not changed and list(groups) == [was]:
            return None
        lines = []
        for m, parts in groups.items():
            one = f"from {m} import {', '.join(parts)}"
            lines.append(one if len(one) < 110 else f"from {m} import (\n    " + ",\n    ".join(parts) + ",\n)")
        return "\n".join(lines), groups

    @staticmethod
    def _in_braces(text: str, what: dict[str, str]) -> str:
        """Exchange identifiers inside the braces of an f-string."""

        def swap(code: str) -> str:
            for old, new in what.items():
                if old.startswith("."):
                    code = re.sub(rf"\.{old[1:]}\b", new, code)
                else:
                    code = re.sub(rf"(?<![\w.]){old}\b(?!\s*=[^=])", new, code)
            return code

        out, depth, last, i = [], 0, 0, 0
        while i < len(text):
            c = text[i]
            if c == "{":
                if depth == 0 and text[i : i + 2] == "{{":
                    i += 2
                    continue
                if depth == 0:
                    out.append(text[last:i])
                    last = i
                depth += 1
            elif c == "}":
                if depth == 0:
                    i += 1
                    continue
                depth -= 1
                if depth == 0:
                    out.append(swap(text[last : i + 1]))
                    last = i + 1
            i += 1
        out.append(text[last:])
        return "".join(out)

    def new_where(self, where: str) -> str:
        """ "analysis.depend:Class.name" as it is called now."""
        mod, _, path = where.partition(":")
        full = "loopir." + mod
        parts = path.split(".")
        parts = [self.new_name(full, parts[0]), *(self.attrs.get(p, p) for p in parts[1:])]
        return self.new_module(full).removeprefix("loopir.") + ":" + ".".join(parts)

    def visible(self, module: str) -> dict[str, str]:
        """What the module-level names of `module` become in its own text."""
        got: dict[str, str] = {}
        for n in self.tree.defs.get(module, ()):
            if (new := self.new_name(module, n)) != n:
                got[n] = new
        for n, (m, x) in self.tree.imports.get(module, {}).items():
            if x is not None and n == x:
                found = self.tree.resolve(m, x)
                if found and found[1] and (new := self.new_name(found[0], found[1])) != x:
                    got[n] = new
        return got

    def local_names(self, module: str, path: str) -> set[str]:
        """What is bound in the function at `path` of `module`."""
        if module not in self.tree.path_of:
            return set()
        node: ast.AST = self.tree.sources[self.tree.path_of[module]].tree
        for part in path.split("."):
            node = next((n for n in getattr(node, "body", ()) if getattr(n, "name", "") == part), ast.Module([], []))
        got: set[str] = set()
        for n in ast.walk(node):
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store):
                got.add(n.id)
            elif isinstance(n, ast.arg):
                got.add(n.arg)
            elif isinstance(n, (ast.MatchAs, ast.MatchStar)) and n.name:
                got.add(n.name)
        return got

    def in_text_of(self, module: str, text: str, own: set[str] = frozenset()) -> str:
        names = {k: v for k, v in self.visible(module).items() if k not in own}
        text = re.sub(r"(?<![\w.])([A-Za-z_]\w*)\b", lambda m: names.get(m[1], m[1]), text)
        return re.sub(r"\.([A-Za-z_]\w*)\b", lambda m: "." + self.attrs.get(m[1], m[1]), text)
