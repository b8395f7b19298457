"""Entries of `prompts` into templates, and whether these fit the cases."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ci_evals.config.decode import Decoder
from ci_evals.config.environment import Interpolation
from ci_evals.config.file_types import PromptEntry
from ci_evals.config.source import line_of, read_text
from ci_evals.errors import ConfigError, Problem
from ci_evals.model import Case, Prompt
from ci_evals.providers.base import ProviderOptions
from ci_evals.suite import Templates


class PromptReader:
    """Reads `prompts`.

    Args:
        folder: where relative paths start.
        decoder: decodes values of the suite's file, and gets all problems.
        interpolation: fills in variables of the environment.
    """

    def __init__(self, folder: Path, decoder: Decoder, interpolation: Interpolation) -> None:
        self.folder = folder
        self.decoder = decoder
        self.interpolation = interpolation
        self.templates = Templates()

    def read(self, entries: Any, line: int | None) -> tuple[Prompt, ...]:
        """Every prompt, in the order of the file."""
        if entries is None:
            return ()
        if not isinstance(entries, list):
            self.decoder.problem(line, "prompts", 'expected a list of templates, as in `- "{{ question }}"`')
            return ()
        prompts: dict[str, Prompt] = {}
        for index, entry in enumerate(entries):
            path, entry_line = f"prompts[{index}]", line_of(entries, index) or line
            filled = self.interpolation.fill(entry, path, entry_line)
            prompt = self._prompt(filled, path, entry_line, f"prompt {index + 1}")
            if prompt is None:
                continue
            if prompt.name in prompts:
                text = f"a second prompt called {prompt.name!r}: give it another `name`"
                self.decoder.problem(entry_line, path, text)
            if self._is_template(prompt, path, entry_line):
                prompts[prompt.name] = prompt
        return tuple(prompts.values())

    def _prompt(self, entry: Any, path: str, line: int | None, default_name: str) -> Prompt | None:
        if isinstance(entry, str):
            return Prompt(default_name, (("user", str(entry)),))
        if not isinstance(entry, dict):
            self.decoder.problem(line, path, "expected text, or a mapping with `user`, `file` or `messages`")
            return None
        decoded = self.decoder.struct(entry, PromptEntry, path, line)
        if decoded is None:
            return None
        if sum((decoded.user is not None, decoded.file is not None, bool(decoded.messages))) != 1:
            self.decoder.problem(line, path, "a prompt has one of `user`, `file` and `messages`")
            return None
        turns = [(message.role, message.content) for message in decoded.messages]
        if any(message.tool_calls or message.tool_call_id for message in decoded.messages):
            self.decoder.problem(line, f"{path}.messages", "tool calls belong to the `messages` of a case")
        if decoded.user is not None:
            turns.append(("user", decoded.user))
        if decoded.file is not None:
            source = self._source(decoded.file, f"{path}.file", line_of(entry, "file"))
            if source is None:
                return None
            turns.append(("user", source))
            default_name = Path(decoded.file).stem
        if decoded.system is not None:
            turns.insert(0, ("system", decoded.system))
        return Prompt(decoded.name or default_name, tuple(turns))

    def _source(self, file: str, path: str, line: int | None) -> str | None:
        try:
            return read_text(self.folder / file, file)
        except ConfigError as error:
            for problem in error.problems:
                self.decoder.problem(line, path, f"{problem} (looked in {self.folder})")
            return None

    def _is_template(self, prompt: Prompt, path: str, line: int | None) -> bool:
        from jinja2 import TemplateSyntaxError

        before = len(self.decoder.problems)
        for _, source in prompt.turns:
            try:
                self.templates.compile(source)
            except TemplateSyntaxError as error:
                text = f"not a valid template: {error.message} (line {error.lineno} of it)"
                self.decoder.problem(line, path, text)
            except Exception as error:  # noqa: BLE001  too deep for the parser, too long for Python's compiler
                self.decoder.problem(line, path, f"not a valid template: {type(error).__name__}: {error}")
        return len(self.decoder.problems) == before


def misfits(
    cases: Sequence[Case], prompts: Sequence[Prompt], unprompted: Sequence[ProviderOptions]
) -> Iterator[Problem]:
    """Render every case with every prompt, so that nothing is paid for before all of them are known to work.

    Providers that are `unprompted` are sent a case as it is.
    """
    templates = Templates()
    chat = next((provider for provider in unprompted if not provider.own_code), None)
    for case in cases:
        if case.is_conversation:
            if unprompted and case.input is not None:
                text = "has an `input`, which nobody says in its conversation: make it one of its `turns` or `messages`"
                yield _misfit(case, text)
        elif chat and case.input is None and not case.messages:
            text = f"has only `vars`: add `prompts` that make a question for {chat.name} of them, or give it `input`"
            yield _misfit(case, text)
        for prompt in prompts:
            try:
                templates.render(prompt, case)
            except Exception as error:  # noqa: BLE001  a user's template can raise anything
                yield _misfit(case, f"the prompt {prompt.name!r} does not fit this case: {error}")


def _misfit(case: Case, message: str) -> Problem:
    return Problem(case.file, case.line, f"case {case.id!r}", message)
