"""Ready-made schedules, written with loopir's public names alone."""

from schedules.auto import auto
from schedules.cpu import cpu
from schedules.elementwise import elementwise
from schedules.fusion import inlined
from schedules.gpu import gpu

__all__ = ["auto", "cpu", "elementwise", "gpu", "inlined"]
