"""Fixtures: the entries of `setup`, which are set up for runs and torn down after them."""

import asyncio
import inspect
import json
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from ci_evals.engine.cells import Cells, PreparedCell
from ci_evals.errors import ConfigError, Problem
from ci_evals.format import abridge, describe_status, one_line, quote
from ci_evals.model.case import Fixture, Scope, Variant
from ci_evals.model.request import FixtureRequest
from ci_evals.model.result import Result
from ci_evals.providers.command_line import resolve_command
from ci_evals.providers.subprocess import Descendants, ProgramEnd, run_program
from ci_evals.redaction import MASK, learn_named, mask_named, sounds_secret
from ci_evals.suite.fixtures import fixture_name
from ci_evals.suite.types import CheckedSuite
from ci_evals.templating import describe_error, json_text
from ci_evals.user_code.crashes import describe_crash, describe_stack
from ci_evals.user_code.targets import load_target, target_problem
from ci_evals.user_code.threads import call_in_thread, ends_work, is_async

MAX_KEPT_CHARACTERS: Final = 20_000
"""The longest JSON of a var that is kept with the result of a run."""

_STACK_CHARACTERS = 8_000
_REASON_CHARACTERS = 300
_SCOPES: Sequence[Scope] = ("suite", "case", "run")
"""The scopes, in the order in which fixtures are set up."""
_END: Final = object()


