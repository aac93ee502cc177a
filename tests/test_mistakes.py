"""What people write wrong first, and what they are told: a sentence with the cure, and never an error from inside."""

import math
import traceback
from collections.abc import Callable
from os import sep
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopir as lp
import schedules

n = lp.symbol("n")
A = lp.placeholder((n, 64), "float32", name="A")
B = lp.placeholder((64, 32), "float32", name="B")
E = lp.placeholder((8,), "float32", name="E")
I = lp.placeholder((n,), "int32", name="I")  # noqa: E741
k = lp.reduce_axis(64, name="k")
C = lp.compute((n, 32), lambda i, j: lp.sum(A[i, k] * B[k, j], axis=k), name="C")
S = lp.Schedule(C)
INLINED = lp.Schedule(((E * 2.0).named("D") + 1.0).named("F")).compute_inline("D")
ROOT = 'def root(A: "float32[8]", B: "out float32[8]"):\n    for i in range(8):\n        B[i] = sqrt(A[i])\n'
TRIANGLE = lp.Schedule(
    lp.parse(
        'def f(n: "size", a: "inout float32[n, n]"):\n'
        "    for i in range(n):\n        for j in range(i):\n            a[i, j] = 0.0\n"
    )
)
ONES = np.ones((4, 64), np.float32), np.ones((64, 32), np.float32)
NO_LOOP = "nothing here runs over {}; an index belongs to the function of its compute, a reduce_axis to a reduction"

