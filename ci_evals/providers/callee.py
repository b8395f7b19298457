"""The team's function: found, called, and its crashes told."""

import asyncio
import copy
import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

import msgspec

from ci_evals.callables import asked_to_stop, member
from ci_evals.errors import ConfigError, Problem, ProviderError
from ci_evals.folder_modules import NamesakeError, named_module
from ci_evals.model import Request
from ci_evals.providers.answer import as_response, clean_text, one_line
from ci_evals.providers.base import Provider, Resources
from ci_evals.providers.deadlines import Deadlines
from ci_evals.response import Response
from ci_evals.threads import DaemonThreads

_PACKAGE = f"{Path(__file__).parent.parent}{os.sep}"
_MAX_DETAIL = 8000
_MAX_FRAMES = 30

_Function = Callable[..., Any]
_Call = Callable[[Request], Awaitable[Any]]


def open_target(target: str, resources: Resources, *, factory: bool) -> Provider:
    """Import `module:function`, and make a provider of it; the engine has made the config's folder importable.

    Raises:
        ConfigError: it cannot be imported, or cannot be called as documented.
    """
    return open_function(load_target(target, resources.folder), target, resources, factory=factory)


def open_function(function: _Function, target: str, resources: Resources, *, factory: bool) -> Provider:
    """Make a provider of a function that is called `target` in errors.

    Raises:
        ConfigError: it cannot be called as documented.
    """
    threads = DaemonThreads()
    resources.stack.callback(threads.close)
    if factory:
        _check_signature(function, target, ())
        return _Callee(_factory_call(function, threads), resources.deadlines)
    if inspect.isclass(function):
        raise _wrong(target, function, "is a class: set `factory: true` for a fresh instance per run")
    _check_signature(function, target, ("input", "request") if _takes_request(function) else ("input",))
    return _Callee(_call(function, threads), resources.deadlines)


def open_object(agent: Any, resources: Resources) -> Provider:
    """Make a provider of an object with a method `answer(request)`, whose crashes and answers are a function's."""
    threads = DaemonThreads()
    resources.stack.callback(threads.close)
    method = agent.answer

    def call(request: Request) -> Awaitable[Any]:
        return method(request) if inspect.iscoroutinefunction(method) else threads.run(lambda: method(request))

    return _Callee(call, resources.deadlines)


class _Callee:
    """Calls the team's code; where opentelemetry-sdk is installed, spans of that code tell steps that it does not."""

    def __init__(self, call: _Call, deadlines: Deadlines) -> None:
        self._call = call
        self._deadlines = deadlines
        self._telemetry = _telemetry()
        if self._telemetry is not None:
            self._telemetry.attach()

    def answer(self, request: Request) -> Coroutine[Any, Any, Response]:
        return self._answer(request) if self._telemetry is None else self._traced(request, self._telemetry)

    async def _traced(self, request: Request, telemetry: ModuleType) -> Response:
        with telemetry.collecting() as spans:
            response = await self._answer(request)
            if response.steps is not None:
                return response
            try:
                return msgspec.structs.replace(response, steps=spans.steps())
            except ValueError as wrong:
                raise ProviderError("bad_answer", f"the agent's spans are no steps: {wrong}") from None

    async def _answer(self, request: Request) -> Response:
        error: BaseException | None = None
        value: object = None
        deadline = self._deadlines.within(request.timeout_s)
        try:
            with deadline:
                value = await self._call(request)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except asyncio.CancelledError as cancelled:
            if asked_to_stop():
                raise
            error = cancelled
        except BaseException as raised:  # noqa: BLE001  the team's code may raise anything, SystemExit too
            error = raised
        if deadline.expired:
            raise ProviderError("timeout", f"no answer within {request.timeout_s:g} s")
        if isinstance(error, ProviderError):  # it says itself what kind of failure this is
            raise error
        if error is not None:
            raise _crash(error) from error
        try:
            return as_response(value)
        except (TypeError, ValueError) as wrong:
            raise ProviderError("bad_answer", f"what the function returned is no answer: {wrong}") from None


def _telemetry() -> ModuleType | None:
    try:
        from ci_evals.providers import telemetry
    except ImportError:  # the extra `otel` is not installed
        return None
    return telemetry


