"""`classify`: the answer names the right label; the labels of all runs make the suite's metrics."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from pydantic import StringConstraints

from ci_evals.format import cite, quote
from ci_evals.graders.base import GraderOptions, failed, passed
from ci_evals.graders.json_text import read_json, strip_fence
from ci_evals.graders.skills import find_use
from ci_evals.jsonpath import find_all, path_problems
from ci_evals.model.fields import Many, Name
from ci_evals.model.grading import Classified, Finding
from ci_evals.model.request import Answer
from ci_evals.model.response import Detail

NONE = "(none)"
"""The label that an answer without a label counts as."""

_LONGEST_LABEL = 60
_USES = ("true", "false")


@dataclass(frozen=True, slots=True)
class Classify(GraderOptions):
    """The answer is, or names, the expected label.

    Args:
        label: the right label.
        labels: all labels; one of them may then be anywhere in the answer.
        path: JSONPath of the label, for an answer in JSON.
        pattern: expression whose first group, or whole match, is the label.
        skill: a skill; the label is then `true` if the agent used it, and `false` if not.
        scores: JSONPath of the scores for ROC AUC: a mapping of labels to numbers, or one number
            for the label that the answer names.
        task: distinguishes several classifications of the same answers.
    """

    short: ClassVar[str] = "label"

    label: Name
    labels: Many[Name] = ()
    path: str | None = None
    pattern: str | None = None
    skill: Name | None = None
    scores: str | None = None
    task: Annotated[str, StringConstraints(pattern="^[^/.]+$")] = "classify"

    def problems(self) -> list[str]:
        problems: list[str] = []
        for path in (self.path, self.scores):
            if path:
                problems += path_problems(path)
        if self.labels and self.label not in self.labels:
            problems.append(f"the label {quote(self.label)} is not one of `labels`")
        if self.path is not None and self.pattern is not None:
            problems.append("give either `path` or `pattern`")
        if self.skill is not None:
            problems += self._problems_of_skill()
        if self.pattern is not None:
            from ci_evals.graders.regex import Regex

            problems += Regex(self.pattern).problems()
        return problems

    def _problems_of_skill(self) -> list[str]:
        problems = []
        if any(getattr(self, key) for key in ("labels", "path", "pattern", "scores")):
            text = "leave out `labels`, `path`, `pattern` and `scores`"
            problems.append(f"`skill` looks at the agent's steps, not at its answer: {text}")
        if self._known_use() is None and "{{" not in self.label:
            text = "is `true` where the agent should use the skill, and `false` elsewhere"
            problems.append(f"the label of a `skill` {text}, not {quote(self.label)}")
        return problems

    def _known_use(self) -> str | None:
        for label in _USES:
            if _is_same(label, self.label):
                return label
        return None

    @property
    def needs(self) -> Detail | None:
        if self.skill is None:
            return None
        return "steps"

    def grade(self, answer: Answer) -> Finding:
        if self.skill is not None:
            return self._grade_skill(answer, self.skill)
        output = answer.response.output
        data = None
        if self.path or self.scores:
            data = _read(output)
        named = self._find_label(output, data)
        predicted = NONE
        if named is not None:
            predicted = self._normalize(named)
        scores = self._scores(data, predicted)
        classified = Classified(self.task, self.label, predicted, scores or None)
        if predicted == self.label:
            return replace(passed(f"the label is {cite(self.label)}"), classified=classified)
        if predicted == NONE:
            finding = failed(f"no label in the answer, expected {cite(self.label)}")
        else:
            finding = failed(
                f"the label is not {cite(self.label)}",
                sentence=f"the label is {cite(predicted)}, expected {cite(self.label)}",
            )
        return replace(finding, classified=classified)

    def _grade_skill(self, answer: Answer, skill: str) -> Finding:
        expected = self._known_use() or self.label
        predicted = "false"
        sentence = f"did not use the skill {cite(skill)}"
        if find_use(answer.response, skill) is not None:
            predicted = "true"
            sentence = f"used the skill {cite(skill)}"
        finding = failed(sentence)
        if predicted == expected:
            finding = passed(sentence)
        return replace(finding, classified=Classified(self.task, expected, predicted))

    def _find_label(self, output: str, data: Any) -> str | None:
        """Return the label in the spelling of the answer."""
        if self.path is not None:
            for value in _find(self.path, data):
                if isinstance(value, str | int | float):
                    return str(value)
            return None
        if self.pattern is not None:
            from ci_evals.graders.regex import Regex

            match = Regex(self.pattern).search(output)
            if match is None:
                return None
            group = 0
            if match.re.groups:
                group = 1
            label: str | None = match[group]
            return label
        text = strip_fence(output).strip(" \t\r\n\"'`.*")
        if self.labels and self._known(text) is None:
            return self._find_inside(output)
        return text or None

    def _find_inside(self, output: str) -> str | None:
        """Return the only label that the answer mentions; None for several.

        A label that is part of a longer one does not count: `refund` in `partial refund`.
        """
        mentioned = [label for label in self.labels if _mentions(output, label)]
        inside_others = {
            label
            for label in mentioned
            if any(label != other and label in other for other in mentioned)
        }
        remaining = [label for label in mentioned if label not in inside_others]
        if len(remaining) != 1:
            return None
        return remaining[0]

    def _normalize(self, named: str) -> str:
        """Put a label into the suite's spelling. An unknown one is cut, or counts as none if all
        labels are known.
        """
        known = self._known(named)
        if known is not None:
            return known
        if self.labels or not named.strip():
            return NONE
        return named.strip()[:_LONGEST_LABEL]

    def _known(self, text: str) -> str | None:
        """Return the suite's spelling of a label; None if the text is not one of its labels."""
        for label in (*self.labels, self.label):
            if _is_same(text, label):
                return label
        return None

    def _scores(self, data: Any, predicted: str) -> Mapping[str, float]:
        if self.scores is None:
            return {}
        values = _find(self.scores, data)
        if not values:
            return {}
        value = values[0]
        scores: dict[str, float] = {}
        if isinstance(value, Mapping):
            for label, score in value.items():
                if _is_number(score):
                    scores[self._normalize(str(label))] = float(score)
        elif _is_number(value):
            # The other labels share the rest: for two labels, that is the exact complement.
            scores[predicted] = float(value)
            others = [label for label in self.labels if label != predicted]
            for label in others:
                scores[label] = (1 - float(value)) / len(others)
        return scores


def _mentions(text: str, label: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(label)}(?!\w)", text, re.IGNORECASE) is not None


def _is_same(one: str, other: str) -> bool:
    return one.strip().casefold() == other.strip().casefold()


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < 1e300 and not math.isnan(value)


def _read(output: str) -> Any:
    try:
        return read_json(strip_fence(output))
    except ValueError:
        return None


def _find(path: str, data: Any) -> list[Any]:
    if data is None:
        return []
    return find_all(path, data)
