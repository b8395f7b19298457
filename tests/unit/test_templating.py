"""The sandbox of what a suite writes as a template, and the templates of the reports."""

from pathlib import Path

import jinja2
import pytest
from jinja2.exceptions import SecurityError

from ci_evals import templating as templates
from ci_evals.reports.markdown import finalize
from ci_evals.templating import template_sandbox

GROWING = "{% set seen = [] %}{% set _ = seen.append(1) %}{{ seen }}"


@pytest.mark.parametrize("lists_may_grow", [True, False])
def test_a_template_reaches_nothing_but_its_values(lists_may_grow: bool) -> None:
    environment = template_sandbox(lists_may_grow=lists_may_grow)
    with pytest.raises(SecurityError):
        environment.from_string("{{ text.__class__.__mro__[1].__subclasses__() }}").render(text="")
    with pytest.raises(jinja2.UndefinedError):
        environment.from_string("{{ missing }}").render()


def test_nothing_is_escaped() -> None:
    assert template_sandbox().from_string("{{ text }}").render(text="<b> & 'c'") == "<b> & 'c'"


@pytest.mark.parametrize("lists_may_grow", [True, False])
@pytest.mark.parametrize(
    "source",
    [
        "{% for _ in range(100000) %}{% for _ in range(100000) %}{{ text }}{% endfor %}{% endfor %}",
        "{% macro many() %}{% for _ in range(1001) %}{{ text }}{% endfor %}{% endmacro %}{{ many() | length }}",
        "{{ text * 1001 }}",
        "{{ 1001 * text }}",
        "{{ '%900000000d' % 1 }}",
        "{{ '%.900000000f' % 1 }}",
        "{{ '%*d' % (900000000, 1) }}",
        "{{ '%900000000d' | format(1) }}",
        "{{ '%(a)s' * 2000 % {'a': text} }}",
        "{{ '{:900000000}'.format(1) }}",
        "{{ ('{0}' * 2000).format(text) }}",
        "{{ 'x' | center(900000000) }}",
        "{{ 'x'.ljust(900000000) }}",
        "{{ 1 | round(900000000, 'ceil') }}",
        "{{ ('\\n' * 3000) | indent(900000, true, true) | length }}",
        "{{ text.replace('x', text) | length }}",
        "{{ range(99999) | join(text) | length }}",
        "{{ text.join(['a'] * 2000) | length }}",
        "{{ (range(99999) | list * 99) | sort | length }}",
        "{{ range(99999) | map('string') | map('replace', '1', 'x' * 90000) | list | length }}",
        "{% set a = text * 900 %}{% set b = a + a + a %}{{ b | length }}",
        "{% set a = text * 900 %}{% set b = a ~ a ~ a %}{{ b | length }}",
        "{% set a = [text] * 1000 %}{{ [a, a] }}",
        "{% set a = [text] * 1000 %}{{ [a, a] | string | length }}",
    ],
)
def test_a_template_that_makes_too_much_is_stopped(source: str, lists_may_grow: bool) -> None:
    template = template_sandbox(lists_may_grow=lists_may_grow).from_string(source)
    with pytest.raises(jinja2.TemplateRuntimeError, match="makes more than 10,000,000 characters"):
        template.render(text="x" * 10_000)