def _call(function: _Function, threads: DaemonThreads) -> _Call:
    """How to call a function, decided once."""
    with_request = _takes_request(function)
    if _is_async(function):
        return lambda request: _apply(function, request, with_request=with_request)

    async def in_a_thread(request: Request) -> Any:
        return await threads.run(lambda: _apply(function, request, with_request=with_request))

    return in_a_thread


def _factory_call(factory: _Function, threads: DaemonThreads) -> _Call:
    if _is_async(factory):

        async def made_on_the_loop(request: Request) -> Any:
            return await _call(_callable(await factory()), threads)(request)

        return made_on_the_loop

    def make_and_call(request: Request) -> Any:
        agent = _callable(factory())
        return _apply(agent, request, with_request=_takes_request(agent))

    async def made_in_a_thread(request: Request) -> Any:
        return await threads.run(lambda: make_and_call(request))

    return made_in_a_thread


def _apply(function: _Function, request: Request, *, with_request: bool) -> Any:
    given = request.input
    if not isinstance(given, str):
        given = copy.deepcopy(given)  # the case's own: a function that changes it must not change the next run
    return function(given, request) if with_request else function(given)


def _callable(agent: object) -> _Function:
    if not callable(agent):
        raise TypeError(f"the factory made a {type(agent).__name__}, which cannot be called")
    return agent


def _is_async(function: _Function) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _takes_request(function: _Function) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some builtins don't tell
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    second = [parameter for parameter in parameters if parameter.kind in kinds][1:2]
    return any(parameter.default is parameter.empty or parameter.name == "request" for parameter in second)


def _check_signature(function: _Function, target: str, given: tuple[str, ...]) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*given)
    except TypeError as error:
        raise _wrong(target, function, f"cannot be called with ({', '.join(given)}): {error}") from None


def load_target(target: str, folder: Path) -> _Function:
    module_name, _, names = target.partition(":")
    module = _import(module_name, target, folder)
    try:
        found = member(module, target)
    except AttributeError as error:
        raise _wrong(target, module, str(error)) from None
    if not callable(found):
        raise _wrong(target, module, f"{names!r} is of type {type(found).__name__}, which cannot be called")
    function: _Function = found
    return function


def _import(name: str, target: str, folder: Path) -> ModuleType:
    try:
        return named_module(name)
    except NamesakeError as error:
        raise ConfigError([Problem(str(error.path), None, "", f"target {target!r}: {error}")]) from None
    except (Exception, SystemExit) as error:
        raise ConfigError([_import_problem(error, target, folder)]) from error


def _import_problem(error: BaseException, target: str, folder: Path) -> Problem:
    file, line = str(folder), None
    if isinstance(error, SyntaxError) and error.filename:
        file, line = error.filename, error.lineno
    else:
        for frame in traceback.extract_tb(error.__traceback__):
            if not frame.filename.startswith(("<frozen ", _PACKAGE, importlib.__file__)):
                file, line = frame.filename, frame.lineno
    hint = f"; is it installed for {sys.executable}?" if isinstance(error, ModuleNotFoundError) else ""
    message = f"importing it raised {type(error).__name__}: {one_line(str(error))}{hint}"
    return Problem(file, line, "", f"target {target!r}: {message}")


def _wrong(target: str, what: object, message: str) -> ConfigError:
    file, line = target.partition(":")[0], None
    try:
        file = inspect.getfile(what)  # type: ignore[arg-type]  # raises TypeError for what has no file
        line = None if inspect.ismodule(what) else inspect.getsourcelines(what)[1]  # type: ignore[arg-type]
    except (TypeError, OSError):
        pass
    return ConfigError([Problem(file, line, "", f"target {target!r}: {message}")])


def _crash(error: BaseException) -> ProviderError:
    summary = traceback.TracebackException(
        type(error), error, _without_our_frames(error.__traceback__), limit=-_MAX_FRAMES
    )
    *_, last = summary.format_exception_only()
    detail = clean_text("".join(summary.format()))
    if len(detail) > _MAX_DETAIL:
        detail = f"{detail[: _MAX_DETAIL // 2]}\n…\n{detail[3 - _MAX_DETAIL // 2 :]}"
    return ProviderError("crash", one_line(last), detail=detail)


def _without_our_frames(frames: TracebackType | None) -> TracebackType | None:
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        frames = frames.tb_next
    return frames
