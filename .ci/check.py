"""The one check: a virtual environment, the package with its test extra, then ruff, pyright and pytest.

    python3 .ci/check.py                      everything, in .venv of this checkout
    python3 .ci/check.py --here               with the interpreter that runs it, installing nothing
    python3 .ci/check.py --here --quick       what ends within a minute: no types, the tests of language and house
    python3 .ci/check.py --lowest             the tests, with the lowest versions that pyproject.toml allows
    python3 .ci/check.py --newest             the tests, with the newest releases, whatever bound stands above them
    python3 .ci/check.py --python python3.13  with another interpreter, by name or path; also with the two before

Each but the first two has an environment of its own, such as .venv-3.13-lowest. Further arguments go to pytest. The
tutorials are run by the tests. Compiled Python is kept between the processes that these start, and a worker of pytest's
stays with a file: what its tests share is made once.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
QUICK = ("tests/house", "tests/ir", "tests/arith", "tests/interp", "tests/schedule/test_primitives.py")
SUPPORTED = ((3, 11), (3, 14))
REQUIREMENT = re.compile(r"([\w.-]+)(?:\[.*?\])?\s*>=\s*([\d.]+)(?:\s*,.*)?")


def run(*command: str | Path) -> None:
    """Run `command` in the checkout; stop with its exit status if it fails."""
    print("$", *command, flush=True)
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    status = subprocess.run([str(c) for c in command], cwd=ROOT, env=kept, stdin=subprocess.DEVNULL).returncode
    if status:
        sys.exit(status)


def version(interpreter: str) -> tuple[int, int]:
    """The first two numbers of a Python's version; the end of this program if loopir does not run on it."""
    ask = "import sys; print(*sys.version_info[:2])"
    try:
        told = subprocess.run([interpreter, "-c", ask], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"{interpreter} does not run: {error}")
    major, minor = map(int, told.split())
    if not SUPPORTED[0] <= (major, minor) < SUPPORTED[1]:
        sys.exit(f"loopir runs on Python 3.11 to 3.13; {interpreter} is {major}.{minor}")
    return major, minor


def lowest() -> Iterator[tuple[str, str]]:
    """Each package that pyproject.toml asks for with the lowest version that it allows, where it tells one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for requirements in (project["dependencies"], *project["optional-dependencies"].values()):
        for requirement in requirements:
            if found := REQUIREMENT.fullmatch(requirement):
                yield found[1], found[2]


def environment(interpreter: str | None, versions: str) -> Path:
    """The python of a virtual environment of this checkout, with loopir and its test extra in it."""
    numbers = version(interpreter or sys.executable)
    named = interpreter is not None or versions
    home = ROOT / ("-".join(filter(None, (".venv", "{}.{}".format(*numbers), versions))) if named else ".venv")
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        run(interpreter or sys.executable, "-m", "venv", home)
    install = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    constraints = ()
    if versions == "lowest":
        file = home / "lowest.txt"
        file.write_text("".join(f"{name}=={number}\n" for name, number in dict(lowest()).items()))
        constraints = ("--only-binary", ":all:", "--constraint", file)
    run(*install, *constraints, "--editable", ".[test]")
    if versions == "newest":
        run(*install, "--upgrade", *dict(lowest()))
    return python


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--here", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--python")
    parser.add_argument("--lowest", dest="versions", action="store_const", const="lowest", default="")
    parser.add_argument("--newest", dest="versions", action="store_const", const="newest")
    options, rest = parser.parse_known_args(arguments)
    python = Path(sys.executable) if options.here else environment(options.python, options.versions)
    if not options.versions:  # other versions of ruff and pyright ask for other things
        run(python, "-m", "ruff", "check", ".")
        run(python, "-m", "ruff", "format", "--check", ".")
        if not options.quick:
            run(python, "-m", "pyright", "--pythonpath", python)
    tests = (*QUICK, *rest) if options.quick else rest
    run(python, "-m", "pytest", "-n", "2", "--dist", "worksteal", *tests)


if __name__ == "__main__":
    main(sys.argv[1:])
