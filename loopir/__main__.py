"""The command line: `python -m loopir demo | doctor | show FILE | view FILE | bench | cache | tune`."""

from __future__ import annotations

import argparse
import sys
from importlib import util
from pathlib import Path

import loopir as lp
from loopir.errors import TargetError
from loopir.loading import load


def loaded(path: str) -> lp.Schedule | int:
    """The Schedule in `path`: IR text, or a Python file whose `s` is one; else an exit status, after saying why."""
    file = Path(path)
    try:
        source = file.read_text()
    except OSError as error:
        print(f"{path} cannot be read: {error.strerror}", file=sys.stderr)
        return 2
    try:
        return lp.Schedule(lp.parse(source))
    except lp.ParseError as not_text:
        spec = util.spec_from_file_location(file.stem, file)
        if file.suffix != ".py" or spec is None or spec.loader is None:
            print(not_text, file=sys.stderr)
            return 1
        module = util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found = getattr(module, "s", None)
        if not isinstance(found, lp.Schedule):
            print(f"{path} is no nest and defines no Schedule called s", file=sys.stderr)
            return 1
        return found


def show(path: str) -> int:
    """Print the nest in `path`."""
    schedule = loaded(path)
    if isinstance(schedule, int):
        return schedule
    schedule.show()
    return 0


def view(path: str, target: str, out: str | None) -> int:
    """Write the nest in `path` beside its code as a page, and print where."""
    schedule = loaded(path)
    if isinstance(schedule, int):
        return schedule
    try:
        print(schedule.view(out, target))
    except lp.LoopirError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def benched(target: str, size: int, rows: str) -> int:
    """Print the table of `bench`."""
    if size < 1:
        print(f"matrices of {size} rows have nothing to compute; --size is at least 1", file=sys.stderr)
        return 2
    return load("loopir.cli.bench").main(target, size, rows)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m loopir", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("demo", help="the main job on real input, every result checked")
    run.add_argument("--target", choices=("auto", "cuda", "llvm", "interpret"), default="auto")
    run.add_argument("--elements", type=int, default=1 << 24, help="floats in the elementwise chains")
    commands.add_parser("doctor", help="what is installed and which targets run here")
    commands.add_parser("show", help="print a nest").add_argument("file")
    page = commands.add_parser("view", help="write a nest beside its code as an HTML page")
    page.add_argument("file")
    page.add_argument("--target", choices=("cuda", "llvm"), default="cuda")
    page.add_argument("--out", help="the page; named after the program by default")
    table = commands.add_parser("bench", help="how fast the ready-made schedules are here, every result checked")
    table.add_argument("--target", choices=("auto", "cuda", "llvm"), default="auto")
    table.add_argument("--size", type=int, default=2048, help="rows and columns of the matrices")
    table.add_argument("--rows", default="", help="only rows whose name holds one of these, separated by commas")
    commands.add_parser("cache", help="the compile cache").add_argument("action", choices=("path", "size", "clear"))
    tuned = commands.add_parser("tune", help="the database of what schedules.tune has measured")
    tuned.add_argument("action", choices=("export", "import", "show", "prune", "report"))
    tuned.add_argument("file", nargs="?", help="the file to write or to read")
    tuned.add_argument("--database", help="the folder; by default, the one that auto reads")
    tuned.add_argument("--winners", action="store_true", help="export what was chosen alone")
    tuned.add_argument("--machine", help="prune: keep the records of this machine alone")
    options = parser.parse_args(arguments)
    try:
        return command(options)
    except (ModuleNotFoundError, TargetError) as error:  # with what to do
        print(error, file=sys.stderr)
        return 1


def command(options: argparse.Namespace) -> int:
    """Run one command, whose file is loaded for it; its exit status."""
    match options.command:
        case "demo":
            return load("loopir.cli.demo").main(options.target, options.elements)
        case "doctor":
            return load("loopir.cli.doctor").main()
        case "bench":
            return benched(options.target, options.size, options.rows)
        case "tune":
            o = options
            return load("loopir.cli.tune").main(o.action, o.file, o.database, o.winners, o.machine)
        case "show":
            return show(options.file)
        case "view":
            return view(options.file, options.target, options.out)
        case _:
            print(_cache(options.action))
            return 0


def _cache(action: str) -> str:
    """What `action` tells of the compile cache."""
    cache = load("loopir.runtime.cache")
    try:
        if action == "clear":
            return f"removed {cache.clear()} entries"
        return str(cache.directory()) if action == "path" else "{} entries, {} bytes".format(*cache.size())
    except OSError as error:
        return f"there is no compile cache: {error}"


if __name__ == "__main__":
    sys.exit(main())
