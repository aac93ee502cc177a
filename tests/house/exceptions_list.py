"""What the rules of the house let pass for now: `exceptions.toml`, whose lists are to shrink and never to grow."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATH = Path(__file__).with_name("exceptions.toml")
SOURCES = sorted(p for top in ("loopir", "schedules") for p in (ROOT / top).rglob("*.py"))


def listed(rule: str) -> dict[str, str]:
    """By name what is let pass by `rule`, with the reason."""
    return tomllib.loads(PATH.read_text()).get(rule, {})


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))
