"""A function of the team's own, called in this process."""

import asyncio
import copy
import functools
import inspect
import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Final, overload

from ci_evals.errors import ConfigError, ProviderError
from ci_evals.faults import ErrorKind
from ci_evals.format import one_line
from ci_evals.model.fields import Bool
from ci_evals.model.request import Request
from ci_evals.model.response import Response
from ci_evals.providers.answer import as_response, clean_text, unfit_type
from ci_evals.providers.base import Provider, ProviderOptions, Resources
from ci_evals.providers.frameworks import unpack_result
from ci_evals.providers.parts import asks_messages
from ci_evals.user_code.crashes import PACKAGE, describe_crash, failure_of_model_api
from ci_evals.user_code.targets import (
    CodeSource,
    annotated_as_text,
    has_second_parameter,
    identity,
    load_target,
    missing_target,
    takes_text,
    target_of_file,
    target_parts,
    target_problem,
)
from ci_evals.user_code.threads import call_in_thread, ends_work, is_async

_MAX_DETAIL = 8000
_MAX_FRAMES = 30
_Function = Callable[..., Any]
_Call = Callable[[Request], Awaitable[Any]]


AGENT_METHODS: Final = ("answer", "run", "invoke")
"""The methods of an agent that are looked for if it cannot be called itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Python(ProviderOptions):
    """Calls `module:function` with the case's input, and with the `Request` if it has a parameter
    for one.

    The function gets the request as its second argument if it has a second positional parameter
    that is required or is called `request`. It may be async; otherwise it runs in a thread. It
    returns text, a mapping with `output` or `tool_calls`, a `Response`, or the result of an agent
    framework. The config's folder is importable.

    Args:
        target: `module:function`, or `module:object.method`.
        factory: the target makes a fresh agent for each run, which is then called, or else its
            method `answer`, `run` or `invoke`. A plain function or class makes it in a thread; an
            `async def` on the event loop.
        config: for a factory with a parameter `config`, which gets this mapping with the `model`
            and `params` of the case's overrides.
    """

    kind: ClassVar[str] = "python"
    own_code: ClassVar[bool] = True
    portable: ClassVar[bool] = True
    retried: ClassVar[bool] = False  # the team's own code: a retry would hide that it is flaky

    target: str
    factory: Bool = False
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def default_name(self) -> str:
        return f"python:{self.target}"

    @property
    def own_source(self) -> CodeSource:
        return CodeSource("module", self.target.partition(":")[0])

    def problems(self, folder: Path) -> list[str]:
        if target_parts(self.target) is None:
            example = target_of_file(self.target) or "agent:answer"
            return [f"target {self.target!r} is not of the form module:function, as in {example}"]
        if problem := missing_target(self.target, folder):
            return [f"target: {problem}"]
        return []

    def misfits(self, requests: Iterable[Request], folder: Path) -> Iterator[tuple[Request, str]]:
        if self.factory or not takes_text(self.target, folder):
            return
        for request in requests:
            if not isinstance(request.input, str):
                yield request, f"{self.target} {_lack_of_text(request)}"

    def open(self, resources: Resources) -> Provider:
        """Import the target; the engine has made the suite's folder importable.

        Raises:
            ConfigError: the target cannot be imported, or cannot be called as documented.
        """
        try:
            function = load_target(self.target)
            return _open_function(function, self.target, self.config, factory=self.factory)
        except ConfigError as error:
            raise _with_provider(error, self) from error


class Target:
    """A function or an object to call. Its text is part of fingerprints, so it is the same in every
    process.
    """

    def __init__(self, called: Any) -> None:
        self.called = called

    def __str__(self) -> str:
        return identity(self.called)

    @property
    def name(self) -> str:
        for attribute in ("name", "__name__"):
            if name := getattr(self.called, attribute, None):
                return str(name)
        return type(self.called).__name__


@dataclass(frozen=True, slots=True, kw_only=True)
class Function(ProviderOptions):
    """Calls a function as `python` does, or the method `answer(request)` of an object.

    Args:
        target: the function or the object.
        factory: the function makes a fresh agent for each run.
        config: for a factory with a parameter `config`; see `Python`.
    """

    kind: ClassVar[str] = "function"
    own_code: ClassVar[bool] = True
    portable: ClassVar[bool] = True
    retried: ClassVar[bool] = False  # the team's own code: a retry would hide that it is flaky

    target: Any
    factory: Bool = False
    config: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, called: Any, **options: Any) -> "Function":
        """Return the options for a function, an object, or a function with `@provider`."""
        if isinstance(called, FunctionProvider):
            return replace(called.options, **options)
        return cls(target=Target(called), **options)

    @property
    def default_name(self) -> str:
        return str(self.target.name)

    @property
    def own_source(self) -> CodeSource:
        return CodeSource("object", self.target.called)

    def misfits(self, requests: Iterable[Request], folder: Path) -> Iterator[tuple[Request, str]]:
        called = self.target.called
        if self.factory or hasattr(called, "answer") or not annotated_as_text(called):
            return
        for request in requests:
            if not isinstance(request.input, str):
                yield request, f"{self.target} {_lack_of_text(request)}"

    def open(self, resources: Resources) -> Provider:
        """Make the live provider.

        Raises:
            ConfigError: the target cannot be called as documented.
        """
        called, target = self.target.called, str(self.target)
        if callable(getattr(called, "answer", None)) and not isinstance(called, type):
            return _FunctionCaller(_caller(called.answer, _request_alone), target)
        try:
            return _open_function(called, target, self.config, factory=self.factory)
        except ConfigError as error:
            raise _with_provider(error, self) from error


class FunctionProvider:
    """A function with `@provider`, which can be listed in `providers` and still be called."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.options = Function(target=Target(function), **options)

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


