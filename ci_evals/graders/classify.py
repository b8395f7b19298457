"""`classify`: the answer names the right label; the labels of all runs make the suite's metrics."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from pydantic import StringConstraints

from ci_evals.format import quote
from ci_evals.graders.base import GraderOptions, failed, passed
from ci_evals.graders.json_text import read_json, strip_fence
from ci_evals.jsonpath import find_all, path_problems
from ci_evals.model.fields import Many, Name
from ci_evals.model.grading import Classified, Finding
from ci_evals.model.request import Answer

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
        found: list[str] = []
        for path in (self.path, self.scores):
            if path:
                found += path_problems(path)
        if self.labels and self.label not in self.labels:
            found.append(f"the label {quote(self.label)} is none of `labels`")
        if self.path is not None and self.pattern is not None:
            found.append("give either `path` or `pattern`")
        if self.pattern is not None:
            from ci_evals.graders.regex import Regex

            found += Regex(self.pattern).problems()
        return found

    def grade(self, answer: Answer) -> Finding:
        output = answer.response.output
        data = None
        if self.path or self.scores:
            data = _read(output)
        named = self._find_label(output, data)
        label, predicted = "no label", NONE
        if named is not None:
            predicted = self._normalize(named)
            label = quote(predicted, _LONGEST_LABEL)
        scores = self._scores(data, predicted)
        classified = Classified(self.task, self.label, predicted, scores or None)
        if predicted == self.label:
            return replace(passed(f"labelled {label}"), classified=classified)
        reason = f"labelled {label}, expected {quote(self.label)}"
        return replace(failed(reason, got=quote(output)), classified=classified)

    def _find_label(self, output: str, data: Any) -> str | None:
        """Find the label as the answer has it."""
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
            found: str | None = match[group]
            return found
        text = strip_fence(output).strip(" \t\r\n\"'`.*")
        if self.labels and self._known(text) is None:
            return self._find_inside(output)
        return text or None

    def _find_inside(self, output: str) -> str | None:
        """Find the one label that the answer mentions; those within a longer one don't count."""
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
        """Return the label of the suite that a text is; None if it is none of them."""
        for label in (*self.labels, self.label):
            if _is_same(text, label):
                return label
        return None

    def _scores(self, data: Any, predicted: str) -> Mapping[str, float]:
        if self.scores is None:
            return {}
        found = _find(self.scores, data)
        if not found:
            return {}
        given = found[0]
        scores: dict[str, float] = {}
        if isinstance(given, Mapping):
            for label, score in given.items():
                if _is_number(score):
                    scores[self._normalize(str(label))] = float(score)
        elif _is_number(given):
            scores[predicted] = float(given)
            others = [label for label in self.labels if label != predicted]
            for label in others:
                scores[label] = (1 - float(given)) / len(others)
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
