"""What a table of names cannot say: files beside Python, small edits of text, packages and what they are for."""

from __future__ import annotations

import shutil
import re
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import contributing

FILES = {
    "loopir/runtime/native.ll": "loopir/runtime/cuda/native.ll",
    "loopir/runtime/pool.ll": "loopir/runtime/cpu/pool.ll",
}

STAY = (
    "loopir", "loopir.build", "loopir.loading", "loopir.requirements", "loopir.schedules", "loopir.errors", "loopir.witness", "loopir.shapes", "loopir.__main__", "loopir.machine", "loopir.machines",
    "loopir.ir.grammar", "loopir.ir.index", "loopir.ir.values", "loopir.ir.ops", "loopir.ir.dtypes", "loopir.ir.recursion",
    "loopir.schedule.schedule", "loopir.schedule.stubs", "loopir.schedule._methods", "loopir.schedule.composite",
    "loopir.lower.pipeline", "loopir.lower.target",
    "loopir.runtime.arrays", "loopir.runtime.call", "loopir.runtime.plans", "loopir.runtime.cache",
    "loopir.runtime.llvm_jit",
    "loopir.show", "loopir.tensor", "loopir.testing.mutants", "loopir.testing.fuzz", "loopir.testing.legality",
    "loopir.testing.acceptance", "loopir.testing.deep", "loopir.testing.stress", "loopir.testing.odd_arrays", "loopir.testing.checking", "loopir.testing.campaign", "loopir.ir.stack", "schedules.auto", "schedules", "schedules.plan", "schedules.planner", "schedules.rules",
)  # fmt: skip

PACKAGES = {
    "loopir/ir/traverse": "Walk, query, substitute in and rebuild trees of the IR.",
    "loopir/ir/parser": "Parse the text form of the language, which is Python's own syntax.",
    "loopir/ir/verify": "The rules of the language at each stage of compilation.",
    "loopir/ir/layout": "Where the elements of a buffer lie: layouts, index maps, shared-memory descriptors.",
    "loopir/ir/instr": "Match nests against the meanings of instructions.",
    "loopir/interp": "The interpreter, which is the semantics: a Func compiled to Python, run on checked memory.",
    "loopir/arith": "Index arithmetic without a solver: polynomials, simplification rules, proofs of inequalities.",
    "loopir/analysis/presburger": "Linear constraints over integers: isl, and the quick answers before it is asked.",
    "loopir/analysis/dependence": "Dependences between statement instances, and whether a rewrite keeps their order.",
    "loopir/analysis/regions": "Footprints and bounds: which part of a buffer a nest touches, and is it inside?",
    "loopir/analysis/dataflow": "Where values come from and go: reaching writes, liveness, translation validation.",
    "loopir/analysis/cost": "What a nest costs: operations, trip counts, memory traffic.",
    "loopir/schedule/core": "What every primitive stands on: registration, names, queries, facts at a loop, traces.",
    "loopir/schedule/legality": "Checks that primitives share, and the refusals that they raise.",
    "loopir/schedule/transform": "Rewrites that primitives share: placing nests, copies, resizing allocations.",
    "loopir/schedule/primitives/loops": "Primitives on loops: split, fuse, reorder, vectorize, unroll, ...",
    "loopir/schedule/primitives/placement": "Primitives that move stages: compute_at, compute_inline, hoist, ...",
    "loopir/schedule/primitives/memory": "Primitives on buffers: caches, padding, layouts, scopes, folding.",
    "loopir/schedule/primitives/reduction": "Primitives on reductions: rfactor, decompose_reduction, scans, atomics.",
    "loopir/schedule/primitives/gpu": "Primitives for GPUs: bind, tensorize, pipeline, warp specialization, multicast.",
    "loopir/lower/common": "Passes for every target.",
    "loopir/lower/gpu": "Passes for GPUs: threads, fragments, reductions over threads, barriers, vectors.",
    "loopir/lower/gpu/asynchronous": "Passes for asynchronous copies and products: waits, mbarriers, warp roles.",
    "loopir/codegen/cuda": "CUDA C from a lowered Func.",
    "loopir/codegen/llvm": "LLVM IR from a lowered Func.",
    "loopir/runtime/cpu": "Programs on the CPU: thread pool, memory, calls in machine code.",
    "loopir/runtime/cuda": "Programs on a GPU: NVRTC, the driver, launches, memory, machine code.",
    "loopir/intrinsics/ops": "Scalar operations: arithmetic, comparisons, functions, monoids.",
    "loopir/intrinsics/nvidia": "Instructions of NVIDIA GPUs: asynchronous copies, tensor cores, shuffles.",
    "loopir/intrinsics/x86": "Instructions of x86 CPUs: AMX, dot products, streaming stores.",
    "loopir/testing/generate": "Generators of programs, expressions and steps, as Hypothesis strategies.",
    "loopir/testing/oracles": "Oracles: independent ways to tell that a program does not mean what it did.",
    "loopir/cli": "The commands of `python -m loopir`.",
    "schedules/common": "What schedules of both targets share: queries, fusion, products, stencils.",
    "schedules/cpu": "Schedules for CPUs.",
    "schedules/gpu": "Schedules for GPUs.",
}
HERE = Path(__file__).parent / "files"
NEW_FILES = {f"{k}/__init__.py": f'"""{v}"""\n' for k, v in PACKAGES.items()}
NEW_FILES |= {str(p.relative_to(HERE)): p.read_text() for p in sorted(HERE.rglob("*")) if p.is_file() and p.suffix != ".pyc"}

