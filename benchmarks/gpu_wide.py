"""Programs that no table of ours was made for, on the GPU beside torch eager and torch.compile, in one run.

    python benchmarks/gpu_wide.py [--seed 0] [--each 2] [--families pool,chain] [--workers 8] [--no-compile] [--write]

The programs are those of wide_programs.py. Several processes build all of them first; then one process after the other
checks its programs against torch in float64 and times them in turns, so that nothing else is on the GPU. Printed:
microseconds of ours, as `Schedule.report` predicts them and as measured, how far measured is over the floor, and how
many times as fast as eager and as torch.compile ours is, and for a program of several kernels predicted/measured of
each; then geometric means per family and in all. `--seed` and `--each` draw other programs, and more.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import multiprocessing
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tables
import wide_programs

ROUNDS = 5
TF32_EPS = 2.0**-10
BYTE_EPS, BYTE_TERMS = 2.0**-13, 32
"""What tensor cores keep of sums of 8-bit floats, which they cut off to at each so many terms."""


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


def results(kernel: Any, given: list[Any], got: Any) -> tuple[Any, ...]:
    """What a call that returned `got` made: the outputs, or the arrays updated in place where it has none."""
    if got is not None:
        return several(got)
    inputs = [a for a in kernel.signature.args if a.access != "out"]
    return tuple(x for a, x in zip(inputs, given, strict=True) if a.access == "inout")


def off(torch: Any, program: wide_programs.Program, got: tuple[Any, ...], given: list[Any]) -> float:
    """The largest difference from torch in float64, of the largest magnitude there, over what the dtype allows.

    At most 1 is right: 32 units in the last place of what is summed, as products and norms of 16-bit floats are rounded
    in between. Sums of 8-bit floats are cut off after some 14 bits, towards zero, as often as there are products in
    one, so half of a unit for each is allowed.
    """
    exact = [x.double() if x.is_floating_point() else x.clone() for x in given]
    if program.family == "integers":
        exact = [x.double() for x in given]
        want: Any = (exact[0] @ exact[1].t()) * exact[2]
    elif program.family == "attention":
        q, k, v = exact
        want = torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v
    else:
        want = program.torch(torch, *exact)
    worst = 0.0
    for ours, theirs in zip(got, several(want), strict=True):
        if tuple(ours.shape) != tuple(theirs.shape) or not torch.isfinite(ours.double()).all():
            return math.inf
        least = torch.finfo(ours.dtype).eps if ours.is_floating_point() else 1e-9
        least = TF32_EPS if program.unit == "tf32" else least
        if program.unit.startswith("float8"):
            least = max(least, BYTE_EPS * program.sides[2] / BYTE_TERMS / 2 / 32)
        scale = float(theirs.double().abs().max().clamp(min=1e-30))
        worst = max(worst, float((ours.double() - theirs.double()).abs().max()) / scale / (32 * least))
    return worst


def drawn(seed: int, each: int, wanted: list[str]) -> list[wide_programs.Program]:
    """The programs, each name once. They hold functions, so every process draws them anew."""
    return list({p.name: p for p in wide_programs.programs(seed, each, wanted)}.values())


def built(torch: Any, program: wide_programs.Program, compiled: bool, limit: int) -> dict[str, Any]:
    """The row of `program` with its kernel and what torch.compile makes of it; with an error where ours is refused."""
    import schedules  # noqa: PLC0415

    row: dict[str, Any] = {"family": program.family, "name": program.name}
    with limited(row, "error", limit):
        s = program.schedule()
        made = schedules.auto(s, "cuda")
        report = made.report()
        row |= {"predicted": report.seconds, "kernels": len(report.kernels), "floor": program.floor(s, report.gpu)}
        row["parts"] = [{"predicted": k.total, "bound": k.bound} for k in report.kernels]
        row["kernel"] = made.build("cuda")
    if compiled and "kernel" in row:
        torch._dynamo.reset()
        torch.set_float32_matmul_precision("high" if program.unit == "tf32" else "highest")
        form = program.compiled or program.torch
        theirs = torch.compile(lambda *xs: form(torch, *xs), dynamic=False)
        with limited(row, "note", limit):
            theirs(*tensors(torch, program))
            row["compile"] = theirs
    torch.cuda.empty_cache()
    return row


@contextlib.contextmanager
def limited(row: dict[str, Any], key: str, seconds: int) -> Iterator[None]:
    """At most so many seconds; what is raised goes into `row`."""
    signal.alarm(seconds)
    try:
        yield
    except Exception as error:  # a program that is refused is a row of the table
        row[key] = f"{type(error).__name__}: {str(error)[:160]}"
    finally:
        signal.alarm(0)


def timed(torch: Any, program: wide_programs.Program, row: dict[str, Any], asked: argparse.Namespace) -> None:
    """Check the kernel of `row` and put its times and its peers' into it."""
    import gpu_timing  # noqa: PLC0415

    kernel, theirs = row.pop("kernel"), row.pop("compile", None)
    torch.set_float32_matmul_precision("high" if program.unit == "tf32" else "highest")
    given = tensors(torch, program)
    updated = [x.clone() for x in given]
    out = kernel(*updated)
    row["off"] = off(torch, program, results(kernel, updated, out), given)
    placed = several(out) if out is not None else None
    runs: dict[str, Callable[[], Any]] = {"ours": lambda: kernel(*updated, out=placed)}
    with limited(row, "note", asked.limit):
        program.torch(torch, *given)
        runs["eager"] = lambda: program.torch(torch, *given)
    if theirs is not None:
        runs["compile"] = lambda: theirs(*given)
    rounds = ROUNDS if program.family != "recurrence" else 1  # eager launches three kernels a step
    row |= gpu_timing.in_turns(runs, rounds)
    if len(row["parts"]) > 1 and not asked.whole:
        with limited(row, "note", asked.limit):
            for part, seconds in zip(row["parts"], by_kernel(torch, runs["ours"], len(row["parts"])), strict=True):
                part["measured"] = seconds


