"""Each form of kernels with warps of their own is drawn, bound by its steps, and means what it did."""

import pytest
from hypothesis import Phase, given, settings, strategies as st

from loopir.testing import assert_equivalent
from loopir.testing.generate.warp_programs import FORMS, warp_kernels


@pytest.mark.parametrize("form", FORMS)
def test_the_steps_of_a_form_apply_and_keep_its_meaning(form: str) -> None:
    @settings(max_examples=2, deadline=None, database=None, phases=[Phase.generate])
    @given(st.data())
    def run(data: st.DataObject) -> None:
        kernel = data.draw(warp_kernels(form))
        assert kernel.after.trace
        assert_equivalent(kernel.before, kernel.after)

    run()