MISTAKES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: lp.compute((n,), lambda i: A[i, k]), lp.ExprError, NO_LOOP.format("k")),
    (lambda: lp.compute((n,), lambda i: A[i, k], name="B"), lp.ExprError, NO_LOOP.format("k")),
    (lambda: lp.compute((n,), lambda i: lp.sum(A[i, k])), lp.ExprError, NO_LOOP.format("i and k")),
    (lambda: lp.compute((n,), lambda i: lp.sum(A[i, :])), lp.ExprError, NO_LOOP.format("i")),
    (lambda: lp.compute((n,), lambda i: lp.sum(A[i, 0], axis=i)), lp.ExprError, "sum over axis i of .* a reduce_axis"),
    (lambda: lp.sum(A, axis="k"), lp.ExprError, "an axis is a reduce_axis, or a dimension from -2 to 1"),
    (lambda: lp.compute((n, 64), lambda i: A[i, 0]), lp.ExprError, "compute: the shape has 2 dimensions, .* takes 1"),
    (lambda: lp.compute((n,), lambda i: A), lp.ExprError, "compute: the function gives A"),
    (lambda: list(A), TypeError, "no elements to go through"),
    (lambda: sum(A), TypeError, r"lp\.sum"),
    (lambda: lp.symbol(3), TypeError, "a size is named by a string"),  # pyright: ignore[reportArgumentType]
    (lambda: lp.Schedule(np.ones((100, 100))), TypeError, "not of ndarray$"),  # pyright: ignore[reportArgumentType]
    (lambda: schedules.auto(A + 1.0, "llvm"), TypeError, r"takes a Schedule"),  # pyright: ignore[reportArgumentType]
    (lambda: lp.func(lambda n: n), lp.ParseError, "a nest is a function written with def"),
    (lambda: lp.Schedule(A @ A.T).build("llvm")(), TypeError, "A is missing"),
    (lambda: lp.Schedule(A + lp.placeholder((64,), name="b")).build("llvm")(), TypeError, "A and b are missing"),
    # ---- Python and NumPy where an expression is
    (lambda: np.exp(A), TypeError, r"np\.exp takes arrays, and A .* is an expression: lp\.exp makes the expression"),
    (lambda: np.arctan2(A, A), TypeError, r"lp\.atan2 makes the expression"),
    (lambda: np.sum(A), TypeError, r"np\.sum takes arrays.*lp\.sum makes the expression"),
    (lambda: np.matmul(A, B), TypeError, r"lp\.matmul makes the expression"),
    (lambda: np.fmin(A, A), TypeError, r"lp\.fmin makes the expression"),
    (lambda: np.bitwise_not(A), TypeError, "write ~x"),
    (lambda: np.isnat(A), TypeError, r"lp has no isnat; see dir\(lp\)"),
    (lambda: lp.special, AttributeError, "its functions are in lp itself"),  # pyright: ignore
    (lambda: lp.transpose(A, 0), lp.ExprError, "the axes are each dimension once"),  # pyright: ignore
    (lambda: lp.transpose(A, ()), lp.ExprError, "the axes are each dimension once"),
    (lambda: lp.compute((8,), lambda i: lp.sum(E[j] for j in range(8))), TypeError, "a generator .* a reduce_axis"),
    (lambda: lp.solve(lp.eye(8), E[:4]), lp.ExprError, "solve of .* the rows and stacks are alike"),
    (lambda: lp.randn(3, 4), lp.ExprError, r"shape 3: it is a tuple, and the seed comes after it: \(3,\), 0"),
    (lambda: lp.compute((n,), lambda i: np.exp(i)), TypeError, r"np\.exp of the index i: .* lp\.exp takes it"),
    (lambda: math.exp(A), TypeError, r"A .* has no value until its kernel is called; lp\.exp"),
    (lambda: float(A[0, 0]), TypeError, "has no value until its kernel is called"),
    (lambda: len(A), TypeError, r"the size of a dimension is \.shape\[0\]"),
    (lambda: [*range(n)], TypeError, r"n is no number until the kernel is called: range"),  # pyright: ignore
    (lambda: [0] * n, TypeError, "n is no number until the kernel is called"),  # pyright: ignore
    (lambda: A.__setitem__((0, 0), 1), TypeError, r"is not written to; lp\.compute and lp\.where make a new tensor"),
    (lambda: A + ONES[0], TypeError, r"an array \(numpy.ndarray\) is no tensor expression: declare it"),
    (lambda: ONES[0] + A, TypeError, r"an array \(numpy.ndarray\) is no tensor expression: declare it"),
    (lambda: A @ ONES[1], TypeError, r"lp\.placeholder\(shape, dtype, name=\.\.\.\), build with that"),
    (lambda: A + "x", TypeError, "'x', a str, is no tensor expression and no number"),
    (lambda: A + None, TypeError, "None is no tensor expression and no number"),
    # ---- conditions
    (lambda: 1 if A else 0, TypeError, r"use lp\.where\(cond, a, b\) for if, and & \| ~ for and, or, not"),
    (lambda: lp.compute((n, 64), lambda i, j: A[i, j] if A[i, j] > 0 else 0), TypeError, r"use lp\.where"),
    (lambda: lp.compute((n, 64), lambda i, j: A[i, j] if i > 0 else 0), TypeError, r"use lp\.where"),
    (lambda: lp.compute((n,), lambda i: lp.where(0 < i < 5, 1, 0)), TypeError, r"use lp\.where"),
    # ---- subscripts
    (lambda: A[0.5], TypeError, "is indexed by 0.5; use an integer, a slice, None or an integer tensor"),
    (lambda: lp.compute((n,), lambda i: A[i / 2, 0]), TypeError, "write // for /"),
    (lambda: A[0, 0, 0], lp.ExprError, "A .* has 2 dimensions, and is indexed by 3"),
    (lambda: A[0, 64], lp.ExprError, "index 64 is out of bounds for dimension 1 of A"),
    (lambda: lp.compute((8,), lambda i: E[i + 1], name="D"), lp.ExprError, r"D reads E\[i \+ 1\] outside: at i=7"),
    (lambda: lp.compute((n,), lambda i: A[i - 1, 0]), lp.ExprError, r"at i=0, index 0 is -1, and A has n there"),
    (lambda: lp.compute((n,), lambda i: A[i + 1, 0]), lp.ExprError, r"at i=n - 1, index 0 is n, .* lp\.where"),
    # ---- types, names, shapes
    (lambda: lp.placeholder((3,), "fp32", name="x"), TypeError, "'fp32' is not an element type of loopir; there are"),
    (
        lambda: lp.parse('def f(a: "int32[8]"):\n    for i in range(8):\n        a[i] = 1.5\n'),
        lp.ParseError,
        r"the literal 1.5 is no int32 \(<nest>, line 3\)",
    ),
    (lambda: I // 2**40, lp.ExprError, "is no int32, which a number takes from the tensor beside it"),
    (lambda: lp.Schedule(E + lp.placeholder((8,), name="E")), lp.ExprError, "two placeholders or sizes are called 'E'"),
    (
        lambda: lp.Schedule(A[:, 0] + lp.placeholder((lp.symbol("n", min=3),), name="y")),
        lp.ExprError,
        r'size \'n\' is declared twice, as lp.symbol\("n"\) and as lp.symbol\("n", min=3\)',
    ),
    (lambda: lp.placeholder(("n",), name="x"), lp.ExprError, "'n' is no size; .* made from lp.symbol"),
    (lambda: lp.placeholder((3,), name="for"), lp.ExprError, "'for' is no usable name"),
    (lambda: A + B, lp.ExprError, "add: A .* and B .* do not broadcast; sizes are equal or 1, from the right"),
    (lambda: A @ A, lp.ExprError, "matmul of A .* and A .*: the inner sizes differ"),
    (lambda: A.sum(axis=2), lp.ExprError, "sum over axis 2 of A .* a dimension from -2 to 1"),
    (lambda: lp.compute((n,), lambda i: None), TypeError, "a function that gives an element ends with return"),
    (lambda: lp.compute((n, 64), A), TypeError, "is no function; an element is given by one, as lambda i, j"),
    (lambda: lp.build(S), TypeError, r"loopir.build is a module, .*; lp.Schedule\(C\).build\(\) compiles"),  # pyright: ignore
    (lambda: lp.schedule(C), TypeError, r"a module, which is not called; lp.Schedule\(C\) makes one"),  # pyright: ignore
    (lambda: lp.tensor([1.0]), TypeError, "a module, which is not called; lp.placeholder declares an input"),  # pyright: ignore
    (lambda: lp.auto(S), AttributeError, r"has no 'auto'; schedules.auto\(lp.Schedule\(C\), \"llvm\"\)"),  # pyright: ignore
    (lambda: lp.tune(S), AttributeError, r"has no 'tune'; schedules.tune\("),  # pyright: ignore
    (lambda: lp.relu6, AttributeError, "loopir has no 'relu6'; did you mean relu or"),  # pyright: ignore
    # ---- steps
    (lambda: S.split("x", 4), lp.ScheduleError, "there is no loop 'x' in 'compute_C'; the loops there are i, j and k"),
    (
        lambda: TRIANGLE.reorder("j", "i"),
        lp.ScheduleError,
        r'instead: rectangularize\("j"\) before it, and trim after it',
    ),
    (lambda: S.split("i", "4"), TypeError, 'split: factor is int, not "4"'),  # pyright: ignore
    (lambda: S.split("i"), TypeError, "missing a required argument: 'factor'; split takes loop, factor, tail=, names="),  # pyright: ignore
    (lambda: S.split("i", 4, tail="none"), lp.ScheduleError, 'tail is one of "guard"'),  # pyright: ignore
    (lambda: S.parallel("k"), lp.ScheduleError, r"C at \(i=0, j=0, k=0\) writes C\[0, 0\], which"),
    (lambda: S.vectorize("i"), lp.ScheduleError, r"instead: split\(\"i\", 8\) and vectorize the inner loop"),
    (lambda: S.compute_at("A", "i"), lp.ScheduleError, "there is no stage 'A' in 'compute_C'; its stages are C"),
    (lambda: S.rfactor("Q", "k"), lp.ScheduleError, "there is no stage 'Q'"),
    (lambda: lp.Schedule(E + 1.0).rfactor("out", "i"), lp.ScheduleError, "leave it: this program has no reduction"),
    (lambda: S.why("paralel", "i"), AttributeError, "did you mean parallel"),
    # ---- calls
    (lambda: S.build("gpu"), lp.TargetError, "there is no target 'gpu'; there are cuda, llvm, interpret and auto"),
    (lambda: S.build("interpret")(ONES[0].astype(float), ONES[1]), TypeError, "A holds float64, .* takes float32"),
    (lambda: S.build("interpret")(ONES[0], ONES[0]), ValueError, r"B has shape \(4, 64\), and the kernel takes"),
    (lambda: S.build("interpret")(*ONES, out=ONES[0]), TypeError, "one array, not a tuple, is given"),
    (lambda: S.build("interpret")(ONES[0].tolist(), ONES[1]), TypeError, "A is a list; a kernel takes arrays"),
    (lambda: S.build("interpret")(ONES[0], b=ONES[1]), TypeError, "compute_C has no argument 'b'; it takes A, B"),
    # ---- habits from NumPy, torch and TVM
    (lambda: A.view(64, n), AttributeError, r"A float32\[n, 64\] has no 'view'; .reshape changes the shape"),
    (lambda: A.relu(), AttributeError, r"has no 'relu'; lp.relu is a function: lp.relu\(x\)"),
    (lambda: A.to("float16"), AttributeError, r"has no 'to'; .astype\(\"float32\"\) converts"),
    (lambda: A.numpy(), AttributeError, "it has no elements until its kernel is called"),
    (lambda: A.cuda(), AttributeError, r"lp.Schedule\(x\).build\(\"cuda\"\) is for the GPU"),
    (lambda: A.smu(), AttributeError, "has no 'smu'; did you mean lp.sum"),
    (lambda: C.op.axis, AttributeError, r"a step of a Schedule takes the name of a loop: s.split\(\"i\", 4\)"),
    (lambda: lp.cat([A, A]), AttributeError, "loopir has no 'cat'; lp.concatenate joins tensors"),
    (lambda: lp.float32, AttributeError, r"a type is named by a string: \"float32\""),
    (lambda: lp.max(A, B), lp.ExprError, "of two tensors lp.maximum is"),  # pyright: ignore[reportArgumentType]
    (lambda: A[A > 0], TypeError, r"an index is an integer; lp.where\(mask, a, b\) takes a mask"),
    (lambda: lp.placeholder((n * 2.5,), name="x"), TypeError, "n is an index, a whole number, and 2.5 is none"),
    (lambda: S.split(k, 4), TypeError, r'loops, stages and buffers go by name: "k"'),  # pyright: ignore
    (lambda: S.reorder(["i", "k"]), TypeError, r'written one by one: reorder\("i", "k"\)'),  # pyright: ignore
    (lambda: S.build("cpu"), lp.TargetError, "there is no target 'cpu'; .*; the CPU is llvm"),
    (lambda: S.build("interpret")(*ONES, out=(np.ones((4, 32)),)), TypeError, "make one of float32, which is filled"),
    (lambda: S.build("interpret")(ONES[0] * 1j, ONES[1]), TypeError, "complex.*copies of its .real and .imag"),
    (lambda: f"{A:.2f}", TypeError, "A .* has no value until its kernel is called"),
    (lambda: 3 in A, TypeError, r"`in` of A .* lp\.any\(x == value\) is an expression"),
    (lambda: np.asarray(A), TypeError, r"A .* is an expression, and NumPy makes arrays of values: lp\.Schedule"),
    (lambda: np.array([A, A]), TypeError, r"lp\.stack and lp\.concatenate join expressions"),
    (lambda: A.sum(dim=1), TypeError, "sum has no dim=; axis= is it here"),  # pyright: ignore[reportCallIssue]
    (lambda: lp.sum(A, keepdim=True), TypeError, "sum has no keepdim=; keepdims= is it here"),  # pyright: ignore
    (lambda: lp.softmax(A, dim=1), TypeError, "softmax has no dim=; axis="),  # pyright: ignore[reportCallIssue]
    (lambda: lp.exp(A, where=3), TypeError, "exp has no where=; it takes x"),  # pyright: ignore[reportCallIssue]
    (lambda: lp.sum(A, 0, "float64"), TypeError, "sum with keepdims='float64'; it is True or False"),  # pyright: ignore
    (lambda: lp.linalg, AttributeError, "loopir has no 'linalg'; its functions are in lp itself"),  # pyright: ignore
    (lambda: lp.nonzero(A), AttributeError, "depends on the elements, .* lp.where keeps the shape"),  # pyright: ignore
    (lambda: lp.mean(A, axis=5), lp.ExprError, "mean over axis 5 of A"),
    (lambda: lp.softmax(A, axis=5), lp.ExprError, "softmax over axis 5 of A"),
    (lambda: A.var(axis=5), lp.ExprError, "var over axis 5 of A"),
    (lambda: lp.logsumexp(A, axis=5), lp.ExprError, "logsumexp over axis 5 of A"),
    (lambda: lp.sort(A, axis="rows"), lp.ExprError, "sort along axis 'rows' .* an axis is an integer"),  # pyright: ignore
    (lambda: lp.concatenate(A, A), TypeError, r"the tensors as one list: lp\.concatenate\("),  # pyright: ignore
    (lambda: lp.stack(A), TypeError, r"stack takes the tensors as one list"),  # pyright: ignore[reportArgumentType]
    (lambda: lp.stack([A, B]), lp.ExprError, "stack of A .* and B .*: the shapes differ"),
    (lambda: lp.pad(E, "x"), TypeError, r"pad of E .* by 'x'; widths are \[\(before, after\)\]"),
    (lambda: lp.pad(A, [(1, 1)] * 3), lp.ExprError, "pad of A .*: 3 widths for 2 dimensions"),
    (lambda: lp.pad(E, 1, mode="mirror"), lp.ExprError, "mode='mirror'; it is one of 'constant', 'edge'"),
    (lambda: lp.pad(E, 8, mode="reflect"), lp.ExprError, "8 elements give 7"),
    (lambda: lp.pad(A, 3, mode="wrap"), lp.ExprError, "it takes 3 elements or more, as lp.symbol"),
    (lambda: lp.monoid("m", identity=0, combine=max), TypeError, r"one number for each value, as \(0.0,\)"),  # pyright: ignore
    (lambda: lp.monoid("m", identity=(0.0,), combine=3), TypeError, "combine= as a function of two"),  # pyright: ignore
    (lambda: lp.monoid("m", identity=(0,), combine=lambda a, b: None)((E,)), lp.ExprError, "combine gives None"),
    (lambda: lp.compute((8,), lambda i: [E[i], E[i]]), TypeError, r"lp\.stack of a list makes one tensor"),
    (lambda: lp.compute((8,), lambda i: E[i], name="my stage"), lp.ExprError, "a stage is named by an identifier"),
    (lambda: E.named("1x"), lp.ExprError, "a stage is named by an identifier, not '1x'"),
    (lambda: lp.placeholder((3,), name=3), TypeError, "a name is a string"),  # pyright: ignore[reportArgumentType]
    (lambda: lp.matmul([[1]], A), TypeError, "a list, is no tensor expression"),  # pyright: ignore[reportArgumentType]
    (lambda: lp.einsum(A, A), TypeError, "einsum takes its subscripts first"),  # pyright: ignore[reportArgumentType]
    (lambda: lp.transpose(A, "ij"), lp.ExprError, "the axes are each dimension once"),  # pyright: ignore
    (lambda: A @ 3, lp.ExprError, r"\* multiplies by a number"),  # pyright: ignore[reportOperatorIssue]
    (lambda: max(A, A), TypeError, r"lp\.maximum and lp\.minimum for max and min"),
    (lambda: lp.Schedule([C, None]), TypeError, "a list of tensors, and one of these is None"),  # pyright: ignore
    (lambda: lp.Schedule(None), TypeError, "a function that makes one ends with return"),  # pyright: ignore
    (lambda: lp.jit(C), TypeError, r"not a Tensor; of an expression lp\.Schedule\(x\)"),  # pyright: ignore
    (lambda: lp.jit(lambda a: None)(ONES[0]), TypeError, "gives nothing; a function under lp.jit gives a tensor"),
    (lambda: lp.interpret(S, {}), TypeError, "runs a Func, not a Schedule; of a Schedule s it is s.func"),  # pyright: ignore
    (lambda: lp.interpret(S.func, *ONES), TypeError, "in one list or dict"),  # pyright: ignore[reportArgumentType]
    (lambda: lp.lower(C, "llvm"), TypeError, r"lower takes a Schedule, as lp\.Schedule\(C\)"),  # pyright: ignore
    (lambda: S(*ONES), TypeError, r"s\.build\(\) compiles it to a kernel"),
    (lambda: S["i"], TypeError, "steps take loops and stages by name"),
    (lambda: S.func(*ONES), TypeError, "compute_C is a nest, which is not called"),
    (lambda: S.splt("i", 4), AttributeError, "a Schedule has no 'splt'; did you mean split"),  # pyright: ignore
    (lambda: S.split(by=4), TypeError, r"there is no by=; split takes loop, factor"),  # pyright: ignore
    (lambda: S.parallel("i").parallel("i"), lp.ScheduleError, "leave one of them out"),
    (lambda: lp.Schedule((E + 1.0).named("D")).compute_inline("D"), lp.ScheduleError, "a stage that D is made from"),
    (lambda: S.tensorize("i", "mma"), lp.ScheduleError, "no instruction 'mma' among the .*\n.*instead: mma_"),
    (lambda: S.report(n=-4), ValueError, "n=-4; a size is a whole number, at least 0"),
    (lambda: S.build(None), lp.TargetError, "there is no target None; there are cuda"),  # pyright: ignore
    (lambda: S.build("CUDA"), lp.TargetError, 'write "cuda"'),
    (lambda: S.build("interpret")([*ONES]), TypeError, r"given one by one, as kernel\(\*arrays\)"),
    (lambda: S.build("interpret")(ONES[0][:0], ONES[1]), ValueError, r'lp\.symbol\("n", min=0\)'),
    # ---- arguments
    (lambda: lp.placeholder((8, 8)), TypeError, r"placeholder: missing .* 'name'; it takes shape, dtype, name="),  # pyright: ignore
    (lambda: lp.symbol("n", 4), TypeError, "symbol: too many positional arguments; it takes name, min=, multiple_of="),  # pyright: ignore
    (lambda: lp.reduce_axis(64, "k"), TypeError, "reduce_axis: too many .*; it takes extent, name="),  # pyright: ignore
    (lambda: lp.exp(), TypeError, "exp: missing a required argument: 'x'; it takes x"),  # pyright: ignore
    (lambda: lp.where(A > 0, A), TypeError, "where: missing a required argument: 'b'; it takes cond, a, b"),  # pyright: ignore
    (lambda: S.explain(), TypeError, "explain: missing a required argument: 'loop'"),  # pyright: ignore
    (lambda: S.build("llvm", opt=3), TypeError, "build: got an unexpected .* 'opt'; it takes target, arch=, fma="),  # pyright: ignore
    (lambda: lp.predict(S, n=3), TypeError, "predict: got an unexpected keyword argument 'n'; .* sizes="),  # pyright: ignore
    (lambda: lp.predict(S, "llvm", sizes=3), TypeError, 'by name, as sizes={"n": 1024}'),  # pyright: ignore
    (lambda: lp.predict(S, "llvm", sizes={"m": 3}), ValueError, "compute_C has no size 'm'; its sizes are n"),
    (lambda: lp.Schedule([]), TypeError, "made of a list of tensors, and this one is empty"),
    (lambda: lp.to_func(3), TypeError, "to_func takes a list of tensors, not 3"),  # pyright: ignore
    (lambda: lp.parse(3), TypeError, "parse takes the text of a nest, not a int"),  # pyright: ignore
    (lambda: lp.func(3), lp.ParseError, "a function written with def, not a int"),  # pyright: ignore
    (lambda: S.compile(), AttributeError, r"a Schedule has no 'compile'; s\.build\(\) compiles it"),  # pyright: ignore
    (lambda: S.loop(0), TypeError, "a loop goes by name, not 0; there are i, j, k"),  # pyright: ignore
    (lambda: S.bisect(3), TypeError, "bisect takes a function of a Schedule"),  # pyright: ignore
    (lambda: S.apply("split"), TypeError, "a step is one of a trace, not 'split'"),  # pyright: ignore
    (lambda: S.build("interpret")(*ONES, C=ONES[0]), TypeError, r"C is an output: out=\(C,\) gives the memory for it"),
    (
        lambda: S.build("interpret")(ONES[0][0], ONES[1]),
        ValueError,
        r"A has 1 dimension \(64,\), and the kernel takes 2",
    ),
    (lambda: lp.jit(lambda a, b: a + b)(ONES[0]), TypeError, "missing a required argument: 'b'; it takes a, b"),
    (lambda: lp.call(S.func, B, A), lp.ExprError, r"A is B float32\[64, 32\], and takes 64 elements in dimension 1"),
    (lambda: lp.from_onnx(3), TypeError, "from_onnx reads a path, bytes or an onnx.ModelProto, not a int"),
    # ---- what is gone, and what is of another kind
    (lambda: S.split("i", 4).split("i", 4), lp.ScheduleError, r"no loop 'i' .*; 'i' was there until split\(\"i\", 4\)"),
    (
        lambda: S.split("i", 4).split("j", 8).fuse("i", "j_o"),
        lp.ScheduleError,
        r"'i' was there until split\(\"i\", 4\)",
    ),
    (
        lambda: INLINED.compute_inline("D"),
        lp.ScheduleError,
        r"no stage 'D' .*; 'D' was there until compute_inline\(\"D\"\)",
    ),
    (lambda: INLINED.compute_at("D", "i"), lp.ScheduleError, r"'D' was there until compute_inline\(\"D\"\)"),
    (
        lambda: INLINED.cache_read("F", "D", "local"),
        lp.ScheduleError,
        r"no buffer 'D' .*; 'D' was there until compute_inl",
    ),
    (lambda: S.build("interpret").build(), AttributeError, r"a Kernel has no 'build'; it is built already"),
    (lambda: S.build("interpret").split("i", 4), AttributeError, "a Kernel has no 'split'; .* of its Schedule, before"),
    (lambda: S.build("interpret").run(*ONES), AttributeError, r"no 'run'; it is called: kernel\(\*arrays\)"),
    (lambda: S.build("interpret").benchmark(*ONES), AttributeError, r"kernel.time\(\*arrays\) measures it"),
    (
        lambda: S.func.split("i", 4),
        AttributeError,
        r"the nest compute_C has no 'split'; .* those of lp.Schedule\(compute_C\)",
    ),
    (lambda: S.get_loops("C"), AttributeError, r's.loops\("C"\) names the loops of stage C'),  # pyright: ignore
    (lambda: S.get_block("C"), AttributeError, "a stage goes by its name, and s.stages has the names"),  # pyright: ignore
    (lambda: S.bind("j", "vthread"), lp.ScheduleError, "no axis 'vthread'.*\n.*for virtual threads unroll_and_jam"),
    (lambda: S.vthread("j"), AttributeError, r"s.unroll_and_jam\(loop, 2\) makes them"),  # pyright: ignore
    (lambda: S.predict(), AttributeError, r'lp.predict\(s, "llvm"\) predicts the time'),  # pyright: ignore
    (lambda: S.why(S.split, "i", 4), TypeError, r's.why\("split", "i", 4\), not <bound method'),  # pyright: ignore
    (lambda: S.show(depth="all"), TypeError, "depth='all'; it is a number of loops"),  # pyright: ignore
    (lambda: S.view(3), TypeError, "view takes the path of the file to write"),
    (lambda: S.suggest("i"), TypeError, r"suggest\(5\), not 'i'"),  # pyright: ignore[reportArgumentType]
    (lambda: S.build("interpret", watch=3), TypeError, 'watch=3; it is the name of a buffer, as watch="C"'),  # pyright: ignore
    (
        lambda: lp.interpret(S.func, {"A": ONES[0], "B": ONES[1], "C": ONES[0]}),
        ValueError,
        "has no input 'C'; it takes A, B",
    ),
    (lambda: schedules.matmul, AttributeError, "schedules has no 'matmul'; did you mean matmul_"),  # pyright: ignore
    (lambda: schedules.frobnicate, AttributeError, r"schedules.auto\(s, target\) schedules any program"),  # pyright: ignore
    (lambda: lp.compute(lambda i: E[i], (8,)), TypeError, r"is no shape; it comes first: lp.compute\(\(n, m\)"),  # pyright: ignore
    (lambda: round(E[0], k), TypeError, "round to k digits; their number is an int"),  # pyright: ignore
    (lambda: lp.cholesky(A), lp.ExprError, r"cholesky of A float32\[n, 64\]; it is of a square matrix"),
    (lambda: lp.interp(E, E), TypeError, "interp: missing a required argument: 'fp'; it takes x, xp, fp"),  # pyright: ignore
    (lambda: lp.gcd(E, E), lp.ExprError, r'it takes integers: .astype\("int64"\) converts'),
    (lambda: lp.real(A), AttributeError, "no complex numbers: take a tensor of real parts"),  # pyright: ignore
    (lambda: lp.union1d(I, I), AttributeError, "its size depends on the elements"),  # pyright: ignore
    (lambda: lp.putmask(A, A > 0, 0), AttributeError, r"lp.where\(mask, value, x\) makes a new tensor"),  # pyright: ignore
    (lambda: lp.piecewise(A, [A > 0], [1]), AttributeError, "lp.select takes conditions and tensors"),  # pyright: ignore
    (lambda: lp.apply_along_axis(sum, 0, A), AttributeError, "lp.compute takes a function of the indices"),  # pyright: ignore
    (lambda: lp.ascontiguousarray(A), AttributeError, "lp.placeholder declares an input"),  # pyright: ignore
    (lambda: lp.polyfit(E, E, 2), AttributeError, "lp.vander"),  # pyright: ignore
    (lambda: lp.shape(A), AttributeError, "write x.shape"),  # pyright: ignore
    (lambda: A.conj(), AttributeError, "there are no complex numbers"),
    (lambda: lp.instruction(llvm="llvm.sqrt.v8f32(Q)")(ROOT), lp.VerifyError, "is given 'Q', which is no operand that"),
    (
        lambda: lp.instruction(llvm="vsqrtps ymm0, ymm0")(ROOT),
        lp.VerifyError,
        "nor the body of a function, which ends in ret",
    ),
    (lambda: lp.instruction(llvm="sqrt")(ROOT), lp.VerifyError, "neither a call of an intrinsic nor a function's body"),
    # ---- numbers and types
    (lambda: (E > 0) << (E > 0), TypeError, r'<< takes int or uint, and is given bool .*; .astype\("int32"\) converts'),
    (lambda: -(E > 0), TypeError, r'unary - takes .*, and is given bool; .astype\("float32"\) converts'),
    (lambda: E & 1, TypeError, r'& takes bool or int or uint, and is given float32 .*; .astype\("int32"\) converts'),
    (lambda: ~E, TypeError, "~ takes bool or int or uint, and is given float32"),
    (lambda: lp.compute((8,), lambda i: E[min(i, 3)]), TypeError, r"lp\.minimum and lp\.maximum for min and max"),
    (lambda: E.astype(None), TypeError, "None is not an element type of loopir"),  # pyright: ignore
    (lambda: lp.matmul(A, B, B), TypeError, "is not an element type of loopir"),  # pyright: ignore
    (lambda: E[E:], TypeError, "where a slice ends is known before, a number or a size"),  # pyright: ignore
    (
        lambda: lp.compute((8,), lambda i: E[i:]),
        lp.ExprError,
        r"expression float32\[max\(-i \+ 8, 0\)\]; it has to give one",
    ),
    (lambda: lp.eye(2.5), lp.ExprError, "eye: 2.5 is no size"),  # pyright: ignore
    (lambda: lp.roll(A, 1.5, 1), lp.ExprError, "by 1.5; a shift is a whole number"),  # pyright: ignore
    (lambda: lp.repeat(E, [1, 2]), lp.ExprError, "every element is repeated as often, by one number"),  # pyright: ignore
    (lambda: lp.tile(E, "2"), lp.ExprError, "a repetition is a whole number"),  # pyright: ignore
    (lambda: lp.gradient(E, 1.0, 2.0), lp.ExprError, "spacing=1.0, axis=2.0; one number for all axes"),  # pyright: ignore
    (lambda: lp.linspace(0, 1, 3.0), lp.ExprError, "linspace of 3.0 numbers; .* a whole one"),  # pyright: ignore
    # ---- nests
    (lambda: nest("b[i] = 'x'"), lp.ParseError, "'x' is no value of a nest, which are numbers and bools .*line 3"),
    (lambda: nest("b[i] = a[i] * math.pi"), lp.ParseError, "PI = math.pi before it, and PI in it .*line 3"),
    (lambda: nest("b[i] = a[i] @ a[i]"), lp.ParseError, "a matrix product is loops.*line 3"),
    (lambda: nest("b[i] = a.shape[0]"), lp.ParseError, 'has no a.shape in a nest; .* n: "size".*line 3'),
    (lambda: nest("b[i] = a[i * 0.5]"), lp.ParseError, "an index is a whole number, and 0.5 is none .*line 3"),
    (lambda: nest("b = a"), lp.ParseError, "b is a whole array: write its elements in a loop.*line 3"),
    (lambda: nest("x, y = 1, 2"), lp.ParseError, "write each in a line of its own.*line 3"),
    (lambda: nest("a[i], b[i] = b[i], a[i]"), lp.ParseError, r"in a line of its own, .* as t = a\[i\] .*line 3"),
    (lambda: nest("c = zeros(8)"), lp.ParseError, r'with alloc\("float32\[4\]"\) as c.*line 3'),
    (lambda: nest("for j in a:\n            b[j] = 1"), lp.ParseError, r"a\[i\] is the element .*line 3"),
    (lambda: nest("b[i] = a[i][0]"), lp.ParseError, r"in one bracket: a\[i, j\], not a\[i\]\[j\] .*line 3"),
    (lambda: nest("b[i] = len(a)"), lp.ParseError, 'the size of a dimension is a parameter, n: "size".*line 3'),
    (lambda: nest("b[i // 2] = a[i / 2]"), lp.ParseError, r"write // for /; .*line 3"),
    (lambda: nest("b[i] = sqr(a[i])"), lp.ParseError, "'sqr' is no operation of one element; did you mean .*sqrt"),
    (lambda: nest("print(a[i])"), lp.ParseError, "a statement is a for, .*line 3"),
    (lambda: nest("b[i] = a[i]\n        ..."), lp.ParseError, r"lines that were left out of this text; lp\.text"),
]


