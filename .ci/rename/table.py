"""Where modules go, and what names become. Keys are old names; data alone."""

# ---------------------------------------------------------------- modules: old room -> {new package: "old[=new] ..."}
ROOMS: dict[str, dict[str, str]] = {
    "loopir.ir": {
        "loopir.ir.traverse": "walk rebuild substitute copies=clone holds=queries spoken=free_vars kept=memo labels "
        "inits=reduction_init measure fresh=fresh_names",
        "loopir.ir": "text=printer magnitude",
        "loopir.ir.parser": "parse parse_expr parse_buffer",
        "loopir.ir.verify": "verify verify_expr here=scope",
        "loopir.ir.layout": "layouts packing=layout_map descriptors=smem_descriptors shared_memory",
        "loopir.ir.instr": "match=match_nest",
        "loopir.interp": "interpret to_python python=python_expr watch=checked_memory spmd domains=value_domains "
        "issue=perform sizes=size_equations instruction",
    },
    "loopir.analysis": {
        "loopir.arith": "affine=poly simplify simplify_func rules statements=rule_statement premises=assumptions prove "
        "samples=sample_points upper=upper_bound bits signs",
        "loopir.analysis.presburger": "system=constraints refute=infeasible corner=lexmin solver",
        "loopir.analysis.dependence": "access depend moved=reordering offsets=distance_vectors bundles=access_groups "
        "distance=fusion_shift example=sample_conflict multicast",
        "loopir.analysis.regions": "regions=footprint bounds operands relabel=retile",
        "loopir.analysis.dataflow": "flow=value_flow running=prefix_folds between=reaching_writes lifetimes=liveness "
        "moments=concrete_instances validate=equivalence constants coverage counterexample unfused=delinearize "
        "correction correction_symbolic fold_matching undefined unread=dead_stores",
        "loopir.analysis.cost": "cost counts=trip_counts traffic=gpu_traffic warps=transactions",
    },
    "loopir.schedule": {
        "loopir.schedule.core": "primitive trace doc find naming look=queries facts hints=cache_hints",
        "loopir.schedule.legality": "promises=loop_kinds overrun starts=reduction_starts launches scopes effects "
        "wider=widening refusal reductions",
        "loopir.schedule.transform": "placement following=sliding confine=shrink_alloc expand=expand_alloc restriction "
        "caches window siblings parts=split_range corrections duplicate inlined subprogram",
    },
    "loopir.schedule.primitives": {
        "loopir.schedule.primitives.loops": "distribute fuse fuse_loops merge parallel partition peel rename reorder "
        "simplify skew specialize split tile unroll unroll_and_jam vectorize wavefront",
        "loopir.schedule.primitives.placement": "compute_at compute_inline compute_root hoist schedule_nests reverse_compute_at "
        "reverse_compute_inline",
        "loopir.schedule.primitives.memory": "cache_read cache_write double_buffer fold_storage fuse_dims pad prefetch "
        "privatize reindex reorder_dims reuse set_layout set_scope",
        "loopir.schedule.primitives.reduction": "atomic decompose_reduction rfactor scan_blocks stream_k "
        "rolling_update factor_out",
        "loopir.schedule.primitives.gpu": "bind multicast pipeline specialize_warps tensorize",
    },
    "loopir.lower": {
        "loopir.lower.common": "instructions=expand_instructions kernels=outline_kernels memories=map_memories "
        "checks=insert_bounds_checks flatten=flatten_buffers guards=unswitch uniform=hoist_vector_guards",
        "loopir.lower.gpu": "threads=bind_threads spread=distribute_fragments cross_thread=lower_thread_reductions "
        "trees=thread_reductions owned=privatize_locals barriers=insert_barriers fragments=lower_fragments "
        "vectors=vectorize_memory pairs=pack_x2 near=guard_fast_paths settled=bound_unrolled_guards share=cse "
        "rooms=check_static_allocs",
        "loopir.lower.gpu.asynchronous": "waits=insert_copy_waits stores=insert_store_waits "
        "products=insert_wgmma_waits rings=insert_mbarrier_waits roles=warp_specialize turns=ring_slots "
        "proxies=insert_proxy_fences",
    },
    "loopir.emit": {
        "loopir.codegen": "overflow host params division=fast_division",
        "loopir.codegen.cuda": "cuda=emit cuda_atomic=atomic cuda_index=index_bounds cuda_narrow=narrow_floats "
        "cuda_offsets=offsets cuda_rings=mbarriers cuda_shared=shared_memory cuda_unasked=speculate "
        "cuda_values=values",
        "loopir.codegen.llvm": "llvm=emit llvm_atomic=atomic llvm_builder=builder llvm_index=index llvm_issue=issue "
        "llvm_loops=loop_metadata llvm_ops=ops llvm_shared=parallel_ranges llvm_text=ir_text llvm_tiles=amx_tiles "
        "llvm_values=values",
    },
    "loopir.runtime": {
        "loopir.runtime.cpu": "cpu=runtime direct=direct_call memory=arena pool=thread_pool",
        "loopir.runtime.cuda": "nvrtc driver launch blocks=memory_pool maps=tensor_maps graphs native=native_call "
        "machine=machine_code disassembler record=launch_record",
        "loopir.runtime": "tiles=amx_permission checks=bounds_report",
    },
    "loopir.intrinsics": {
        "loopir.intrinsics.ops": "arith compare division expand gates math monoids rounding",
        "loopir.intrinsics.nvidia": "copies=cp_async mma mma_tf32 pairs=packed_x2 stmatrix tma warp=warp_shuffle wgmma",
        "loopir.intrinsics.x86": "amx dot stream=stream_store weave=interleave",
    },
    "loopir.testing": {
        "loopir.testing.generate": "draws expressions families gpu_families gpu_programs chains empties extremes guarded index_values nests "
        "programs=operation_programs scope strategies tensors tiny trees steps habits=argument_needs "
        "plausible=candidate_steps questions=argument_questions questions_memory=memory_questions warp_programs",
        "loopir.testing.oracles": "oracles banks=bank_conflicts brute=brute_force dataflow=last_writers "
        "equivalence fences=guard_bytes gpu_memory instances=access_trace points=isl_points promises=loop_kinds "
        "rounding ulp unchecked",
        "loopir.testing": "apart=subprocess_rounds",
    },
    "loopir": {
        "loopir.cli": "bench demo doctor",
    },
    "schedules": {
        "schedules.common": "fusion matmul=contraction nests=nest_queries operands products scatter stencil direct=direct_conv transpose",
        "schedules.cpu": "rows=row_fusion columns=column_reduction cpu=auto_cpu folds=split_reduction matmul_amx "
        "matmul_cpu matmul_pairs=matmul_vnni streams=nontemporal_stores turns=register_transpose windows=sliding_windows product_chains",
        "schedules.gpu": "along=row_threads elementwise gpu=auto_gpu grouped=grouped_columns matmul_mma matmul_simt "
        "matmul_split=matmul_split_k matmul_stream=matmul_stream_k matmul_tiles=tile_choice matmul_wgmma neighbours=stencil_rows "
        "reduction row_blocks store_boxes=tma_store scan conv "
        "deep=deep_contraction short_folds",
    },
}
# ---------------------------------------------------------------- names, by the module that defines them
RENAMES: dict[str, str] = {
    "loopir.ir.grammar": "Do=InstrRegion Role=WarpSpecialized Issue=InstrCall Box=TmaBox Init=MBarrierInit "
    "Expect=ExpectTx Await=MBarrierWait Commit=AsyncCommit Wait=AsyncWait Hold=RegisterFence Budget=SetMaxRegs",
    "loopir.ir.index": "Opaque=ValueToIndex Truth=ValueToCond without=cancel_factors",
    "loopir.ir.values": "Of=IndexToValue",
    "loopir.ir.ops": "Aim=OperandAddress Level=IssueScope LEVELS=ISSUE_SCOPES instruction_called=find_instruction",
    "loopir.ir.copies": "Names=Renaming Taken=UsedNames renamed=rename_symbols fresh_copy=clone_fresh",
    "loopir.ir.descriptors": "Matrix=MatrixDescriptor matrix=matrix_descriptor box=box_descriptor "
    "swizzled=swizzle_byte MOST=MAX_CELLS",
    "loopir.ir.here": "Here=VerifyContext Checked=VerifiedNest usable=require_usable new_name=declare_name",
    "loopir.ir.holds": "inside=child_stmts loaded=loaded_buffers accessed=accessed_buffers written=leaf_writes "
    "stored=stored_buffers declared=declared_names called=name_of_stmt started=reduction_start_loops",
    "loopir.ir.inits": "outermost=reduction_start_loop init_of=explicit_init_of",
    "loopir.ir.interpret": "watched=trace_accesses holds=cond_holds",
    "loopir.ir.issue": "run_of=elements_per_run reached=operand_elements ordered=in_memory_order _told=_matrix_elements",
    "loopir.ir.kept": "memory=cache_of kept=memoized learn=seed_memo known=peek_memo once=cached",
    "loopir.ir.labels": "labelled=labels_in hinted=has_cache_hint",
    "loopir.ir.layouts": "made_of=reads_only elements=fragment_elements tile=register_tile tiled=is_tiled "
    "_apart=_all_distinct span=element_span injective=is_injective _terms=_separate_terms",
    "loopir.ir.match": "misplaced=misplaced_operand same=same_registers difference=register_mismatch nest=perfect_nest "
    "guarded=guarded_nest linear=linear_coefficients _told=_describe_value",
    "loopir.ir.packing": "packed=layout_from_map packs=is_injective_map bounds=index_bounds",
    "loopir.ir.python": "Python=PythonExpr Lines=PythonLines",
    "loopir.ir.rebuild": "learn_operations=seed_operations",
    "loopir.ir.sizes": "linear=size_equation",
    "loopir.ir.spmd": "Meet=BarrierArrival Together=CollectiveIssue Exchange=ShuffleEvent",
    "loopir.ir.spoken": "variables=free_vars sees=is_affine_visible spoken=expr_facts Spoken=ExprFacts "
    "loads_of=guarded_loads",
    "loopir.ir.substitute": "speaking=keep_mentions guard=substitute_guard starts_in=reduction_starts",
    "loopir.ir.walk": "Place=StmtPath Top=TopLevelNest Called=ByName exchanged=replace_stmt relisted=replace_block "
    "along=rebuild_path places=leaf_paths places_in=leaf_paths_in places_of=leaf_paths_of tops=top_level_nests "
    "tops_in=top_level_nests_in way_to=path_to chain=path_within root=enclosing_nest sole=only_leaf fresh=fresh_name "
    "replaced=replace_names over_replaced=replace_over declaring=nests_declaring touching=nests_touching "
    "names=taken_names rebuffer=replace_buffers _Held=_NestContents _held=_nest_contents each_nest=for_each_nest",
    "loopir.ir.fresh": "fresh=fresh_name replaced=replace_names",
    "loopir.ir.watch": "Who=CurrentThread Touch=AccessRecord Filling=PendingWrite Outside=OutOfArray "
    "Slot=MBarrierState Memory=CheckedMemory",
    # ---- arithmetic
    "loopir.analysis.affine": "plain=expand_index summed=sum_of_products shifted=var_plus_const joined=monomial_product "
    "without=divide_monomial constant=constant_poly atom=atom_poly plus=poly_add times=poly_mul scaled=poly_scale "
    "add_to=poly_add_to",
    "loopir.analysis.bits": "by_divisions=xor_by_divisions greatest=greatest_value",
    "loopir.analysis.premises": "Premises=Assumptions",
    "loopir.analysis.prove": "decided=decide_nonnegative endless=grows_without_bound divided=poly_divmod "
    "_tied=_relevant_facts _telling=_useful_facts",
    "loopir.analysis.samples": "refuted=refuted_by_sample first=cheapest_kinds point_of=sample_point LARGE=TILED_SIZE "
    "_moved=_move_point",
    "loopir.analysis.simplify": "forget=clear_caches",
    "loopir.analysis.statements": "Statement=RuleStatement",
    "loopir.analysis.upper": "upper=upper_bound most=max_trip_count",
    # ---- analysis
    "loopir.analysis.access": "that_meet=conflicting_pairs _alike=_same_accesses",
    "loopir.analysis.between": "Spoilt=InterveningWrite spoilt=intervening_write written_before=is_written_before",
    "loopir.analysis.bounds": "Outside=OutOfBoundsAccess outside=find_out_of_bounds Here=BoundsContext "
    "unproved=unproved_accesses _told=_describe_access SHORT=INT32_END LONG=OFFSET_END",
    "loopir.analysis.bundles": "bundled=access_groups unclear=unresolved_pairs clashing=has_write _whole=_any_access",
    "loopir.analysis.constants": "constants=known_constants _together=_unique_constants",
    "loopir.analysis.corner": "corner=lexmin_by_bounds _apart=_split_hidden",
    "loopir.analysis.counterexample": "Wrong=Counterexample MOST=MAX_ITERATIONS",
    "loopir.analysis.counts": "counted=sum_over_instances formula=to_sympy",
    "loopir.analysis.coverage": "missing=find_missing twice=find_duplicate there=is_covered first=first_statement",
    "loopir.analysis.depend": "apart=concurrent_conflict meet=may_conflict matter=conflict_filter "
    "sooner=order_in_loop both=joint_orders clashing=conflicting_accesses carried=loop_carried least=least_clash "
    "times=instance_times",
    "loopir.analysis.distance": "touches=has_conflict",
    "loopir.analysis.example": "occurs=has_sample LARGE=SAMPLE_SIZE",
    "loopir.analysis.flow": "Given=InputValue Void=UnwrittenValue Unseen=Unanalyzable Folded=FoldedValue",
    "loopir.analysis.lifetimes": "Overwritten=LifetimeClash overwritten=lifetime_clash clobbered=clobbered_read "
    "moves_on=is_sliding_window _told=_describe_clash _alike=_match_element",
    "loopir.analysis.moments": "moment=time_of touching=iterations_touching comes_between=touches_between",
    "loopir.analysis.moved": "Came=Origin Origin=Origins order_broken=violated_dependence tied=permutation_invariant "
    "_alike=_common_prefix _alone=_unit_variable _left_alone=_unchanged_nests",
    "loopir.analysis.multicast": "told_by=multicast_obstacle",
    "loopir.analysis.offsets": "told_by_element=element_determines_loops _told=_drop_constants "
    "_told_by_guards=_subscripts_by_guards offsets=distance_vectors Offsets=DistanceVectors ahead=order_sign "
    "back=reverse_vectors allowed=allowed_orders _apart=_difference_row",
    "loopir.analysis.operands": "misfit=operand_misfit pointed=address_element _told=_describe_operand "
    "_told_of_any=_holds_for_all_tiles _apart=_row_pitch words=descriptor_words",
    "loopir.analysis.refute": "refuted=is_infeasible",
    "loopir.analysis.regions": "Box=Footprint Touch=RegionAccess touches=accesses_in region=footprint "
    "tellings=guard_facts Told=GuardFacts outward=outer_facts loose=poly_variables sized=widen_to_sizes "
    "parts=evaluated_parts loads_in=guarded_loads_in _alike=_group_alike",
    "loopir.analysis.relabel": "Relabelling=Retiling",
    "loopir.analysis.running": "running=running_monoid told_apart=folds_disjoint once=counted_once",
    "loopir.analysis.system": "System=ConstraintSystem",
    "loopir.analysis.traffic": "Moved=BufferTraffic Work=KernelWork",
    "loopir.analysis.unfused": "unfused=delinearize",
    "loopir.analysis.validate": "Apart=NotEqual _told=_describe_term MOST=MAX_TERM_CHARS WIDEN=MAX_WIDENINGS",
    "loopir.analysis.warps": "banked=words_per_bank",
    # ---- schedule
    "loopir.schedule.caches": "Site=CacheSite Copied=CachedBox copied=cached_box redirected=redirect_loads "
    "require_kept=require_unmodified less=less_base done_in=accesses_of dtype_named=find_dtype",
    "loopir.schedule.confine": "confined=shrink_into_loop having=with_alloc_inside touched=iteration_footprint "
    "settled=shrink_where_possible reindexed=rebase_accesses renewable=may_renew",
    "loopir.schedule.expand": "expanded_buffer=expand_buffer expanded=expand_accesses",
    "loopir.schedule.find": "written=written_buffers listing=join_names closest=close_names",
    "loopir.schedule.following": "followed=sliding_lag apart=touched_in_one_iteration alone=is_bare_nest "
    "carries=nest_carries Behind=Lag LARGE=SAMPLE_SIZE",
    "loopir.schedule.hints": "live=drop_dead_hints",
    "loopir.schedule.launches": "gone_with=loops_gone_with",
    "loopir.schedule.look": "Touch=StageAccess touches=stage_accesses step=loop_stride reduced=reduced_loops",
    "loopir.schedule.parts": "tidy_part=loop_part unspoken=drop_unused_over _moved=_shift",
    "loopir.schedule.placement": "Moved=MovedNest moved=move_nest promised=keep_loop_kinds opened=open_allocs "
    "all_there=runs_every_instance",
    "loopir.schedule.promises": "require_promises=require_loop_kinds",
    "loopir.schedule.refusal": "as_it_lies=witness_in_memory on_the_way_from=refusal_inside told_as=refusal_in_loops_of "
    "as_told=witness_in_loops_of side_told=side_in_loops_of told=map_witness",
    "loopir.schedule.schedule": "lend=register_method",
    "loopir.schedule.siblings": "brought_together=extend_allocs_back lasting=extend_allocs_forward joined=join_nests "
    "relabelled=retiled_body",
    "loopir.schedule.wider": "touches_more=may_touch_more",
    # ---- lower
    "loopir.lower.instructions": "instructions=expand_instructions",
    "loopir.lower.kernels": "kernels=outline_kernels",
    "loopir.lower.memories": "memories=map_memories",
    "loopir.lower.checks": "checks=insert_bounds_checks told=describe_tests _told=_describe_test",
    "loopir.lower.flatten": "flatten=flatten_buffers",
    "loopir.lower.guards": "guards=unswitch",
    "loopir.lower.uniform": "uniform=hoist_vector_guards",
    "loopir.lower.threads": "threads=bind_threads",
    "loopir.lower.spread": "spread=distribute_fragments",
    "loopir.lower.cross_thread": "cross_thread=lower_thread_reductions _Together=_ThreadReductions",
    "loopir.lower.owned": "owned=privatize_locals",
    "loopir.lower.barriers": "barriers=insert_barriers _told=_witness_of _together=_collective_axes",
    "loopir.lower.fragments": "fragments=lower_fragments",
    "loopir.lower.vectors": "vectors=vectorize_memory",
    "loopir.lower.pairs": "pairs=pack_x2",
    "loopir.lower.near": "near=guard_fast_paths MOST=MAX_ARGUMENTS",
    "loopir.lower.settled": "settled=bound_unrolled_guards",
    "loopir.lower.share": "share=cse",
    "loopir.lower.rooms": "rooms=check_static_allocs",
    "loopir.lower.trees": "ROOM=MAX_SHARED_BYTES",
    "loopir.lower.waits": "waits=insert_copy_waits",
    "loopir.lower.stores": "stores=insert_store_waits MOST=MAX_GROUPS",
    "loopir.lower.products": "products=insert_wgmma_waits MOST=MAX_GROUPS _apart=_iterations_apart",
    "loopir.lower.rings": "rings=insert_mbarrier_waits MOST=MAX_BARRIERS bytes_of=transaction_bytes",
    "loopir.lower.roles": "roles=warp_specialize _apart=_specialize_kernel",
    "loopir.lower.turns": "turns_of=ring_slot Order=TurnOrder",
    "loopir.lower.proxies": "proxies=insert_proxy_fences",
    # ---- codegen
    "loopir.emit.cuda_index": "MOST=INT32_END bounds=index_bounds _terms=_summands",
    "loopir.emit.cuda_offsets": "copies=unrolled_copies begun=hoist_offset_bases",
    "loopir.emit.cuda_rings": "met=hardware_barriers",
    "loopir.emit.cuda_shared": "carved=shared_offsets bytes_of=buffer_bytes",
    "loopir.emit.cuda_unasked": "unasked=speculated_register",
    "loopir.emit.division": "MOST=INT32_END natural=is_nonnegative",
    "loopir.emit.host": "bytes_of=host_bytes",
    "loopir.emit.cuda": "SHORT=MAX_UNROLLED_STMTS HELD=REGISTER_FENCE",
    "loopir.emit.llvm_loops": "left_alone=no_optimize_note Left=RemainingWork Work=LoopWork",
    # ---- runtime
    "loopir.runtime.arrays": "Taken=BorrowedArray take=borrow _apart=_require_no_overlap _asked=_array_facts",
    "loopir.runtime.blocks": "Kept=StreamBlocks Blocks=MemoryPool",
    "loopir.runtime.direct": "MOST=MAX_ARRAYS",
    "loopir.runtime.maps": "Told=MapDescriptor Map=TensorMap",
    "loopir.runtime.plans": "MOST=MAX_PLANS",
    "loopir.runtime.record": "MOST=MAX_LAUNCHES recorded=record_launches",
    "loopir.runtime.machine": "waits_first=kernels_that_wait_first",
    "loopir.shapes": "_told=_determined_size",
    # ---- intrinsics
    "loopir.intrinsics.stream": "MOST=MAX_ELEMENTS",
    "loopir.intrinsics.tma": "MOST=MAX_BOX_EXTENT",
    "loopir.intrinsics.weave": "MOST=MAX_COLUMNS",
    "loopir.intrinsics.wgmma": "MOST=MAX_COLUMNS",
    # ---- primitives
    "loopir.schedule.primitives.prefetch": "MOST=MAX_LINES",
    "loopir.schedule.primitives.specialize_warps": "MOST=MAX_REGISTERS LEAST=MIN_REGISTERS STEP=REGISTER_STEP",
    "loopir.schedule.primitives.reverse_compute_inline": "_told=_refusal_in_loops_of",
    "loopir.schedule.primitives.hoist": "_whole=_hoist_unit",
    "loopir.schedule.primitives.cache_read": "_whole=_runs_inside",
    "loopir.schedule.primitives.decompose_reduction": "_alike=_same_start",
    "loopir.schedule.primitives.pad": "_moved=_shift_term",
    "loopir.schedule.primitives.fuse_loops": "_moved=_shift_body _inside=_runs_while",
    "loopir.schedule.primitives.scan_blocks": "_terms=_operands",
    # ---- testing
    "loopir.testing.apart": "apart=run_rounds TOLD=MAX_TAIL_CHARS",
    "loopir.testing.checking": "put=judge_case",
    "loopir.testing.mutants.run": "told=describe_result",
    "loopir.tensor.core": "settled=stage_reduction",
    "schedules.transpose": "Turned=TransposedRead turned=find_transposed_read",
    "loopir.schedule.primitives.partition": "_terms=_decided_terms Settled=Interior",
    "loopir.testing.brute": "_told=_tagged_value broken=first_violation",
    "loopir.testing.promises": "_told=_describe_events _apart=_lane_difference",
    "loopir.testing.equivalence": "_apart=_first_beyond_rounding",
    "loopir.testing.oracles": "_apart=_wrong_place_witness",
    "loopir.testing.plausible": "plausible=candidate_steps some=random_candidate_steps",
    "loopir.testing.questions_memory": "_alike=_same_type_and_shape",
    "loopir.testing.families": "LARGE=MAX_COSTLY_NUMBER",
    # ---- ready-made schedules
    "schedules.along": "along=spread_row worth=threads_worth evenly=threads_evenly",
    "schedules.folds": "_apart=_fold_privately",
    "schedules.reduction": "_apart=_split_stage LARGE=LARGE_BYTES SHORT=SHORT_ROW",
    "schedules.matmul": "apart=separate_operands LARGE=LARGE_MATRIX _together=_copy_by_square",
    "schedules.matmul_wgmma": "LARGE=LARGE_TILE _together=_copy_by_threads",
    "schedules.matmul_mma": "_together=_copy_by_warps SHORT=SHORT_NAMES _whole=_whole_copies",
    "schedules.matmul_simt": "_together=_copy_by_lanes",
    "schedules.matmul_amx": "_whole=_whole_tiles",
    "schedules.direct": "_together=_copy_window",
    "schedules.grouped": "_together=_join_rest",
    "schedules.cpu": "_together=_rows_in_one_loop SHORT=SHORT_LOOP",
    "schedules.gpu": "SHORT=SHORT_ROWS",
    "schedules.row_blocks": "_together=_row_threads SHORT=SHORT_ROW",
    "schedules.store_boxes": "SHORT=SHORT_NAMES bytes_of=result_bytes",
    "schedules.turns": "MOST=MAX_ROWS side=transposed_tile turned_cpu=transpose_cpu",
    "schedules.matmul_tiles": "whole_turns=full_waves _turns=_waves",
}

ATTRS: dict[str, str] = {
    "unsure": "inexact",
    "by_the_first": "serial_fold",
    "telling": "useful_facts",
}

# passes: their names are those of their functions
PASS_NAMES: dict[str, str] = {
    "instructions": "expand_instructions", "inits": "explicit_init", "kernels": "outline_kernels",
    "memories": "map_memories", "spread": "distribute_fragments", "uniform": "hoist_vector_guards",
    "threads": "bind_threads", "cross_thread": "lower_thread_reductions", "barriers": "insert_barriers",
    "waits": "insert_copy_waits", "stores": "insert_store_waits", "roles": "warp_specialize",
    "rings": "insert_mbarrier_waits", "products": "insert_wgmma_waits", "proxies": "insert_proxy_fences",
    "checks": "insert_bounds_checks", "fragments": "lower_fragments", "flatten": "flatten_buffers",
    "vectors": "vectorize_memory", "pairs": "pack_x2", "settled": "bound_unrolled_guards",
    "near": "guard_fast_paths", "share": "cse", "guards": "unswitch", "rooms": "check_static_allocs",
}  # fmt: skip