@overload
def provider(function: Callable[..., Any]) -> FunctionProvider: ...
@overload
def provider(**options: Any) -> Callable[[Callable[..., Any]], FunctionProvider]: ...
def provider(
    function: Callable[..., Any] | None = None, **options: Any
) -> FunctionProvider | Callable[[Callable[..., Any]], FunctionProvider]:
    """Make a provider of a function: `fn(input)` or `fn(input, request)`, sync (in a thread) or
    async.

    It returns text, a mapping with `output` or `tool_calls`, or a `Response`. A crash fails the
    run, because the function is part of the change under test.

    Args:
        function: the function, if `@provider` is used without parentheses.
        options: settings of every provider, such as `name`, `max_concurrency`, `timeout_s`,
            `retries`; and `factory=True` for a function that makes a fresh agent for each run.

    >>> @provider(name="shouting", max_concurrency=2)
    ... def agent(question: str) -> str:
    ...     return question.upper()
    >>> agent("hello")
    'HELLO'
    """
    if function is None:
        return functools.partial(FunctionProvider, **options)
    return FunctionProvider(function, **options)


def _with_provider(error: ConfigError, options: ProviderOptions) -> ConfigError:
    """Return an error whose problems name the provider."""
    who = f"provider {options.name or options.default_name!r}"
    return ConfigError([problem._replace(path=who) for problem in error.problems])


# Calls. How to call a function is decided once, when the provider is opened.


def _open_function(
    function: _Function, target: str, config: Mapping[str, Any], *, factory: bool
) -> Provider:
    """Make a provider of a function that errors call `target`.

    Raises:
        ConfigError: the function cannot be called as documented.
    """
    takes_config = factory and _has_parameter(function, "config")
    if config and not takes_config:
        advice = "it is for a factory with a parameter `config`"
        raise target_problem(target, function, f"takes no `config`: {advice}")
    if takes_config:
        return _FunctionCaller(_factory_caller(function, config), target)
    if factory:
        _check_signature(function, target, ())
        return _FunctionCaller(_factory_caller(function), target)
    if inspect.isclass(function):
        advice = "set `factory: true` for a fresh instance per run"
        raise target_problem(target, function, f"is a class: {advice}")
    if has_second_parameter(function, "request"):
        _check_signature(function, target, ("input", "request"))
        return _FunctionCaller(_caller(function, _input_and_request), target)
    _check_signature(function, target, ("input",))
    return _FunctionCaller(_caller(function, _input_alone), target)


class _FunctionCaller:
    """The live provider.

    If opentelemetry-sdk is installed, spans of the team's code add the steps that an answer lacks.
    """

    def __init__(self, call: _Call, target: str) -> None:
        self._call = call
        self._target = target
        self._recorder: Any = None
        with suppress(ImportError):  # the extra `otel` is not installed
            from ci_evals.providers.telemetry import attach_recorder

            self._recorder = attach_recorder()

    async def answer(self, request: Request) -> Response:
        if self._recorder is None:
            return await self._answer(request)
        recording = self._recorder.start()
        try:
            response: Response = recording.complete(await self._answer(request))
            return response
        finally:
            self._recorder.stop(recording)

    async def _answer(self, request: Request) -> Response:
        scope = asyncio.timeout(request.timeout_s)
        try:
            async with scope:
                value = await self._call(request)
        except BaseException as error:  # even SystemExit of the function is only a crash of its run
            if ends_work(error):
                raise
            if scope.expired():
                raise _timeout(request) from None
            if isinstance(error, ProviderError):  # it states the kind of failure itself
                raise
            raise _crash(error) from error
        if scope.expired():  # the function suppressed its cancellation
            raise _timeout(request)
        try:
            if not isinstance(value, str | Response):
                value = await unpack_result(value)
            return as_response(value)
        except ValueError as error:
            wrong = f"an invalid answer: {error}"
            if unfit := unfit_type(value):
                wrong = unfit
            if callable(value):
                wrong += "; if it makes an agent for each run, set `factory: true`"
            raise ProviderError("bad_answer", f"`{self._target}` returned {wrong}") from None