@pytest.mark.parametrize("lists_may_grow", [True, False])
@pytest.mark.parametrize(
    "source",
    [
        "{% for _ in range(100000) %}{% for _ in range(100000) %}{% endfor %}{% endfor %}",
        "{% for _ in range(100000) %}{% for n in range(100000) if n < 0 %}{% endfor %}{% endfor %}",
        "{% macro many() %}{% for _ in range(100000) %}{{ range(100000) | sum }}{% endfor %}{% endmacro %}{{ many() }}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    ],
)
def test_a_template_that_takes_too_long_is_stopped(source: str, lists_may_grow: bool) -> None:
    template = template_sandbox(lists_may_grow=lists_may_grow).from_string(source)
    with pytest.raises(jinja2.TemplateRuntimeError, match="takes more than 1 s"):
        template.render()


@pytest.mark.parametrize(
    "source", ["{{ (7 ** 300000) | string }}", "{% set a = 10 ** 4000 %}{{ a * a }}"]
)
def test_a_number_that_is_too_long_is_refused(source: str) -> None:
    with pytest.raises(
        jinja2.TemplateRuntimeError, match="makes a number of more than 4,000 digits"
    ):
        template_sandbox().from_string(source).render()


def test_loops_and_products_are_those_of_jinja() -> None:
    source = (
        "{% for each in items if each %}{{ loop.index }}/{{ loop.length }} {{ each * 2 }}{{ ',' if not loop.last }}"
        "{% endfor %}{% for _ in () %}{% else %} none{% endfor %}"
        "{% for each in tree recursive %}<{{ loop(each) if each is iterable else each }}>{% endfor %}"
        " {{ 2 * 3 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ [0] * 2 }} {{ 1.5 * 2 }}"
    )
    rendered = (
        template_sandbox().from_string(source).render(items=["a", "", "b"], tree=[1, [2, [3]]])
    )
    assert rendered == "1/2 aa,2/2 bb none<1><<2><<3>>> 6 1024 0.5 [0, 0] 3.0"


def test_filters_methods_and_joined_texts_are_those_of_jinja() -> None:
    source = (
        "{{ 'a' ~ 1 ~ none }} {{ [3, 1] | sort | join('-') }}"
        " {{ docs | map(attribute='t') | map('upper') | join(',') }}"
        " {{ 'x' | center(5) }}| {{ '%05.1f%%' % 2 }} {{ '%s=%d' | format('n', 10 ** 9) }} {{ '{:>4}'.format(7) }}"
        " {{ ['a', 'b'] | reverse | list }} {{ 'a,b'.split(',') }} {{ [1, 2, 3] | batch(2, 0) | list }}"
        " {{ [1] + [2] }} {{ gone | default(10 ** 12) }} {{ docs | selectattr('t', 'eq', 'p') | list | length }}"
        " {{ ','.join(docs | map(attribute='t')) }} {% filter indent(2) %}a\nb{% endfilter %} {{ {'a': [1]} | tojson }}"
    )
    rendered = template_sandbox().from_string(source).render(docs=[{"t": "p"}, {"t": "q"}])
    assert rendered == (
        "a1None 1-3 P,Q   x  | 002.0% n=1000000000    7 ['b', 'a'] ['a', 'b'] [[1, 2], [3, 0]]"
        ' [1, 2] 1000000000000 1 p,q a\n  b {"a": [1]}'
    )


def test_lists_grow_only_where_they_may() -> None:
    assert template_sandbox(lists_may_grow=True).from_string(GROWING).render() == "[1]"
    with pytest.raises(SecurityError):
        template_sandbox().from_string(GROWING).render()


def test_the_last_line_feed_stays_only_where_it_is_wanted() -> None:
    assert template_sandbox().from_string("a\n").render() == "a"
    assert template_sandbox(keep_last_newline=True).from_string("a\n").render() == "a\n"


def test_a_checkout_has_its_templates_at_the_top() -> None:
    assert templates.folder() == Path(__file__).parents[2] / "templates"
    assert (templates.folder() / "comment.md.j2").is_file()


def test_a_wheel_has_its_templates_inside_the_package(tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    shipped = tmp_path / "ci_evals" / "_templates"
    shipped.mkdir(parents=True)
    assert templates.folder(tmp_path / "ci_evals") == shipped


def test_every_value_goes_through_the_formats_own_escaping() -> None:
    template = templates.environment(finalize).from_string("**{{ text }}** {{ number }}")
    assert template.render(text="*a* <b>", number=3) == "**&#42;a&#42; &#60;b&#62;** 3"


def test_a_name_without_a_value_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError):
        templates.environment(finalize).from_string("{{ missing }}").render()
