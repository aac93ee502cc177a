"""`python apply.py WORKTREE`: move modules and rename names in a checkout of loopir, as table.py says.

Prints what it could not do; exits 1 if something is left to be done by hand.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from engine import Renamer, Source, Tree  # noqa: E402
import docs_table  # noqa: E402
import patches  # noqa: E402
import table  # noqa: E402
import tests_table  # noqa: E402

BASE = "01e6a91"


def run(*args: str, cwd: Path, ok: bool = False) -> str:
    done = subprocess.run(args, cwd=cwd, capture_output=True, text=True)
    if done.returncode and not ok:
        print(done.stdout[-3000:], done.stderr[-3000:])
        raise SystemExit(f"{' '.join(args)} failed")
    return done.stdout


def pairs(text: str) -> list[tuple[str, str]]:
    return [(a, b or a) for a, _, b in (x.partition("=") for x in text.split())]


def module_moves(tree: Tree) -> tuple[dict[str, str], list[str]]:
    moves: dict[str, str] = {}
    stale: list[str] = []
    for room, packages in table.ROOMS.items():
        for package, names in packages.items():
            for old, new in pairs(names):
                if f"{room}.{old}" in tree.path_of:
                    moves[f"{room}.{old}"] = f"{package}.{new}"
                else:
                    stale.append(f"{room}.{old}")
    for room in table.ROOMS:  # `loopir.emit` is `loopir.codegen` as a whole
        if room == "loopir.emit":
            moves[room] = "loopir.codegen"
    for old, new in tests_table.MOVES.items():
        a, b = old[:-3].replace("/", "."), new[:-3].replace("/", ".")
        if a in tree.path_of:
            moves[a] = b
        else:
            stale.append(old)
    for m in tree.path_of:  # what else was in tests/emit
        if m.startswith("tests.emit.") and m not in moves:
            moves[m] = m.replace("tests.emit.", "tests.codegen.")
        if m.startswith("loopir.emit.") and m not in moves:
            moves[m] = m.replace("loopir.emit.", "loopir.codegen.")
        if m.startswith("tests.testing.test_") and m not in moves:
            pass
    return moves, stale


class Prose:
    """Names of modules and files in text that is no code."""

    def __init__(self, tree: Tree, renamer: Renamer, moves: dict[str, str]) -> None:
        self.tree, self.renamer, self.moves = tree, renamer, moves
        self.paths: dict[str, str] = {}
        for old, path in tree.path_of.items():
            new = moves.get(old)
            if new is not None:
                self.paths[path] = self.path_of(path, new)
        self.paths |= {a: b for a, b in patches.FILES.items() if (tree.root / a).exists()}
        self.short = {k.removeprefix("loopir/"): v.removeprefix("loopir/") for k, v in self.paths.items() if k.startswith("loopir/") and k.count("/") > 1}
        # distinct new names, for backticks in Markdown
        by: dict[str, set[str]] = {}
        for m, names in renamer.renames.items():
            for a, b in names.items():
                by.setdefault(a, set()).add(b)
        everywhere = {n for m in tree.defs for n in tree.defs[m]}
        count: dict[str, int] = {}
        for m in tree.defs:
            if m.startswith(("loopir", "schedules")):
                for n in tree.defs[m]:
                    count[n] = count.get(n, 0) + 1
        self.unique = {
            a: next(iter(b)) for a, b in by.items()
            if len(b) == 1 and count.get(a) == 1 and ("_" in a.strip("_") or a[:1].isupper())
            and a not in ("Do", "Of", "Box", "Init", "Wait", "Touch", "Top", "Place", "Work", "Lines", "Python", "Site")
        }  # fmt: skip

    @staticmethod
    def path_of(old: str, new: str) -> str:
        base = new.replace(".", "/")
        return f"{base}/__init__.py" if old.endswith("__init__.py") else f"{base}.py"

    def modules(self, text: str) -> str:
        def dotted(m: re.Match[str]) -> str:
            parts = m[0].split(".")
            for n in range(len(parts), 1, -1):
                alias = ".".join(parts[:n])
                mod = self.tree.canon(alias)
                if mod in self.tree.path_of:
                    rest = parts[n:]
                    if rest:
                        found = self.tree.resolve(mod, rest[0])
                        if found and found[1] == rest[0]:
                            rest[0] = self.renamer.new_name(found[0], rest[0])
                    new = self.renamer.new_module(mod)
                    return ".".join([new if mod == alias else f"loopir.{new}", *rest])
            return m[0]

        text = re.sub(r"\bloopir(?:\.[A-Za-z_]\w*)+", dotted, text)

        text = re.sub(r"(?<=[\"'])schedules(?:\.\w+)+(?=[\"'])", dotted, text)

        def path(m: re.Match[str]) -> str:
            return self.paths.get(m[0], self.short.get(m[0], m[0]))

        return re.sub(r"(?<![\w/.])(?:\.\./)?[a-z_]+(?:/[\w.]+)+\.(?:py|ll)\b", path, text)

    def where(self, text: str) -> str:
        def one(m: re.Match[str]) -> str:
            return self.renamer.new_where(m[0]) if f"loopir.{m[1]}" in self.tree.path_of else m[0]

        return re.sub(r"(?<![\w.])([a-z_]+(?:\.[a-z_]+)+):[A-Za-z_][\w.]*", one, text)

    def ticks(self, text: str, names: dict[str, str]) -> str:
        def one(m: re.Match[str]) -> str:
            return f"`{names.get(m[1], m[1])}{m[2]}`"

        return re.sub(r"`([A-Za-z_]\w*)((?:\([^`]*\))?)`", one, text)

    def in_code(self, text: str, module: str) -> str:
        return self.ticks(self.where(self.modules(text)), {k: v for k, v in self.renamer.visible(module).items() if len(k) > 3})

    def markdown(self, text: str, name: str) -> str:
        def block(m: re.Match[str]) -> str:
            try:
                src = Source(m[2])
            except SyntaxError:
                return m[0]
            return m[1] + self.modules_in_strings(self.renamer.edit(src, "", f"{name} (code)")) + m[3]

        parts = re.split(r"(```python\n.*?```)", text, flags=re.S)
        out = []
        for part in parts:
            if part.startswith("```python\n"):
                out.append(re.sub(r"(```python\n)(.*?)(```)", block, part, flags=re.S))
            else:
                out.append(self.ticks(self.where(self.modules(part)), self.unique))
        return "".join(out)

    @staticmethod
    def modules_in_strings(text: str) -> str:
        return text


def strings_and_comments(src: Source) -> list[tuple[int, int]]:
    found, doc = [], src.text
    for t in tokenize.generate_tokens(io.StringIO(doc).readline):
        if t.type in (tokenize.COMMENT, tokenize.STRING):
            a = src.starts[t.start[0] - 1] + t.start[1]
            b = src.starts[t.end[0] - 1] + t.end[1]
            found.append((a, b))
    return found


def main() -> None:
    root = Path(sys.argv[1]).resolve()
    tree = Tree(root)
    moves, stale = module_moves(tree)
    renames = {m: dict(pairs(names)) for m, names in table.RENAMES.items()}
    for m, names in list(renames.items()):
        if m not in tree.defs:
            stale.append(f"names of {m}")
            continue
        for n in list(names):
            if n not in tree.defs[m]:
                stale.append(f"{m}: {n}")
                del names[n]
    renamer = Renamer(tree, moves, renames, table.ATTRS)
    prose = Prose(tree, renamer, moves)

    new_text: dict[str, str] = {}
    for f, src in tree.sources.items():
        module = tree.module_of[f]
        text = renamer.edit(src, module, f)
        # strings and comments that the edits left as they were
        again = Source(text)
        pieces, last = [], 0
        for a, b in strings_and_comments(again):
            new = prose.in_code(text[a:b], module)
            if new != text[a:b]:
                pieces += [text[last:a], new]
                last = b
        text = "".join([*pieces, text[last:]])
        if f.startswith("loopir/") and module in docs_table.FIRST_LINES:
            text = first_line(root, f, src.text, text, docs_table.FIRST_LINES[module], renamer.notes)
        new_text[f] = text
    for f in tree.files:
        if f.endswith(".md") and f not in ("CHANGELOG.md",) and not f.startswith("benchmarks/results"):
            new_text[f] = prose.markdown((root / f).read_text(), f)
        elif f in ("pyproject.toml", ".ci/run", "docs/reference.md"):
            new_text[f] = prose.modules((root / f).read_text())

    # files to their places
    for f, text in new_text.items():
        if (root / f).read_text() != text:
            (root / f).write_text(text)
    for old, new in sorted(prose.paths.items()):
        if old != new:
            (root / new).parent.mkdir(parents=True, exist_ok=True)
            run("git", "mv", old, new, cwd=root)
    for f, text in patches.NEW_FILES.items():
        p = root / f
        if not p.exists():
            p.parent.mkdir(parents=True, exist_ok=True)
            p.write_text(text)
    failed = []
    for f, old, new in patches.EDITS:
        p = root / f
        if not p.exists() or old not in p.read_text():
            if p.exists() and new and new in p.read_text():
                continue
            failed.append(f"{f}: {old.strip()[:80]!r}")
            continue
        p.write_text(p.read_text().replace(old, new))
    for f in patches.FUNCTIONS:
        f(root, table, failed)
    run("git", "add", "-A", cwd=root)
    ruff = str(root / ".venv/bin/ruff") if (root / ".venv/bin/ruff").exists() else "ruff"
    print(run(ruff, "check", "--select", "I,RUF022,RUF023", "--fix", "-q", ".", cwd=root, ok=True)[-3000:])
    print(run(ruff, "format", "-q", ".", cwd=root, ok=True)[-3000:])
    for f in patches.LAST:
        f(root, failed)
    run("git", "add", "-A", cwd=root)

    placed = set(moves) | set(patches.STAY)
    unplaced = [m for m in tree.path_of if m.startswith(("loopir.", "schedules.")) and m not in placed
                and not tree.path_of[m].endswith("__init__.py") and not any(m.startswith(s + ".") or m == s for s in patches.STAY if s not in ("loopir", "schedules"))]  # fmt: skip
    report = [("modules without a place (left where they were)", unplaced), ("stale rows of the table", stale),
              ("patches that did not fit", failed), ("notes", renamer.notes)]  # fmt: skip
    for head, rows in report:
        if rows:
            print(f"## {head}")
            print("\n".join(f"  {r}" for r in rows))
    bad = bool(failed) or any(n.startswith(("CONFLICT", "OVERLAP", "cannot")) for n in renamer.notes)
    raise SystemExit(1 if bad else 0)


def first_line(root: Path, f: str, was: str, text: str, new: str, notes: list[str]) -> str:
    """The first sentence of the docstring exchanged, if it is the one that the table was made for."""
    base = subprocess.run(["git", "show", f"{BASE}:{f}"], cwd=root, capture_output=True, text=True).stdout
    m = re.match(r'"""(.*?)("""|\n)', base)
    now = re.match(r'"""(.*?)("""|\n)', text)
    if not m or not now:
        return text
    original = re.match(r'"""(.*?)("""|\n)', was)
    if not original or m[1] != original[1]:
        notes.append(f"{f}: first line of the docstring is another one by now")
        return text
    return f'"""{new}{now[2]}' + text[now.end() :]


main()
