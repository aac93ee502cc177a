"""Record the launches of a program at given sizes, to replay them.

The host function decides grids and integers from sizes alone, and only hands addresses on. So what it does is the same
at every call with the same sizes, and can be written down as a list of launches whose addresses are filled in. Its
intermediates become parts of one piece of memory; as they are freed in the reverse order, they lie as on a stack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

DEVICE_ALIGNMENT = 512
MAX_LAUNCHES = 256
"""Launches written down at most; a longer program runs its host function at every call."""


class Unrecorded(Exception):
    """The program does what is not the same at every call, or too much."""


@dataclass(frozen=True, slots=True)
class Slot:
    """An address that is not known yet: of argument `n`, or of memory that starts at `offset` in the intermediates."""

    n: int
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class MapOf:
    """The tensor map of parameter `map` of kernel `kernel`, for the array at `slot`."""

    kernel: int
    map: int
    slot: Slot
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch: integers and addresses in the order of the kernel's parameters."""

    kernel: int
    grid: tuple[int, int, int]
    args: tuple[int | Slot | MapOf, ...]
    fits: bool
    """Whether its indices are known to be below 2^31."""


@dataclass(frozen=True)
class Recording:
    """Launches in order; slots beyond the arguments are the intermediates, at these offsets of `workspace` bytes."""

    launches: tuple[Launch, ...]
    offsets: tuple[int, ...]
    workspace: int


@dataclass
class Recorder:
    """The runtime of a host function that is being written down."""

    count: int
    launches: list[Launch] = field(default_factory=list[Launch])
    offsets: list[int] = field(default_factory=list[int])
    top: int = 0
    most: int = 0

    def alloc(self, size: int) -> Slot:
        slot = Slot(self.count + len(self.offsets), self.top)
        self.offsets.append(self.top)
        self.top += -(-max(1, size) // DEVICE_ALIGNMENT) * DEVICE_ALIGNMENT
        self.most = max(self.most, self.top)
        return slot

    def free(self, slot: Slot) -> None:
        assert slot.offset is not None
        self.top = slot.offset

    def launch(
        self, n: int, grid: tuple[int, int, int], args: tuple[int | Slot | MapOf, ...], fits: bool = True
    ) -> None:
        if len(self.launches) >= MAX_LAUNCHES:
            raise Unrecorded
        if min(grid) > 0:
            self.launches.append(Launch(n, grid, args, fits))

    def map(self, n: int, m: int, slot: Slot, sizes: tuple[int, ...]) -> MapOf:
        return MapOf(n, m, slot, sizes)

    def lent(self, words: object) -> object:
        raise Unrecorded


def record_launches(host: Callable[..., None], sizes: Sequence[int], count: int) -> Recording | None:
    """What `host` launches at these sizes on `count` arrays; None if that is not the same at every call."""
    recorder = Recorder(count)
    try:
        host(recorder, *sizes, *(Slot(n) for n in range(count)))
    except Unrecorded:
        return None
    return Recording(tuple(recorder.launches), tuple(recorder.offsets), recorder.most)
