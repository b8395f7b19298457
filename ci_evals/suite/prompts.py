"""Reads the entries of `prompts`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import TemplateSyntaxError

from ci_evals.errors import ConfigError
from ci_evals.model.case import Prompt
from ci_evals.model.response import Part, Role
from ci_evals.suite.environment import Interpolation
from ci_evals.suite.file_values import file_url, name_file
from ci_evals.suite.nodes import Node, Reading
from ci_evals.suite.problems import check
from ci_evals.suite.rendering import Templates, template_sources
from ci_evals.suite.types import PromptTemplate
from ci_evals.suite.yaml import read_text

_LONGEST_PATH = 200  # bytes; usual file systems have names of at most 255


def read_prompts(
    node: Node, folder: Path, interpolation: Interpolation
) -> Reading[tuple[Prompt, ...]]:
    """Read every prompt in file order, leaving out invalid ones."""
    if node.value is None:
        return ()
    if not isinstance(node.value, list | tuple):
        example = '`- "{{ question }}"`'
        if node.in_code:
            example = '["{{ question }}"]'
        yield node.problem(f"expected a list of templates, as in {example}")
        return ()
    prompts: dict[str, Prompt] = {}
    for number, entry in enumerate(node.items(), 1):
        path = _find_path(entry.value, folder)
        if path is not None:
            yield entry.problem(name_file(path))
            continue
        filled = yield from interpolation.fill(entry)
        prompt = yield from _read_prompt(filled, folder, f"prompt {number}")
        if prompt is None:
            continue
        if prompt.name in prompts:
            text = f"a second prompt called {prompt.name!r}: give it another `name`"
            yield entry.problem(text)
        template_problem = _check_templates(prompt)
        if template_problem is not None:
            yield entry.problem(f"not a valid template: {template_problem}")
        else:
            prompts[prompt.name] = prompt
    return tuple(prompts.values())


def _read_prompt(node: Node, folder: Path, default_name: str) -> Reading[Prompt | None]:
    if isinstance(node.value, str):
        return Prompt(default_name, (("user", str(node.value)),))
    if not isinstance(node.value, dict):
        yield node.problem(
            "expected text, or a mapping with `user`, `file`, `messages` or `function`"
        )
        return None
    template = yield from check(PromptTemplate, node)
    if template is None:
        return None
    sources = [template.user, template.file, template.messages or None, template.function]
    if sources.count(None) != len(sources) - 1:
        yield node.problem("a prompt has one of `user`, `file`, `messages` and `function`")
        return None
    if template.function is not None:
        if template.system is not None:
            yield node["system"].problem("the function makes the whole prompt")
        return Prompt(template.name or template.function, function=template.function)
    turns: list[tuple[Role, str | Sequence[Part]]] = []
    if template.system is not None:
        turns.append(("system", template.system))
    turns += ((message.role, message.content) for message in template.messages)
    if any(message.tool_calls or message.tool_call_id for message in template.messages):
        yield node["messages"].problem("tool calls belong to the `messages` of a case")
    if template.user is not None:
        turns.append(("user", template.user))
    if template.file is not None:
        try:
            turns.append(("user", read_text(folder / template.file, template.file)))
        except ConfigError as error:
            for problem in error.problems:
                yield node["file"].problem(f"{problem} (looked in {folder})")
            return None
        default_name = Path(template.file).stem
    return Prompt(template.name or default_name, tuple(turns))


def _find_path(value: Any, folder: Path) -> str | None:
    """Return the path that is written in place of a template; None if it is not a path."""
    if not isinstance(value, str):
        return None
    url = file_url(value)
    if url is not None:
        return url
    if "{" in value or "\n" in value:
        return None
    # `is_file` raises for longer names in some releases of Python.
    if len(value.encode(errors="surrogatepass")) >= _LONGEST_PATH:
        return None
    if (folder / value).is_file():
        return value
    return None


def _check_templates(prompt: Prompt) -> str | None:
    """Return the problem of the first invalid template of a prompt."""
    templates = Templates()
    for _, content in prompt.turns:
        for source in template_sources(content):
            try:
                templates.compile(source)
            except TemplateSyntaxError as error:
                return f"{error.message} (line {error.lineno} of it)"
            except Exception as error:  # noqa: BLE001  nested too deep, or too long for Python
                return f"{type(error).__name__}: {error}"
    return None
