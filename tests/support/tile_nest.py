"""A tile that is copied from memory and to it, as loops."""

NEST = """
def f(A: "int8[16, 64]", C: "out int8[16, 64]"):
    with alloc("int8[16, 64]", scope="tiles", layout=mapped(lambda x, k: x * 64 + k)) as T:
        for x in range(16):
            for k in range(64):
                T[x, k] = A[x, k]
        for y in range(16):
            for l in range(64):
                C[y, l] = T[y, l]
"""
