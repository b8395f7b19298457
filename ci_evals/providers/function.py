"""A function or an object of the caller's own answers: for suites that are written in Python."""

import functools
from collections.abc import Callable
from typing import Any, ClassVar, overload

import msgspec

from ci_evals.callables import identity
from ci_evals.errors import ConfigError
from ci_evals.providers.base import Provider, ProviderOptions, Resources


class Target:
    """What is called. Its text is the same in every process, so that results can be compared."""

    def __init__(self, called: Any) -> None:
        self.called = called

    def __str__(self) -> str:
        return identity(self.called)

    @property
    def name(self) -> str:
        return str(getattr(self.called, "name", None) or getattr(self.called, "__name__", type(self.called).__name__))


class Function(ProviderOptions, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="function"):
    """Calls a function as `python` does, or the method `answer(request)` of an object.

    Args:
        target: the function or the object.
        factory: the function takes nothing and makes a fresh agent for each run.
    """

    own_code: ClassVar[bool] = True
    retried: ClassVar[bool] = False  # the team's own code: what broke once is broken

    target: Any
    factory: bool = False

    @classmethod
    def of(cls, called: Any, **options: Any) -> "Function":
        """Options for a function, an object, or what `@provider` made of one."""
        if isinstance(called, FunctionProvider):
            return msgspec.structs.replace(called.options, **options)
        return cls(target=Target(called), **options)

    @property
    def default_name(self) -> str:
        return str(self.target.name)

    def open(self, resources: Resources) -> Provider:
        """Make it callable.

        Raises:
            ConfigError: it cannot be called as documented.
        """
        from ci_evals.providers.callee import open_function, open_object

        called = self.target.called
        try:
            if callable(getattr(called, "answer", None)) and not isinstance(called, type):
                return open_object(called, resources)
            return open_function(called, str(self.target), resources, factory=self.factory)
        except ConfigError as error:
            who = f"provider {self.name or self.default_name!r}"
            raise ConfigError([problem._replace(path=who) for problem in error.problems]) from error


class FunctionProvider:
    """A function as a provider: it stands in `providers`, and is called as before. Made by `@provider`."""

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
    """Make a provider of a function: `fn(input)` or `fn(input, request)`, sync (in a thread) or async.

    It returns text, a mapping with `output` or `tool_calls`, or a `Response`. A crash fails the run: it is the change
    under test.

    Args:
        function: the function, where `@provider` stands without parentheses.
        options: what every provider may set, such as `name`, `max_concurrency`, `timeout_s`, `retries`; and
            `factory=True` for a function that makes a fresh agent for each run.

    >>> @provider(name="shouting", max_concurrency=2)
    ... def agent(question: str) -> str:
    ...     return question.upper()
    >>> agent("hello")
    'HELLO'
    """
    return FunctionProvider(function, **options) if function else functools.partial(FunctionProvider, **options)
