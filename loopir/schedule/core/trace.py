"""What was done to a nest, as data: the steps of a Schedule, their spelling, and their replay as Python source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from loopir.errors import spelled


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a primitive, with the arguments as they were given.

    A step of a composite holds the `steps` that it took; they are all that is needed to take it again.
    """

    name: str
    args: tuple[object, ...] = ()
    kwargs: tuple[tuple[str, object], ...] = ()
    steps: tuple[Step, ...] = ()

    def __repr__(self) -> str:
        return str(self)

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
    return spelled(value) if type(value) is int else repr(value)


def script(steps: Iterable[Step], name: str = "s") -> str:
    """Python source that takes `steps` again, one a line, on the Schedule called `name`; composites in comments."""
    return "".join(_lines(steps, name, 0))


def _lines(steps: Iterable[Step], name: str, depth: int) -> Iterator[str]:
    for step in steps:
        if step.steps:
            yield f"# {'  ' * depth}{step}:\n"
            yield from _lines(step.steps, name, depth + 1)
        else:
            yield f"{name} = {name}.{step}\n"