def nest(statement: str) -> lp.Func:
    """A nest with this statement in a loop, on its third line."""
    return lp.parse(f'def f(a: "float32[8]", b: "out float32[8]"):\n    for i in range(8):\n        {statement}\n')


@pytest.mark.parametrize(("wrong", "error", "told"), MISTAKES, ids=[told[:40] for *_, told in MISTAKES])
def test_a_mistake_is_told(wrong: Callable[[], Any], error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        wrong()


def test_there_are_two_hundred_of_them() -> None:
    assert len(MISTAKES) >= 200


def test_the_loops_of_a_triangle_trade_places_as_the_refusal_says() -> None:
    made = TRIANGLE.rectangularize("j").reorder("j", "i").trim("i")
    assert "if " not in lp.text(made.func)
    lp.testing.assert_equivalent(TRIANGLE, made)


def test_where_chooses_in_a_nest_as_in_an_expression() -> None:
    assert nest("b[i] = lp.where(a[i] > 0.0, a[i], 0.0)") == nest("b[i] = select(a[i] > 0.0, a[i], 0.0)")


INSIDE = (
    "object has no attribute",
    "not supported between",
    "object is not",
    "unsupported operand",
    "ufunc",
    "NoneType",
)


@pytest.mark.parametrize(("wrong", "error", "told"), MISTAKES, ids=[told[:40] for *_, told in MISTAKES])
def test_what_is_told_is_a_sentence_that_the_code_of_the_user_ends_in(
    wrong: Callable[[], Any], error: type[Exception], told: str
) -> None:
    """No error of Python's from inside comes out, and the traceback begins with the line that was written."""
    with pytest.raises(error) as caught:
        wrong()
    assert not any(words in str(caught.value) for words in INSIDE)
    assert Path(__file__).name in {Path(f.filename).name for f in traceback.extract_tb(caught.tb)}


def test_who_calls_wrongly_is_told_how_a_call_is_written() -> None:
    with pytest.raises(ValueError, match="A has shape") as caught:
        S.build("interpret")(ONES[1], ONES[0])
    (note,) = caught.value.__notes__
    assert note == (
        "the call is compute_C(A: float32[n, 64], B: float32[64, 32]), in the order in which they were declared, "
        "and gives C: float32[n, 32]"
    )


def test_only_lines_of_who_asked_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the one that is called, unless all are asked for."""

    def body(i: Any) -> Any:
        return lp.sum(A[i, 3], axis=9)

    wrong = [lambda: S.split("i", 0), lambda: lp.compute((4,), body), lambda: S.build("x"), lambda: S.loop("z")]
    inside = f"loopir{sep}"
    for full in ("full", ""):
        monkeypatch.setenv("LOOPIR_TRACEBACK", full)
        for ask in wrong:
            with pytest.raises(lp.LoopirError) as caught:
                ask()
            files = [f.filename for f in traceback.extract_tb(caught.tb)]
            own = sum(f == __file__ for f in files)
            assert own >= 2 + (ask is wrong[1])
            assert (len(files) - own > 2) == (full == "full"), files
            assert all(inside in f for f in files if f != __file__)


def test_an_index_has_a_magnitude() -> None:
    x = np.arange(8, dtype=np.float32)
    got = lp.Schedule(lp.compute((8,), lambda i: E[abs(i - 3)])).build("interpret")(x)
    assert got.tolist() == [3, 2, 1, 0, 1, 2, 3, 4]


def test_numbers_of_numpy_stand_on_the_left() -> None:
    x = np.arange(8, dtype=np.float32)
    assert np.array_equal(lp.Schedule(np.float32(2) * E).build("interpret")(x), 2 * x)
    assert np.array_equal(lp.Schedule(np.int64(3) < E).build("interpret")(x), x > 3)
    assert repr(np.int64(2) * n + np.int32(1)) == "n * 2 + 1"
    assert lp.Schedule(lp.compute(8, lambda i: E[np.int64(7) - i])).build("interpret")(x).tolist() == x[::-1].tolist()


def test_a_read_that_is_inside_at_some_sizes_or_under_a_guard_is_no_mistake() -> None:
    m = lp.symbol("m", min=0)
    lp.compute((n,), lambda i: A[i * 2, 0])
    lp.compute((8,), lambda i: lp.where(i < 7, E[i + 1], 0.0))
    lp.compute((m,), lambda i: E[i + 8])


def test_what_numpy_takes_is_taken() -> None:
    x = np.array([-2.5, -1.25, 0.5, 1.5, 2.675, 3.0, 7.25, 9.995], np.float32)
    assert all(E.dtype == same for same in ("float32", np.float32, np.dtype("float32"), A.dtype))
    assert all(E.dtype != other for other in ("float64", "rows", np.float64, I.dtype, None, 3))
    assert np.ones(2, E.dtype).dtype == np.float32
    found = lp.Schedule([round(E), round(E, 2), *divmod(E, 2.0), *divmod(7.0, E)]).build("interpret")(x)
    expected = (np.round(x), np.round(x, 2), *np.divmod(x, np.float32(2)), *np.divmod(np.float32(7), x))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    assert f"{E}" == repr(E)


def test_torch_says_what_makes_the_expression() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"torch\.exp takes arrays, and A .* lp\.exp makes the expression"):
        torch.exp(A)
    with pytest.raises(TypeError, match=r"torch\.cat takes arrays, .* lp\.concatenate joins tensors"):
        torch.cat([A, A])
    for wrong in (lambda: torch.ones(64) + A, lambda: torch.ones(4, 4) @ A, lambda: A * torch.ones(64)):
        with pytest.raises(TypeError, match=r"an array \(torch.Tensor\) is no tensor expression: declare it"):
            wrong()
    assert (A + torch.tensor(2.0)).dtype == "float32"
