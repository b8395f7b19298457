"""Reports that lie about what follows from their results."""

from typing import Any


def pretend_counts(document: dict[str, Any]) -> None:
    for cell in document["cells"]:
        cell |= {"passed": cell["passed"] + cell["failed"], "failed": 0, "outcome": "passed"}


def _tested(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell["comparison"] for cell in document["cells"] if cell["comparison"]["p"] is not None]


def pretend_to_be_unchanged(document: dict[str, Any]) -> None:
    for comparison in _tested(document):
        comparison["kind"] = "unchanged"


def pretend_chance(document: dict[str, Any]) -> None:
    for comparison in _tested(document):
        comparison |= {"kind": "flaky", "p": 0.9, "adjusted_p": 0.9}


def pretend_other_runs(document: dict[str, Any]) -> None:
    for comparison in _tested(document):
        comparison |= {"head": comparison["base"], "kind": "unchanged", "p": 1.0, "adjusted_p": 1.0}


def pretend_a_name(document: dict[str, Any]) -> None:
    for comparison in _tested(document):
        if comparison["kind"] == "suspect":
            comparison["kind"] = "regressed"


def pretend_no_name(document: dict[str, Any]) -> None:
    for comparison in _tested(document):
        if comparison["kind"] == "regressed":
            comparison |= {"kind": "suspect", "head": [0, 3], "p": 0.00018, "adjusted_p": 0.007}


def pretend_figures(document: dict[str, Any]) -> None:
    totals = document["totals"]
    totals |= {"passed": totals["planned"], "failed": 0, "pass_rate": 1.0, "match_rate": 1.0}
    for variant in document["variants"]:
        variant["pass_rate"] = 1.0
    for variant in document["comparison"]["variants"]:
        variant |= {"p": 1.0, "adjusted_p": 1.0, "fell": False, "head_rate": 1.0}


def pretend_words(document: dict[str, Any]) -> None:
    document["verdict"] |= {"status": "pass", "reason": "all is well", "rules": [], "scopes": []}
    for each in (document["comparison"], *document["comparison"]["variants"], *_tested(document)):
        each["sentence"] = "all is well"


PRETENCES = (
    pretend_counts,
    pretend_to_be_unchanged,
    pretend_chance,
    pretend_other_runs,
    pretend_a_name,
    pretend_no_name,
    pretend_figures,
    pretend_words,
)
"""Each changes the document of a report in place."""
