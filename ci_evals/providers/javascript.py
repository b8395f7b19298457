"""`javascript`: a function or a class of the team's own, in the machine's Node.js."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

from ci_evals.errors import ConfigError, ProviderError
from ci_evals.format import one_line
from ci_evals.javascript import (
    JavaScriptError,
    current_node,
    file_problem,
    split_file,
)
from ci_evals.model.fields import NonEmpty
from ci_evals.model.request import Request
from ci_evals.model.response import Response
from ci_evals.providers.answer import as_response
from ci_evals.providers.base import Provider, ProviderOptions, Resources
from ci_evals.providers.request_fields import request_fields
from ci_evals.user_code.targets import CodeSource
from ci_evals.workers import WorkerEndedError, WorkerTimeoutError


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaScript(ProviderOptions):
    """Calls a function of a file once per run, or the method `callApi` of a class.

    A function is called as `fn(prompt, context)`, with `config` in the context; a class is
    instantiated once, with an object that has `id` and `config`. Either returns text, or an object
    with `output` and other fields of an answer.

    Args:
        file: a JavaScript or TypeScript file, relative to the config's folder; `file.mjs:name` is
            one of its named exports.
        config: settings for the function or the class.
    """

    kind: ClassVar[str] = "javascript"
    own_code: ClassVar[bool] = True
    retried: ClassVar[bool] = False  # the team's own code: a retry would hide that it is flaky

    file: NonEmpty
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def default_name(self) -> str:
        return f"javascript:{self.file}"

    @property
    def own_source(self) -> CodeSource:
        parts = split_file(self.file) or {"file": self.file}
        return CodeSource("script", parts["file"])

    def problems(self, folder: Path) -> list[str]:
        if problem := file_problem(self.file, folder):
            return [f"file: {problem}"]
        return []

    def open(self, resources: Resources) -> Provider:
        """Load the file.

        Raises:
            ConfigError: there is no Node.js, or the file does not export anything callable.
        """
        name = self.name or self.default_name
        options = {"id": name, "config": dict(self.config)}
        target = {**(split_file(self.file) or {}), "options": options}
        try:
            current_node().check_provider(**target)
        except ConfigError as error:
            who = f"provider {name!r}"
            raise ConfigError([problem._replace(path=who) for problem in error.problems]) from error
        return _JavaScriptProvider(target)


class _JavaScriptProvider:
    def __init__(self, target: Mapping[str, Any]) -> None:
        self._target = target

    async def answer(self, request: Request) -> Response:
        prompt = request.input
        if not isinstance(prompt, str):
            prompt = json.dumps(prompt, ensure_ascii=False, default=str)
        context = _context(request, prompt)
        try:
            value = await current_node().call(
                timeout_s=request.timeout_s, **self._target, prompt=prompt, context=context
            )
        except WorkerTimeoutError:
            text = f"no answer within {request.timeout_s:g} s"
            raise ProviderError("timeout", text) from None
        except JavaScriptError as error:
            stack = str(error)
            text = one_line(stack.partition("\n")[0], 300)
            raise ProviderError("crash", text, detail=stack) from error
        except WorkerEndedError as error:
            raise ProviderError("crash", str(error)) from error
        file = self._target["file"]
        if value is None:
            text = f"`{file}` returned nothing. Return text, or an object with `output`"
            raise ProviderError("bad_answer", text)
        if isinstance(value, dict):
            value = _answer_fields(value)
        try:
            return as_response(value)
        except ValueError as error:
            text = f"`{file}` returned an invalid answer: {error}"
            raise ProviderError("bad_answer", text) from None


def _context(request: Request, prompt: str) -> dict[str, Any]:
    case = request.case
    return {
        **request_fields(request),
        "prompt": {"raw": prompt, "label": prompt},
        "test": {
            "description": case.description or case.id,
            "vars": case.vars,
            "metadata": case.metadata,
        },
    }


def _answer_fields(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an answer with our names for its fields instead of other tools', without other keys.

    Raises:
        ProviderError: the answer is an error.
    """
    if error := value.get("error"):
        raise ProviderError("crash", one_line(str(error), 300))
    if "output" not in value and "tool_calls" not in value:
        return value
    known = [each.name for each in fields(Response)]
    answer = {name: item for name, item in value.items() if name in known}
    answer.setdefault("cost_usd", value.get("cost"))
    usage = value.get("tokenUsage")
    if isinstance(usage, dict):
        counts = {
            "input_tokens": usage.get("prompt", 0),
            "output_tokens": usage.get("completion", 0),
        }
        answer.setdefault("usage", counts)
    return answer