ROOM_DOCS = {
    "loopir/ir/__init__.py": '''"""The language: the nodes of programs, their text form, and the rules of what is legal.

grammar has the statements, index the integer expressions and conditions, values the scalar expressions; dtypes the
element types; ops the records of operations and instructions. printer and parser/ are the
text form; traverse/ walks and rewrites trees, verify/ checks, layout/ says where elements lie, instr/ matches instructions. What a program means is in
`loopir.interp`.
"""
''',
    "loopir/analysis/__init__.py": '''"""Program analysis: what steps, lowering and reports ask about a nest.

dependence/ has the dependence analysis, presburger/ the integer sets that it asks, regions/ footprints and bounds,
dataflow/ where values come from and whether two programs are the same, cost/ operations, trip counts and traffic.
Index arithmetic without a solver is in `loopir.arith`.
"""
''',
    "loopir/lower/__init__.py": '''"""Lowering: `pipeline` is the table of passes, one file each, in order; `target` has the limits of targets.

common/ has the passes for every target, gpu/ those for GPUs, gpu/asynchronous/ those for asynchronous copies and
products.
"""
''',
    "loopir/codegen/__init__.py": '''"""Code generation: spell a lowered nest. Nothing is decided here, and no emitter knows an operator.

cuda/ emits CUDA C, llvm/ emits LLVM IR; host (what runs around the kernels, as Python), params and fast_division
(by what only the host knows) serve both.
"""
''',
    "loopir/runtime/__init__.py": '''"""What a compiled program needs while it runs. Of the rest of loopir, this package knows errors and shapes alone.

call (arrays in, arrays out), arrays (do they fit a signature), plans (repeated calls), bounds_report (subscripts from
memory), cache (compiled code on disk), llvm_jit and amx_permission (machine code for this CPU); cpu/ and cuda/ run
programs.
"""
''',
}

