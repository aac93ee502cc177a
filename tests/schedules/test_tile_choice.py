"""The tile of a product from a formula: what it gave for shapes that were measured, and for any other."""

import pytest
from hypothesis import given, settings, strategies as st

from schedules.cuda.tile_choice import Sizes, choice, stream_k_choice, warpgroup_choice, warpgroup_cycles

MEASURED = {
    (256, 12288, 4096, 1): {(128, 192): 39.9, (128, 128): 47.8, (128, 256): 48.1, (64, 256): 52.8},
    (256, 11008, 4096, 1): {(128, 168): 36.5, (128, 176): 36.9, (128, 128): 47.3, (128, 256): 48.6},
    (256, 32000, 4096, 1): {(128, 256): 105.2, (128, 128): 109.8, (128, 192): 115.7, (128, 160): 131.7},
    (1024, 1024, 512, 16): {(128, 256): 37.0, (128, 128): 41.3, (128, 192): 41.4},
    (4096, 4096, 4096, 1): {(128, 256): 178.0},
}
"""Microseconds on one H200 (benchmarks/notes/gpu_matmul.md), by tile."""


@pytest.mark.parametrize("shape", MEASURED)
def test_what_was_fastest_is_chosen_and_costs_are_near(shape: tuple[int, int, int, int]) -> None:
    sizes, times = Sizes(*shape), MEASURED[shape]
    along = shape[3] == 1 and shape[0] != shape[1]
    assert warpgroup_choice(sizes, along)["block"] == min(times, key=lambda b: times[b])
    for block, measured in times.items():
        assert warpgroup_cycles(sizes, block) / 1700 == pytest.approx(measured, rel=0.16)


def test_a_product_of_few_tiles_is_made_in_parts() -> None:
    """256 x 4096 x 11008: 40.4 microseconds so, 49.0 in tiles of 64 x 128."""
    assert warpgroup_choice(Sizes(256, 4096, 11008), True) == {
        "block": (128, 128), "stages": 7, "parts": 2, "whole_rows": False
    }  # fmt: skip
    assert "parts" not in warpgroup_choice(Sizes(1024, 1024, 1024), False)


@pytest.mark.parametrize(("depth", "dealt_out", "otherwise"), [(8192, 105.7, 142.8), (4096, 56.5, 73.5)])
def test_what_a_last_turn_leaves_is_dealt_out(depth: int, dealt_out: float, otherwise: float) -> None:
    """2304 x 2048, A @ B: a turn of 128 tiles, and 16 more; in microseconds. 2432 rows leave 24."""
    sizes = Sizes(2304, 2048, depth)
    found = stream_k_choice(sizes)
    assert found is not None
    assert found[1] == {"block": (128, 256), "rows": 2048, "rest": (128, 128), "parts": 128}
    assert warpgroup_choice(Sizes(2432, 2048, depth), False)["rest"] == (128, 128)
    assert found[0] / 1700 == pytest.approx(dealt_out, rel=0.18)
    assert warpgroup_cycles(sizes, (64, 192)) / 1700 == pytest.approx(otherwise, rel=0.16)
    assert stream_k_choice(Sizes(4096, 4096, depth)) is None


@pytest.mark.parametrize("sizes", [(2304, 2048, 8192), (2304, 2048, 4096), (2112, 2304, 4096)])
def test_tiles_that_make_up_a_product_in_one_turn(sizes: tuple[int, int, int]) -> None:
    """132 tiles of 192 x 192: 99.6, 56.2 and 51.4 microseconds, where the next best took 105.1, 57.7 and 68.7."""
    assert warpgroup_choice(Sizes(*sizes), False)["block"] == (192, 192)
    assert warpgroup_choice(Sizes(sizes[0] + 192, *sizes[1:]), False)["block"] != (192, 192)


def test_columns_that_are_one_tile_are_made_by_blocks_that_stay() -> None:
    """65536 x 64 x 512: 21 microseconds so, 33.5 with a block a tile; x 128 5.8 and 8.2; 65536 x 96 x 512 32 and 57."""
    for columns, depth in ((64, 512), (64, 128), (96, 512)):
        assert warpgroup_choice(Sizes(65536, columns, depth), False)["roles"]
    assert "roles" not in warpgroup_choice(Sizes(65535, 64, 512), False)
    assert "roles" not in warpgroup_choice(Sizes(4096, 64, 512), False)


