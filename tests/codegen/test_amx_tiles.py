"""Tile registers of AMX: how they are configured, and which of them an element is in."""

import pytest
from tile_nest import NEST

import loopir as lp
from loopir.codegen.llvm.amx_tiles import CONFIG, TILE_REGISTERS, in_tiles, uses_tiles
from loopir.codegen.llvm.emit import emit
from loopir.ir.grammar import Kernel
from loopir.ir.traverse.walk import statements


def test_all_eight_tiles_are_whole() -> None:
    """Palette 1: at byte 16 the bytes of each tile's rows, at byte 48 its rows (Intel SDM, volume 1, 18.2)."""
    assert len(CONFIG) == 64
    assert (CONFIG[0], CONFIG[1]) == (1, 0)
    assert [int.from_bytes(CONFIG[16 + 2 * n :][:2], "little") for n in range(16)] == [64] * 8 + [0] * 8
    assert [CONFIG[48 + n] for n in range(16)] == [16] * 8 + [0] * 8


def source(s: lp.Schedule) -> str:
    (program,) = lp.lower(s, "llvm")
    return emit(program).source


def test_tiles_are_configured_before_they_are_used_and_released_after() -> None:
    s = lp.Schedule(lp.parse(NEST)).tensorize("x", "tile_load_int8").tensorize("y", "tile_store_int8")
    assert {s.buffer(x).name for x in s.buffers if in_tiles(s.buffer(x))} == {"T"}
    text = source(s)
    called = [x.partition("llvm.x86.")[2].partition("(")[0] for x in text.splitlines() if "call" in x and "x86" in x]
    assert called == ["ldtilecfg", "tileloadd64", "tilestored64", "tilerelease"]
    kernels = [x for p in lp.lower(s, "llvm") for x in statements(p.body) if isinstance(x, Kernel)]
    assert all(map(uses_tiles, kernels))
    assert "x86" not in source(lp.Schedule(lp.parse(NEST)).set_scope("T", "global"))


def test_a_buffer_has_the_registers_from_the_first_free_one() -> None:
    """Of two tiles, each loaded and stored by its number."""
    two = NEST.replace("[16, 64]", "[32, 64]").replace("range(16)", "range(32)")
    s = lp.Schedule(lp.parse(two)).split("x", 16).split("y", 16)
    s = s.tensorize("x_i", "tile_load_int8").tensorize("y_i", "tile_store_int8").unroll("x_o").unroll("y_o")
    registers = [x.partition("(")[2].partition(",")[0] for x in source(s).splitlines() if "call" in x and "64(" in x]
    assert registers == ["i8 0", "i8 1", "i8 0", "i8 1"]
    assert len(set(registers)) <= TILE_REGISTERS


def test_there_are_eight_tiles() -> None:
    nine = NEST.replace("[16, 64]", "[144, 64]").replace("range(16)", "range(144)")
    with pytest.raises(lp.TargetError, match="T take 9216 bytes of tiles at once, and it holds 8192"):
        lp.lower(lp.Schedule(lp.parse(nine)), "llvm")


def test_which_tile_is_meant_has_to_be_known() -> None:
    two = NEST.replace("[16, 64]", "[32, 64]").replace("range(16)", "range(32)")
    s = lp.Schedule(lp.parse(two)).split("x", 16).split("y", 16)
    s = s.tensorize("x_i", "tile_load_int8").tensorize("y_i", "tile_store_int8")
    with pytest.raises(lp.LowerError, match="which register holds an element of T is not known"):
        s.build("llvm")
