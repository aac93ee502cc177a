# %% [markdown]
# # 7. From three loops to tensor cores
#
# `C = A @ B` is three loops. Here they become, one primitive at a time, a kernel for Hopper's tensor cores: tiles
# fetched by its copy engine into swizzled shared memory, by warps that do nothing else, products by warpgroups on what
# has arrived while more is on its way, results that leave by themselves. No step knows that it looks at a product of
# matrices, and each is proved. What each wins on a GPU is at the end. `schedules.matmul_wgmma` takes these steps for
# any size.

# %%
import numpy as np

import loopir as lp

M, N, K = 4096, 4096, 4096
A = lp.placeholder((M, K), "bfloat16", name="A")
B = lp.placeholder((K, N), "bfloat16", name="B")
k = lp.reduce_axis(K, name="k")
sums = lp.compute((M, N), lambda i, j: lp.sum(lp.cast(A[i, k], "float32") * lp.cast(B[k, j], "float32"), axis=k),
                  name="sums")  # fmt: skip
C = lp.compute((M, N), lambda y, x: lp.cast(sums[y, x], "bfloat16"), name="C")
s = lp.Schedule(C)
print(s)

# %% [markdown]
# ## A tile for each block
#
# The result is cut in tiles of 128 x 256. Tiles are taken in bands of 8 rows, column by column, so that those that run
# at once share operands in the cache; each of 128 blocks of threads stays, and takes one tile after the other.

# %%
s = s.split("y", 128).split("x", 256).reorder("y_o", "x_o", "y_i", "x_i")
s = s.split("y_o", 8, names=("band", "row")).reorder("band", "x_o", "row").fuse("band", "x_o")
s = s.fuse("band_x_o", "row", name="tile").split("tile", 128, names=("turn", "block")).reorder("block", "turn")
s = s.bind("block", "blockIdx.x")
print(s)

# %% [markdown]
# ## The sums in registers, the results in shared memory
#
# `compute_at` makes the sums where their tile is written, and their memory is to be a fragment: spread over the
# registers of the threads, as the instruction that comes later asks. What is made of them, here a conversion, an
# activation just as well, goes to shared memory in slices of 64 columns, from where they leave by themselves;
# `fold_storage` keeps two of them.

# %%
s = s.compute_at("sums", "turn").set_scope("sums", "fragment").cache_write("C", "shared", at="turn")
s = s.split("x_i", 64, tail="exact", names=("slice", "x_i")).reorder("slice", "y_i", "x_i")
s = s.split("x_i_out", 64, tail="exact", names=("slice_out", "x_i_out")).reorder("slice_out", "y_i_out", "x_i_out")
s = s.fuse_loops("slice", "slice_out").unroll("slice").fold_storage("C_shared", 1, 128)

# %% [markdown]
# ## Warpgroups
#
# A warpgroup is four warps, 128 threads, and the instruction `wgmma` computes 64 rows in one. Two of them share the
# tile, when it is computed and when it is written.

# %%
s = s.split("y_i", 64, tail="exact").bind("y_i_o", "warpgroup")
s = s.split("y_i_out", 64, tail="exact").bind("y_i_out_o", "warpgroup")
s = s.split("k", 64).split("k_i", 16, tail="exact").split("i", 64, tail="exact")
s = s.reorder("k_o", "i_o", "k_i_o", "i_i", "j", "k_i_i").bind("i_o", "warpgroup").unroll("k_i_o")

# %% [markdown]
# ## Tiles of the operands in shared memory
#
# `cache_read` copies what 64 steps of the reduced loop need. The layouts put 64 elements, 128 bytes, in a row, and
# exchange the 16-byte parts of each by its number, so that eight rows read together meet all banks: `^` is exclusive
# or. They are mappings of indices that can be undone, nothing more; the descriptors of the hardware are worked out from
# them.

