"""`python write_exceptions.py WORKTREE`: write tests/house/exceptions.toml from what the tests find, with reasons."""

import ast
import sys
from pathlib import Path

root = Path(sys.argv[1]).resolve()
sys.path.insert(0, str(root / "tests/house"))
import exceptions_list  # noqa: E402

toml = exceptions_list.PATH
old = {k: exceptions_list.listed(k) for k in ("complexity", "many_files", "dialect", "no_test_of_that_name")} if toml.exists() else {}
if not toml.exists():
    toml.write_text("")
import test_complexity  # noqa: E402
import test_mirror  # noqa: E402
import test_vocabulary  # noqa: E402


def cases(name: str) -> int:
    """How many cases a function distinguishes by `match`."""
    file, _, path = name.partition("::")
    tree = ast.parse((root / file).read_text())
    last = path.split(".")[-1]
    return max((sum(isinstance(n, ast.match_case) for n in ast.walk(f)) for f in ast.walk(tree)
                if isinstance(f, ast.FunctionDef) and f.name == last), default=0)  # fmt: skip


def reason(name: str, n: int) -> str:
    found = cases(name)
    if found >= 6:
        return f"{n}: {found} cases of one match, a kind of node each"
    if name.startswith("schedules/"):
        return f"{n}: chooses a schedule by the structure of the nest; to become a table of recipes"
    if name.startswith(("loopir/arith", "loopir/analysis")):
        return f"{n}: one decision procedure, whose early answers share what they look at; to be split"
    if name.startswith("loopir/schedule"):
        return f"{n}: checks and rewrite of one step on the same names; to be split"
    return f"{n}: to be split"


def section(rule: str, rows: dict[str, str], why: str) -> str:
    kept = {k: old.get(rule, {}).get(k) or v for k, v in rows.items()}
    lines = "\n".join(f'"{k}" = "{v}"' for k, v in sorted(kept.items()))
    return f"# {why}\n[{rule}]\n{lines}\n"


complexity = {k: reason(k, n) for k, n in test_complexity.over_the_cap().items()}
many = {k: f"{n} files" for k, n in test_vocabulary.in_many_files().items()}
parts = [
    "# What tests/house lets pass for now. Each list is to shrink: the tests fail where an entry is no longer needed.\n",
    section("complexity", complexity, "Functions over a cyclomatic complexity of 20 by radon, and why."),
    section("many_files", many, "Names that more than three files define."),
    section("dialect", test_vocabulary.dialect_words(), "Names that are a word of the dialect: see docs/glossary.md."),
    section("no_test_of_that_name", dict.fromkeys(test_mirror.untested(), ""), "Modules with no test file of their name."),
]
toml.write_text("\n".join(parts))
print({k: len(v) for k, v in (("complexity", complexity), ("many", many), ("dialect", test_vocabulary.dialect_words()))}, len(test_mirror.untested()))
