"""The interface of executors, which run the team's own code here or on other machines."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar, Protocol, Self

from pydantic import GetPydanticSchema, TypeAdapter, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError, core_schema

from ci_evals import registry
from ci_evals.errors import Place, PluginError
from ci_evals.format import closest
from ci_evals.model.case import Case
from ci_evals.model.fields import Options
from ci_evals.model.grading import Finding, Grader
from ci_evals.model.request import Answer
from ci_evals.providers.base import Provider, ProviderOptions, Resources
from ci_evals.registry import Registry
from ci_evals.user_code.folders import CodeFolders

Portable = Sequence[tuple[ProviderOptions | Grader, Place]]
"""The providers and graders that an executor will run, with their places in the suite."""


class ExecutorSuite(Protocol):
    """The part of a suite that executors read."""

    @property
    def file(self) -> str:
        """The suite's file, as errors show it."""
        ...

    @property
    def folder(self) -> Path: ...

    @property
    def code_folders(self) -> CodeFolders: ...

    @property
    def max_concurrency(self) -> int: ...

    @property
    def out(self) -> Path:
        """The folder for results."""
        ...


class Executor(Protocol):
    """Runs the team's own code: providers and graders that declare themselves portable.

    All others run in this process.
    """

    def open(self, options: ProviderOptions, resources: Resources) -> Provider:
        """Make the live provider, which behaves as the one that `options.open` makes.

        Raises:
            ConfigError: the provider cannot be opened.
        """
        ...

    def prepare(self, grader: Grader) -> None:
        """Get a grader ready.

        Raises:
            ConfigError: the grader cannot work.
        """
        ...

    async def grade(self, grader: Grader, answer: Answer) -> Finding:
        """Grade an answer, as `graders.scoring.judge` does: an exception is a failed check."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorOptions(Options):
    """The place where the team's own providers and graders run.

    Other packages add theirs as entry points of `ci_evals.executors`; the fields are the keys in
    the YAML besides `type`.
    """

    short_form: ClassVar[str] = ""
    """A further short form, as messages show it: `ray://host:port`."""

    @classmethod
    def parse(cls, name: str, text: str) -> Self | None:
        """Return the options of a short form such as `ray://host:port`; None if it is for another
        executor.

        Args:
            name: the executor's name, which is a short form of its own.
            text: what was written.

        Raises:
            ValueError: the text is for this executor, and invalid.
        """
        return cls() if text == name else None

    def filled_from(self, suite: "ExecutorOptions") -> "ExecutorOptions":
        """Return these options of the command line, completed by those of the suite."""
        return suite if type(suite) is type(self) else self

    def problems(
        self, folder: Path, cases: Sequence[Case], *, is_called: bool
    ) -> Iterator[tuple[Sequence[str], str]]:
        """Yield problems that are visible before any call: the keys that lead to each, and a text.

        Args:
            folder: the suite's folder.
            cases: its cases.
            is_called: False if nothing will run there.
        """
        return iter(())

    def open(
        self, suite: ExecutorSuite, portable: Portable, files: Path | None
    ) -> AbstractAsyncContextManager[Executor]:
        """Open the executor, and check that the suite's code works there.

        Args:
            suite: the suite.
            portable: its providers and graders that will run there.
            files: the results folder, for files that runs leave behind; None keeps none.

        Raises:
            ConfigError: the executor cannot be reached, or the suite's code does not work there.
        """
        raise NotImplementedError


EXECUTORS: Registry[type[ExecutorOptions]] = registry.EXECUTORS
"""The executors by name; each loads when it is first used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Local(ExecutorOptions):
    """This process."""


LOCAL = Local()


def parse_executor(text: str) -> ExecutorOptions:
    """Return the options of a short form: `local`, `ray` or `ray://host:port`.

    Raises:
        ValueError: the text is not a short form.
    """
    name = text.partition(":")[0]
    if name in EXECUTORS:
        options = _load(name).parse(name, text)
        if options is not None:
            return options
    if lack := EXECUTORS.missing_clause(name):
        raise ValueError(f"executor {name!r} {lack}")
    close = closest(text, EXECUTORS)
    hint = f", did you mean {close!r}?" if close else ""
    *forms, last = short_forms()
    expected = last
    if forms:
        expected = f"{', '.join(forms)} or {last}"
    raise ValueError(f"expected {expected}, got {text!r:.100}{hint}")


def _load(name: str) -> type[ExecutorOptions]:
    """Return the options of an executor.

    Raises:
        ValueError: the package that provides it cannot be loaded.
    """
    try:
        return EXECUTORS[name]
    except PluginError as error:
        raise ValueError(str(error)) from None


def short_forms() -> list[str]:
    """Return every short form of an executor, as messages show it."""
    forms = [*EXECUTORS]
    forms += [cls.short_form for _, cls in EXECUTORS.loadable() if cls.short_form]
    return forms


def read_executor(value: Any) -> Any:
    """Return the options that a value of the YAML describes.

    Raises:
        ValueError: the executor is unknown, or does not have one of the keys.
    """
    if isinstance(value, str):
        return parse_executor(value)
    if not isinstance(value, Mapping):
        return value
    settings = dict(value)
    name = settings.pop("type", "local")
    if lack := EXECUTORS.missing_clause(name):
        raise _problem("type", f"executor {name!r} {lack}")
    if not isinstance(name, str) or name not in EXECUTORS:
        raise _problem("type", f"expected {' or '.join(EXECUTORS)}, got {name!r:.100}")
    known = _keys(_load(name))
    for key in settings:
        if key in known:
            continue
        for other, options in EXECUTORS.loadable():
            if key in _keys(options):
                text = f"only for `type: {other}`, and the executor is {name}"
                raise _problem(key, text)
        close = closest(key, known)
        hint = f", did you mean {close!r}?" if close else ""
        raise ValueError(f"unknown key {key!r}{hint}")
    return TypeAdapter(_load(name)).validate_python(settings)


def _problem(key: str, text: str) -> ValidationError:
    error = PydanticCustomError("problem", "{text}", {"text": text})
    return ValidationError.from_exception_data(
        "executor", [InitErrorDetails(type=error, loc=(key,), input=None)]
    )


def _keys(cls: type[ExecutorOptions]) -> list[str]:
    return [field.name for field in fields(cls)]


OrShortExecutor = Annotated[
    ExecutorOptions | Mapping[str, Any] | str,
    GetPydanticSchema(
        lambda *_: core_schema.no_info_before_validator_function(
            read_executor, core_schema.is_instance_schema(ExecutorOptions)
        ),
        lambda *_: {},  # the schema of a suite has one definition for each executor
    ),
]
"""An executor, its short form, or its mapping in the YAML."""
