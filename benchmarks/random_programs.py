"""Hunt for programs that `schedules.auto` makes wrong, refuses, or slow for the way in which they are written.

    python benchmarks/random_programs.py [--count 400] [--seed 0] [--rows check,forms] [--seconds N] [--jobs 2]

"check" draws programs of many operations, types, ranks and sizes (`tests/support/drawn_programs.py`). For both targets
each is scheduled, lowered and interpreted over an exact ring, with threads in any order, where races and waits are
checked, and has to give what the naive program gives; for the CPU it is built and called, and compared with NumPy in
float64; for an H200 it is predicted, and one in eight is compiled by NVRTC, where that is installed. "forms" draws
programs of the sizes of workloads, and predicts each in forms that differ in what should cost nothing: names, views, a
cheap step, a cast, a row more. None may be over 1.3 times the plain one, or be refused. What fails is named by its
seed. `--seconds` ends the hunt early.
"""

from __future__ import annotations

import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

import numpy as np
import tables
from drawn_programs import FORMS, Program, drawn

import loopir as lp
import schedules

ARCH: dict[str, str | None] = {"llvm": None, "cuda": "sm_90a"}
EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
ROUNDINGS = 64.0
"""So many roundings of the largest number may add up in a result."""
MOST = 1.3
"""How much longer a form may take than the plain one."""
LIMIT = 60.0
"""Seconds of the processor for one target of one program."""
SLOW_PLAN = 10.0
"""Seconds that `auto` may take for one of these programs."""
COMPILED = 8
"""One program in so many is compiled for a GPU."""


class Late(Exception):
    """A program took longer than LIMIT."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """End what is inside by Late after so many seconds of the processor."""

    def late(*_: object) -> None:
        raise Late

    signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def ring(func: Any, arrays: dict[str, Any], sizes: dict[str, int], seed: int) -> list[Any]:
    return list(lp.interpret(func, arrays, sizes, domain="ring", seed=seed).values())


def ring_arrays(s: lp.Schedule, given: dict[str, Any]) -> dict[str, Any]:
    """Elements of the ring in place of the floats in `given`."""
    rng = np.random.default_rng(1)
    floats = {a.buffer.name for a in s.func.args if a.buffer.dtype.is_float}
    return {k: rng.integers(0, 1 << 32, x.shape, np.uint32) if k in floats else x for k, x in given.items()}


def unlike(want: list[Any], got: list[Any]) -> str | None:
    for n, (one, other) in enumerate(zip(want, got, strict=False)):
        if not np.array_equal(one, other):
            return f"output {n} differs in {int((one != other).sum())} of {one.size} elements"
    return None


def types_of(s: lp.Schedule) -> set[str]:
    return {name for name in EPS if name in str(s)}


def far(p: Program, s: lp.Schedule, got: list[Any]) -> str | None:
    """What is further from NumPy's numbers than roundings explain."""
    with np.errstate(all="ignore"):
        scale = max((float(np.abs(v.array()).max()) for v in (*p.values, *p.outputs) if v.array().size), default=1.0)
    types = types_of(s)
    if not np.isfinite(scale) or (scale > 3e4 and "float16" in types):
        return None
    bound = ROUNDINGS * max((EPS[t] for t in types), default=0.0) * max(1.0, scale)
    for n, (v, x) in enumerate(zip(p.outputs, got, strict=True)):
        one, other = v.array(), np.asarray(x, np.float64)
        if one.shape != other.shape:
            return f"output {n} has shape {other.shape}, not {one.shape}"
        if one.size and not float(np.abs(one - other).max()) <= bound:
            return f"output {n} is {float(np.abs(one - other).max()):.3g} off, and {bound:.3g} is allowed"
    return None


Outcome = tuple[str, str, float]
"""What came of a program: "right", or a kind of failure; what was said; the seconds that `auto` took."""


