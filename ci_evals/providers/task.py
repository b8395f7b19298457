"""An agent's command, set to work on task folders."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar

from msgspec import Meta

from ci_evals.callables import module_problem, target_parts
from ci_evals.providers.base import Provider, ProviderOptions, Resources
from ci_evals.providers.command import NO_WORDS, words_of

BUILT_IN = ("auto", "folder", "docker")


class TaskAgent(ProviderOptions, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="task"):
    """Runs a command in a fresh working copy of a task, then the task's verifier, whose reward is the score.

    Args:
        command: the agent with its arguments, each a template over `input`, `case`, `run`, `model`, `params` and
            `folder`, the suite's; it reads the instruction on stdin. A text is split as a POSIX shell would.
        env: added to the environment of the agent and of the verifier.
        sandbox: where it runs: `docker`; `folder`, a temporary one on this machine; `auto`, Docker for tasks that ask
            for an image and a folder for the others; or `module:function`.
    """

    own_code: ClassVar[bool] = True
    retried: ClassVar[bool] = False
    works_on_tasks: ClassVar[bool] = True

    command: str | Annotated[tuple[str, ...], Meta(min_length=1)]
    env: Mapping[str, str] = {}
    sandbox: str = "auto"

    @property
    def default_name(self) -> str:
        return f"task:{Path(self.argv[0]).name}"

    @property
    def argv(self) -> tuple[str, ...]:
        """See `words_of`."""
        return words_of(self.command)

    def problems(self, folder: Path) -> list[str]:
        from ci_evals.providers.task_run import template_problem

        found = []
        try:
            if not self.argv:
                found.append("command is empty: name a program")
            found += [problem for word in self.argv if (problem := template_problem(word))]
        except ValueError as error:
            found.append(NO_WORDS.format(error))
        if self.sandbox not in BUILT_IN:
            parts = target_parts(self.sandbox)
            expected = f"expected module:function, or one of {', '.join(BUILT_IN)}"
            if problem := module_problem(parts[0], folder) if parts else expected:
                found.append(f"sandbox: {problem}")
        return found

    def open(self, resources: Resources) -> Provider:
        from ci_evals.providers.task_run import opened_agent

        return opened_agent(self, resources)
