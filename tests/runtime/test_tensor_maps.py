"""Tensor maps are asked of the driver once for an array, and those of empty arrays never."""

from types import SimpleNamespace
from typing import Any

import pytest

from loopir.runtime.cuda.tensor_maps import MAP_TYPES, MOST_MAPS, TensorMap


class Enum:
    """Whatever is asked of it, by its name."""

    def __getattr__(self, name: str) -> str:
        return name


class Driver:
    CUtensorMapDataType = CUtensorMapInterleave = CUtensorMapSwizzle = Enum()
    CUtensorMapL2promotion = CUtensorMapFloatOOBfill = Enum()
    cuuint32_t = cuuint64_t = staticmethod(int)

    def __init__(self) -> None:
        self.made: list[tuple[Any, ...]] = []

    def cuTensorMapEncodeTiled(self, *args: Any) -> Any:
        self.made.append(args)
        return SimpleNamespace(getPtr=lambda: len(self.made))


def maps(dtype: str = "float16", span: int = 128) -> tuple[TensorMap, Driver]:
    driver = Driver()
    gpu: Any = SimpleNamespace(cu=driver, check=lambda result, what: result)
    return TensorMap(gpu, dtype, (8, 64), span), driver


SIZES = (100, 200, 200, 1)


def test_a_map_is_made_once_for_an_array() -> None:
    made, driver = maps()
    first = made.at(4096, SIZES)
    assert made.at(4096, SIZES) == first
    assert made.at(8192, SIZES) != first
    assert len(driver.made) == 2


def test_an_empty_array_asks_nothing_of_the_driver() -> None:
    made, driver = maps()
    assert made.at(4096, (0, 200, 200, 1)) == made.at(0, (100, 0, 200, 1))
    assert driver.made == []


def test_the_maps_that_are_kept_are_bounded() -> None:
    made, _ = maps()
    for n in range(3 * MOST_MAPS):
        made.at(16 * (n + 1), SIZES)
        assert len(made.kept) <= MOST_MAPS


@pytest.mark.parametrize("dtype", MAP_TYPES)
@pytest.mark.parametrize("span", [0, 32, 64, 128])
def test_sizes_and_strides_are_given_innermost_first_and_in_bytes(dtype: str, span: int) -> None:
    made, driver = maps(dtype, span)
    made.at(4096, SIZES)
    ((kind, rank, _, sizes, strides, box, _, _, swizzle, *_),) = driver.made
    name, width = MAP_TYPES[dtype]
    assert kind == f"CU_TENSOR_MAP_DATA_TYPE_{name}"
    assert (rank, sizes, strides, box) == (2, [200, 100], [200 * width], [64, 8])
    assert swizzle == f"CU_TENSOR_MAP_SWIZZLE_{f'{span}B' if span else 'NONE'}"
