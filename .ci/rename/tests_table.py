"""Where tests go: beside the name of what they test."""

_ROOMS = {
    "tests/analysis": {
        "tests/arith": "bits simplify simplify_proof=rules",
        "tests/analysis": "bundles=access_groups distance=fusion_shift lifetimes=liveness offsets=distance_vectors "
        "regions=footprint relabel=retile traffic=gpu_traffic validate=equivalence",
    },
    "tests/emit": {
        "tests/codegen": "cuda=cuda_emit cuda_index=cuda_index_bounds division=fast_division llvm=llvm_emit "
        "llvm_text=ir_text narrow=narrow_floats unasked=speculate",
    },
    "tests/ir": {
        "tests/interp": "interpret",
        "tests/ir": "packing=layout_map spoken=free_vars text=printer",
    },
    "tests/lower": {
        "tests/lower": "checks=insert_bounds_checks cross_thread=lower_thread_reductions fragments=lower_fragments "
        "guards=unswitch near=guard_fast_paths pairs=pack_x2 products=insert_wgmma_waits rings=insert_mbarrier_waits "
        "roles=warp_specialize settled=bound_unrolled_guards stores=insert_store_waits uniform=hoist_vector_guards "
        "waits=insert_copy_waits",
    },
    "tests/runtime": {
        "tests/runtime": "blocks=memory_pool direct=direct_call native=native_call pool=thread_pool",
    },
    "tests/schedule": {
        "tests/schedule": "look=queries starts=reduction_starts refusals=refusal",
    },
    "tests/schedules": {
        "tests/schedules": "columns=column_reduction grouped=grouped_columns matmul_pairs=matmul_vnni "
        "matmul_stream=matmul_stream_k matmul_tiles=tile_choice neighbours=stencil_rows turns=register_transpose "
        "scattered=scatter cpu=auto_cpu convolutions=conv",
    },
}
MOVES = {
    f"{old}/test_{a}.py": f"{new}/test_{b or a}.py"
    for old, rooms in _ROOMS.items()
    for new, names in rooms.items()
    for a, _, b in (x.partition("=") for x in names.split())
}
