"""What CONTRIBUTING gets: the picture of layers, recipes, the quick check, the dependency."""

EDITS = [
    ("CONTRIBUTING.md", "rest on to pytest. `pytest -m gpu` runs the GPU suite; without a GPU it is skipped.\n",
     "rest on to pytest. `pytest -m gpu` runs the GPU suite; without a GPU it is skipped. `python .ci/check.py --here --quick`\n"
     "ends within a minute: ruff, the rules of the house, the language, index arithmetic and the examples of all primitives.\n"),
    ("CONTRIBUTING.md", "    errors <- ir <- {intrinsics, analysis, tensor};  analysis <- {schedule, lower};  intrinsics <- {tensor, lower, emit}\n",
     "    errors <- ir <- {interp, arith};  interp <- intrinsics;  {interp, arith} <- analysis <- {tensor, schedule, lower}\n"
     "    intrinsics <- {tensor, schedule, lower, codegen}\n"),
    ("CONTRIBUTING.md", "every room; `schedules/` uses the public names alone.",
     "every package; `schedules/` uses the public names alone. [docs/architecture.md](docs/architecture.md) has the picture, and\n"
     "one matmul on its way through all of it; [docs/glossary.md](docs/glossary.md) has the words. No file is longer than 800\n"
     "lines and no function more complex than 20 by radon, but for those in `tests/house/exceptions.toml`, a list that shrinks."),
    ("CONTRIBUTING.md", "1. Write `loopir/schedule/primitives/<name>.py`: a pure function",
     "1. Write `loopir/schedule/primitives/<folder>/<name>.py`: a pure function"),
    ("CONTRIBUTING.md", "`@primitive`. Every file in that folder is loaded", "`@primitive`. Every file in those folders is loaded"),
    ("CONTRIBUTING.md", "4. Where the question of legality is new,",
     "4. Add a row to [docs/primitives.md](docs/primitives.md): beside what TVM, Halide or Exo call it, else under \"Ours\n"
     "   alone\". `tests/house/test_primitive_table.py` fails without.\n5. Where the question of legality is new,"),
    ("CONTRIBUTING.md", "\n## Rules\n", '''
## Adding a pass

1. Write `loopir/lower/<common or gpu>/<verb_object>.py`, with one function of that name from a Func and a `Target` to a
   Func. It may ask `analysis`; it decides nothing that the schedule has decided.
2. Add a row to `PASSES` in `loopir/lower/pipeline.py`: name, function, the stage that `verify` holds its result to, its
   targets, why it stands where it does, and which passes it comes `after`.
3. Add `tests/lower/test_<verb_object>.py`: nests before and after as text, and the lowered program run by the
   interpreter, which reports races and missing waits.

To see what each pass does to a nest:

    from loopir.lower.pipeline import lower
    lower(s.func, "cuda", show=lambda name, func: print(f"---- {name}\\n{lp.text(func)}"))

## Adding an intrinsic

An operation on values is one record in `loopir/intrinsics/ops/`: meaning, as a NumPy function; its spelling in CUDA and in
LLVM; what is known of it (kinds of types, `commutes`, `ulp`). An instruction is one record in `loopir/intrinsics/nvidia/`
or `x86/`: the nest that it means, as a function or as text, who issues it, and how it is spelled; `dp4a` in `dot.py` is a
short one. Nothing else learns its name: `tensorize` finds it, the interpreter runs its meaning, and the tests run each on
every target that spells it (`pytest tests/codegen tests/docs/test_instructions.py`). Add a row to docs/instructions.md.

## Adding a target

1. `loopir/lower/target.py`: a `Target`, with its limits and which loops start a kernel. `PASSES` names it in its rows.
2. `loopir/codegen/<target>/emit.py`: `emit(func)` from a lowered Func to source. It spells and decides nothing; nodes that
   the target has not are turned down by LowerError.
3. `loopir/runtime/<target>/`: what compiles the source and runs it, behind `Runtime` of `loopir/runtime/call.py`.
4. `loopir/build.py`: a function from a Schedule to a Kernel, and the name in `resolve_target`.
5. The fuzz run and the tests of operations take the target as one more oracle (`loopir/testing/oracles/oracles.py`).

## Adding a schedule

A schedule is a function from a Schedule to a Schedule in `schedules/`, under `@lp.composite` if it is to count as one
step, with the public names alone. It asks (`s.loops`, `s.loop`, `s.accesses`, `s.reduced`) and takes steps; what cannot be
done raises ScheduleError, so that the caller tries another one. Export it in `schedules/__init__.py`, have `auto` choose it
in `schedules/gpu/auto_gpu.py` or `schedules/cpu/auto_cpu.py` by the structure of the nest, and test it at sizes that its tiles divide, at others, and
at symbolic ones (`tests/support/named_programs.py` has programs).

## Renaming

Names change in commits of their own. `python benchmarks/same_code.py --write FILE` before, and `--against FILE` after,
shows that CUDA C and LLVM IR of some 700 programs are the same text.

## Rules
'''),
    ("CONTRIBUTING.md", "scikit-learn (the digits of the demo), ruff and pyright.",
     "scikit-learn (the digits of the demo), ruff, pyright and radon (complexity: it counts boolean operators,\nwhich ruff's C901 does not)."),
    ("docs/index.md", "- How it is made: {doc}`walk`, then {doc}`CONTRIBUTING <../CONTRIBUTING>`.",
     "- How it is made: {doc}`architecture`, {doc}`walk`, the {doc}`glossary`, then {doc}`CONTRIBUTING <../CONTRIBUTING>`."),
    ("docs/index.md", "\nwalk\nfusion\n", "\narchitecture\nwalk\nglossary\nfusion\n"),
    (".ci/check.py", "    python3 .ci/check.py --here               with the interpreter that runs it, installing nothing\n",
     "    python3 .ci/check.py --here               with the interpreter that runs it, installing nothing\n"
     "    python3 .ci/check.py --here --quick       what ends within a minute: no types, the tests of language and house\n"),
    (".ci/check.py", "SUPPORTED = ", 'QUICK = ("tests/house", "tests/ir", "tests/arith", "tests/interp", "tests/schedule/test_primitives.py")\nSUPPORTED = '),
    (".ci/check.py", '    parser.add_argument("--python")\n', '    parser.add_argument("--quick", action="store_true")\n    parser.add_argument("--python")\n'),
    (".ci/check.py", '        run(python, "-m", "pyright", "--pythonpath", python)\n    run(python, "-m", "pytest", "-n", "2", "--dist", "worksteal", *rest)',
     '        if not options.quick:\n            run(python, "-m", "pyright", "--pythonpath", python)\n'
     '    tests = (*QUICK, *rest) if options.quick else rest\n    run(python, "-m", "pytest", "-n", "2", "--dist", "worksteal", *tests)'),
]  # fmt: skip