class SetupError(Exception):
    """A fixture could not be set up, so its run could not start."""

    def __init__(self, message: str, detail: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail


class _Work(Protocol):
    """The setup and teardown of a fixture."""

    async def start(self) -> Any:
        """Set up, and return the vars. An exception means that the setup failed."""
        ...

    async def end(self) -> None:
        """Tear down. An exception means that the teardown failed."""
        ...

    def abandon(self) -> None:
        """Give up the setup or teardown: it takes too long, or the run is stopped."""
        ...


class _FunctionWork:
    """A function of the team's own: a plain one, or a generator that tears down after its `yield`.

    One thread runs a generator from start to end, or one task if it is async: database connections
    and context variables may work only there. If it is given up during its setup, the thread still
    tears down afterwards.
    """

    def __init__(self, function: Callable[..., Any], request: FixtureRequest) -> None:
        self._function = function
        self._arguments = _arguments_of(function, request)
        self._loop = asyncio.get_running_loop()
        self._yielded: asyncio.Future[Any] = self._loop.create_future()
        self._may_end = threading.Event()  # for a generator in a thread
        self._may_end_here = asyncio.Event()  # for an async one
        self._life: asyncio.Task[BaseException | None] | None = None

    async def start(self) -> Any:
        self._life = asyncio.create_task(self._live())
        await asyncio.wait([self._life, self._yielded], return_when=asyncio.FIRST_COMPLETED)
        if self._yielded.done():
            return self._yielded.result()
        raised = self._life.result()
        assert raised is not None
        raise raised

    async def end(self) -> None:
        assert self._life is not None
        self._let_end()
        await asyncio.wait([self._life])
        raised = self._life.result()
        if raised is not None:
            raise raised

    def abandon(self) -> None:
        self._let_end()
        if self._life is not None:
            self._life.cancel()

    def _let_end(self) -> None:
        self._may_end.set()
        self._may_end_here.set()

    async def _live(self) -> BaseException | None:
        """Run the function up to the end of its teardown; return what it raised, or None."""
        try:
            if inspect.isasyncgenfunction(self._function):
                await self._run_async_generator()
            elif is_async(self._function):
                self._deliver(await self._function(*self._arguments))
            else:
                await call_in_thread(self._run_in_thread)
        except BaseException as raised:  # the team's own code may raise anything
            if ends_work(raised):
                raise
            return raised
        return None

    async def _run_async_generator(self) -> None:
        generator = self._function(*self._arguments)
        try:
            self._deliver(await anext(generator))
            await self._may_end_here.wait()
            if await anext(generator, _END) is not _END:
                raise RuntimeError("the function yielded more than once")
        finally:
            await generator.aclose()

    def _run_in_thread(self) -> None:
        made = self._function(*self._arguments)
        if not inspect.isgenerator(made):
            self._deliver_from_thread(made)
            return
        with suppress(RuntimeError):  # the loop is closed: nobody is waiting
            self._deliver_from_thread(next(made, None))
        self._may_end.wait()
        if next(made, _END) is not _END:
            raise RuntimeError("the function yielded more than once")

    def _deliver_from_thread(self, values: Any) -> None:
        self._loop.call_soon_threadsafe(self._deliver, values)

    def _deliver(self, values: Any) -> None:
        if not self._yielded.done():
            self._yielded.set_result(values)


def _arguments_of(function: Callable[..., Any], request: FixtureRequest) -> tuple[Any, ...]:
    """Return the request if the function has a parameter for it."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some builtins have no signature
        return ()
    for parameter in parameters:
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            return (request,)
    return ()


class _CommandWork:
    """A program that sets up, and one that tears down. Daemons that they start are ended after the
    teardown.
    """

    def __init__(self, fixture: Fixture, request: FixtureRequest, suite: CheckedSuite) -> None:
        self._fixture = fixture
        self._folder = suite.folder.absolute()
        self._vars = dict(request.vars)
        self._fields = {
            "id": None if request.case is None else request.case.id,
            "provider": request.provider,
            "prompt": request.prompt,
            "run": request.run,
        }
        self._descendants = Descendants()

    async def start(self) -> Any:
        try:
            values = _read_vars(await self._run(self._fixture.command))
        except BaseException:  # it may have left daemons behind
            await self._descendants.end(gently=True)
            raise
        if isinstance(values, dict):
            self._vars |= values
        return values

    async def end(self) -> None:
        try:
            if self._fixture.teardown:
                await self._run(self._fixture.teardown)
        finally:
            await self._descendants.end(gently=True)

    def abandon(self) -> None:
        """Do nothing: `run_program`, which is cancelled, ends the program."""

    async def _run(self, command: str | Sequence[str]) -> bytes:
        stdin = json_text({**self._fields, "vars": self._vars}) + "\n"
        ended = await run_program(
            resolve_command(command, self._folder),
            stdin.encode("utf-8", "replace"),
            cwd=self._folder,
            env=None,
            timeout_s=self._fixture.timeout_s,
            descendants=self._descendants,
        )
        if ended.why != "exit" or ended.status:
            raise SetupError(_describe_end(ended), ended.stderr or None)
        return ended.stdout


def _read_vars(stdout: bytes) -> Any:
    """Return the JSON on stdout; None if nothing was written."""
    if not stdout.strip():
        return None
    try:
        return json.loads(stdout)
    except (ValueError, RecursionError) as error:
        raise SetupError(f"stdout is not a JSON object: {error}") from None


def _describe_end(ended: ProgramEnd) -> str:
    if ended.why == "timeout":
        return "it took too long"
    if ended.why == "too_large":
        return "it wrote too much to stdout"
    text = describe_status(ended.status or 0)
    if ended.reason:
        text = f"{text}: {ended.reason}"
    return text


class _OpenFixture:
    """A fixture from its setup to its teardown, for one run or shared by several."""

    def __init__(self, fixture: Fixture, work: _Work) -> None:
        self._name = fixture_name(fixture)
        self._timeout_s = fixture.timeout_s
        self._work = work
        self._setting_up: asyncio.Task[Mapping[str, Any]] | None = None
        self._is_up = False

    async def set_up(self) -> Mapping[str, Any]:
        """Set it up, once for all that share it; return its vars.

        Raises:
            SetupError: it could not be set up, now or before.
        """
        if self._setting_up is None:
            self._setting_up = asyncio.create_task(self._set_up())
        # A run that is cancelled must not cancel a setup that other runs wait for.
        return await asyncio.shield(self._setting_up)

    async def _set_up(self) -> Mapping[str, Any]:
        what = f"setup {self._name}"
        values = await self._bounded(self._work.start, what)
        self._is_up = True
        if values is None:
            return {}
        if not isinstance(values, Mapping):
            kind = type(values).__name__
            raise SetupError(f"{what} returned a {kind}: expected a mapping of names to values")
        for name in values:
            if not isinstance(name, str):
                text = f"returned a var named {quote(name)}: expected a text as its name"
                raise SetupError(f"{what} {text}")
        return dict(values)

    async def tear_down(self) -> str | None:
        """Tear it down if it was set up; return why that failed, or None."""
        setting_up, self._setting_up = self._setting_up, None
        if setting_up is None:
            return None
        if not setting_up.done():
            setting_up.cancel()
        await asyncio.wait([setting_up])
        if not setting_up.cancelled():
            setting_up.exception()  # retrieved, or asyncio logs it; every run has reported it
        if not self._is_up:
            return None
        self._is_up = False
        try:
            await self._bounded(self._work.end, f"teardown of {self._name}")
        except SetupError as error:
            return error.message
        return None

    async def _bounded(self, step: Callable[[], Any], what: str) -> Any:
        """Return the result of `step`, which may take `timeout_s`.

        Raises:
            SetupError: it raised, or took longer.
        """
        scope = asyncio.timeout(self._timeout_s)
        try:
            async with scope:
                return await step()
        except BaseException as raised:
            if scope.expired():
                self._work.abandon()
                raise SetupError(f"{what} took more than {self._timeout_s:g} s") from None
            if ends_work(raised):
                self._work.abandon()
                raise
            if isinstance(raised, SetupError):
                raise SetupError(f"{what}: {raised.message}", raised.detail) from None
            text = one_line(describe_crash(raised), _REASON_CHARACTERS)
            detail = abridge(describe_stack(raised), _STACK_CHARACTERS)
            raise SetupError(f"{what} raised {text}", detail) from raised


class RunFixtures:
    """The fixtures of one run: its own, and the ones that it shares with other runs."""

    def __init__(self, fixtures: "Fixtures", cell: PreparedCell, run: int) -> None:
        self._fixtures = fixtures
        self._cell = cell
        self._run = run
        self._own: list[_OpenFixture] = []

    async def set_up(self) -> Mapping[str, Any]:
        """Set up all fixtures; return their vars. If two have the same name, the later one wins.

        Raises:
            SetupError: a fixture could not be set up, or returned a var that the case also has.
        """
        given: dict[str, Any] = {}
        chain: list[Fixture] = []
        case = self._cell.case
        # The sort is stable: within a scope, the suite's come first, then the provider's, then the
        # case's.
        for fixture in sorted(self._cell.setup, key=lambda fixture: _SCOPES.index(fixture.scope)):
            chain.append(fixture)
            opened = self._fixtures.find(tuple(chain), self._cell, self._run, given)
            if fixture.scope == "run":
                self._own.append(opened)
            values = await opened.set_up()
            for name in values:
                # Templates of the case were filled in with its own value as the suite was read.
                if name in case.vars:
                    text = f"returned {name!r}, which is also a var of the case: rename one of them"
                    raise SetupError(f"setup {fixture_name(fixture)} {text}")
            given |= values
        return given

    async def tear_down(self) -> Sequence[str]:
        """Tear down the run's own fixtures, the last one first; return why teardowns failed."""
        try:
            return await _tear_down_all(self._own)
        finally:
            self._fixtures.leave(self._cell)


class Fixtures:
    """The fixtures of one invocation.

    Raises:
        ConfigError: the function of one cannot be imported; it lists all that cannot.
    """

    def __init__(self, suite: CheckedSuite) -> None:
        self._suite = suite
        self._functions: dict[Fixture, Callable[..., Any]] = {}
        self._shared: dict[tuple[Any, ...], _OpenFixture] = {}  # in the order of their setup
        self._active_runs: Counter[tuple[str, Variant]] = Counter()
        problems: dict[Problem, None] = {}
        setups = [suite.setup]
        setups += [options.setup for options in suite.providers]
        setups += [case.setup for case in suite.cases]
        for fixture in {fixture: None for setup in setups for fixture in setup}:
            if fixture.python is None:
                continue
            try:
                self._functions[fixture] = _load_function(fixture)
            except ConfigError as error:
                problems |= dict.fromkeys(error.problems)
        if problems:
            raise ConfigError(problems)

    def enter(self, cell: PreparedCell, run: int) -> RunFixtures:
        """Return the fixtures of one run, not set up yet."""
        self._active_runs[cell.case.id, cell.variant] += 1
        return RunFixtures(self, cell, run)

    def leave(self, cell: PreparedCell) -> None:
        """Record that a run of a cell has torn down its own fixtures."""
        self._active_runs[cell.case.id, cell.variant] -= 1

    def find(
        self,
        chain: tuple[Fixture, ...],
        cell: PreparedCell,
        run: int,
        given: Mapping[str, Any],
    ) -> _OpenFixture:
        """Return the last fixture of a chain: opened for this run, or shared with other runs.

        Args:
            chain: the fixtures up to it. It sees the vars of the earlier ones, so runs share it
                only if they also share these.
            cell: the cell of the run that needs it.
            run: the run number.
            given: the vars of the earlier ones.
        """
        fixture = chain[-1]
        case, variant = cell.case, cell.variant
        match fixture.scope:
            case "run":
                request = FixtureRequest(
                    {**case.vars, **given}, case, variant.provider, variant.prompt, run
                )
                return self._make(fixture, request)
            case "case":
                key: tuple[Any, ...] = (chain, case.id, variant)
                request = FixtureRequest(
                    {**case.vars, **given}, case, variant.provider, variant.prompt
                )
            case "suite":
                key = (chain,)
                request = FixtureRequest(given)
        if key not in self._shared:
            self._shared[key] = self._make(fixture, request)
        return self._shared[key]

    def _make(self, fixture: Fixture, request: FixtureRequest) -> _OpenFixture:
        function = self._functions.get(fixture)
        if function is not None:
            return _OpenFixture(fixture, _FunctionWork(function, request))
        return _OpenFixture(fixture, _CommandWork(fixture, request, self._suite))

    async def end_case(self, cell: PreparedCell) -> Sequence[str]:
        """Tear down the fixtures that the runs of a cell share, unless one of the runs is still
        active; return why teardowns failed.
        """
        ending = (cell.case.id, cell.variant)
        if self._active_runs[ending]:
            return ()
        keys = [key for key in self._shared if key[1:] == ending]
        return await _tear_down_all([self._shared.pop(key) for key in keys])

    async def close(self) -> Sequence[str]:
        """Tear down the remaining fixtures: those of different cells side by side, then those of
        the suite, the last one first. Return why teardowns failed.

        If it is cancelled, a further call tears down the rest.
        """
        of_cells: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
        for key in self._shared:
            if key[1:]:
                of_cells.setdefault(key[1:], []).append(key)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._tear_down(keys)) for keys in of_cells.values()]
        failures = [failure for task in tasks for failure in task.result()]
        while self._shared:
            _, opened = self._shared.popitem()
            failures += await _tear_down_all([opened])
        return failures

    async def _tear_down(self, keys: Sequence[tuple[Any, ...]]) -> Sequence[str]:
        """Tear down some shared fixtures, the last one first; return why teardowns failed."""
        failures: list[str] = []
        for key in reversed(keys):
            failures += await _tear_down_all([self._shared.pop(key)])
        return failures