def test_products_of_one_step_write_whole_rows() -> None:
    """1000000 x 32 x 32: 32.9 microseconds so, 43.8 in tiles of 32 x 32; x 16 x 16 16.2 and 101.6; 4096 x 4096 x 3 8.9
    and 25.9."""
    for sizes, block in (((1000000, 32, 32), (128, 32)), ((1000000, 16, 16), (128, 16)), ((4096, 4096, 3), (64, 64))):
        assert choice(Sizes(*sizes)) | {"block": block, "staged": True, "stages": 1} == choice(Sizes(*sizes))
    for sizes in ((4096, 4095, 3), (4096, 4096, 64)):  # 11.0 microseconds by warpgroups, 16.8 so
        assert "staged" not in choice(Sizes(*sizes))


def test_few_columns_of_many_rows_are_made_in_parts() -> None:
    """4096 x 8 x 4096: 8.9 microseconds in four parts, 20.4 without; 16384 x 8 x 4096 38.8 and 86.6."""
    for rows in (4096, 16384):
        assert choice(Sizes(rows, 8, 4096))["parts"] == 4
    assert choice(Sizes(4096, 32, 4096))["block"] == (32, 32)  # 13.8 and 19.1
    assert "parts" not in choice(Sizes(16384, 32, 4096))  # 43.9 and 42.7


def test_thin_tiles_fill_a_multiprocessor() -> None:
    """16 x 4096 x 11008: 23.2 microseconds with 6 stages of 256 steps, 37.2 with 7 of 128. 16 x 12288 x 4096: 25.8 with
    3 stages, three tiles a multiprocessor, 26.7 with 4, two of them, 34.8 with 8, one."""
    assert choice(Sizes(16, 4096, 11008)) | {"depth": 256, "stages": 6} == choice(Sizes(16, 4096, 11008))
    assert choice(Sizes(16, 12288, 4096)) | {"depth": 256, "stages": 3} == choice(Sizes(16, 12288, 4096))
    assert choice(Sizes(16, 8192, 28672))["block"] == (16, 64)  # one for each multiprocessor: 106.9, and 108.9


def test_thin_tiles_of_rows_that_run_along_the_output_are_lines_of_memory_in_two_parts() -> None:
    """16 x 4096 x 11008, A @ B: 25.1 microseconds in two parts of 64 columns, 31.2 in tiles of 32, cuBLAS 27.2."""
    halves = {"block": (16, 64), "depth": 128, "stages": 4, "parts": 2}
    for rows in (2, 16):
        assert choice(Sizes(rows, 4096, 11008), along=False) | halves == choice(Sizes(rows, 4096, 11008), along=False)
    assert "parts" not in choice(Sizes(16, 8192, 28672), along=False)  # one for each multiprocessor, whole
    assert "parts" not in choice(Sizes(16, 4096, 11000), along=False)


@pytest.mark.parametrize("rows", [2, 15])
def test_rows_that_an_instruction_has_beyond_those_of_the_product_take_no_copy(rows: int) -> None:
    """2 x 12288 x 4096: 25.9 microseconds, 28.0 with a copy that has 16 rows, cuBLAS 29.6."""
    assert not choice(Sizes(rows, 12288, 4096))["whole"]
    assert choice(Sizes(rows, 12289, 4096))["whole"]


@given(st.integers(1, 20000), st.integers(1, 20000), st.integers(1, 20000), st.integers(1, 64), st.booleans())
@settings(max_examples=40, deadline=None)
def test_any_size_has_a_tile_that_warpgroups_take(m: int, n: int, k: int, batch: int, along: bool) -> None:
    rows, columns = warpgroup_choice(Sizes(m, n, k, batch), along)["block"]
    assert rows in (64, 128) or (rows, columns) == (192, 192)
    assert columns % (8 if along else 64) == 0
    assert 8 <= columns <= 256


def test_sizes_that_are_not_known_leave_the_choice() -> None:
    assert warpgroup_choice(Sizes(None, 64, 64), True) == {}
