"""Programs of which a part runs seldom are in the language, and differ from what they were made of by guards alone."""

from hypothesis import given, settings, strategies as st

from loopir.ir.grammar import Func, If, Int, Loop
from loopir.ir.parser.parse import parse
from loopir.ir.printer import text
from loopir.ir.traverse.walk import leaf_paths, statements
from loopir.testing.generate.seldom import seldom
from loopir.testing.generate.strategies import funcs


def marks(func: Func) -> int:
    """Conditions, and loops that are known to be short."""
    every = statements(func.body)
    return sum(isinstance(s, If) or (isinstance(s, Loop) and s.extent in (Int(0), Int(1))) for s in every)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_a_program_gets_conditions_around_what_it_does(data: st.DataObject) -> None:
    func = data.draw(funcs())
    made = data.draw(seldom(func))
    assert parse(text(made)) == made
    assert [p.stmt for p in leaf_paths(made.body)] == [p.stmt for p in leaf_paths(func.body)]
    assert made == func or marks(made) >= marks(func)
