from typing import Any

import jinja2
import pytest

from ci_evals.model.case import Case, Prompt
from ci_evals.model.response import Message
from ci_evals.suite.rendering import Templates


def prompt(*turns: str, role: Any = "user") -> Prompt:
    return Prompt("p", tuple((role, turn) for turn in turns))


def test_a_prompt_is_filled_from_vars_and_input() -> None:
    case = Case(id="a", input="i", vars={"q": "v", "n": [1, 2]})
    rendered = Templates().render(prompt("{{ q }} {{ input }} {{ n[1] }} <b> & {{ '<' }}"), case)
    assert rendered.input == "v i 2 <b> & <"
    assert rendered.messages == (Message("user", "v i 2 <b> & <"),)


def test_a_var_called_input_wins_over_the_input() -> None:
    assert (
        Templates()
        .render(prompt("{{ input }}"), Case(id="a", input="i", vars={"input": "v"}))
        .input
        == "v"
    )


def test_several_turns_are_a_conversation_that_the_cases_own_continues() -> None:
    case = Case(id="a", vars={"q": "v"}, messages=(Message("assistant", "{{ q }}"),))
    rendered = Templates().render(Prompt("p", (("system", "s {{ q }}"), ("user", "{{ q }}"))), case)
    assert rendered.messages == (
        Message("system", "s v"),
        Message("user", "v"),
        Message("assistant", "{{ q }}"),
    )
    assert rendered.input == [
        {"role": "system", "content": "s v"},
        {"role": "user", "content": "v"},
        {"role": "assistant", "content": "{{ q }}"},
    ]


@pytest.mark.parametrize(
    ("case", "value", "text"),
    [
        (Case(id="a", input="plain {{ q }}"), "plain {{ q }}", "plain {{ q }}"),
        (Case(id="a", input={"a": [1, "é"]}), {"a": [1, "é"]}, '{"a":[1,"é"]}'),
        (Case(id="a", input=0), 0, "0"),
        (Case(id="a", vars={"q": 1}), {"q": 1}, '{"q":1}'),
    ],
)
def test_without_a_prompt_a_case_speaks_for_itself(case: Case, value: object, text: str) -> None:
    assert Templates().render(None, case) == (value, (Message("user", text),))


def test_without_a_prompt_a_conversation_is_sent_as_it_is() -> None:
    messages = (Message("system", "s"), Message("user", "u"))
    as_data = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    assert Templates().render(None, Case(id="a", messages=messages)) == (as_data, messages)
    asked = (*messages, Message("user", "i"))
    as_data.append({"role": "user", "content": "i"})
    assert Templates().render(None, Case(id="a", messages=messages, input="i")) == (as_data, asked)


@pytest.mark.parametrize(
    "source", ["{{ missing }}", "{{ q.missing }}", "{{ q.__class__.__mro__ }}", "{{ 1 // 0 }}"]
)
def test_a_template_that_asks_for_what_is_not_there_raises(source: str) -> None:
    with pytest.raises((jinja2.TemplateError, ZeroDivisionError)):
        Templates().render(prompt(source), Case(id="a", vars={"q": "v"}))


def test_a_template_is_compiled_once() -> None:
    templates = Templates()
    assert templates.compile("{{ q }}") is templates.compile("{{ q }}")
    with pytest.raises(jinja2.TemplateSyntaxError):
        templates.compile("{{ q")
