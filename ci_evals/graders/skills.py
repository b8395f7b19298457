"""`skill_used`: the agent pulled a skill in."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from ci_evals.errors import GradingError
from ci_evals.format import cite, number_of
from ci_evals.graders.base import GraderOptions, failed, passed
from ci_evals.model.fields import Name
from ci_evals.model.grading import Finding
from ci_evals.model.request import Answer
from ci_evals.model.response import Response, Step

_SKILL_TOOLS = frozenset({"skill", "activate_skill"})
"""The tools for skills of Claude Code and OpenCode, and of Gemini CLI. Codex reads the file."""

_WRITING_TOOLS = frozenset({"edit", "multiedit", "write", "write_file", "replace", "file_change"})
"""Tools that change a SKILL.md without following it, besides those with the alias `edit`."""


@dataclass(frozen=True, slots=True)
class SkillUsed(GraderOptions):
    """The agent used a skill: it called its agent's tool for skills, or read the skill's SKILL.md.

    Args:
        value: the name of the skill.
    """

    reads_text: ClassVar[bool] = False
    needs = "steps"

    value: Name

    def grade(self, answer: Answer) -> Finding:
        call = find_use(answer.response, self.value)
        if call is None:
            others = number_of(len(answer.response.list_calls()), "tool call")
            return failed(
                f"did not use the skill {cite(self.value)}",
                sentence=f"did not use the skill {cite(self.value)} in {others}",
            )
        return passed(
            f"used the skill {cite(self.value)}",
            sentence=f"used the skill {cite(self.value)} ({cite(call.name)})",
        )


def find_use(response: Response, skill: str) -> Step | None:
    """Return the first call by which an agent used a skill; None if it did not.

    Raises:
        GradingError: the answer has no steps.
    """
    steps = response.steps_taken
    if steps is None:
        raise GradingError(
            "the answer has no steps: read the agent's `transcript`, or have the provider return "
            "`steps`"
        )
    for step in steps:
        if step.kind == "tool_call" and step.error is None and _is_use(step, skill):
            return step
    return None


def _is_use(step: Step, skill: str) -> bool:
    tool = step.name.lower()
    texts = list(_texts(step.arguments))
    if tool in _SKILL_TOOLS:
        # Claude Code puts the name of a plug-in before that of its skill.
        return any(text.rpartition(":")[2] == skill for text in texts)
    if tool in _WRITING_TOOLS or step.alias == "edit":
        return False
    file = re.compile(rf"(?:^|[\s/\\'\"=(]){re.escape(skill)}[/\\]SKILL\.md(?![\w.])")
    return any(file.search(text) for text in texts)


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in the arguments of a call."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
