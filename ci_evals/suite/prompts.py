"""Reads the entries of `prompts`, and checks that they fit the cases."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from jinja2 import TemplateSyntaxError

from ci_evals.errors import ConfigError, Place, Problem
from ci_evals.model.case import Case, Prompt, Request
from ci_evals.model.response import Message, Part, Role
from ci_evals.providers.base import ProviderOptions
from ci_evals.suite.environment import Interpolation
from ci_evals.suite.file_values import file_url, name_file
from ci_evals.suite.problems import Written, and_more, check, problems_of_cases
from ci_evals.suite.rendering import Templates, template_sources, variables
from ci_evals.suite.types import PromptTemplate
from ci_evals.suite.yaml import read_text
from ci_evals.templating import describe_error

_ANY_LINE = "…"
_LONGEST_PATH = 200  # bytes; no file system takes a name of more than 255


def read_prompts(
    written: Written, problems: list[Problem], folder: Path, interpolation: Interpolation
) -> tuple[Prompt, ...]:
    """Read every prompt, in the order of the file; those that are wrong are left out."""
    if written.value is None:
        return ()
    if not isinstance(written.value, list | tuple):
        example = '["{{ question }}"]' if written.in_code else '`- "{{ question }}"`'
        problems.append(written.problem(f"expected a list of templates, as in {example}"))
        return ()
    prompts: dict[str, Prompt] = {}
    for number, entry in enumerate(written.items(), 1):
        if path := _find_path(entry.value, folder):
            problems.append(entry.problem(name_file(path)))
            continue
        prompt = _read_prompt(interpolation.fill(entry), problems, folder, f"prompt {number}")
        if prompt is None:
            continue
        if prompt.name in prompts:
            problems.append(
                entry.problem(f"a second prompt called {prompt.name!r}: give it another `name`")
            )
        if _is_template(prompt, entry, problems):
            prompts[prompt.name] = prompt
    return tuple(prompts.values())


def _read_prompt(
    written: Written, problems: list[Problem], folder: Path, default_name: str
) -> Prompt | None:
    if isinstance(written.value, str):
        return Prompt(default_name, (("user", str(written.value)),))
    if not isinstance(written.value, dict):
        problems.append(
            written.problem("expected text, or a mapping with `user`, `file` or `messages`")
        )
        return None
    template = check(PromptTemplate, written, problems)
    if template is None:
        return None
    if sum((template.user is not None, template.file is not None, bool(template.messages))) != 1:
        problems.append(written.problem("a prompt has one of `user`, `file` and `messages`"))
        return None
    if any(message.tool_calls or message.tool_call_id for message in template.messages):
        problems.append(
            written["messages"].problem("tool calls belong to the `messages` of a case")
        )
    turns: list[tuple[Role, str | Sequence[Part]]] = [
        (message.role, message.content) for message in template.messages
    ]
    if template.user is not None:
        turns.append(("user", template.user))
    if template.file is not None:
        try:
            turns.append(("user", read_text(folder / template.file, template.file)))
        except ConfigError as error:
            problems += [
                written["file"].problem(f"{each} (looked in {folder})") for each in error.problems
            ]
            return None
        default_name = Path(template.file).stem
    if template.system is not None:
        turns.insert(0, ("system", template.system))
    return Prompt(template.name or default_name, tuple(turns))


def _find_path(value: Any, folder: Path) -> str | None:
    """Return the path of a file that stands where a template is expected; None if it is no such
    path.
    """
    may_be = isinstance(value, str) and "{" not in value and "\n" not in value
    may_be = may_be and len(value.encode(errors="surrogatepass")) < _LONGEST_PATH
    return file_url(value) or (value if may_be and (folder / value).is_file() else None)


def _is_template(prompt: Prompt, written: Written, problems: list[Problem]) -> bool:
    before = len(problems)
    for source in chain.from_iterable(template_sources(content) for _, content in prompt.turns):
        try:
            Templates().compile(source)
        except TemplateSyntaxError as error:
            problems.append(
                written.problem(
                    f"not a valid template: {error.message} (line {error.lineno} of it)"
                )
            )
        except Exception as error:  # noqa: BLE001  too deep for the parser, too long for Python's compiler
            problems.append(
                written.problem(f"not a valid template: {type(error).__name__}: {error}")
            )
    return len(problems) == before


def prompt_problems(
    cases: Sequence[Case],
    prompts: Sequence[Prompt],
    unprompted: Sequence[ProviderOptions],
    folder: Path,
) -> Iterator[Problem]:
    """Render every case with every prompt, so that nothing is paid for before all of them are known
    to work.

    Providers that are `unprompted` are sent a case as it is. Images and files are sought from
    `folder`.
    """
    return problems_of_cases(_misfits(cases, prompts, unprompted, Templates(folder)))


def request_problems(
    cases: Sequence[Case],
    prompts: Sequence[Prompt],
    providers: Iterable[ProviderOptions],
    places: Mapping[str, Place],
    folder: Path,
) -> Iterator[Problem]:
    """Find requests that a provider cannot make of a case: its templates ask for what the case does
    not have.
    """
    called = [case for case in cases if not case.cassette]
    for options in providers:
        found: dict[str, list[Case]] = {}
        if options.before:
            continue  # what these make of the input is not known yet
        for request, text in options.misfits(_first_requests(called, prompts, Templates(folder))):
            found.setdefault(text, []).append(request.case)
        for text, (first, *others) in found.items():
            yield Problem(
                *places[str(options.name)], f"{text} (case {first.id!r}{and_more(len(others))})"
            )


def _first_requests(
    cases: Sequence[Case], prompts: Sequence[Prompt], templates: Templates
) -> Iterator[Request]:
    """Yield what the first call of every cell asks; what a simulated user will say is not known."""
    for case in cases:
        line = case.turns[0].user if case.turns else _ANY_LINE if case.user else None
        for prompt in prompts or (None,):
            try:
                input_, messages = templates.render(prompt, case)
            except Exception:  # noqa: BLE001, S112  told of the prompt
                continue
            if line is not None:
                input_, messages = line, (*messages, Message("user", line))
            yield Request(input_, tuple(messages), case, 1, case.timeout_s or 0.0)


def _misfits(
    cases: Sequence[Case],
    prompts: Sequence[Prompt],
    unprompted: Sequence[ProviderOptions],
    templates: Templates,
) -> Iterator[tuple[Case, str, str]]:
    chat = next((provider for provider in unprompted if not provider.own_code), None)
    lacks: dict[tuple[str, str], str] = {}
    for case in cases:
        if case.is_conversation:
            if unprompted and case.input is not None:
                text = "has an `input`, which nobody says in its conversation: make it one of its `turns` or `messages`"
                yield case, "", text
        elif chat and case.input is None and not case.messages:
            text = f"has only `vars`: add `prompts` that make a question for {chat.name} of them, or give it `input`"
            yield case, "", text
        for prompt in prompts:
            try:
                templates.render(prompt, case)
            except Exception as error:  # noqa: BLE001  a user's template can raise anything
                lack = describe_error(error, variables(case))
                lack = lacks.setdefault(
                    (prompt.name, str(error)), lack
                )  # whatever else others have
                yield case, "", f"the prompt {prompt.name!r} does not fit this case: {lack}"
