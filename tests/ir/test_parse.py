"""Nests as people write them: each short form, and each refusal by its message."""

import linecache
import random
import subprocess
import sys
from contextlib import suppress

import pytest

import loopir as lp
from loopir.errors import LoopirError, ParseError, VerifyError
from loopir.ir.grammar import Func, Monoid, Reduce
from loopir.ir.parser.parse import func, parse
from loopir.ir.printer import text
from loopir.ir.traverse.walk import leaf_paths

HEAD = 'def f(n: "size", m: "size", a: "float32[n, m]", x: "float32[n]", ix: "int32[n]", p: "bool[n]"):\n'
GLOBAL = 3


def written(body: str) -> str:
    """The body of a nest over `HEAD`'s parameters, as it is printed."""
    source = HEAD + "".join(f"    {line}\n" for line in body.strip().splitlines())
    printed = text(parse(source)).splitlines()[1:]
    return "\n".join(line.removeprefix("    ") for line in printed)


SUGAR = {
    "a start": ("for i in range(1, n):\n    x[i] = x[i - 1]", "for i in range(n - 1):\n    x[i + 1] = x[i]"),
    "a step": ("for i in range(0, n, 2):\n    x[i] = 0", "for i in range((n + 1) // 2):\n    x[i * 2] = 0.0"),
    "a start and a step": (
        "for i in range(1, n, 3):\n    x[i + 1] = 0",
        "for i in range((n + 1) // 3):\n    x[i * 3 + 2] = 0.0",
    ),
    "starts of blocks": (
        "for b in range(n // 8):\n    for i in range(b * 8, b * 8 + 8):\n        for j in range(i + 1, b * 8 + 8):\n"
        "            a[i, j] = 0",
        "for b in range(n // 8):\n    for i in range(8):\n        for j in range(7 - i):\n"
        "            a[i + b * 8, j + (i + b * 8 + 1)] = 0.0",
    ),
    "a grid": (
        "for i, j in grid(n - 1, m - 1):\n    a[i+1, j] = a[i, j+1] + 1.0",
        "for i in range(n - 1):\n    for j in range(m - 1):\n        a[i + 1, j] = a[i, j + 1] + 1.0",
    ),
    "an update": ("for i in range(n):\n    x[0] += x[i] * 2", "for i in range(n):\n    x[0] += x[i] * 2.0"),
    "a difference": ("for i in range(n):\n    x[0] -= x[i]", "for i in range(n):\n    x[0] += -x[i]"),
    "a constant less": ("for i in range(n):\n    ix[i] -= 2", "for i in range(n):\n    ix[i] += -2"),
    "a product": ("for i in range(n):\n    x[0] *= x[i]", "for i in range(n):\n    x[0] = prod(x[i])"),
    "elif": (
        "for i in range(n):\n    if i < 2:\n        x[i] = 1\n    elif x[i] > 2:\n        x[i] = 2",
        "for i in range(n):\n    if i < 2:\n        x[i] = 1.0\n    else:\n        if 2.0 < x[i]:\n"
        "            x[i] = 2.0",
    ),
    "a chain": (
        "for i in range(n):\n    if 0 < i < n - 1 and p[i]:\n        x[i] = 1",
        "for i in range(n):\n    if 0 < i and i < n - 1 and p[i]:\n        x[i] = 1.0",
    ),
    "a choice": (
        "for i in range(n):\n    x[i] = x[i] if x[i] >= 0 else 0",
        "for i in range(n):\n    x[i] = select(0.0 <= x[i], x[i], 0.0)",
    ),
    "a scalar": (
        'with alloc("float32") as t:\n    for i in range(n):\n        t = x[i]\n        t += 1\n        x[i] = t * t',
        'with alloc("float32[]") as t:\n    for i in range(n):\n        t[()] = x[i]\n        t[()] += 1.0\n'
        "        x[i] = t[()] * t[()]",
    ),
    "a bound from memory": (
        "for i in range(n - 1):\n    for j in range(ix[i], ix[i + 1]):\n        x[i] += a[i, j]",
        "for i in range(n - 1):\n    for j in range(ix[i + 1] - ix[i]):\n        x[i] += a[i, j + ix[i]]",
    ),
    "a gather": ("for i in range(n):\n    x[i] = x[ix[i] % 4]", "for i in range(n):\n    x[i] = x[ix[i] % 4]"),
    "a loop name used twice": (
        "for i in range(n):\n    x[i] = 0\nfor i in range(n):\n    x[i] = 1",
        "for i in range(n):\n    x[i] = 0.0\nfor i_1 in range(n):\n    x[i_1] = 1.0",
    ),
    "a loop named as one around it": (
        "for i in range(n):\n    for i in range(3):\n        x[i] = 0\n    x[i] = 1",
        "for i in range(n):\n    for i_1 in range(3):\n        x[i_1] = 0.0\n    x[i] = 1.0",
    ),
    "assumptions": ("assume(n >= 1, m % 4 == 0)\npass", "assume(1 <= n)\nassume(m % 4 == 0)\npass"),
    "an index as a value": (
        "for i in range(n):\n    x[i] = x[i] * i + n",
        "for i in range(n):\n    x[i] = x[i] * float32(i) + float32(n)",
    ),
    "the smaller index": (
        "for i in range(n):\n    x[min(i + 1, n - 1)] = min(i, 3)",
        "for i in range(n):\n    x[min(i + 1, n - 1)] = float32(min(i, 3))",
    ),
    "a condition as a value": (
        "for i in range(n):\n    p[i] = i > 2",
        "for i in range(n):\n    p[i] = bool(cond(2 < i))",
    ),
    "tests joined by & and ~": (
        "for i in range(n):\n    if (i > 2) & ~(i > 4) | (i == 0):\n        x[i] = 0",
        "for i in range(n):\n    if 2 < i and not 4 < i or i == 0:\n        x[i] = 0.0",
    ),
    "a power": ("for i in range(n):\n    x[i] = x[i] ** 2", "for i in range(n):\n    x[i] = pow(x[i], 2.0)"),
    "kinds of loops": (
        'for i in parallel(n):\n    for j in bind("threadIdx.x", 2):\n        x[i] = 0',
        'for i in parallel(n):\n    for j in bind("threadIdx.x", 2):\n        x[i] = 0.0',
    ),
    "a docstring": ('"""What it does."""\nfor i in range(n):\n    x[i] = inf', "for i in range(n):\n    x[i] = inf"),
}


