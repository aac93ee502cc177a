"""Programs that no table of ours was made for, on the GPU beside torch eager and torch.compile, in one run.

    python benchmarks/gpu_wide.py [--seed 0] [--each 2] [--families pool,conv] [--workers 8] [--no-compile] [--write]

The programs are those of wide_programs.py. Several processes build all of them first; then one process after the other
checks its programs against torch in float64 and times them in turns, so that nothing else is on the GPU. Printed:
microseconds of ours, as `Schedule.report` predicts them and as measured, how far measured is over the floor, and how
many times as fast as eager and as torch.compile ours is; per family and in all the geometric means, and the worst ten.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import signal
import statistics
import sys
from pathlib import Path
from typing import Any

import tables
import wide_programs

ROUNDS = 5
LIMIT = 90
"""Seconds for building a program."""


def tensors(torch: Any, program: wide_programs.Program) -> list[Any]:
    """Random inputs: reals from a normal distribution, whole numbers from their range."""
    made = []
    for x in program.inputs:
        dtype = getattr(torch, x.dtype)
        if x.high:
            made.append(torch.randint(x.low, x.high, x.shape, device="cuda").to(dtype))
        else:
            made.append(torch.randn(x.shape, device="cuda").to(dtype))
    return made


def several(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


def off(torch: Any, program: wide_programs.Program, got: Any, given: list[Any]) -> float:
    """The largest difference from torch in float64, of the largest magnitude there, over what the dtype allows.

    At most 1 is right: 32 units in the last place of what is summed, as products and norms of 16-bit floats are rounded
    in between.
    """
    exact = [x.double() if x.is_floating_point() else x for x in given]
    if program.family == "integers":
        exact = [x.double() for x in given]
        want: Any = (exact[0] @ exact[1].t()) * exact[2]
    elif program.family == "attention":
        q, k, v = exact
        want = torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v
    else:
        want = program.torch(torch, *exact)
    worst = 0.0
    for ours, theirs in zip(several(got), several(want), strict=True):
        if tuple(ours.shape) != tuple(theirs.shape) or not torch.isfinite(ours.double()).all():
            return math.inf
        least = torch.finfo(ours.dtype).eps if ours.is_floating_point() else 1e-9
        scale = float(theirs.double().abs().max().clamp(min=1e-30))
        worst = max(worst, float((ours.double() - theirs.double()).abs().max()) / scale / (32 * least))
    return worst


def drawn(seed: int, each: int, wanted: list[str]) -> list[wide_programs.Program]:
    """The programs, each name once. They hold functions, so every process draws them anew."""
    return list({p.name: p for p in wide_programs.programs(seed, each, wanted)}.values())


def worker(of: tuple[int, int, list[str]], part: slice, compiled: bool, pipe: Any) -> None:
    """Build all of `part`, say so, and time when told."""
    import gpu_timing  # noqa: PLC0415
    import torch  # noqa: PLC0415

    import schedules  # noqa: PLC0415

    programs = drawn(*of)[part]
    signal.signal(signal.SIGALRM, wide_programs.late)
    ready: list[dict[str, Any]] = []
    for program in programs:
        row: dict[str, Any] = {"family": program.family, "name": program.name}
        ready.append(row)
        signal.alarm(LIMIT)
        try:
            s = program.schedule()
            made = schedules.auto(s, "cuda")
            report = made.report()
            row |= {"predicted": report.seconds, "kernels": len(report.kernels)}
            row["floor"] = program.floor(s, report.gpu)
            row["kernel"] = made.build("cuda")
        except Exception as error:  # a program that is refused is a row of the table
            row["error"] = f"{type(error).__name__}: {str(error)[:160]}"
        finally:
            signal.alarm(0)
        if compiled and "error" not in row:
            torch._dynamo.reset()
            theirs = torch.compile(lambda *xs, p=program: p.torch(torch, *xs), dynamic=False)
            try:
                theirs(*tensors(torch, program))
                row["compile"] = theirs
            except Exception as error:
                row["note"] = f"torch.compile: {type(error).__name__}"
        torch.cuda.empty_cache()
    pipe.send("built")
    pipe.recv()
    for program, row in zip(programs, ready, strict=True):
        kernel, theirs = row.pop("kernel", None), row.pop("compile", None)
        if kernel is None:
            continue
        try:
            given = tensors(torch, program)
            out = several(kernel(*given))
            row["off"] = off(torch, program, out, given)
            runs = {
                "ours": lambda kernel=kernel, given=given, out=out: kernel(*given, out=out),
                "eager": lambda program=program, given=given: program.torch(torch, *given),
            }
            if theirs is not None:
                runs["compile"] = lambda theirs=theirs, given=given: theirs(*given)
            row |= gpu_timing.in_turns(runs, ROUNDS)
        except Exception as error:
            row["error"] = f"{type(error).__name__}: {str(error)[:160]}"
        given = out = None
        torch.cuda.empty_cache()
    pipe.send(ready)


def measured(of: tuple[int, int, list[str]], workers: int, compiled: bool) -> list[dict[str, Any]]:
    """A row for every program, by so many processes; those that die leave theirs without a time."""
    start = multiprocessing.get_context("spawn")
    programs = drawn(*of)
    running = []
    for k in range(workers):
        every = slice(k, None, workers)
        if part := programs[every]:
            ours, other = start.Pipe()
            process = start.Process(target=worker, args=(of, every, compiled, other))
            process.start()
            other.close()
            running.append((part, process, ours))
    rows: list[dict[str, Any]] = []
    for part, process, pipe in [*running]:
        try:
            pipe.recv()
        except EOFError:
            rows += [{"family": p.family, "name": p.name, "error": "the process died"} for p in part]
            running.remove((part, process, pipe))
    for part, process, pipe in running:
        pipe.send("go")
        try:
            rows += pipe.recv()
        except EOFError:
            rows += [{"family": p.family, "name": p.name, "error": "the process died"} for p in part]
        process.join()
    order = {p.name: k for k, p in enumerate(programs)}
    return sorted(rows, key=lambda row: order[row["name"]])


def mean(rows: list[dict[str, Any]], peer: str) -> str:
    ratios = [row[peer] / row["ours"] for row in rows if peer in row and "ours" in row]
    if not ratios:
        return "-"
    return f"{statistics.geometric_mean(ratios):.2f} (least {min(ratios):.2f}, {len(ratios)})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--each", type=int, default=2, help="programs of every family")
    parser.add_argument("--families", default="", help="only families whose name holds one of these")
    parser.add_argument("--workers", type=int, default=min(8, os.cpu_count() or 1))
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--json", default="", help="write the rows to this file")
    tables.writing(parser)
    asked = parser.parse_args()
    wanted = [w for w in asked.families.split(",") if w]
    rows = measured((asked.seed, asked.each, wanted), asked.workers, not asked.no_compile)
    import gpu_timing  # noqa: PLC0415

    record = gpu_timing.record("gpu_wide.txt", asked.write)
    heads = ("program", "kernels", "predicted", "measured", "floor", "x floor", "x eager", "x compile", "error")
    record("{:58} {:>7} {:>9} {:>9} {:>8} {:>7} {:>8} {:>9} {:>7}".format(*heads))
    for row in rows:
        if "ours" not in row:
            record(f"{row['name']:58} {row.get('error', 'no time')}")
            continue
        t = row["ours"]
        eager, theirs = row["eager"] / t, row.get("compile", math.nan) / t
        line = f"{row['name']:58} {row['kernels']:7}"
        line += "".join(f" {x * 1e6:{w}.1f}" for x, w in ((row["predicted"], 9), (t, 9), (row["floor"], 8)))
        wrong = "" if row["off"] <= 1 else "  WRONG"
        record(f"{line} {t / row['floor']:7.2f} {eager:8.2f} {theirs:9.2f} {row['off']:7.2f}{wrong}")
    record("")
    for family in wide_programs.FAMILIES:
        chosen = [row for row in rows if row["family"] == family]
        if chosen:
            record(f"{family:16} x eager {mean(chosen, 'eager'):28} x compile {mean(chosen, 'compile')}")
    record(f"{'all':16} x eager {mean(rows, 'eager'):28} x compile {mean(rows, 'compile')}")
    errors = [row["predicted"] / row["ours"] - 1 for row in rows if "ours" in row]
    if errors:
        within = sum(-0.25 <= e <= 0.25 for e in errors)
        record(f"predicted within 25 %: {within} of {len(errors)}; median {statistics.median(map(abs, errors)):.0%}")
    worst = sorted((row for row in rows if "compile" in row and "ours" in row), key=lambda r: r["compile"] / r["ours"])
    for row in worst[:10]:
        record(f"worst: {row['compile'] / row['ours']:6.3f} x compile  {row['name']}")
    if asked.json:
        Path(asked.json).write_text(json.dumps(rows, indent=1))
    record.done(None)
    if any(row.get("off", 0.0) > 1 for row in rows):
        sys.exit("wrong results: see above")


if __name__ == "__main__":
    main()
