"""New names in a nest: names a person chooses, and names made up; what copies are called is in `loopir.ir.copies`."""

from __future__ import annotations

from collections.abc import Iterable

from loopir.errors import ScheduleError
from loopir.ir.copies import Names as Names, Taken as Taken, fresh_copy as fresh_copy, renamed as renamed
from loopir.ir.grammar import Func
from loopir.ir.here import NAMES, RESERVED, is_usable
from loopir.ir.walk import fresh, names, over_replaced as over_replaced, replaced as replaced

LONGEST = 100
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
    taken = names(func).difference(freed).union(made)
    out: list[str] = []
    for name in hints if chosen is None else chosen:
        new = fresh(name, taken) if chosen is None else free_name(name, taken)
        taken.add(new)
        out.append(new)
    return out


def free_name(name: str, taken: set[str]) -> str:
    """`name`, if it can be given to something; ScheduleError if it is taken or is no name."""
    if not is_usable(name):
        other = f"{name}_" if name in RESERVED else "letters, digits and _"
        raise ScheduleError(f"{name!r} is no usable name: {NAMES}", suggestion=other)
    if len(name) > LONGEST:
        raise ScheduleError(f"a name of {len(name)} characters", suggestion=f"at most {LONGEST} characters")
    if name in taken:
        raise ScheduleError(f"the name {name!r} is taken", suggestion=f"{fresh(name, taken)!r} is free")
    return name