EDITS: list[tuple[str, str, str]] = [
    ("tests/schedule/random_nests.py", '("tied", "straight")', '("permutation_invariant", "straight")'),
    ("loopir/build.py", 'f"loopir.codegen.{target}"', 'f"loopir.codegen.{target}.emit"'),
    ("loopir/schedule/primitives/__init__.py", '"""The primitives, one file each. Every module in this folder is '
     'loaded, so adding the file is all it takes."""', '"""The primitives, one file each. Every module in these folders '
     'is loaded, so adding the file is all it takes."""'),
    ("loopir/schedule/primitives/__init__.py", "from pkgutil import iter_modules", "from pkgutil import walk_packages"),
    ("loopir/schedule/primitives/__init__.py", 'in iter_modules(__path__):\n    import_module(f"{__name__}.{_module.name}")',
     'in sorted(walk_packages(__path__, f"{__name__}."), key=lambda m: m.name.rpartition(".")[2]):\n'
     '    import_module(_module.name)'),
    ("pyproject.toml", '"loopir/demo.py" = ["PLC0415"]', '"loopir/cli/demo.py" = ["PLC0415"]'),
    ("pyproject.toml", '"loopir/runtime/{nvrtc,driver}.py"', '"loopir/runtime/cuda/{nvrtc,driver}.py"'),
    ("pyproject.toml", '"loopir/ir", "loopir/tensor"', '"loopir/ir", "loopir/interp", "loopir/tensor"'),
    ("docs/reference.md", ":of: loopir.ir loopir.build", ":of: loopir.ir loopir.interp loopir.build"),
    ("loopir/__init__.py", "importing the room `loopir.lower`", "importing the package `loopir.lower`"),
    ("tests/house/test_layers.py", '"The test can fail: emit that imports analysis', '"The test can fail: codegen that imports analysis'),
    ("tests/house/test_layers.py", 'tmp_path / "loopir" / "emit" / "bad.py"', 'tmp_path / "loopir" / "codegen" / "bad.py"'),
    ("tests/house/test_one_place.py", 'OWN = sorted(name for name, f in PRIMITIVES.items() if f.__module__.startswith("loopir."))\n',
     'OWN = sorted(name for name, f in PRIMITIVES.items() if f.__module__.startswith("loopir."))\n'
     'PRIMITIVE_FILES = {p.stem: p for p in sorted(FOLDER.rglob("*.py")) if p.stem != "__init__"}\n'),
    ("tests/house/test_one_place.py", '    assert PRIMITIVES[name].__module__ == f"loopir.schedule.primitives.{name}"\n'
     '    home = FOLDER / f"{name}.py"\n', '    home = PRIMITIVE_FILES[name]\n'
     '    assert PRIMITIVES[name].__module__ == ".".join(home.relative_to(ROOT).with_suffix("").parts)\n'),
    ("tests/house/test_one_place.py", 'if path != FOLDER / f"{name}.py" and', 'if path != PRIMITIVE_FILES[name] and'),
    ("tests/house/test_one_place.py", '@pytest.mark.parametrize("path", sorted(p for p in FOLDER.glob("*.py") if p.stem != "__init__"), ids=name_of)',
     '@pytest.mark.parametrize("path", PRIMITIVE_FILES.values(), ids=name_of)'),
    ("tests/house/test_one_place.py", 'if f.__module__ == f"loopir.schedule.primitives.{path.stem}"]',
     'if f.__module__.startswith("loopir.schedule.primitives.") and f.__module__.endswith(f".{path.stem}")]'),
    ("tests/house/test_one_place.py", 'if "emit" not in p.parts', 'if "codegen" not in p.parts'),
    ("tests/house/test_no_operator.py", '("lower", "emit", "analysis", "runtime")', '("lower", "codegen", "arith", "analysis", "runtime")'),
]  # fmt: skip

EDITS += contributing.EDITS


def pass_names(root: Path, table: Any, failed: list[str]) -> None:
    """Passes are called as their functions: in the table, in `after`, and where tests look one up."""
    names: dict[str, str] = table.PASS_NAMES
    p = root / "loopir/lower/pipeline.py"
    text = p.read_text()
    text = re.sub(r'(?<=Pass\(")(\w+)(?=")', lambda m: names.get(m[1], m[1]), text)
    text = re.sub(
        r"after=\([^)]*\)", lambda m: re.sub(r'"(\w+)"', lambda n: f'"{names.get(n[1], n[1])}"', m[0]), text
    )
    p.write_text(text)
    for f in (root / "tests").rglob("*.py"):
        old = f.read_text()
        new = re.sub(r'(?<=shown\[")(\w+)(?="\])', lambda m: names.get(m[1], m[1]), old)
        new = re.sub(r'(?<=p\.name != ")(\w+)(?=")', lambda m: names.get(m[1], m[1]), new)
        new = re.sub(r'(?<=passes\.count\(")(\w+)(?=")', lambda m: names.get(m[1], m[1]), new)
        new = new.replace('["instructions", "inits"]', '["expand_instructions", "explicit_init"]')
        if new != old:
            f.write_text(new)


def room_docs(root: Path, table: Any, failed: list[str]) -> None:
    for f, text in ROOM_DOCS.items():
        (root / f).write_text(text)


def empty_rooms(root: Path, table: Any, failed: list[str]) -> None:
    """The map of a room in its __init__ is the list of its packages: the test that held it to files goes."""
    (root / "tests/house/test_rooms.py").unlink(missing_ok=True)
    for p in (HERE / "tests/house").glob("test_*.py"):  # what takes the place of an older one
        (root / "tests/house" / p.name).write_text(p.read_text())


