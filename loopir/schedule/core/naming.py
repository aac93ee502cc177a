"""New names in a nest: names a person chooses, and names made up; what copies are called is in
`loopir.ir.traverse.clone`."""

from __future__ import annotations

from collections.abc import Iterable

from loopir.errors import ScheduleError
from loopir.ir.grammar import Func
from loopir.ir.traverse.clone import (
    Renaming as Renaming,
    UsedNames as UsedNames,
    clone_fresh as clone_fresh,
    rename_symbols as rename_symbols,
)
from loopir.ir.traverse.walk import (
    fresh_name,
    replace_names as replace_names,
    replace_over as replace_over,
    taken_names,
)
from loopir.ir.verify.scope import NAMES, RESERVED, is_usable

MAX_NAME_LENGTH = 100
"""Characters of a name that a person chooses: steps make longer ones of it, and LLVM takes some 1,000."""


def new_names(
    func: Func,
    hints: Iterable[str],
    chosen: Iterable[str] | None,
    freed: Iterable[str] = (),
    made: Iterable[str] = (),
) -> list[str]:
    """Names for new loops: `chosen`, which have to be free, or made from `hints`.

    `freed` are about to go away, `made` are about to come.
    """
    taken = set(taken_names(func))
    taken.difference_update(freed)
    taken.update(made)
    out: list[str] = []
    for name in hints if chosen is None else chosen:
        new = fresh_name(name, taken) if chosen is None else free_name(name, taken)
        taken.add(new)
        out.append(new)
    return out


def free_name(name: str, taken: set[str]) -> str:
    """`name`, if it can be given to something; ScheduleError if it is taken or is no name."""
    if not is_usable(name):
        other = f"{name}_" if name in RESERVED else "letters, digits and _"
        raise ScheduleError(f"{name!r} is no usable name: {NAMES}", suggestion=other)
    if len(name) > MAX_NAME_LENGTH:
        raise ScheduleError(f"a name of {len(name)} characters", suggestion=f"at most {MAX_NAME_LENGTH} characters")
    if name in taken:
        raise ScheduleError(f"the name {name!r} is taken", suggestion=f"{fresh_name(name, taken)!r} is free")
    return name