def checked(seed: int, target: str, end: float) -> Outcome:
    """What came of a program on a target."""
    step, took = "draw", 0.0
    try:
        with limited(LIMIT):
            p = drawn(seed)
            s = lp.Schedule([v.tensor for v in p.outputs])
            used = [a.buffer.name for a in s.func.args if a.access != "out"]
            given = {k: p.inputs[k]() for k in used}
            wide = ring_arrays(s, given)
            step = "naive"
            want = ring(s.func, wide, p.sizes, 0)
            step, begun = "auto", time.process_time()
            made = schedules.auto(s, target, arch=ARCH[target])
            took = time.process_time() - begun
            step = "lower"
            (lowered,) = lp.lower(made, target)
            step = "interpret"
            if "@monoid" in str(s):  # of one that a program declares, numbers alone are right, and not the ring
                exact = lp.interpret(lowered, given, p.sizes, seed=seed % 5)
                said = far(p, s, list(exact.values())[: len(want)])
                if said is not None:
                    return "wrong", f"lowered: {said}", took
            elif (said := unlike(want, ring(lowered, wide, p.sizes, seed % 5))) is not None:
                if unlike(want, ring(made.func, wide, p.sizes, 0)) is None:
                    return "wrong", f"lowered: {said}", took
                return "wrong", f"scheduled: {said}", took
            if target == "llvm":
                step = "build"
                kernel = made.build("llvm", threads=2)
                step = "call"
                found = kernel(*(given[k] for k in used))
                got = list(found) if isinstance(found, tuple) else [found]
                if (said := far(p, s, got)) is not None:
                    naive = far(p, s, list(lp.interpret(s.func, given, p.sizes).values()))
                    return ("wrong" if naive is None else "rounding"), f"{said}; interpreted: {naive}", took
            else:
                step = "predict"
                lp.predict(made, "cuda", arch=ARCH[target])
                if seed % COMPILED == 0:
                    step = "compile"
                    lp.compile_source(made, arch=ARCH["cuda"] or "")
            return ("slow plan", f"auto took {took:.1f} s", took) if took > SLOW_PLAN else ("right", "", took)
    except Late:
        return "late", f"in {step}", took
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        at = traceback.extract_tb(error.__traceback__)[-1]
        return "raised", f"in {step}: {type(error).__name__}: {first:.200} ({Path(at.filename).name}:{at.lineno})", took


def compared(seed: int, target: str, end: float) -> Outcome:
    """The forms of a program that are predicted to take longer than the plain one, or are refused."""
    plain, bad, longest = 0.0, list[str](), 0.0
    for form in FORMS:
        if 0.0 < end < time.time():
            break
        begun = time.process_time()
        try:
            with limited(LIMIT / 2):
                p = drawn(seed, large=True, form=form)
                s = lp.Schedule([v.tensor for v in p.outputs])
                made = schedules.auto(s, target, arch=ARCH[target])
                seconds = lp.predict(made, target, arch=ARCH[target], threads=None if target == "cuda" else 1).seconds
        except Late:
            bad.append(f"{form}: late")
            if form == "plain":
                return "late", "plain", LIMIT / 2
            continue
        except Exception as error:
            bad.append(f"{form}: {type(error).__name__}: {(str(error).splitlines() or [''])[0]:.150}")
            continue
        longest = max(longest, time.process_time() - begun)
        if form == "plain":
            plain = seconds
        elif plain and seconds > MOST * plain:
            bad.append(f"{form}: {seconds / plain:.2f} x of {plain * 1e6:.1f} us")
    said = " ".join(drawn(seed, large=True).operations)
    if not bad:
        return "right", "", longest
    return "dearer" if all(" x " in b for b in bad) else "raised", f"{'; '.join(bad)}; of {said}", longest


HUNTS = {"check": checked, "forms": compared}


def one(hunt: str, seed: int, target: str, end: float) -> Outcome:
    return HUNTS[hunt](seed, target, end) if not end or time.time() < end else ("", "", 0.0)


def main() -> int:
    parser = tables.options(__doc__)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--seconds", type=float, default=0.0, help="begin no program after so many; 0 for all")
    parser.add_argument("--targets", default="llvm,cuda")
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    record = tables.Record("random_programs.txt", asked.write)
    end = time.time() + asked.seconds if asked.seconds else 0.0
    hunts = [h for h in HUNTS if h in (tables.chosen(asked.rows) or HUNTS)]
    seeds = range(asked.seed, asked.seed + asked.count)
    todo = [(h, n, t, end) for n in seeds for h in hunts for t in asked.targets.split(",")]
    counts: dict[tuple[str, str], Counter[str]] = {}
    seconds: dict[tuple[str, str], list[float]] = {}
    with ProcessPoolExecutor(asked.jobs) as pool:
        for (hunt, seed, target, _), (kind, said, took) in zip(
            todo, pool.map(one, *zip(*todo, strict=True), chunksize=2), strict=True
        ):
            if kind:
                counts.setdefault((hunt, target), Counter())[kind] += 1
                seconds.setdefault((hunt, target), []).append(took)
            if kind not in ("", "right"):
                record(f"{hunt} {target} seed {seed}: {kind}: {said}")
    record(f"commit {tables.commit()}, seeds from {asked.seed} on")
    for (hunt, target), found in counts.items():
        others = "; ".join(f"{k} {n}" for k, n in sorted(found.items()))
        took = sorted(seconds[hunt, target])
        middle, most = took[len(took) // 2], took[-1]
        record(f"{hunt} {target}: {found.total()} programs; {others}; auto took {middle:.2f} s, {most:.1f} s at most")
    record.done(None)
    return int(any(set(found) - {"right", "rounding"} for found in counts.values()))


if __name__ == "__main__":
    sys.exit(main())
