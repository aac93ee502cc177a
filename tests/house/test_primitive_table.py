"""docs/primitives.md: a row for every method of the peers, and on our side nothing but what is there."""

import inspect
import re
from pathlib import Path

import pytest

import loopir as lp
from loopir.schedule.core.primitive import PRIMITIVES, spell_hint

PAGE = (Path(__file__).parents[2] / "docs" / "primitives.md").read_text()
TVM = """
add_unit_loop annotate annotate_buffer_access bind blockize cache_index cache_inplace cache_read cache_write
can_decompose_padding compute_at compute_inline copy decompose_padding decompose_reduction enter_postproc fork_seed
func_working_on fuse fuse_reduction_epilogue get get_child_blocks get_consumers get_loops get_output_blocks
get_producers get_sblock get_sref loop_partition merge mod pad_einsum parallel read_at reindex reindex_cache_read
reindex_cache_write remove_rv reorder reorder_block_iter_var reverse_compute_at reverse_compute_inline rfactor
rolling_buffer sample_categorical sample_compute_location sample_partitioned_tile sample_perfect_tile seed set_scope
show split state storage_align tensorize trace transform_block_layout transform_layout unannotate unroll
unsafe_hide_buffer_access unsafe_set_dtype vectorize work_on write_at
"""
HALIDE = """
add_trace_tag align_bounds align_extent align_storage allow_race_conditions always_partition always_partition_all async
atomic bound bound_extent bound_storage change_type clone_in compute_at compute_inline compute_root compute_with
copy_to_device copy_to_host eager_inline fold_storage fuse gpu gpu_blocks gpu_lanes gpu_single_thread gpu_threads
gpu_tile hexagon hoist_storage hoist_storage_root host in memoize never_partition never_partition_all no_profiling
parallel partition prefetch rename reorder reorder_storage rfactor ring_buffer serial set_estimate set_estimates
sme_streaming specialize specialize_fail split store_at store_in store_root stream_loads stream_stores tile trace_loads
trace_realizations trace_stores unroll unscheduled update vectorize
"""
EXO = """
add_loop add_unsafe_guard autofission autolift_alloc bind_config bind_expr call_eqv call_site_mem_aware_replace
commute_expr cut_loop delete_buffer delete_config delete_pass divide_dim divide_loop divide_with_recompute
eliminate_dead_code expand_dim extract_subproc fission fold_into_reduce fuse inline inline_assign inline_window
insert_noop_call insert_pass join_loops left_reassociate_expr lift_alloc lift_if lift_reduce_constant lift_scope
loop_hack make_instr merge_writes mult_dim mult_loops parallelize_loop rearrange_dim remove_loop rename reorder_loops
reorder_stmts repeat replace replace_all replace_once resize_dim reuse_buffer rewrite_expr sched_seq set_memory
set_precision set_window shift_loop simplify sink_alloc specialize split_write stage_mem unroll_buffer unroll_loop
write_config
"""
PEERS = {"TVM": TVM.split(), "Halide": HALIDE.split(), "Exo": EXO.split()}


def rows(section: str) -> list[tuple[str, str]]:
    """The rows of a table, its two columns."""
    part = PAGE.split(f"## {section}\n")[1].split("\n## ")[0]
    cells = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| ")]
    return [(a, b) for a, b in cells[1:]]


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def ours() -> list[str]:
    """What is quoted on our side."""
    sides = [b for peer in PEERS for _, b in rows(peer)] + [x for row in rows("Ours alone") for x in row]
    return [name for side in sides for name in quoted(side)]


@pytest.mark.parametrize("peer", PEERS)
def test_every_method_of_a_peer_has_one_row(peer: str) -> None:
    named = [name for a, _ in rows(peer) for name in quoted(a)]
    assert sorted(n for n in named if n.isidentifier()) == sorted(PEERS[peer])
    assert all(quoted(b) or b.startswith(("none: ", "Python", "an assumption")) for _, b in rows(peer))


@pytest.mark.parametrize("name", sorted(set(ours())))
def test_what_stands_on_our_side_is_there(name: str) -> None:
    """A primitive, a method or a public name; of an argument, that it takes it, and of a choice, that it has it."""
    found = re.fullmatch(r"(\w+)(?:\((\w+)=(.*)\))?", name)
    assert found is not None
    called, argument, value = found.groups()
    there = PRIMITIVES.get(called) or getattr(lp.Schedule, called, None) or getattr(lp, called)
    if argument is not None:
        assert argument in inspect.signature(there).parameters
    if value and value.startswith('"'):
        assert value in spell_hint(inspect.get_annotations(inspect.unwrap(there), eval_str=True)[argument])


def test_every_primitive_is_in_it() -> None:
    own = {n for n, f in PRIMITIVES.items() if f.__module__.startswith("loopir.")}
    assert own - {name.partition("(")[0] for name in ours()} == set()