@pytest.mark.parametrize("name", SUGAR)
def test_short_forms(name: str) -> None:
    source, printed = SUGAR[name]
    assert written(source) == printed


def in_loop(statement: str) -> str:
    return f"for i in range(n):\n    {statement}"


REFUSALS = {
    "range(n, 0, -1)": (
        "for i in range(n, 0, -1):\n    x[i] = 0",
        "the step of a range is a positive integer constant",
    ),
    "iterables": ("for i in x:\n    x[i] = 0", "a loop runs over range"),
    "while": ("while True:\n    pass", "there is no while: write the most iterations"),
    "an unknown name": (in_loop("x[q] = 0"), "'q' is no loop, size, array or number known here"),
    "an unknown array": (in_loop("y[i] = 0"), "'y' is no array known here; there are a, x, ix, p"),
    "a whole array": (in_loop("x[i] = a"), "a is a whole array; name an element"),
    "an unknown function": (in_loop("x[i] = foo(x[i])"), "'foo' is no operation of one element; did you mean floor"),
    "rank": (in_loop("x[i, 0] = 0"), "x has 1 dimensions, and 2 indices"),
    "a slice": (in_loop("x[i] = x[i:]"), "a nest has no slices"),
    "division by zero": (in_loop("x[i // 0] = 0"), "divided by 0; the divisor has to be positive"),
    "a float index": (in_loop("x[x[i]] = 0"), "an index from memory is an integer, not float32"),
    "/ of indices": (in_loop("x[i] = i / 2"), "for a value, cast it: float32"),
    "mixed types": (in_loop("x[i] = x[i] + ix[i]"), "float32 and int32 are mixed; cast one"),
    "another type": (in_loop("x[i] = ix[i]"), "int32 stands where float32 is wanted; cast it"),
    "min of values": (in_loop("x[i] = min(x[i], 0)"), "of values there are minimum and maximum"),
    "a float literal": (in_loop("ix[i] = 2.5"), "the literal 2.5 is no int32"),
    "a large literal": (in_loop("ix[i] = 3000000000"), "the literal 3000000000 does not fit int32"),
    "a string": (in_loop("x[i] = 'x'"), ".x. is no value of a nest, which are numbers and bools"),
    "a kind of argument": (in_loop("x[i] = x[i] & x[i]"), "and_ takes bool or int or uint, not float32"),
    "arity": (in_loop("x[i] = exp(x[i], x[i])"), "exp takes 1 arguments, and 2 are given"),
    "a number as a condition": (
        in_loop("if x[i]:\n        x[i] = 0"),
        "a condition is a comparison or a bool, not float32",
    ),
    "in": (in_loop("if i in x:\n        x[i] = 0"), "a condition compares with"),
    "an axis": ('for i in bind("warp", 3):\n    x[i] = 0', "a loop is bound to one of blockIdx.x"),
    "over": (in_loop("x[0] = sum(x[i], over=j)"), "over= names loops around the reduction"),
    "axis=": (in_loop("x[0] = sum(x[i], axis=i)"), "a reduction takes its values, over=, init=, atomic= and label="),
    "argmax of one": (in_loop("x[0] = argmax(x[i], over=i)"), "argmax folds another number of values than 1"),
    "two stores at once": (in_loop("x[0], x[1] = 1, 2"), "several elements are written at once only by a reduction"),
    "a local": (in_loop("i = x[i]"), "i is a size or a loop, and stays what it is"),
    "another update": (in_loop("x[i] /= 2"), "an element is updated by"),
    "an option of alloc": ('with alloc("float32[4]", scop="shared") as t:\n    pass', "alloc takes"),
    "a scope": ('with alloc("float32[4]", scope="warp") as t:\n    pass', "a scope of global, shared, local"),
    "a declaration": ('with alloc("real[4]") as t:\n    pass', "declares no array"),
    "memory": ("with open('x') as t:\n    pass", "memory is taken by"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str) -> None:
    body, message = REFUSALS[name]
    with pytest.raises(ParseError, match=message) as caught:
        written(body)
    assert caught.value.text
    assert caught.value.offset
    assert caught.value.filename == "<nest>"


DECLARATIONS = {
    "no annotation": ("def f(a):\n    pass", "parameter 'a' is annotated with a string"),
    "no type": ('def f(a: "real[4]"):\n    pass', "declares no array"),
    "an unknown size": ('def f(a: "float32[k]"):\n    pass', "'k' is no loop, size, array or number"),
    "defaults": ('def f(a: "float32[4]" = 0):\n    pass', "plain parameters, with no defaults"),
    "*": ('def f(*a: "float32[4]"):\n    pass', "plain parameters"),
    "no function": ("x = 1", "a nest is one function definition"),
    "nothing": ("", "a nest is one function definition"),
    "no monoid": ('def g():\n    pass\ndef f(a: "float32[4]"):\n    pass', "a definition before the nest is a monoid"),
    "Python": ("def f(:", "invalid syntax"),
}


@pytest.mark.parametrize("name", DECLARATIONS)
def test_declarations_refused(name: str) -> None:
    source, message = DECLARATIONS[name]
    with pytest.raises(ParseError, match=message):
        parse(source)


def test_access_is_found_from_the_writes() -> None:
    f = parse('def f(a: "float32[4]", b: "float32[4]", c: "out float32[4]"):\n    b[0] = a[0]\n    c[0] = b[0]')
    assert [a.access for a in f.args] == ["in", "inout", "out"]


def test_an_input_is_not_written() -> None:
    with pytest.raises(VerifyError, match="writes a, which is an input"):
        parse('def f(a: "in float32[4]"):\n    a[0] = 1')


# ---------------------------------------------------------------- the decorator


def test_numbers_from_around_the_function() -> None:
    N, H, flag = 32, 0.5, True

    @func
    def f(a: "float32[N, GLOBAL]", x: "float32[N]"):  # noqa: F821
        for i in range(N):
            if flag:
                x[i] = a[i, GLOBAL - 1] * H

    assert text(f) == (
        'def f(a: "float32[32, 3]", x: "inout float32[32]"):\n    for i in range(32):\n        if True:\n'
        "            x[i] = a[i, 3 - 1] * 0.5\n"
    )


def test_a_name_in_an_annotation_alone_is_found() -> None:
    K = 7

    @lp.func
    def f(a: "float32[K]"):  # noqa: F821
        a[0] = 1

    assert text(f).startswith('def f(a: "inout float32[7]")')
    assert K


def test_a_refusal_points_at_the_line_of_the_file() -> None:
    with pytest.raises(ParseError) as caught:

        @func
        def f(a: "float32[4]"):  # noqa: F821
            for i in range(4):
                a[i] = nothing[i]  # noqa: F821

    assert caught.value.filename == __file__
    assert caught.value.lineno is not None
    with open(__file__) as file:
        assert file.read().splitlines()[caught.value.lineno - 1].strip().startswith("a[i] = nothing[i]")
    assert str(caught.value.text).strip().startswith("a[i] = nothing[i]")


def test_source_of_another_text_by_that_name_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.13 has the text of `python -c` under "<string>", as what exec runs is called."""
    monkeypatch.setitem(linecache.cache, "<string>", (10, None, ["import sys\n"], "<string>"))
    scope: dict[str, object] = {}
    exec('def f(a: "float32[4]"):\n    a[0] = 1', scope)
    with pytest.raises(ParseError, match=r"give its text to lp\.parse"):
        func(scope["f"])  # type: ignore[arg-type]


def test_a_function_without_source_is_refused() -> None:
    scope: dict[str, object] = {}
    exec('def f(a: "float32[4]"):\n    a[0] = 1', scope)
    with pytest.raises(ParseError, match=r"give its text to lp\.parse"):
        func(scope["f"])  # type: ignore[arg-type]


def test_a_monoid_from_around_the_function() -> None:
    both = parse(
        '@monoid(identity=(0.0,))\ndef plus(a: "float32", b: "float32"):\n    return a + b\n'
        'def f(x: "float32[4]"):\n    for i in range(4):\n        x[0] = plus(x[i], over=())'
    )
    reduce = next(leaf_paths(both.body)).stmt
    assert isinstance(reduce, Reduce)
    plus: Monoid = reduce.monoid

    @func
    def g(x: "float32[4]", s: "out float32[1]"):  # noqa: F722, F821
        for i in range(4):
            s[0] = plus(x[i], over=i, init=0)

    found = next(leaf_paths(g.body)).stmt
    assert isinstance(found, Reduce)
    assert found.monoid == plus
    assert found.over == ("i",)


def test_operations_are_known_without_asking() -> None:
    source = 'def f(a: "float32[4]"):\n    a[0] = a[1] + exp(a[2])\n    a[3] += 1'
    run = subprocess.run(
        [sys.executable, "-c", f"import loopir as lp; print(lp.text(lp.parse({source!r})))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "a[0] = a[1] + exp(a[2])" in run.stdout


# ---------------------------------------------------------------- never a crash


PIECES = [body for body, _ in (*SUGAR.values(), *REFUSALS.values())]


def test_broken_source_is_refused_not_crashed_on() -> None:
    """Sources with a token lost, doubled, swapped or replaced: a Func or one of our errors, nothing else."""
    rng = random.Random(0)
    tokens = ["i", "x", "0", "-1", "(", ")", "[", "]", ",", "1.5", "None", "x[i]", "sum", "label=3", "*x", "lambda: 0"]
    for _ in range(1500):
        body = rng.choice(PIECES)
        at, kind = rng.randrange(len(body)), rng.randrange(3)
        middle = rng.choice(tokens) if kind else ""
        broken = body[:at] + middle + body[at + (kind < 2) :]
        with suppress(LoopirError):
            assert isinstance(parse(HEAD + "".join(f"    {line}\n" for line in broken.splitlines())), Func)


ODD = [
    "with kernel():\n    pass",
    "with kernel(3):\n    pass",
    "with kernel('k'), alloc('float32[4]') as t:\n    pass",
    "with alloc() as t:\n    pass",
    "with alloc('float32[4]', layout=mapped()) as t:\n    pass",
    "with alloc('float32[4]', layout=strided()) as t:\n    pass",
    "with alloc('float32[4]', layout=mapped(lambda: 0)) as t:\n    pass",
    "with alloc('float32[4]', layout=mapped(lambda i: x[i])) as t:\n    pass",
    "with alloc(*x) as t:\n    pass",
    "with alloc('') as t:\n    pass",
    "with alloc('float32[4] 3') as t:\n    pass",
    "for i in grid():\n    pass",
    "for (i, j) in range(3):\n    pass",
    "for x[0] in range(3):\n    pass",
    "for i in range(*x):\n    pass",
    "for i in range(1.5):\n    pass",
    "for i in vectorize(x[0]):\n    pass",
    "x[0] = sum()",
    "x[0] = sum(over=3)",
    "x[0] = sum(x[1], label=3)",
    "x[0] = sum(x[1], **x)",
    "x[0] = min()",
    "x[0] = min(3)",
    "x[0] = select()",
    "x[0] = float32()",
    "x[0] = float32(1, 2)",
    "x[0] = exp()",
    "x[0] = (lambda: 0)()",
    "x[0] = f'{n}'",
    "x[0] = [1][0]",
    "x[0] = 10 ** 400",
    "x[0] = 1" + "0" * 400,
    "x[0] = 1j",
    "x[0] = not 3",
    "x[0] = n if p else m",
    "x[*ix] = 0",
    "x[()] = 0",
    "x[0]: 3 = 0",
    "x[0]: 'a\"b' = 0",
    "x[0] = y = 0",
    "x[0] += True",
    "p[0] += True",
    "assume()",
    "x[0] = 0\nassume(n > 0)",
    "assume(x[0] > 0)",
    "assume(n=3)",
    "barrier()",
    "() = sum()",
    "x[0], = sum(x[1])",
    "if (n := 3):\n    pass",
    "import os",
    "x[0] = os.path",
]


@pytest.mark.parametrize("body", ODD)
def test_odd_source_is_refused_not_crashed_on(body: str) -> None:
    with suppress(LoopirError):
        written(body)