# %%
swizzle = "lambda x, y: y // 64 * {} + x * 64 + (y // 8 % 8 ^ x % 8) * 8 + y % 8"
s = s.cache_read("sums", "A", "shared", at="k_o").set_layout("A_shared", swizzle.format(128 * 64))
s = s.cache_read("sums", "B", "shared", at="k_o").set_layout("B_shared", swizzle.format(64 * 64))
s = s.set_layout("C_shared", swizzle.format(128 * 64))
print(s)

# %% [markdown]
# ## Instructions
#
# `tensorize` has a nest done by one instruction. An instruction is declared by what it means, itself a nest, and the
# match unifies the two: loops, regions, memories, layouts. A tile in another layout would be refused, with the reason.
# Boxes are fetched and stored by the tensor memory accelerator; barriers for what arrives, and waits until what leaves
# is read, are placed in lowering, by analysis.

# %%
for tile, box in (("A_shared", "tma_load_128x64_bf16"), ("B_shared", "tma_load_64x64_bf16")):
    rows, columns = s.loops(tile)[-2:]
    s = s.split(columns, 64, tail="exact").reorder(f"{columns}_o", rows, f"{columns}_i").unroll(f"{columns}_o")
    s = s.tensorize(rows, box)
s = s.tensorize("i_i", "wgmma_m64n256k16_bf16").tensorize("y_i_out_i", "tma_store_64x64_bf16")

# %% [markdown]
# ## Copies under way
#
# `pipeline` fetches iterations ahead, into four tiles in turn. Every wait follows from a dependence.

# %%
ahead = s.pipeline("k_o", stages=4, ahead=2)
print(ahead)

# %% [markdown]
# ## Warps of their own for the copies
#
# Or a warpgroup that does nothing else makes the copies, for the next tile while this one is made and stored, too. Its
# threads give their registers to those that multiply. Full and empty barriers, which tell each side how far the other
# one is, and their parity, are lowering's.

# %%
s = s.specialize_warps("k_o", stages=4, registers=(40, 232))
print(s)
compiled = lp.compile_source(s, arch="sm_90a")
(resources,) = compiled.resources.values()
print(resources)
assert resources.spill_stores == 0
assert "wgmma.mma_async" in compiled.source
assert "setmaxnreg" in compiled.source

# %% [markdown]
# The interpreter knows what each instruction means, so that the same steps are checked with no GPU: a wait that is
# missing, a tile that is overwritten too early or a wrong swizzle would be seen. Here is a smaller product.

# %%
from loopir import schedules  # noqa: E402

a = lp.placeholder((64, 128), "bfloat16", name="a")
b = lp.placeholder((16, 128), "bfloat16", name="b")
small = schedules.matmul_wgmma(lp.Schedule(a @ b.T), "matmul", block=(64, 16), stages=2)
rng = np.random.default_rng(0)
given = [rng.integers(-4, 5, shape).astype(small.buffer("a").dtype.numpy) for shape in ((64, 128), (16, 128))]
found = small.build("interpret")(*given).astype(np.float32)
want = (given[0].astype(np.float32) @ given[1].astype(np.float32).T).astype(given[0].dtype).astype(np.float32)
assert (found == want).all()

# %% [markdown]
# ## What it wins
#
# `benchmarks/results/gpu_walk.txt`, commit e99f361, a product of 4096 x 4096 matrices of bfloat16 on an NVIDIA H200.
# From the first by warpgroups on, each has all of those before it; the order is that in which they win most.
#
# | | TFLOP/s |
# |---|---|
# | one thread an element | 5.3 |
# | tiles in shared memory and registers | 35.5 |
# | tensor cores by warps (`mma.sync`, `cp.async`) | 391.1 |
# | by warpgroups (`wgmma`) in tiles of 128 x 128, boxes (`tma_load`) that are waited for at once | 302.8 |
# | copies under way (`pipeline`) | 618.7 |
# | tiles of 128 x 256, in bands of 8 rows of tiles | 704.3 |
# | results through shared memory, written in rows | 756.7 |
# | results as boxes (`tma_store`) | 766.9 |
# | blocks that stay, warps of their own for the copies (`specialize_warps`): the kernel above | 773.8 |
# | cuBLAS | 782.2 |
