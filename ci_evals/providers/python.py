"""A function of the team's own, called in this process."""

from pathlib import Path
from typing import ClassVar

from ci_evals.callables import module_problem, target_parts
from ci_evals.errors import ConfigError
from ci_evals.providers.base import Provider, ProviderOptions, Resources


class Python(ProviderOptions, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="python"):
    """Calls `module:function` with the case's input, and with the `Request` too if it asks for one.

    The function gets the request as second argument if it has a second positional parameter that is required or is
    called `request`. It may be async; otherwise it runs in a thread. It returns text, a mapping with `output` or
    `tool_calls`, or a `Response`. The config's folder is importable.

    Args:
        target: `module:function`, or `module:object.method`.
        factory: the target takes nothing and makes a fresh agent for each run, which is then called. A plain
            function or class makes it in a thread; an `async def` on the event loop.
    """

    own_code: ClassVar[bool] = True
    retried: ClassVar[bool] = False  # the team's own code: what broke once is broken

    target: str
    factory: bool = False

    @property
    def default_name(self) -> str:
        return f"python:{self.target}"

    def problems(self, folder: Path) -> list[str]:
        parts = target_parts(self.target)
        if parts is None:
            return [f"target {self.target!r} is not of the form module:function, as in agent:answer"]
        problem = module_problem(parts[0], folder)
        return [f"target: {problem}"] if problem else []

    def open(self, resources: Resources) -> Provider:
        """Import the target.

        Raises:
            ConfigError: it cannot be imported, or cannot be called as documented.
        """
        from ci_evals.providers.callee import open_target

        try:
            return open_target(self.target, resources, factory=self.factory)
        except ConfigError as error:
            who = f"provider {self.name or self.default_name!r}"
            raise ConfigError([problem._replace(path=who) for problem in error.problems]) from error
