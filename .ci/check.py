"""The one check: a virtual environment, the package with its test extra, then ruff, pyright and pytest.

    python3 .ci/check.py            everything, in .venv of this checkout
    python3 .ci/check.py --here     with the interpreter that runs it, installing nothing

Further arguments go to pytest. The tutorials are run by the tests. Compiled Python is kept between the processes that
these start, and a worker of pytest's stays with a file: what its tests share is made once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUPPORTED = ((3, 11), (3, 14))


def run(*command: str | Path) -> None:
    """Run `command` in the checkout; stop with its exit status if it fails."""
    print("$", *command, flush=True)
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    status = subprocess.run([str(c) for c in command], cwd=ROOT, env=kept, stdin=subprocess.DEVNULL).returncode
    if status:
        sys.exit(status)


def environment() -> Path:
    """The python of this checkout's own virtual environment, with loopir and its test extra in it."""
    if not SUPPORTED[0] <= sys.version_info[:2] < SUPPORTED[1]:
        sys.exit(f"loopir runs on Python 3.11 to 3.13; this is {sys.version.split()[0]}")
    home = ROOT / ".venv"
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        venv.create(home, with_pip=True)
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--editable", ".[test]")
    return python


def main(arguments: list[str]) -> None:
    here = "--here" in arguments
    python = Path(sys.executable) if here else environment()
    run(python, "-m", "ruff", "check", ".")
    run(python, "-m", "ruff", "format", "--check", ".")
    run(python, "-m", "pyright", "--pythonpath", python)
    run(python, "-m", "pytest", "-n", "2", "--dist", "worksteal", *[a for a in arguments if a != "--here"])


if __name__ == "__main__":
    main(sys.argv[1:])
