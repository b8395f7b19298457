"""Sentences about settings of a change that differ from main's."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import attrgetter

from ci_evals.format import join_first, name_of, number_of
from ci_evals.model.settings import ChangedSetting, ChangedSettings, SettingName

MAX_NAMED = 3
_ONE_BY_ONE = frozenset(
    {
        "against",
        "bar",
        "budget",
        "confirm_runs",
        "fail_on",
        "gate",
        "kind",
        "main alongside",
        "runs",
        "setup",
    }
)
"""The settings that have a value to be shown, or are not of a provider or a case."""


def weaker_settings_sentence(changed: ChangedSettings) -> str:
    """`weaker than on main (5e1369d): agent is a mock (python), runs 1 (5)`."""
    return f"weaker than on {name_of(changed.main)}: {', '.join(_describe(changed.weaker))}"


def changed_settings_sentence(changed: ChangedSettings) -> str:
    """`unlike on main (5e1369d): agent is a mock (python), runs 1 (5), other checks of refund`."""
    parts = [*_describe(changed.weaker), *_describe(changed.others)]
    return f"unlike on {name_of(changed.main)}: {', '.join(parts)}"


def _describe(changes: Iterable[ChangedSetting]) -> Iterator[str]:
    """Yield each setting with its value, main's in parentheses, or the cases that they are of."""
    for what, group in groupby(_in_order(changes), attrgetter("what")):
        alike = list(group)
        if what not in _ONE_BY_ONE:
            yield _describe_names(what, [change.name for change in alike])
            continue
        for change in islice(alike, MAX_NAMED):
            yield _describe_value(change)
        if len(alike) > MAX_NAMED:
            yield f"{len(alike) - MAX_NAMED:,} more like these"


def _in_order(changes: Iterable[ChangedSetting]) -> Sequence[ChangedSetting]:
    """Return changes of the same setting one after the other, in the order of their first."""
    changes = list(changes)
    order = list(dict.fromkeys(change.what for change in changes))
    return sorted(changes, key=lambda change: order.index(change.what))


def _describe_value(change: ChangedSetting) -> str:
    """`agent is a mock (python)`, `runs 1 (5)`, `min_pass_rate 0.5 (0.9)`, `bar of a 0.2 (0.9)`."""
    name = name_of(change.name)
    mine, theirs = name_of(change.here), name_of(change.main)
    match change.what:
        case "setup":
            return "another setup"
        case "main alongside":
            return "main's code is switched off outside of the suite"
        case "against":
            return "against (from the next change on)"
        case "kind" if change.here == "mock":
            return f"{name} is a mock ({theirs})"
        case "kind":
            return f"{name} is of type {mine} ({theirs})"
        case "bar":
            return f"bar of {name} {mine} ({theirs})"
        case "runs" if change.name:
            return f"runs of {name} {mine} ({theirs})"
        case "budget":
            return f"budget.{name} {mine} ({theirs})"
        case "gate":
            return f"{name} {mine} ({theirs})"
        case _:
            return f"{change.what} {mine} ({theirs})"


def _describe_names(what: SettingName, names: Sequence[str]) -> str:
    """`without the critical case refund`, `other checks of refund, cancel, faq and 2 more`."""
    listed = join_first([name_of(name) for name in names], MAX_NAMED)
    several = len(names) > 1
    match what:
        case "removed critical":
            cases = "cases" if several else "case"
            return f"without the critical {cases} {listed}"
        case "critical":
            are = "are" if several else "is"
            return f"{listed} {are} not critical"
        case "recorded":
            return f"recordings answer {listed}"
        case "provider":
            return f"other settings of {listed}"
        case "removed provider" | "removed":
            return f"without {listed}"
        case "new provider":
            return f"also {listed}"
        case "quarantine":
            return f"in quarantine only here: {listed}"
        case "question":
            return f"other questions in {listed}"
        case "checks":
            return f"other checks of {listed}"
        case _:
            return number_of(len(names), "new case")
