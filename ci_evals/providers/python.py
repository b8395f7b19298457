"""A function of the team's own, called in this process."""

import asyncio
import copy
import functools
import inspect
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, overload

from ci_evals.errors import ConfigError, ProviderError
from ci_evals.format import one_line
from ci_evals.model.case import Request
from ci_evals.model.fields import Bool
from ci_evals.model.response import Response
from ci_evals.providers.answer import as_response, clean_text, unfit_type
from ci_evals.providers.base import Provider, ProviderOptions, Resources
from ci_evals.providers.frameworks import unpack_result
from ci_evals.user_code import (
    PACKAGE,
    call,
    call_in_thread,
    describe_crash,
    has_second_parameter,
    identity,
    is_async,
    is_cancelling,
    load_target,
    missing_target,
    target_of_file,
    target_parts,
    target_problem,
)

_MAX_DETAIL = 8000
_MAX_FRAMES = 30

_Function = Callable[..., Any]
_Call = Callable[[Request], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Python(ProviderOptions):
    """Calls `module:function` with the case's input, and with the `Request` too if it asks for one.

    The function gets the request as second argument if it has a second positional parameter that is
    required or is called `request`. It may be async; otherwise it runs in a thread. It returns
    text, a mapping with `output` or `tool_calls`, a `Response`, or the result of an agent
    framework. The config's folder is importable.

    Args:
        target: `module:function`, or `module:object.method`.
        factory: the target takes nothing and makes a fresh agent for each run, which is then
            called. A plain function or class makes it in a thread; an `async def` on the event
            loop.
    """

    kind: ClassVar[str] = "python"
    own_code: ClassVar[bool] = True
    portable: ClassVar[bool] = True
    retried: ClassVar[bool] = False  # the team's own code: what broke once is broken

    target: str
    factory: Bool = False

    @property
    def default_name(self) -> str:
        return f"python:{self.target}"

    def problems(self, folder: Path) -> list[str]:
        if target_parts(self.target) is None:
            example = target_of_file(self.target) or "agent:answer"
            return [f"target {self.target!r} is not of the form module:function, as in {example}"]
        problem = missing_target(self.target, folder)
        return [f"target: {problem}"] if problem else []

    def open(self, resources: Resources) -> Provider:
        """Import the target; the engine has made the suite's folder importable.

        Raises:
            ConfigError: it cannot be imported, or cannot be called as documented.
        """
        with _problems_of(self):
            function = load_target(self.target)
            return _open_function(function, self.target, factory=self.factory)


class Target:
    """A function or an object to call. Its text is the same in every process, so that results can
    be compared.
    """

    def __init__(self, called: Any) -> None:
        self.called = called

    def __str__(self) -> str:
        return identity(self.called)

    @property
    def name(self) -> str:
        return str(
            getattr(self.called, "name", None)
            or getattr(self.called, "__name__", type(self.called).__name__)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Function(ProviderOptions):
    """Calls a function as `python` does, or the method `answer(request)` of an object.

    Args:
        target: the function or the object.
        factory: the function takes nothing and makes a fresh agent for each run.
    """

    kind: ClassVar[str] = "function"
    own_code: ClassVar[bool] = True
    portable: ClassVar[bool] = True
    retried: ClassVar[bool] = False  # the team's own code: what broke once is broken

    target: Any
    factory: Bool = False

    @classmethod
    def of(cls, called: Any, **options: Any) -> "Function":
        """Return the options for a function, an object, or what `@provider` made of one."""
        if isinstance(called, FunctionProvider):
            return replace(called.options, **options)
        return cls(target=Target(called), **options)

    @property
    def default_name(self) -> str:
        return str(self.target.name)

    def open(self, resources: Resources) -> Provider:
        """Make it callable.

        Raises:
            ConfigError: it cannot be called as documented.
        """
        called, target = self.target.called, str(self.target)
        with _problems_of(self):
            if callable(getattr(called, "answer", None)) and not isinstance(called, type):
                return _Callee(functools.partial(call, called.answer), target)
            return _open_function(called, target, factory=self.factory)


class FunctionProvider:
    """A function as a provider: it stands in `providers`, and is called as before. Made by
    `@provider`.
    """

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
    run: it is the change under test.

    Args:
        function: the function, where `@provider` stands without parentheses.
        options: what every provider may set, such as `name`, `max_concurrency`, `timeout_s`,
            `retries`; and `factory=True` for a function that makes a fresh agent for each run.

    >>> @provider(name="shouting", max_concurrency=2)
    ... def agent(question: str) -> str:
    ...     return question.upper()
    >>> agent("hello")
    'HELLO'
    """
    return (
        FunctionProvider(function, **options)
        if function
        else functools.partial(FunctionProvider, **options)
    )


@contextmanager
def _problems_of(options: ProviderOptions) -> Iterator[None]:
    """Name the provider in the problems of what is done meanwhile."""
    try:
        yield
    except ConfigError as error:
        who = f"provider {options.name or options.default_name!r}"
        raise ConfigError([problem._replace(path=who) for problem in error.problems]) from error


# Calls. A `_Call` takes the request and returns the answer of the team's code.


def _open_function(function: _Function, target: str, *, factory: bool) -> Provider:
    """Make a provider of a function that is called `target` in errors.

    Raises:
        ConfigError: it cannot be called as documented.
    """
    if factory:
        _check_signature(function, target, ())
        return _Callee(functools.partial(_call_factory, function), target)
    if inspect.isclass(function):
        raise target_problem(
            target, function, "is a class: set `factory: true` for a fresh instance per run"
        )
    takes_request = has_second_parameter(function, "request")
    _check_signature(function, target, ("input", "request") if takes_request else ("input",))
    return _Callee(
        lambda request: call(function, *_arguments(request, takes_request=takes_request)), target
    )


class _Callee:
    """The live provider. Where opentelemetry-sdk is installed, spans of the team's code tell steps
    that it doesn't.
    """

    def __init__(self, ask: _Call, target: str) -> None:
        self._ask = ask
        self._target = target
        self._telemetry: ModuleType | None = None
        try:
            from ci_evals.providers import telemetry  # noqa: PLC0415  opentelemetry is optional
        except ImportError:  # the extra `otel` is not installed
            return
        telemetry.attach()
        self._telemetry = telemetry

    async def answer(self, request: Request) -> Response:
        if self._telemetry is None:
            return await self._answer(request)
        with self._telemetry.collect_spans() as spans:
            response = await self._answer(request)
            try:
                return replace(
                    response,
                    steps=spans.steps() if response.steps is None else response.steps,
                    context=spans.context() if response.context is None else response.context,
                )
            except ValueError as wrong:
                raise ProviderError(
                    "bad_answer", f"the agent's spans are not valid steps: {wrong}"
                ) from None

    async def _answer(self, request: Request) -> Response:
        error: BaseException | None = None
        value: object = None
        scope = asyncio.timeout(request.timeout_s)
        try:
            async with scope:
                value = await self._ask(request)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except asyncio.CancelledError as cancelled:
            if is_cancelling():
                raise
            error = cancelled
        except BaseException as raised:  # noqa: BLE001  the team's code may raise anything, SystemExit too
            error = raised
        if scope.expired():
            raise ProviderError("timeout", f"no answer within {request.timeout_s:g} s")
        if isinstance(error, ProviderError):  # it says itself what kind of failure this is
            raise error
        if error is not None:
            raise _crash(error) from error
        try:
            value = await unpack_result(value)
            if reason := unfit_type(value):
                raise ProviderError("bad_answer", f"`{self._target}` returned {reason}")
            return as_response(value)
        except ValueError as wrong:
            raise ProviderError(
                "bad_answer", f"`{self._target}` returned an invalid answer: {wrong}"
            ) from None


async def _call_factory(factory: _Function, request: Request) -> Any:
    """Make an agent where its factory belongs, on the event loop or in a thread, and call it."""

    def arguments(agent: _Function) -> tuple[Any, ...]:
        return _arguments(request, takes_request=has_second_parameter(agent, "request"))

    if is_async(factory):
        agent = _callable_agent(await factory())
        return await call(agent, *arguments(agent))

    def make_and_call() -> Any:  # in one thread: what an agent holds may be of use only there
        agent = _callable_agent(factory())
        return agent(*arguments(agent))

    return await call_in_thread(make_and_call)


def _arguments(request: Request, *, takes_request: bool) -> tuple[Any, ...]:
    given = request.input
    if not isinstance(given, str):
        given = copy.deepcopy(
            given
        )  # the case's own: a function that changes it must not change the next run
    return (given, request) if takes_request else (given,)


def _callable_agent(made: object) -> _Function:
    if not callable(made):
        raise TypeError(f"the factory made a {type(made).__name__}, which cannot be called")
    return made


def _check_signature(function: _Function, target: str, given: tuple[str, ...]) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*given)
    except TypeError as error:
        raise target_problem(
            target, function, f"cannot be called with ({', '.join(given)}): {error}"
        ) from None


def _crash(error: BaseException) -> ProviderError:
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(PACKAGE):
        frames = frames.tb_next
    summary = traceback.TracebackException(type(error), error, frames, limit=-_MAX_FRAMES)
    detail = clean_text("".join(summary.format()))
    if len(detail) > _MAX_DETAIL:
        detail = f"{detail[: _MAX_DETAIL // 2]}\n…\n{detail[3 - _MAX_DETAIL // 2 :]}"
    return ProviderError("crash", one_line(describe_crash(error), 300), detail=detail)
