"""The packages that loopir needs, and the command that installs what is missing.

pyproject.toml states them once; an installed package has that statement as its metadata. The command names them by
their own names: loopir itself may come from a checkout or a wheel, and no registry is asked for it.
"""

from __future__ import annotations

import re
import tomllib
from functools import lru_cache
from importlib import metadata
from pathlib import Path

NAME = "loopir"
IMPORTED_AS = {
    "cuda": "cuda-bindings", "sklearn": "scikit-learn", "_hypothesis": "hypothesis", "matplotlib": "matplotlib",
}  # fmt: skip
"""Modules whose package has another name."""
_REQUIREMENT = re.compile(r"([\w.-]+)\s*(?:\[.*?\])?\s*([^;]*?)\s*(?:;\s*extra\s*==\s*['\"]([\w-]+)['\"])?")
"""A package, its versions and the extra that asks for it, as metadata writes them."""


def install(*packages: str) -> str:
    """The command that installs `packages`, in versions that loopir works with."""
    known = {name: versions for name, versions, _ in _stated()}
    return "pip install " + " ".join(f'"{p}{known.get(_canonical(p), "")}"' for p in packages)


def install_extra(extra: str) -> str:
    """The command that installs the packages of an extra of loopir's, such as "cuda"."""
    return install(*(name for name, _, of in _stated() if of == extra and name != NAME))


def missing(error: ModuleNotFoundError) -> str:
    """What is not installed, in a sentence, with the command that installs it."""
    module = (error.name or "").partition(".")[0]
    package = IMPORTED_AS.get(module, module)
    if not any(name == _canonical(package) for name, *_ in _stated()):
        return str(error)
    return f"{package} is not installed: {install(package)}"


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@lru_cache(maxsize=1)
def _stated() -> tuple[tuple[str, str, str | None], ...]:
    """The name of each package that is asked for, its versions, and the extra that asks for it."""
    found: list[tuple[str, str, str | None]] = []
    for line in _requirement_lines():
        parts = _REQUIREMENT.fullmatch(line)
        if parts is not None:
            found.append((_canonical(parts[1]), parts[2], parts[3]))
    return tuple(found)


def _requirement_lines() -> list[str]:
    """The requirements, as metadata writes them."""
    try:
        return metadata.requires(NAME) or []
    except metadata.PackageNotFoundError:
        pass
    try:
        project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))[
            "project"
        ]
    except (OSError, KeyError, tomllib.TOMLDecodeError):
        return []
    extras = project["optional-dependencies"].items()
    return [*project["dependencies"], *(f"{r}; extra == '{extra}'" for extra, all_ in extras for r in all_)]
