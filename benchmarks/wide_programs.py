"""Programs that no table of ours was made for: families that people write, with sizes and dtypes drawn at random.

    python benchmarks/wide_programs.py [--seed 0] [--each 20] [--families pool,chain] [--arch sm_90a,sm_80] [--write]

prints what `schedules.auto` makes of each for one architecture: kernels, predicted microseconds, how far over the floor
(`Program.floor`) that is, bytes that the compiler spills, the fewest blocks of a kernel that has work for many, and
whether tensor cores multiply; then a line for each family. For several architectures it prints a line for each family
and architecture. No GPU and no torch is needed; `gpu_wide.py` measures the same programs beside torch.compile.

`--write` keeps each family's rows in benchmarks/results/wide, so that a family can be renewed alone, and the lines of
all families together in benchmarks/results/wide_programs.txt; those of several architectures, in
benchmarks/results/wide_architectures.txt.
"""

from __future__ import annotations

import argparse
import math
import re
import signal
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tables
import wide_convs
import wide_loops
import wide_memory
import wide_products
from wide_program import FAMILIES, Program, programs

import loopir as lp
from loopir import schedules
from loopir.machines import MACHINES

__all__ = ["FAMILIES", "MODULES", "Program", "late", "programs"]
MODULES = (wide_memory, wide_products, wide_convs, wide_loops)
"""Where the families are: importing these fills FAMILIES."""
GOOD, BAD = 1.5, 3.0
"""How far over the floor 9 of 10 programs are to be at most, and all."""
WORK, BLOCKS = 5.0e-6, 32
"""Seconds from which on a kernel has work for many blocks, and how many it is to have."""
ROWS = tables.RESULTS / "wide"


@dataclass(frozen=True)
class Row:
    """A program as scheduled: kernels, seconds as predicted and at least, bytes spilled, the fewest blocks of a kernel
    that has work for many (0 where none has), and "yes" or "no" where tensor cores are to multiply, else "-"."""

    name: str
    kernels: int
    predicted: float
    floor: float
    spilled: int
    blocks: int
    tensor: str
    took: float

    @property
    def ratio(self) -> float:
        return self.predicted / self.floor

    def __str__(self) -> str:
        times = f"{self.predicted * 1e6:12.1f} {self.floor * 1e6:9.1f} {self.ratio:7.2f}"
        compiled = f"{self.spilled:6} {self.blocks:7} {self.tensor:>6} {self.took:6.1f}"
        return f"{self.name:66} {self.kernels:7} {times} {compiled}"


HEAD = f"{'program':66} kernels predicted us  floor us    over  spill  blocks tensor      s"
SUMMARY = f"{'family':14} programs  median within 1.5   worst  spill few blocks no tensor"


def late(*_: object) -> None:
    raise TimeoutError("no schedule within the limit of time")


def row_of(program: Program, gpu: lp.Machine) -> Row:
    """`program` as `auto` schedules it for `gpu`, compiled."""
    begun = time.perf_counter()
    s = program.schedule()
    floor = program.floor(s, gpu)
    made = schedules.auto(s, "cuda", arch=gpu.arch)
    report = made.report(arch=gpu.arch)
    compiled = lp.compile_source(made, arch=gpu.arch).resources.values()
    spilled = sum(r.spill_stores + r.spill_loads for r in compiled)
    blocks = min((k.work.blocks for k in report.kernels if k.total >= WORK), default=0)
    used = any(k.work.tensor for k in report.kernels)
    tensor = ("yes" if used else "no") if program.on_tensor_cores else "-"
    took = time.perf_counter() - begun
    return Row(program.name, len(report.kernels), report.seconds, floor, spilled, blocks, tensor, took)


def summary(name: str, rows: Sequence[Row | str]) -> str:
    """The line of a family: a program that was refused is infinitely far over the floor."""
    known = [r for r in rows if isinstance(r, Row)]
    ratios = sorted([r.ratio for r in known] + [math.inf] * (len(rows) - len(known)))
    within = sum(x <= GOOD for x in ratios) / len(ratios)
    counts = (sum(r.spilled > 0 for r in known), sum(0 < r.blocks < BLOCKS for r in known),
              sum(r.tensor == "no" for r in known))  # fmt: skip
    line = f"{name:14} {len(ratios):8} {statistics.median(ratios):7.2f} {within:10.0%} {max(ratios):7.2f}"
    return line + f" {counts[0]:6} {counts[1]:10} {counts[2]:9}"


