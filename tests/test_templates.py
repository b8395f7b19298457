"""The sandbox of what a suite writes as a template."""

import jinja2
import pytest
from jinja2.exceptions import SecurityError

from ci_evals.templates import sandboxed

GROWING = "{% set seen = [] %}{% set _ = seen.append(1) %}{{ seen }}"


@pytest.mark.parametrize("lists_may_grow", [True, False])
def test_a_template_reaches_nothing_but_its_values(lists_may_grow: bool) -> None:
    environment = sandboxed(lists_may_grow=lists_may_grow)
    with pytest.raises(SecurityError):
        environment.from_string("{{ text.__class__.__mro__[1].__subclasses__() }}").render(text="")
    with pytest.raises(jinja2.UndefinedError):
        environment.from_string("{{ missing }}").render()


def test_nothing_is_escaped() -> None:
    assert sandboxed().from_string("{{ text }}").render(text="<b> & 'c'") == "<b> & 'c'"


def test_lists_grow_only_where_they_may() -> None:
    assert sandboxed(lists_may_grow=True).from_string(GROWING).render() == "[1]"
    with pytest.raises(SecurityError):
        sandboxed().from_string(GROWING).render()


def test_the_last_line_feed_stays_only_where_it_is_wanted() -> None:
    assert sandboxed().from_string("a\n").render() == "a"
    assert sandboxed(keep_last_newline=True).from_string("a\n").render() == "a\n"
