"""Tensor maps (TMA descriptors), made by the driver for each array of a launch."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from loopir.runtime.cuda.driver import Device

MAP_TYPES = {
    "bfloat16": ("BFLOAT16", 2), "float16": ("FLOAT16", 2), "float32": ("FLOAT32", 4), "int8": ("UINT8", 1),
    "int32": ("INT32", 4), "float8_e4m3fn": ("UINT8", 1), "float8_e5m2": ("UINT8", 1),
}  # fmt: skip
"""What the driver calls an element type, and its bytes."""
MOST_MAPS = 256


@dataclass(frozen=True, slots=True)
class MapDescriptor:
    """What the driver makes a tensor map of, beside an address: sizes and strides (in bytes), innermost first."""

    dtype: Any
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    interleave: Any
    swizzle: Any
    promotion: Any
    fill: Any


class TensorMap:
    """The tensor maps of one parameter, by the array that each is of; they are kept while they are in use."""

    def __init__(self, gpu: Device, dtype: str, box: tuple[int, ...], span: int) -> None:
        self.gpu, self.cu, self.dtype, self.box, self.span = gpu, gpu.cu, dtype, box, span
        self.kept: dict[tuple[int, tuple[int, ...]], tuple[int, Any]] = {}
        self.none = (ctypes.c_ulonglong * 16)()

    def at(self, pointer: int, sizes: tuple[int, ...]) -> int:
        """The address of the map, made when it is first asked for. An empty array has none."""
        found = self.kept.get((pointer, sizes))
        if found is None:
            if len(self.kept) >= MOST_MAPS:
                self.kept.clear()
            made = self.encoded(pointer, sizes) if min(sizes[: len(self.box)]) > 0 else None
            where = ctypes.addressof(self.none) if made is None else int(made.getPtr())
            found = self.kept[pointer, sizes] = (where, made)
        return found[0]

    def descriptor(self, sizes: tuple[int, ...]) -> MapDescriptor:
        """The driver's arguments for an array of these sizes, and strides."""
        cu, rank = self.cu, len(self.box)
        kind, bytes_ = MAP_TYPES[self.dtype]
        swizzle = f"CU_TENSOR_MAP_SWIZZLE_{f'{self.span}B' if self.span else 'NONE'}"
        return MapDescriptor(
            getattr(cu.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{kind}"), sizes[:rank][::-1],
            tuple(x * bytes_ for x in reversed(sizes[rank:-1])), self.box[::-1],
            cu.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE, getattr(cu.CUtensorMapSwizzle, swizzle),
            cu.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            cu.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )  # fmt: skip

    def encoded(self, pointer: int, sizes: tuple[int, ...]) -> Any:
        cu, made = self.cu, self.descriptor(sizes)
        return self.gpu.check(
            cu.cuTensorMapEncodeTiled(
                made.dtype, len(self.box), pointer, [cu.cuuint64_t(x) for x in made.sizes],
                [cu.cuuint64_t(x) for x in made.strides], [cu.cuuint32_t(x) for x in made.box],
                [cu.cuuint32_t(1)] * len(self.box), made.interleave, made.swizzle, made.promotion, made.fill,
            ),
            f"make a tensor map of an array at {pointer:#x} of sizes and strides {sizes}",
        )  # fmt: skip
