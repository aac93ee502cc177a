"""Names of models become identifiers of kernels, each once."""

from loopir.frontend.identifiers import Names


def test_names_are_identifiers_and_unlike() -> None:
    names = Names()
    assert [names.identifier(n, "x") for n in ("a.b", "a/b", "1", "", "for", "a_b")] == [
        "a_b", "a_b_1", "x_1", "x", "x_for", "a_b_2"]  # fmt: skip


def test_a_name_that_a_nest_cannot_use_is_changed() -> None:
    assert Names().identifier("lp_x", "x") == "lp_x_"