def parsed(line: str) -> Row | str:
    """The row that was printed as `line`; its name where the program was refused."""
    name, rest = line[:66].rstrip(), line[66:].split()
    if len(rest) != 8 or not re.fullmatch(r"\d+", rest[0]):
        return name
    kernels, predicted, floor, _, spilled, blocks, tensor, took = rest
    return Row(name, int(kernels), float(predicted), float(floor), int(spilled), int(blocks), tensor, float(took))


def family_rows(name: str, seed: int, each: int, gpu: lp.Machine, limit: int) -> list[Row | str]:
    """A row for each program of a family; of one that is refused or late, its name and why."""
    rows: list[Row | str] = []
    for program in programs(seed, each, [name]):
        signal.alarm(limit)
        try:
            rows.append(row_of(program, gpu))
        except Exception as error:
            rows.append(f"{program.name:66} {type(error).__name__}: {str(error)[:80]}")
        finally:
            signal.alarm(0)
        print(rows[-1], flush=True)
    return rows


def kept_summary(path: Path) -> str:
    """The line of a family from its record."""
    return summary(path.stem, [parsed(x) for x in path.read_text(encoding="utf-8").splitlines()[2:]])


def one_architecture(names: Sequence[str], asked: argparse.Namespace, gpu: lp.Machine) -> None:
    """All rows of each family, and the lines of all that have a record."""
    for name in names:
        print(HEAD)
        rows = family_rows(name, asked.seed, asked.each, gpu, asked.limit)
        print(SUMMARY, summary(name, rows), sep="\n", flush=True)
        if asked.write:
            ROWS.mkdir(exist_ok=True)
            first = f"commit {tables.commit()}; predicted for {gpu.arch}, seed {asked.seed}, no GPU"
            text = "\n".join([first, HEAD, *map(str, rows)])
            (ROWS / f"{name}.txt").write_text(text + "\n", encoding="utf-8")
    if asked.write:
        record = tables.Record("wide_programs.txt", write=True)
        record(f"predicted for {gpu.arch}, no GPU; rows, seeds and commits in benchmarks/results/wide")
        record(SUMMARY)
        every = [ROWS / f"{name}.txt" for name in FAMILIES]
        for path in every:
            if path.exists():
                record(kept_summary(path))
        lines = [x for path in every if path.exists() for x in path.read_text(encoding="utf-8").splitlines()[2:]]
        record(summary("all", [parsed(x) for x in lines]))
        record.done(None)


def several_architectures(names: Sequence[str], asked: argparse.Namespace, gpus: Sequence[lp.Machine]) -> None:
    """The record of all families on several architectures."""
    found = {
        (gpu.arch, name): family_rows(name, asked.seed, asked.each, gpu, asked.limit) for name in names for gpu in gpus
    }
    record = tables.Record("wide_architectures.txt", asked.write)
    record(f"commit {tables.commit()}; predicted, seed {asked.seed}, {asked.each} programs a family, no GPU")
    for line in architecture_lines(found):
        record(line)
    record.done(None)


def architecture_lines(found: Mapping[tuple[str, str], Sequence[Row | str]]) -> Iterator[str]:
    """A line for each architecture: that all programs build and fit, and how far over the floor they are; one for each
    of its families; and the programs that are refused, spill registers, or leave tensor cores idle."""
    yield f"{'':8} {SUMMARY}"
    for arch in dict.fromkeys(arch for arch, _ in found):
        yield f"{arch:8} {summary('all', [r for key, rows in found.items() if key[0] == arch for r in rows])}"
    for (arch, name), rows in found.items():
        yield f"{arch:8} {summary(name, rows)}"
    yield HEAD
    for (arch, _), rows in found.items():
        for r in rows:
            if isinstance(r, str) or r.spilled or r.tensor == "no":
                yield f"{arch:8} {r}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--each", type=int, default=20, help="programs of every family")
    parser.add_argument("--families", default="", help="only these, separated by commas")
    parser.add_argument("--arch", default="sm_90a", help=f"of {', '.join(MACHINES)}; several by commas")
    parser.add_argument("--limit", type=int, default=120, help="seconds for a program, at most")
    tables.writing(parser)
    asked = parser.parse_args()
    signal.signal(signal.SIGALRM, late)
    names = tables.chosen(asked.families) or list(FAMILIES)
    gpus = [lp.machine(x) for x in tables.chosen(asked.arch)]
    if len(gpus) == 1:
        one_architecture(names, asked, gpus[0])
    else:
        several_architectures(names, asked, gpus)


if __name__ == "__main__":
    main()
