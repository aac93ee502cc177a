"""Build the programs of this folder on the CPU, hold them to float64, and time them beside NumPy and plain C.

python docs/gallery/gallery.py [--threads N] [--write] [NAME ...]

Each program is a module with `program` (an `@lp.func` nest, expressions, or a function of the size that gives these),
`inputs(n, rng)`, `expected(*inputs)` in NumPy, and, where `schedules.auto` is not what it takes, `schedule(s)`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Any

import numpy as np

import loopir as lp
from loopir import schedules

FOLDER = Path(__file__).parent
NAMES = sorted(p.stem for p in FOLDER.glob("*.py") if p.stem != "gallery")
SIZES = {
    "fft": 1024, "k_means": 65536, "spmv": 65536, "rope": 4096, "cross_entropy": 2048, "moe": 512, "n_body": 2048,
    "histogram": 1 << 22,
}  # fmt: skip
"""What the table is of; other programs take 512."""


def load(name: str) -> ModuleType:
    """The module of a program."""
    spec = spec_from_file_location(f"gallery_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def written(module: ModuleType, n: int) -> lp.Schedule:
    """The program without a step."""
    program: Any = module.program
    return lp.Schedule(program(n) if callable(program) and not isinstance(program, lp.Func) else program)


def scheduled(module: ModuleType, n: int) -> lp.Schedule:
    """The Schedule of a program, by its own steps or by `schedules.auto`."""
    s = written(module, n)
    return module.schedule(s) if hasattr(module, "schedule") else schedules.auto(s, "llvm")


def outputs(kernel: Any, arrays: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """What a call gives, or the arrays that it changed in place."""
    given = tuple(a.copy() for a in arrays)
    result = kernel(*given)
    if result is None:
        return tuple(a for a, b in zip(given, arrays, strict=True) if not np.array_equal(a, b)) or given[-1:]
    return result if isinstance(result, tuple) else (result,)


def error(module: ModuleType, arrays: tuple[np.ndarray, ...], got: tuple[np.ndarray, ...]) -> float:
    """The largest distance from NumPy in float64, over the largest number."""
    wide = tuple(a.astype(np.float64) if a.dtype.kind == "f" else a for a in arrays)
    want = module.expected(*wide)
    want = want if isinstance(want, tuple) else (want,)
    assert len(want) == len(got), f"{len(got)} outputs, {len(want)} expected"
    pairs = [(np.asarray(a, np.float64), np.asarray(b, np.float64)) for a, b in zip(got, want, strict=True)]
    assert all(a.shape == b.shape for a, b in pairs), [(a.shape, b.shape) for a, b in pairs]
    return max(float(np.abs(a - b).max() / max(1.0, np.abs(b).max())) for a, b in pairs)


def seconds(call: Any, arrays: tuple[np.ndarray, ...], least: float = 0.2) -> float:
    """The least time of a call on fresh copies, over `least` seconds and three calls."""
    best, spent, calls = float("inf"), 0.0, 0
    while calls < 3 or spent < least:
        given = tuple(a.copy() for a in arrays)
        start = perf_counter()
        call(*given)
        took = perf_counter() - start
        best, spent, calls = min(best, took), spent + took, calls + 1
    return best


def plain_c(module: ModuleType, n: int, arrays: tuple[np.ndarray, ...]) -> Any:
    """The program as it is written, in C for these sizes, by benchmarks/plain_c.py; LookupError where it has none."""
    s = written(module, n)
    given = [a.buffer for a in s.func.args if a.access != "out"]
    pairs: Any = [x for b, a in zip(given, arrays, strict=True) for x in zip(b.shape, a.shape, strict=True)]
    fixed = lp.Schedule(lp.fix_sizes(s.func, {d.name: size for d, size in pairs if hasattr(d, "name")}))
    sys.path.insert(0, str(FOLDER.parent.parent / "benchmarks"))
    call = import_module("plain_c").compiled(fixed)
    buffers: Any = [(a.access == "out", a.buffer) for a in fixed.func.args]
    outs = [np.empty([d.value for d in b.shape], b.dtype.numpy) for out, b in buffers if out]

    def run(*given: np.ndarray) -> tuple[np.ndarray, ...] | None:
        left, made = iter(given), iter(outs)
        call(*(next(made if out else left) for out, _ in buffers))
        return tuple(outs) or None

    return run


def commit() -> str:
    """The commit that this is, as git says."""
    asked = ["git", "-C", str(FOLDER), "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True).stdout.strip() or "no commit"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[], metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="put the table into docs/gallery.md")
    options = parser.parse_args()
    lines = [f"loopir at {commit()}, {lp.describe_target('llvm')}, NumPy {np.__version__}; threads: {options.threads}"]
    print(lines[0])
    lines += [
        f"{'program':20}{'lines':>6}{'n':>9}{'error':>10}{'schedule s':>12}{'ms':>10}"
        f"{'NumPy ms':>10}{'C ms':>10}{'x best':>8}"
    ]
    print(lines[-1])
    for name in options.names or NAMES:
        module, n = load(name), SIZES.get(name, 512)
        start = perf_counter()
        kernel = scheduled(module, n).build("llvm", threads=options.threads)
        took = perf_counter() - start
        arrays = module.inputs(n, np.random.default_rng(0))
        off = error(module, arrays, outputs(kernel, arrays))
        ours, numpy, c = seconds(kernel, arrays), seconds(module.expected, arrays), float("nan")
        with suppress(LookupError):
            plain = plain_c(module, n, arrays)
            assert error(module, arrays, outputs(plain, arrays)) < 1e-4, f"C of {name}"
            c = seconds(plain, arrays)
        length = len((FOLDER / f"{name}.py").read_text().splitlines())
        lines.append(
            f"{name:20}{length:6}{n:9}{off:10.1e}{took:12.2f}{ours * 1e3:10.3f}{numpy * 1e3:10.3f}"
            f"{c * 1e3:10.3f}{min(numpy, c) / ours:8.2f}"
        )
        print(lines[-1], flush=True)
    if options.write:
        page = FOLDER.parent / "gallery.md"
        before, _, after = page.read_text().partition("<!-- table -->")
        after = after.partition("<!-- end of table -->")[2]
        text = "\n".join(lines)
        page.write_text(f"{before}<!-- table -->\n```\n{text}\n```\n<!-- end of table -->{after}")


if __name__ == "__main__":
    main()
