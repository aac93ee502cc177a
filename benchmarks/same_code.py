"""Whether two trees make the same code: CUDA C and LLVM IR of some 750 programs, as digests in a file.

    python benchmarks/same_code.py --write before.json      # in the one tree
    python benchmarks/same_code.py --against before.json    # in the other

For commits that are to change names and nothing else. The programs are the suite's named ones, the memory-bound rows of
the benchmarks, products with what is fused to them, convolutions, kernels of all forms with tensor cores, and random
nests; each on both targets, at constant sizes and, where it has such, at symbolic ones, as `schedules.auto` or its own
schedule has it. Random nests are drawn when a file is written and read from it as text when it is compared with, so
that generators may change in between. A program that is refused counts by the kind of its error. `--keep FOLDER` puts
the code itself there, for `diff -r`; `--rows` takes words of which a name is to hold one. No GPU is needed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support"), str(ROOT / "benchmarks")]

import convolutions  # noqa: E402
import memory_rows  # noqa: E402
import named_programs  # noqa: E402
import products  # noqa: E402
import sanitizer_rows  # noqa: E402
from hypothesis import HealthCheck, Phase, given, seed, settings, strategies as st  # noqa: E402

import loopir as lp  # noqa: E402
import schedules  # noqa: E402
from loopir.codegen.cuda.emit import emit as emit_cuda  # noqa: E402
from loopir.codegen.llvm.emit import emit as emit_llvm  # noqa: E402

ARCH = "sm_90a"
TARGETS = ("cuda", "llvm")
RANDOM = 80
"""Random nests, each under a random schedule."""
Make = Callable[[], lp.Schedule]


def auto(make: Make, target: str) -> Make:
    return lambda: schedules.auto(make(), target, **({"arch": ARCH} if target == "cuda" else {}))


def programs(nests: dict[str, str]) -> Iterator[tuple[str, str, Make]]:
    """Names, targets, and what makes the Schedule; `nests` are random ones, as text."""
    for name, p in named_programs.PROGRAMS.items():
        for how, sizes in (("constant", p.fits), ("odd", p.odd), ("symbolic", ())):
            yield f"{name}, {how}", "cuda", lambda p=p, sizes=sizes: p.gpu(p.schedule(*sizes))
            yield f"{name}, {how}", "llvm", lambda p=p, sizes=sizes: p.cpu(p.schedule(*sizes))
    seen: set[tuple[str, str]] = set()
    for row in memory_rows.rows():
        ways = [("", False)]
        if (row.kernel, row.dtype) not in seen:
            seen.add((row.kernel, row.dtype))
            ways.append((", symbolic", True))
        for how, symbolic in ways:
            for target in TARGETS:
                yield row.name + how, target, auto(lambda row=row, x=symbolic: row.ours(symbolic=x), target)
    symbols = tuple(map(lp.symbol, "mnk"))
    for case in products.CASES:
        for how, sizes in (("512", (512, 512, 512)), ("odd", (129, 67, 101)), ("symbolic", symbols)):
            for target in TARGETS if how != "odd" else ("cuda",):
                make = auto(lambda case=case, sizes=sizes: products.schedule(case, *sizes), target)
                yield f"product, {case.name}, {how}", target, make
    for conv in convolutions.CONVS:
        for target in TARGETS:
            yield f"convolution, {conv.name}", target, auto(conv.schedule, target)
    for case in sanitizer_rows.cases():
        yield f"kernel, {case.name}", "cuda", case.make
    for name, source in nests.items():
        for target in TARGETS:
            yield name, target, lambda source=source: lp.Schedule(lp.parse(source))


def random_nests() -> dict[str, str]:
    """Random programs under random schedules, as text."""
    found: list[str] = []

    @seed(20)
    @settings(database=None, deadline=None, max_examples=RANDOM, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(st.data())
    def draw(data: st.DataObject) -> None:
        func = data.draw(lp.testing.funcs())
        found.append(lp.text(data.draw(lp.testing.schedules(func)).func))

    draw()
    return {f"random {n}": source for n, source in enumerate(found)}


def code(make: Make, target: str) -> str:
    """The code of a program; of one that is refused, the kind of error."""
    try:
        (lowered,) = lp.lower(make(), target)
        return (emit_cuda(lowered) if target == "cuda" else emit_llvm(lowered, fma=True)).source
    except (lp.LoopirError, ValueError, TypeError, NotImplementedError) as error:
        return f"{type(error).__name__}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", metavar="FILE", type=Path)
    parser.add_argument("--against", metavar="FILE", type=Path)
    parser.add_argument("--keep", metavar="FOLDER", type=Path)
    parser.add_argument("--rows", default="")
    options = parser.parse_args()
    before: dict[str, Any] = json.loads(options.against.read_text()) if options.against else {}
    nests: dict[str, str] = before["nests"] if before else random_nests()
    words, digests, begin = options.rows.split(","), dict[str, str](), time.process_time()
    for name, target, make in programs(nests):
        if any(word in name for word in words):
            source = code(make, target)
            where = f"{name}: {target}"
            assert where not in digests, where
            digests[where] = hashlib.sha256(source.encode()).hexdigest()[:16] + (
                "" if "\n" in source[:-1] else f" {source.strip()}"
            )
            if options.keep:
                options.keep.mkdir(parents=True, exist_ok=True)
                (options.keep / where.replace("/", "_")).write_text(source)
    refused = sum(" " in d for d in digests.values())
    print(f"{len(digests)} programs, {refused} of them refused, in {time.process_time() - begin:.0f} s")
    if options.write:
        options.write.write_text(json.dumps({"digests": digests, "nests": nests}, indent=1) + "\n")
    if not before:
        return 0
    old: dict[str, str] = before["digests"]
    compared = digests if options.rows else digests | dict.fromkeys(old, "")
    other = [where for where in compared if old.get(where) != digests.get(where)]
    for where in other:
        print(f"  {where}: {old.get(where, 'not there')} before, {digests.get(where, 'not there')} now")
    print(f"{len(other)} differ" if other else "all have the same code")
    return bool(other)


if __name__ == "__main__":
    sys.exit(main())
