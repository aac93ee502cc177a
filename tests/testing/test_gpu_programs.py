"""Random kernels mean, with their loops bound, what they mean without."""

from hypothesis import given, settings

from loopir.testing import assert_equivalent
from loopir.testing.generate.gpu_programs import Bound, kernels


@settings(max_examples=15, deadline=None)
@given(kernels())
def test_bindings_do_not_change_the_program(kernel: Bound) -> None:
    assert_equivalent(kernel.before, kernel.after)