def _load_function(fixture: Fixture) -> Callable[..., Any]:
    """Return the function of a fixture.

    Raises:
        ConfigError: it cannot be imported, or takes more than one argument.
    """
    function = fixture.python
    if isinstance(function, str):
        function = load_target(function)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some builtins have no signature
        return function  # type: ignore[no-any-return]  # it was checked to be callable
    try:
        signature.bind(*_arguments_of(function, FixtureRequest({})))
    except TypeError as error:
        text = f"a fixture takes one argument or none: {error}"
        raise target_problem(fixture_name(fixture), function, text) from None
    return function  # type: ignore[no-any-return]  # it was checked to be callable


async def _tear_down_all(fixtures: Sequence[_OpenFixture]) -> Sequence[str]:
    failures = []
    for fixture in reversed(fixtures):
        failure = await fixture.tear_down()
        if failure is not None:
            failures.append(failure)
    return failures


# Vars in prompts and graders.


def fill(cells: Cells, cell: PreparedCell, values: Mapping[str, Any]) -> PreparedCell:
    """Return the cell of one run, its prompt and graders filled in with the vars of its setup.

    Raises:
        SetupError: the vars do not fit.
    """
    # Before the first call, so that an answer that repeats a secret is redacted.
    learn_named(values)
    try:
        return cells.fill(cell, values, _vars_to_keep(values))
    except Exception as error:  # a user's template can raise anything
        text = describe_error(error, [*cell.case.vars, *values])
        raise SetupError(f"the vars of its setup do not fit: {text}") from error


def fill_recorded(cells: Cells, cell: PreparedCell, recorded: Result) -> PreparedCell:
    """Return the cell of a recorded run, filled in with the vars that were kept.

    Raises:
        SetupError: a grader needs a var that was not kept.
    """
    kept = recorded.setup_vars or {}
    values = {name: value for name, value in kept.items() if MASK not in json_text(value)}
    try:
        return cells.fill_recorded(cell, recorded, values)
    except Exception as error:  # a user's template can raise anything
        problem = describe_error(error, [*cell.case.vars, *values])
        text = f"a recorded run has no setup, and not all of its vars were kept: {problem}"
        raise SetupError(text) from error


def _vars_to_keep(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the vars to keep with a result: no secrets by their name, nothing that JSON cannot
    express, and nothing too long. What is secret inside a var is masked.
    """
    kept = {}
    for name, value in values.items():
        if sounds_secret(name):
            continue
        try:
            text = json.dumps(value, allow_nan=False)
            masked = mask_named(value)
        except (TypeError, ValueError, RecursionError):
            continue
        if len(text) <= MAX_KEPT_CHARACTERS:
            kept[name] = masked
    return kept