def _timeout(request: Request) -> ProviderError:
    return ProviderError("timeout", f"no answer within {request.timeout_s:g} s")


def _caller(function: _Function, arguments: Callable[[Request], tuple[Any, ...]]) -> _Call:
    """Return a caller of a function with arguments of a request, in a thread unless it is async."""
    if is_async(function):
        return lambda request: function(*arguments(request))
    return lambda request: call_in_thread(functools.partial(function, *arguments(request)))


def _input_alone(request: Request) -> tuple[Any]:
    if isinstance(request.input, str):
        return (request.input,)
    return (copy.deepcopy(request.input),)  # a function may change it, and other runs share it


def _input_and_request(request: Request) -> tuple[Any, Request]:
    return (*_input_alone(request), request)


def _request_alone(request: Request) -> tuple[Request]:
    return (request,)


def _factory_caller(factory: _Function, config: Mapping[str, Any] | None = None) -> _Call:
    """Return a caller that makes an agent and calls it: on the event loop, or both in one thread.

    In one thread, because an agent may hold objects that are bound to the thread that made them.

    Args:
        factory: makes an agent.
        config: what it gets as `config`, with a case's overrides; None if it takes nothing.
    """

    def make(request: Request) -> Any:
        if config is None:
            return factory()
        overrides = request.case.overrides
        given = {**copy.deepcopy(dict(config)), **overrides.params}
        if overrides.model is not None:
            given["model"] = overrides.model
        return factory(config=given)

    def arguments(agent: _Function, request: Request) -> tuple[Any, ...]:
        if has_second_parameter(agent, "request"):
            return _input_and_request(request)
        return _input_alone(request)

    async def make_and_call(request: Request) -> Any:
        agent = _callable_agent(await make(request))
        given = arguments(agent, request)
        if is_async(agent):
            return await agent(*given)
        return await call_in_thread(functools.partial(agent, *given))

    def make_and_call_in_thread(request: Request) -> Awaitable[Any]:
        def work() -> Any:
            agent = _callable_agent(make(request))
            return agent(*arguments(agent, request))

        return call_in_thread(work)

    if is_async(factory):
        return make_and_call
    return make_and_call_in_thread


def _callable_agent(made: object) -> _Function:
    """Return what a factory made, or its method that answers."""
    if callable(made):
        return made
    for name in AGENT_METHODS:
        method = getattr(made, name, None)
        if callable(method):
            return method  # type: ignore[no-any-return]  # of any class
    methods = ", ".join(f"`{name}`" for name in AGENT_METHODS)
    kind = type(made).__name__
    raise TypeError(
        f"the factory made a {kind}, which cannot be called and has no method {methods}"
    )


def _has_parameter(function: _Function, name: str) -> bool:
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):  # some builtins have no signature
        return False


def _check_signature(function: _Function, target: str, given: tuple[str, ...]) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some builtins have no signature
        return
    try:
        signature.bind(*given)
    except TypeError as error:
        text = f"cannot be called with ({', '.join(given)}): {error}"
        if given and not signature.parameters:
            text += "; if it makes an agent for each run, set `factory: true`"
        raise target_problem(target, function, text) from None


def _crash(error: BaseException) -> ProviderError:
    frames = error.__traceback__
    # The team's own frames are of interest, not those of ci-evals around them.
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(PACKAGE):
        frames = frames.tb_next
    summary = traceback.TracebackException(type(error), error, frames, limit=-_MAX_FRAMES)
    detail = clean_text("".join(summary.format()))
    if len(detail) > _MAX_DETAIL:
        half = _MAX_DETAIL // 2
        detail = f"{detail[:half]}\n…\n{detail[3 - half :]}"
    kind: ErrorKind = "crash"
    status = None
    failure = failure_of_model_api(error)
    if failure is not None:
        kind, status = failure
    text = one_line(describe_crash(error), 300)
    return ProviderError(kind, text, status=status, detail=detail)


def _lack_of_text(request: Request) -> str:
    """Return why a function that takes text cannot be called."""
    if asks_messages(request):
        return (
            "takes `str`, but this case sends messages: accept a list of mappings with `role` and"
            " `content`, as in `def answer(messages: list[dict[str, Any]])`"
        )
    return (
        "takes `str`, but the input of this case is not text: write the question as `input`,"
        " or turn the vars into text with `prompts`"
    )
