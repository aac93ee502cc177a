"""What people bring to a nest: each is built, or refused in a sentence that says what to write instead."""

import numpy as np
import pytest

import loopir as lp

HEAD = 'def f(n: "size", a: "float32[n]", out: "out float32[n]"):\n    for i in range(n):\n'
REFUSED = [
    ("while a[i] > 0.0:\n            out[i] = a[i]", "there is no while: .* for t in range"),
    ("break", "there is no break: .* under an if"),
    ("continue", "there is no continue: .* the opposite condition"),
    ("return a[i]", 'a nest gives nothing back: .* annotated "out'),
    ("out[:] = a[:]", "a nest has no slices: write the loop"),
    ("t = 0.0", r"the literal 0.0 has no type here; write float32\(0.0\)"),
    ("t = i * 2", "an index becomes a value by a cast, such as int64"),
    ("i = a[i]", "is a size or a loop, and stays what it is"),
]


@pytest.mark.parametrize(("line", "told"), REFUSED)
def test_what_there_is_not_says_what_to_write(line: str, told: str) -> None:
    with pytest.raises(lp.ParseError, match=told) as caught:
        lp.parse(HEAD + f"        {line}\n")
    assert caught.value.lineno == 3


def test_complex_arrays_are_two() -> None:
    with pytest.raises(TypeError, match=r"no complex type: pass z\.real and z\.imag"):
        lp.placeholder((4,), "complex64", name="z")
    with pytest.raises(lp.ParseError, match=r"no complex type: pass z\.real and z\.imag"):
        lp.parse('def f(z: "complex64[4]"):\n    pass\n')


def test_a_function_typed_at_a_prompt_has_no_source() -> None:
    scope: dict[str, object] = {"lp": lp}
    with pytest.raises(lp.ParseError, match=r"at a prompt or run by exec; put f into a file, or .* lp\.parse"):
        exec('@lp.func\ndef f(n: "size"):\n    pass\n', scope)


def test_a_local_scalar_is_memory_for_the_rest_of_its_block() -> None:
    f = lp.parse(
        HEAD + "        t = a[i] + 1.0\n        if t > 4.0:\n            t = t - 4.0\n        out[i] = t * t\n"
    )
    assert lp.parse(lp.text(f)) == f
    assert 'with alloc("float32[]", scope="local") as t:' in lp.text(f)
    x = np.arange(8, dtype=np.float32)
    t = np.where(x + 1 > 4, x - 3, x + 1)
    for target in ("interpret", "llvm"):
        assert np.array_equal(lp.Schedule(f).parallel("i").build(target)(x), t * t)


def test_a_while_with_a_bound_and_an_early_exit() -> None:
    """Newton's square root, which ends when it is close: iterations that are left over do nothing."""
    f = lp.parse("""
    def root(n: "size", a: "float64[n]", x: "out float64[n]", steps: "out int32[n]"):
        for i in range(n):
            x[i] = a[i]
            steps[i] = 0
            for t in range(60):
                if abs(x[i] * x[i] - a[i]) > 1e-9 * a[i]:
                    x[i] = 0.5 * (x[i] + a[i] / x[i])
                    steps[i] += 1
    """)
    a = np.array([1.0, 2.0, 100.0, 1e6])
    x, steps = lp.Schedule(f).parallel("i").build("llvm")(a)
    assert np.allclose(x, np.sqrt(a))
    assert steps[0] == 0 < steps[1] < steps[3] < 60


def test_sums_over_ranges_that_are_read_from_memory() -> None:
    """Compressed rows; a row that would leave the values raises BoundsError, and nothing is read there."""
    f = lp.parse("""
    def sums(n: "size", m: "size", ptr: "int32[n + 1]", v: "float32[m]", out: "out float32[n]"):
        for i in range(n):
            t = float32(0.0)
            for k in range(ptr[i + 1] - ptr[i]):
                t = t + v[ptr[i] + k]
            out[i] = t
    """)
    kernel = lp.Schedule(f).parallel("i").build("llvm")
    v = np.arange(5, dtype=np.float32)
    assert kernel(np.array([0, 2, 2, 5], np.int32), v).tolist() == [1.0, 0.0, 9.0]
    with pytest.raises(lp.BoundsError):
        kernel(np.array([0, 2, 2, 9], np.int32), v)


def test_complex_numbers_as_pairs_and_outputs_in_place_by_name() -> None:
    n = lp.symbol("n")
    x, y = (lp.placeholder((n, 2), "float32", name=v) for v in "xy")
    re = x[:, 0] * y[:, 0] - x[:, 1] * y[:, 1]
    im = x[:, 0] * y[:, 1] + x[:, 1] * y[:, 0]
    kernel = lp.Schedule(lp.stack((re, im), axis=1).named("z")).build("llvm")
    a, b = np.array([1 + 2j, 3 - 1j], np.complex64), np.array([2 - 1j, 1j], np.complex64)
    out = np.empty((2, 2), np.float32)
    kernel(a.view(np.float32).reshape(-1, 2), b.view(np.float32).reshape(-1, 2), out={"z": out})
    assert np.array_equal(out.view(np.complex64)[:, 0], a * b)
    with pytest.raises(TypeError, match="there is no output 'q'; the outputs are z"):
        kernel(out, out, out={"q": out})


def test_strided_and_column_major_arrays_are_copied_with_a_warning() -> None:
    n = lp.symbol("n")
    kernel = lp.Schedule(lp.placeholder((n, n), "float32", name="x") * 2.0).build("llvm")
    for array in (np.ones((8, 8), np.float32)[::2, ::2], np.asfortranarray(np.ones((4, 4), np.float32))):
        with pytest.warns(RuntimeWarning, match=r"not contiguous.*np\.ascontiguousarray"):
            assert np.array_equal(kernel(array), array * 2)
