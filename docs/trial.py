"""The README tried as a new user would: a fresh environment, the install, its code in a terminal and in a notebook.

    python docs/trial.py [--pictures]

Prints how long each part took, and fails if one fails, if no refusal is met, or if either way, from the install to the
first explained refusal and its cure, in a terminal or in a notebook, takes over five minutes. With
`--pictures`, the notebook and the page of `s.view()` are photographed by a browser into docs/images. Needs the package
index; notebooks are run by nbclient, which goes into the fresh environment, too.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
LIMIT = 300.0
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
ENDS = "# %%\nlp.Schedule(sweep).parallel('i')\n"
"""A refusal that is met, and not asked for; the last cell of the notebook."""
VIEW = """
import loopir as lp
from loopir import schedules
A, B = (lp.placeholder((1024, 1024), "float32", name=x) for x in "AB")
schedules.auto(lp.Schedule(lp.relu(A @ B)), "cuda").view("view.html")
"""


@contextmanager
def timed(what: str, *routes: list[float]) -> Iterator[None]:
    """Print the seconds of what is inside; they count for each of `routes`."""
    start = time.perf_counter()
    yield
    taken = time.perf_counter() - start
    print(f"{what:44} {taken:6.1f} s", flush=True)
    for route in routes:
        route.append(taken)


def run(*command: str | Path, cwd: Path) -> str:
    """The output of `command`; its words and the end of this program if it fails."""
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def cells() -> str:
    """The README's code as a percent script, a cell a block, shown as a person would."""
    code = "\n# %%\n".join(BLOCK.findall((ROOT / "README.md").read_text()))
    shown = re.sub(r"^print\((.*?)\)( *#.*)?$", r"\1\2\n# %%", code, flags=re.MULTILINE)  # a cell shows its last line
    return f"# %%\n{shown}t\n\n{ENDS}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pictures", action="store_true", help="photograph the notebook and a page, into docs/images")
    wanted = parser.parse_args().pictures
    terminal: list[float] = []
    notebook: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        python = home / "venv" / "bin" / "python"
        with timed("venv, pip install of the checkout", terminal, notebook):
            run(sys.executable, "-m", "venv", "venv", cwd=home)
            run(python, "-m", "pip", "install", "-q", f"{ROOT}[cuda,sass]", cwd=home)
        with timed("python -m loopir doctor", terminal):
            run(python, "-m", "loopir", "doctor", cwd=home)
        with timed("the README in a terminal", terminal):
            code = "\n".join(BLOCK.findall((ROOT / "README.md").read_text()))
            (home / "readme.py").write_text(code)
            told = run(python, "readme.py", cwd=home)
            assert "runs these two the other way round" in told, told
        with timed("pip install nbclient, nbconvert, jupytext", notebook):
            run(python, "-m", "pip", "install", "-q", "nbclient", "nbconvert", "jupytext", "ipykernel", cwd=home)
        with timed("the README in a notebook", notebook):
            (home / "readme.py").write_text(cells())
            run(python, "-m", "jupytext", "--to", "ipynb", "readme.py", cwd=home)
            tool = (python, "-m", "nbconvert", "--to", "html", "--execute", "--allow-errors", "readme.ipynb")
            run(*tool, cwd=home)
            shown = (home / "readme.html").read_text()
            assert "loopir-witness" in shown
            assert re.findall(r"^(\w+Error): ", re.sub(r"<[^>]*>", "", shown), re.MULTILINE) == ["ScheduleError"]
        if wanted:
            run(python, "-c", VIEW, cwd=home)
            photograph(home / "readme.html", "notebook.png", (980, 1680))
            photograph(home / "view.html", "view.png", (1800, 1000), "#k_i_i")
    for where, route in (("terminal", terminal), ("notebook", notebook)):
        print(f"{f'to a refusal and its cure in a {where}':44} {sum(route):6.1f} s")
    if max(sum(terminal), sum(notebook)) > LIMIT:
        sys.exit(f"that is over {LIMIT:.0f} s")


def photograph(page: Path, name: str, size: tuple[int, int], anchor: str = "") -> None:
    """A picture of `page`, so many pixels wide and high, as docs/images/`name`."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        print(f"{name} is left out: there is no browser")
        return
    window = f"--window-size={size[0]},{size[1]}"
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", window)
    run(browser, *options, f"--screenshot={IMAGES / name}", f"{page.as_uri()}{anchor}", cwd=page.parent)


if __name__ == "__main__":
    main()
