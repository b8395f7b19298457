"""The sandbox of what a suite writes as a template, and the templates of the reports."""

from pathlib import Path
from types import MappingProxyType

import jinja2
import pytest
from jinja2.exceptions import SecurityError

from ci_evals import templating as templates
from ci_evals.reports.markdown import finalize
from ci_evals.templating import json_renderer, template_sandbox, text_renderer

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
        "{% for _ in range(1001) %}{{ text }}{% endfor %}",
        (
            "{% macro many() %}{% for _ in range(1001) %}{{ text }}{% endfor %}{% endmacro %}"
            "{{ many() | length }}"
        ),
        "{{ text * 1001 }}",
    ],
)
def test_a_template_that_makes_too_much_is_stopped(source: str, lists_may_grow: bool) -> None:
    template = template_sandbox(lists_may_grow=lists_may_grow).from_string(source)
    with pytest.raises(jinja2.TemplateRuntimeError, match="makes more than 10,000,000 characters"):
        template.render(text="x" * 10_000)


def test_a_value_is_never_read_as_a_template() -> None:
    render = json_renderer({"q": "{{ question }}", "text": "It asks {{ question }}"})
    question = "{{ 7 * 7 }} {% for x in y %}"
    assert render({"question": question}) == {"q": question, "text": f"It asks {question}"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"k": [1, "é", None, True]}, '{"k":[1,"é",null,true]}'),
        ([], "[]"),
        ((1, {"a": "<b>"}), '[1,{"a":"<b>"}]'),
        (MappingProxyType({"k": 1}), '{"k":1}'),
        (True, "true"),
        (False, "false"),
        (None, ""),
        (1.5, "1.5"),
        ("True", "True"),
    ],
)
def test_a_value_is_written_as_json_would_have_it_and_null_as_nothing(
    value: object, text: str
) -> None:
    assert text_renderer("a {{ value }} b")({"value": value}) == f"a {text} b"
    assert json_renderer({"q": "{{ value }}"})({"value": value}) == {"q": value}


@pytest.mark.parametrize("lists_may_grow", [True, False])
def test_joined_values_are_written_as_alone(*, lists_may_grow: bool) -> None:
    rows = [{"a": True}, {"a": None}, {"a": [1]}]
    sandbox = template_sandbox(lists_may_grow=lists_may_grow)
    assert sandbox.from_string("{{ rows | join(', ', attribute='a') }}").render(rows=rows) == (
        "true, , [1]"
    )
    assert sandbox.from_string("{{ rows | map(attribute='a') | join }}").render(rows=rows) == (
        "true[1]"
    )
    assert sandbox.from_string("{{ 'ab' | join(d='-') }}").render() == "a-b"
    with pytest.raises(jinja2.UndefinedError):
        sandbox.from_string("{{ rows | join(', ', attribute='b') }}").render(rows=rows)
    with pytest.raises(SecurityError):
        sandbox.from_string("{{ rows | join(attribute='__class__') }}").render(rows=rows)


def test_an_absent_value_is_an_error_only_where_it_is_used() -> None:
    names = {"model": templates.Absent("`model` is not set")}
    for source in ("{{ model | default('any') }}", "{{ model or 'any' }}"):
        assert text_renderer(source)(names) == "any"
    with pytest.raises(jinja2.UndefinedError, match=r"^`model` is not set$"):
        text_renderer("{{ model }}")(names)


def test_an_unknown_key_of_a_mapping_says_which_are_known() -> None:
    values = {"row": {"city": "Paris", "stops": 2}}
    for key, hint in [("citty", ", did you mean 'city'?"), ("x", "; known: city, stops")]:
        with pytest.raises(jinja2.UndefinedError) as raised:
            text_renderer(f"{{{{ row.{key} }}}}")(values)
        assert str(raised.value) == f"there is no {key!r}{hint}"


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
