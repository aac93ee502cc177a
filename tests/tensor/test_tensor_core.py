"""Tensors as expressions: shapes that broadcast, outputs, names, and what is refused."""

import operator

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from running import assert_as_numpy, inputs, run, sample

import loopir as lp


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_shapes_broadcast_as_in_numpy(data: st.DataObject) -> None:
    whole = data.draw(st.lists(st.integers(0, 3), max_size=3))
    shapes = []
    for _ in range(2):
        cut = whole[data.draw(st.integers(0, len(whole))) :]
        shapes.append([1 if data.draw(st.booleans()) else d for d in cut])
    if data.draw(st.integers(0, 3)) == 0 and shapes[0]:
        shapes[0][-1] += 2
    x, y = sample("int32", shapes[0]), sample("int32", shapes[1], 1)
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        with pytest.raises(lp.ExprError, match="do not broadcast"):
            operator.sub(*inputs(x, y))
    else:
        assert_as_numpy(operator.sub, operator.sub, x, y)


def test_refusals() -> None:
    x, k, p = (lp.placeholder(s, t, name="x") for s, t in (((3, 4), "float32"), ((4,), "int8"), ((4,), "bool")))
    with pytest.raises(lp.ExprError, match=r"add: x float32\[3, 4\] and .* do not broadcast"):
        x + x[:, :3]
    with pytest.raises(TypeError, match="& takes bool or int or uint"):
        x & x
    with pytest.raises(TypeError, match="- takes float or int or uint, and is given bool"):
        p - p
    with pytest.raises(TypeError, match="pow of integers takes a whole number from 0 to 16"):
        k**k
    with pytest.raises(lp.ExprError, match="300 is no int8"):
        k + 300
    with pytest.raises(TypeError, match="no truth"):
        bool(x == x)
    with pytest.raises(TypeError, match=r"is no tensor expression: declare it, as lp\.placeholder"):
        lp.maximum(x, np.ones((3, 4)))
    with pytest.raises(lp.ExprError, match='it is "none" or "tanh"'):
        lp.gelu(x, approximate="sigmoid")
    with pytest.raises(TypeError, match=r"there is no complex type: pass z\.real and z\.imag"):
        x.astype(np.complex64)
    with pytest.raises(lp.ExprError, match="a name is an identifier"):
        lp.placeholder((3,), name="not one")
    with pytest.raises(lp.ExprError, match="-1 is no size"):
        lp.placeholder((-1,), name="x")


def test_names_that_clash_are_refused() -> None:
    one, two = lp.placeholder((3,), name="x"), lp.placeholder((3,), name="x")
    with pytest.raises(lp.ExprError, match="called 'x'"):
        lp.Schedule(one + two)
    small, large = lp.symbol("n"), lp.symbol("n", min=8)
    with pytest.raises(lp.ExprError, match="size 'n' is declared twice"):
        lp.Schedule(lp.placeholder((small,), name="x").sum() + lp.placeholder((large,), name="y").sum())


def test_several_outputs() -> None:
    x = sample("float32", (3, 4))
    (a,) = inputs(x)
    double = (a * 2.0).named("double")
    one, two, same, given = run([double, double.sum(axis=0), double, a], x)
    np.testing.assert_array_equal(one, x * 2)
    np.testing.assert_array_equal(two, (x * 2).sum(axis=0))
    np.testing.assert_array_equal(same, x * 2)
    np.testing.assert_array_equal(given, x)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_symbolic_sizes(n: int) -> None:
    size = lp.symbol("n", min=0)
    a, b = lp.placeholder((size, 3), name="a"), lp.placeholder((size,), name="b")
    x, y = sample("float32", (n, 3)), sample("float32", (n,), 1)
    np.testing.assert_array_equal(run((a * b[:, None]).sum(axis=0), x, y), (x * y[:, None]).sum(axis=0))
    np.testing.assert_array_equal(run(a.T.reshape(-1), x), x.T.reshape(-1))
    np.testing.assert_array_equal(run(lp.concatenate([a, a[::-1]]), x), np.concatenate([x, x[::-1]]))


def test_a_default_of_the_function_is_no_index() -> None:
    given = [lp.placeholder((3,), "float32", name=f"x{n}") for n in range(2)]
    made = [lp.compute((3,), lambda i, x=x, n=n: x[i] + float(n), name=f"y{n}") for n, x in enumerate(given)]
    assert [len(y.shape) for y in made] == [1, 1]
    a = np.arange(3, dtype=np.float32)
    assert (lp.Schedule(made[1]).build("interpret")(a) == a + 1).all()