MORE = {
    "intrinsics": ("interp",), "analysis": ("interp", "arith"), "tensor": ("arith",), "schedule": ("interp", "arith"),
    "lower": ("interp", "arith"), "codegen": ("interp",), "show": ("arith",), "build": ("interp",),
    "testing": ("interp", "arith"),
}  # fmt: skip


def layers(root: Path, table: Any, failed: list[str]) -> None:
    """What each package may import: `interp` and `arith` came out of `ir` and `analysis`, `emit` is `codegen`."""
    p = root / "tests/house/test_layers.py"

    def row(m: re.Match[str]) -> str:
        name = "codegen" if m[1] == "emit" else m[1]
        needs = ["codegen" if x == "emit" else x for x in re.findall(r'"(\w+)"', m[2])]
        if "ir" in needs:
            needs[needs.index("ir") + 1 : needs.index("ir") + 1] = [x for x in MORE.get(name, ()) if x not in needs]
        text = "(" + "".join(f'"{x}", ' for x in needs).rstrip() + ")"
        new = f'    "{name}": {text.replace(",)", ")") if len(needs) > 1 else text},'
        if name == "ir":
            new += '\n    "interp": ("errors", "ir", "shapes"),\n    "arith": ("errors", "ir"),'
        return new

    text = p.read_text()
    head, rest = text.split("MAY_IMPORT = {\n", 1)
    rows, rest = rest.split("\n}\n", 1)
    rows = re.sub(r'    "(\w+)": \(([^)]*)\),', row, rows)
    above = re.search(r"ABOVE = \(([^)]*)\)", rest)
    assert above
    names = [x for x in re.findall(r'"(\w+)"', above[1]) if x not in ("bench", "demo", "doctor")]
    rest = rest.replace(above[0], "ABOVE = (" + ", ".join(f'"{x}"' for x in [*names, "cli"]) + ")")
    p.write_text(f"{head}MAY_IMPORT = {{\n{rows}\n}}\n{rest}")
    p = root / "pyproject.toml"
    text = re.sub(r'"loopir/analysis/\{cost,counts([^}]*)\}\.py" = \["PLC0415"\]', lambda m: '"loopir/analysis/**/{cost,trip_counts' + m[1]
                  + '}.py" = ["PLC0415"]', p.read_text())  # fmt: skip
    if (root / "loopir/schedules.py").exists():  # the same files are two packages: `schedules` and `loopir.schedules`
        text = text.replace('"tests/**" = ["PLC0415"]\n', '"tests/**" = ["PLC0415"]\n"schedules/**" = ["TID252"]\n')
    p.write_text(text)
    p.write_text(re.sub(r'(    "pyright\[nodejs\][^"]*",\n)', r'\1    "radon>=6.0",\n', p.read_text(), count=1))


FUNCTIONS = [layers, pass_names, room_docs, empty_rooms]


def short_lines(root: Path, failed: list[str]) -> None:
    """Break lines that new names made too long: of prose at a space, of tables at a comma."""
    ruff = next(p for p in (root / ".venv/bin/ruff", Path("ruff")) if p.exists())
    for _ in range(12):
        done = subprocess.run([ruff, "check", "--select", "E501", "--output-format", "concise", "."], cwd=root,
                              capture_output=True, text=True)  # fmt: skip
        hits: dict[str, list[int]] = {}
        for m in re.finditer(r"^(\S+?):(\d+):\d+: E501", done.stdout, re.M):
            hits.setdefault(m[1], []).append(int(m[2]))
        if not hits:
            return
        for f, numbers in hits.items():
            lines = (root / f).read_text().split("\n")
            for n in sorted(numbers, reverse=True):
                broken(lines, n - 1)
            (root / f).write_text("\n".join(lines))
    failed.append("lines are still too long")


def commas(line: str) -> list[int]:
    """Where a comma outside of strings is followed by a space."""
    found, quote, i = [], "", 0
    while i < len(line):
        c = line[i]
        if quote:
            if c == "\\":
                i += 1
            elif c == quote:
                quote = ""
        elif c in "'\"":
            quote = c
        elif line.startswith(", ", i):
            found.append(i)
        i += 1
    return found


