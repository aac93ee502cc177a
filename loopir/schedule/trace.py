"""What was done to a nest, as data: the steps of a Schedule, their spelling, and their replay as Python source."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a primitive, with the arguments as they were given."""

    name: str
    args: tuple[object, ...] = ()
    kwargs: tuple[tuple[str, object], ...] = ()

    def __str__(self) -> str:
        keywords = (f"{name}={spell(value)}" for name, value in self.kwargs)
        return f"{self.name}({', '.join([*map(spell, self.args), *keywords])})"


def spell(value: object) -> str:
    """`value` as Python source; strings in double quotes."""
    if isinstance(value, str):
        quoted = repr(value)
        return f'"{quoted[1:-1]}"' if quoted[0] == "'" and '"' not in value else quoted
    if isinstance(value, tuple):
        items: tuple[object, ...] = value  # pyright: ignore[reportUnknownVariableType]
        return f"({', '.join(map(spell, items))}{',' if len(items) == 1 else ''})"
    return repr(value)


def script(steps: Iterable[Step], name: str = "s") -> str:
    """Python source that takes `steps` again, one a line, on the Schedule called `name`."""
    return "".join(f"{name} = {name}.{step}\n" for step in steps)
