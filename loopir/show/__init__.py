"""How a nest is seen: in colour in a terminal, as HTML in a notebook, and what a step changed.

The terminal needs rich, which is loaded when first used.
"""

from importlib import import_module

from loopir.schedule.schedule import Schedule
from loopir.show.comparison import Comparison as Comparison, compare as compare
from loopir.show.explain import Explanation as Explanation
from loopir.show.notebook import diff_html as diff_html, html as html
from loopir.show.suggest import Suggestion as Suggestion


def show(schedule: Schedule, **sizes: int) -> None:
    """Print the nest of `schedule` in colour, with margins, and the steps that led to it with what each did."""
    import_module("loopir.show.terminal").show(schedule, **sizes)


def show_diff(schedule: Schedule) -> None:
    """Print what the last step of `schedule` changed, in colour."""
    import_module("loopir.show.terminal").show_diff(schedule)
