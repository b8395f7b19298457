"""`classify`: the answer names the right label; the labels of all runs make the suite's metrics."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from pydantic import StringConstraints
from pydantic_core import from_json

from ci_evals.format import quote
from ci_evals.graders.base import GraderOptions, failed, passed
from ci_evals.graders.json import strip_fence
from ci_evals.graders.text import pattern_problems, search
from ci_evals.jsonpath import find_all, path_problems
from ci_evals.model.case import Answer, Classified, Finding
from ci_evals.model.fields import Many, Name

NONE = "(none)"
"""What an answer without a label is counted as."""

_LONGEST_LABEL = 60


@dataclass(frozen=True, slots=True)
class Classify(GraderOptions):
    """The answer is, or names, the label that is expected.

    Args:
        label: the right one.
        labels: all that there are; one of them may then stand anywhere in the answer, if no other
            does.
        path: JSONPath of the label, for an answer in JSON.
        pattern: expression whose first group, or whole match, is the label.
        scores: JSONPath of what the answer gives each label: a mapping of label to number, or one
            number for the label that it names; for ROC AUC.
        task: tells several classifications of the same answers apart.
    """

    short: ClassVar[str] = "label"

    label: Name
    labels: Many[Name] = ()
    path: str | None = None
    pattern: str | None = None
    scores: str | None = None
    task: Annotated[str, StringConstraints(pattern="^[^/.]+$")] = "classify"

    def problems(self) -> list[str]:
        found = [
            problem for path in (self.path, self.scores) if path for problem in path_problems(path)
        ]
        if self.labels and self.label not in self.labels:
            found.append(f"the label {quote(self.label)} is none of `labels`")
        if self.path is not None and self.pattern is not None:
            found.append("give either `path` or `pattern`")
        return found + pattern_problems(self.pattern or "")

    def grade(self, answer: Answer) -> Finding:
        output = answer.response.output
        data = _data(output) if self.path or self.scores else None
        named = self._find_label(output, data)
        predicted = NONE if named is None else self._normalize(named)
        label = "no label" if named is None else quote(predicted, _LONGEST_LABEL)
        scores = dict(self._scores(data, predicted)) if self.scores else None
        classified = Classified(self.task, self.label, predicted, scores or None)
        if predicted == self.label:
            return replace(passed(f"labelled {label}"), classified=classified)
        reason = f"labelled {label}, expected {quote(self.label)}"
        return replace(failed(reason, got=quote(output)), classified=classified)

    def _find_label(self, output: str, data: Any) -> str | None:
        """Find the label as the answer has it."""
        if self.path is not None:
            return next(
                (
                    str(value)
                    for value in _find(self.path, data)
                    if isinstance(value, str | int | float)
                ),
                None,
            )
        if self.pattern is not None:
            match = search(self.pattern, output)
            return (match[1] if match.re.groups else match[0]) if match else None
        text = strip_fence(output).strip(" \t\r\n\"'`.*")
        if not self.labels or any(_same(text, label) for label in self.labels):
            return text or None
        inside = [
            label
            for label in self.labels
            if re.search(rf"(?<!\w){re.escape(label)}(?!\w)", output, re.IGNORECASE)
        ]
        longest = [
            label
            for label in inside
            if not any(label != other and label in other for other in inside)
        ]
        return longest[0] if len(longest) == 1 else None

    def _normalize(self, named: str) -> str:
        """Put a label into the suite's spelling; an unknown one is cut, or none if all labels are
        known.
        """
        known = next((label for label in (*self.labels, self.label) if _same(named, label)), None)
        if known is not None:
            return known
        return NONE if self.labels or not named.strip() else named.strip()[:_LONGEST_LABEL]

    def _scores(self, data: Any, predicted: str) -> Iterator[tuple[str, float]]:
        for value in _find(self.scores or "", data)[:1]:
            if isinstance(value, Mapping):
                yield from (
                    (self._normalize(str(label)), float(score))
                    for label, score in value.items()
                    if _is_number(score)
                )
            elif _is_number(value):
                others = [label for label in self.labels if label != predicted]
                yield predicted, float(value)
                yield from ((label, (1 - float(value)) / len(others)) for label in others)


def _same(one: str, other: str) -> bool:
    return one.strip().casefold() == other.strip().casefold()


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and abs(value) < 1e300
        and not math.isnan(value)
    )


def _data(output: str) -> Any:
    try:
        return from_json(strip_fence(output), allow_inf_nan=False)
    except ValueError:
        return None


def _find(path: str, data: Any) -> list[Any]:
    return find_all(path, data) if data is not None else []