def broken(lines: list[str], n: int) -> None:
    line = lines[n]
    indent = line[: len(line) - len(line.lstrip())]
    stripped = line.strip()
    at = line.rfind(" ", 0, 119)
    if stripped.startswith("#"):
        head, rest = line[:at], line[at + 1 :]
        after = lines[n + 1]
        if after.startswith(indent + "# ") and not after.startswith((indent + "# %%", indent + "# -")):
            lines[n : n + 2] = [head, f"{indent}# {rest} {after[len(indent) + 2 :]}"]
        else:
            lines[n : n + 1] = [head, f"{indent}# {rest}"]
        return
    if re.match(r'(return|raise) \(?f"', stripped) and stripped.endswith('"'):
        spot = max(i for i in range(len(indent) + 20, 110) if line[i] == " " and line.count("{", 0, i) == line.count("}", 0, i))
        word, body = stripped.split(" ", 1)
        head = line[:spot].strip().split(" ", 1)[1]
        lines[n : n + 1] = [f"{indent}{word} (", f'{indent}    {head} "', f'{indent}    f"{line[spot + 1 :]}', f"{indent})"]
        return
    if re.match(r'f?"[^"]', stripped) and stripped.endswith('"') and not commas(line):
        spot = max(i for i in range(len(indent) + 20, 115) if line[i] == " " and line.count("{", 0, i) == line.count("}", 0, i))
        lines[n : n + 1] = [f'{line[:spot]} "', f'{indent}{"f" if stripped[0] == "f" else ""}"{line[spot + 1 :]}']
        return
    code = '"""' not in line and (stripped.endswith((",", "(", "),")) or re.search(r'["\w)\]]\)*,$', stripped)) and stripped[0] in "\"'(f"
    if code and (spots := [i for i in commas(line) if i < 119]):
        lines[n : n + 1] = [line[: spots[-1] + 1], indent + line[spots[-1] + 2 :]]
        return
    if "  # " in line and '"""' not in line:  # a comment behind code
        before, _, comment = line.rpartition("  # ")
        lines[n : n + 1] = [f"{indent}# {comment}", before]
        return
    head, rest = line[:at], line[at + 1 :]
    after = lines[n + 1] if n + 1 < len(lines) else ""
    follows = after.startswith(indent) and after.strip() and not after.startswith(indent + " ") and '"""' not in rest
    if follows and not after.strip().startswith(('"""', "-", "|")) and not re.match(r"\s*(\w+:  |before:|call:|after:)", after):
        lines[n : n + 2] = [head, f"{indent}{rest} {after.strip()}"]
    else:
        lines[n : n + 1] = [head, f"{indent}{rest}"]


def exceptions(root: Path, failed: list[str]) -> None:
    """The lists of what the rules of the house let pass, from what is there."""
    python = root / ".venv/bin/python"
    if subprocess.run([python, "-c", "import radon"], capture_output=True).returncode:
        subprocess.run([python, "-m", "pip", "install", "-q", "radon"], cwd=root)
    done = subprocess.run([python, str(HERE.parent / "write_exceptions.py"), root], capture_output=True, text=True)
    print(done.stdout, done.stderr[-2000:])
    if done.returncode:
        failed.append("tests/house/exceptions.toml")


def picture(root: Path, failed: list[str]) -> None:
    """The picture of layers in docs/architecture.md, from the imports that there are."""
    page = root / "docs/architecture.md"
    code = "import sys; sys.path.insert(0, 'tests/docs'); import test_architecture as t\n" \
        "for p, x in t.imported().items(): print(p, *sorted(x))"
    done = subprocess.run([root / ".venv/bin/python", "-c", code], cwd=root, capture_output=True, text=True)
    lines = []
    for line in done.stdout.splitlines():
        package, *needs = line.split()
        text = textwrap.fill(" ".join(needs), 96, break_on_hyphens=False).replace("\n", "\n" + " " * 21)
        lines.append(f"{package:<17} -> {text}")
    if done.returncode or not lines:
        failed.append("docs/architecture.md: " + done.stderr[-300:])
        return
    block = "```{code-block} text\n" + "\n".join(lines) + "\n```"
    page.write_text(re.sub(r"```\{code-block\} text\n.*?\n```", lambda m: block, page.read_text(), count=1, flags=re.S))


LAST: list[Any] = [short_lines, exceptions, picture]