def by_kernel(torch: Any, run: Callable[[], Any], count: int) -> list[float]:
    """Seconds of each of the `count` kernels that `run` launches, of all its launches in a call, in the order in which
    they come first, by the profiler."""
    activities = [torch.profiler.ProfilerActivity.CUDA]
    calls = 5
    with torch.profiler.profile(activities=activities, acc_events=True) as profile:
        for _ in range(calls):
            run()
        torch.cuda.synchronize()
    on_gpu = [e for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    events = sorted((e for e in on_gpu if not e.name.lower().startswith("mem")), key=lambda e: e.time_range.start)
    named: dict[str, list[float]] = {}
    for e in events:
        named.setdefault(e.name, []).append(e.time_range.elapsed_us() * 1e-6)
    if len(named) != count or any(len(times) % calls for times in named.values()):
        raise ValueError(f"{len(named)} kernels were seen {len(events)} times in {calls} calls, not {count} in each")
    return [statistics.median(sums(times, calls)) for times in named.values()]


def sums(times: list[float], calls: int) -> list[float]:
    """Of the `times` of a kernel's launches, one after the other, those of each of so many calls together."""
    each = len(times) // calls
    return [sum(times[n * each : (n + 1) * each]) for n in range(calls)]


def worker(of: tuple[int, int, list[str]], part: slice, asked: argparse.Namespace, pipe: Any) -> None:
    """Build all of `part`, say so, and when asked, time them and send a row after the other, and then None."""
    import torch  # noqa: PLC0415

    torch.backends.cudnn.allow_tf32 = False  # programs here say float32, in which our kernels multiply
    torch.set_num_threads(1)
    programs = drawn(*of)[part]
    signal.signal(signal.SIGALRM, wide_programs.late)
    begun = time.monotonic()
    ready: list[dict[str, Any]] = []
    for program in programs:
        if time.monotonic() - begun < asked.build_seconds:
            ready.append(built(torch, program, not asked.no_compile, asked.limit))
        else:
            ready.append({"family": program.family, "name": program.name, "error": "not built: out of time"})
    pipe.send("built")
    pipe.recv()
    for program, row in zip(programs, ready, strict=True):
        if "kernel" in row:
            try:
                timed(torch, program, row, asked)
            except Exception as error:
                row["error"] = f"{type(error).__name__}: {str(error)[:160]}"
            torch.cuda.empty_cache()
        row.pop("kernel", None)
        pipe.send(row)
    pipe.send(None)


def received(pipe: Any, until: float) -> Any:
    """What comes next, until then; EOFError where nothing does."""
    if not pipe.poll(max(0.0, until - time.monotonic())):
        raise EOFError
    return pipe.recv()


def measured(of: tuple[int, int, list[str]], asked: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for every program, by several processes; those that die, or are late, leave theirs without a time."""
    until = time.monotonic() + asked.seconds
    start = multiprocessing.get_context("spawn")
    programs = drawn(*of)
    running = []
    for k in range(asked.workers):
        every = slice(k, None, asked.workers)
        if programs[every]:
            ours, other = start.Pipe()
            process = start.Process(target=worker, args=(of, every, asked, other))
            process.start()
            other.close()
            running.append((process, ours))
    built_by = time.monotonic() + asked.build_seconds + asked.limit
    found: dict[str, dict[str, Any]] = {}
    for process, pipe in [*running]:
        try:
            received(pipe, min(until, built_by))
        except EOFError:
            process.kill()
            running.remove((process, pipe))
    for process, pipe in running:
        with contextlib.suppress(EOFError):
            pipe.send("go")
            while (row := received(pipe, until)) is not None:
                found[row["name"]] = row
        process.kill()
    missing = "its process died, or ran out of time"
    return [found.get(p.name, {"family": p.family, "name": p.name, "error": missing}) for p in programs]


def mean(rows: list[dict[str, Any]], peer: str) -> str:
    ratios = [row[peer] / row["ours"] for row in rows if peer in row and "ours" in row]
    if not ratios:
        return "-"
    return f"{statistics.geometric_mean(ratios):.2f} (least {min(ratios):.2f}, {len(ratios)})"


def least_ratio(row: dict[str, Any]) -> float:
    """How many times as fast as the faster of eager and torch.compile ours is; less than all where it has no time."""
    return min(row.get("eager", math.inf), row.get("compile", math.inf)) / row["ours"] if "ours" in row else -1.0


def line(row: dict[str, Any]) -> str:
    if "ours" not in row:
        return f"{row['name']:58} {row.get('error', 'no time')}"
    t = row["ours"]
    text = f"{row['name']:58} {row['kernels']:7}"
    text += "".join(f" {x * 1e6:{w}.1f}" for x, w in ((row["predicted"], 9), (t, 9), (row["floor"], 8)))
    eager, theirs = (row.get(peer, math.nan) / t for peer in ("eager", "compile"))
    text += f" {t / row['floor']:7.2f} {eager:8.2f} {theirs:9.2f} {row['off']:7.2f}"
    parts = [f"{p['predicted'] * 1e6:.1f}/{p['measured'] * 1e6:.1f}" for p in row["parts"] if "measured" in p]
    return f"{text}{'' if row['off'] <= 1 else '  WRONG'}  {' '.join(parts)} {row.get('note', '')[:60]}".rstrip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--each", type=int, default=2, help="programs of every family")
    parser.add_argument("--families", default="", help="only these, separated by commas")
    parser.add_argument("--workers", type=int, default=min(8, os.cpu_count() or 1))
    parser.add_argument("--build-seconds", type=float, default=math.inf, help="start no program after so many")
    parser.add_argument("--limit", type=int, default=90, help="seconds for building a program, at most")
    parser.add_argument("--seconds", type=float, default=1e6, help="time no program after so many")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--whole", action="store_true", help="leave the times of single kernels out")
    parser.add_argument("--json", default="", help="write the rows to this file")
    tables.writing(parser)
    asked = parser.parse_args()
    rows = measured((asked.seed, asked.each, tables.chosen(asked.families)), asked)
    if asked.json:
        Path(asked.json).write_text(json.dumps(rows, indent=1))
    import gpu_timing  # noqa: PLC0415

    record = gpu_timing.record("gpu_wide.txt", asked.write)
    record(f"seed {asked.seed}, {asked.each} programs of every family; worst beside the faster of both first")
    heads = ("program", "kernels", "predicted", "measured", "floor", "x floor", "x eager", "x compile", "error")
    record("{:58} {:>7} {:>9} {:>9} {:>8} {:>7} {:>8} {:>9} {:>7}".format(*heads))
    for row in sorted(rows, key=least_ratio):
        record(line(row))
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
    record.done(None)
    if any(row.get("off", 0.0) > 1 for row in rows):
        sys.exit("wrong results: see above")


if __name__ == "__main__":
    main()
