"""Element types: the numeric types that buffers hold and values have."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingTypeArgument=false

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, cast

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = np.ndarray[Any, Any]
"""Of NumPy, of any shape and element type."""
Kind = Literal["float", "int", "uint", "bool"]


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """An element type; compare with `==`, by name ("float32") or as NumPy's too, print with `str`."""

    name: str
    kind: Kind
    bits: int

    def __eq__(self, other: object) -> bool:
        if self is other or other is None:
            return self is other
        if isinstance(other, DType):
            return self.name == other.name
        try:
            return dtype(other).name == self.name  # pyright: ignore[reportArgumentType]
        except TypeError:
            return False

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name

    @property
    def bytes(self) -> int:
        """Bytes one element takes in memory (a bool takes one)."""
        return max(1, self.bits // 8)

    @property
    def numpy(self) -> np.dtype:
        """The NumPy dtype with the same bits (bfloat16 and those of 8 bits through ml_dtypes)."""
        return _NUMPY[self.name]

    @property
    def dtype(self) -> np.dtype:
        """The NumPy dtype, under the name by which NumPy asks: np.ones(4, A.dtype)."""
        return _NUMPY[self.name]

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_narrow(self) -> bool:
        """Whether it is a float of 16 bits or fewer: computed in float32, and rounded after every operation."""
        return self.kind == "float" and self.bits <= 16

    @property
    def digits(self) -> int:
        """The significant bits of a float, the one that is not stored included."""
        return int(ml_dtypes.finfo(self.numpy).nmant) + 1

    @property
    def has_infinity(self) -> bool:
        """Whether it is a float with infinities: float8_e4m3fn has NaN alone beyond its largest number."""
        return self.kind == "float" and self.name != "float8_e4m3fn"

    @property
    def greatest(self) -> int | float | bool:
        """The largest value: of a float infinity, if there is one."""
        if self.has_infinity:
            return math.inf
        if self.is_float:
            return float(ml_dtypes.finfo(self.numpy).max)
        return True if self.kind == "bool" else int(np.iinfo(self.numpy).max)

    @property
    def least(self) -> int | float | bool:
        """The smallest value: of a float minus infinity, if there is one."""
        if self.is_float:
            return -self.greatest
        return False if self.kind == "bool" else int(np.iinfo(self.numpy).min)

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    def holds(self, value: int) -> bool:
        """Whether the integer `value` is one of this type's."""
        low = -(1 << (self.bits - 1)) if self.kind == "int" else 0
        return low <= value < low + (1 << self.bits)

    def widens(self, other: DType) -> bool:
        """Whether it is another type of integers, which has all values of `other`, one of integers, too."""
        ends = (other.least, other.greatest) if self != other and self.is_integer and other.is_integer else ()
        return bool(ends) and all(self.holds(int(x)) for x in ends)

    def holds_all(self, other: DType) -> bool:
        """Whether it is a float that has all values of `other`, a float, too: each is the same in both."""
        if not (self.is_float and other.is_float) or (other.has_infinity and not self.has_infinity):
            return False
        mine, its = (ml_dtypes.finfo(x.numpy) for x in (self, other))
        small = float(mine.smallest_subnormal) <= float(its.smallest_subnormal)
        return self.digits >= other.digits and small and float(mine.max) >= float(its.max)


float16 = DType("float16", "float", 16)
bfloat16 = DType("bfloat16", "float", 16)
float8_e4m3fn = DType("float8_e4m3fn", "float", 8)
float8_e5m2 = DType("float8_e5m2", "float", 8)
"""What is too large for the first, which has no infinity, becomes NaN, and infinity in the second, as in ml_dtypes."""
float32 = DType("float32", "float", 32)
float64 = DType("float64", "float", 64)
int8, int16, int32, int64 = (DType(f"int{b}", "int", b) for b in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (DType(f"uint{b}", "uint", b) for b in (8, 16, 32, 64))
bool_ = DType("bool", "bool", 1)

ALL_DTYPES: tuple[DType, ...] = (
    float16,
    bfloat16,
    float8_e4m3fn,
    float8_e5m2,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
    bool_,
)
BY_NAME: dict[str, DType] = {t.name: t for t in ALL_DTYPES}
_NUMPY: dict[str, np.dtype] = {t.name: np.dtype(getattr(ml_dtypes, t.name, t.name)) for t in ALL_DTYPES}
_FROM_NUMPY = {v: BY_NAME[k] for k, v in _NUMPY.items()}
_SHORT = {
    "f16": float16, "bf16": bfloat16, "f32": float32, "f64": float64, "e4m3": float8_e4m3fn, "e5m2": float8_e5m2,
}  # fmt: skip
_HELD_BY = {float8_e4m3fn: (float16, bfloat16), float8_e5m2: (float16, bfloat16)}
"""Of a narrow float, the other narrow ones that have all of its numbers."""

DTypeLike = DType | str | npt.DTypeLike


COMPLEX = (
    "there is no complex type: pass z.real and z.imag, copied, as two arrays, or z.view(float32), whose last dimension "
    "is twice as long, with real parts at even places"
)


def dtype(spec: DTypeLike) -> DType:
    """The DType that `spec` names: a DType, a name ("float32", "bf16"), or anything NumPy takes as a dtype.

    Raises TypeError, listing what there is, for a type that loopir does not have.
    """
    if isinstance(spec, DType):
        return spec
    if isinstance(spec, str) and (found := BY_NAME.get(spec) or _SHORT.get(spec)):
        return found
    try:
        return _FROM_NUMPY[np.dtype("None" if cast("Any", spec) is None else spec)]  # NumPy takes None for float64
    except (TypeError, KeyError, ValueError):
        names = ", ".join(BY_NAME)
        if "complex" in str(spec):
            raise TypeError(COMPLEX) from None
        last = str(spec).rpartition(".")[2]
        hint = f'write "{last}"' if last in BY_NAME else f"there are {names}"
        raise TypeError(f"{spec!r} is not an element type of loopir; {hint}") from None


def promote(a: DType, b: DType) -> DType:
    """The type NumPy's rules give for mixing `a` and `b`.

    bfloat16 and floats of 8 bits follow ml_dtypes and the array-API extension of it: of two narrow floats it is the
    one that has all numbers of the other, or else float32; with an integer or bool they stay what they are.
    """
    if a == b:
        return a
    for t, other in ((a, b), (b, a)):
        if t.is_narrow and t != float16:
            if not other.is_float:
                return t
            if not other.is_narrow:
                return other
            return next((x for x, y in ((other, t), (t, other)) if x in _HELD_BY.get(y, ())), float32)
    return _FROM_NUMPY[np.promote_types(a.numpy, b.numpy)]
