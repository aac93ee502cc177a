"""The GPU suite and the demo on this machine's GPU, as a record: machine, commit, what passed, the demo's figures.

python benchmarks/gpu_suite.py [--write]
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import tables

import loopir as lp

ROOT = Path(__file__).resolve().parent.parent
SHOWN = ("loopir", "accuracy", "ok ", "FAIL", "digits;", "passed")


def ran(record: tables.Record, which: str, *options: str) -> int:
    """Run the tests marked so, record what they printed, and give pytest's exit status."""
    suite = [sys.executable, "-m", "pytest", "-m", which, "-p", "no:cacheprovider", *options, "tests/gpu"]
    tests = subprocess.run(suite, cwd=ROOT, capture_output=True, text=True)
    record(tests.stdout.strip())
    return tests.returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    tables.writing(parser)
    record = tables.Record("gpu_suite.txt", parser.parse_args().write)
    record(f"commit {tables.commit()}; {lp.describe_target('cuda')}; Python {platform.python_version()}")
    several = ["-n", str(min(14, os.cpu_count() or 1)), "-p", "no:benchmark"] if find_spec("xdist") else []
    failed = ran(record, "gpu and not alone", *several) + ran(record, "gpu and alone")
    demo = subprocess.run(
        [sys.executable, "-m", "loopir", "demo", "--target", "cuda"], cwd=ROOT, capture_output=True, text=True
    )
    lines = demo.stdout.split("\n")
    record("\n".join(line for line in lines if any(word in line for word in SHOWN) and "def " not in line))
    record.done(None)
    print(demo.stderr, end="")
    return failed or demo.returncode


if __name__ == "__main__":
    sys.exit(main())
