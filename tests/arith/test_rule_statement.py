"""A rule's statement is registered with the function that it is the statement of, which stays as it is."""

import pytest

from loopir.arith import rule_statement
from loopir.arith.rule_statement import RuleStatement, rule


def test_a_statement_is_registered_and_the_function_is_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_statement, "RULES", found := {})

    def f(x: int) -> int:
        return x

    assert rule("twice", "a + a == 2 * a", constants="c")(f) is f
    assert found == {"twice": RuleStatement("a + a == 2 * a", "", "c")}
