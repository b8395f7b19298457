"""The settings of a change beside main's: which differ, and which are weaker than there.

An ordinary upgrade is not weaker: another model, more runs, further cases. What is weaker could
make a change green that main's own suite would stop.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Final

from ci_evals.gate.bars import has_bars
from ci_evals.gate.wording.rules import gate_rule_text
from ci_evals.model.rules import Budget, Gate, RunBudget
from ci_evals.model.settings import (
    CaseSettings,
    ChangedSetting,
    ChangedSettings,
    ProviderSettings,
    SettingName,
    SuiteSettings,
)

_MOCK: Final = "mock"
_BARS: Final = ("min_pass_rate", "min_case_pass_rate", "providers", "metrics")
_LIMITS: Final = (
    "confidence",
    "max_error_rate",
    "max_budget_violations",
    "max_regressions",
    "max_cost_increase",
    "max_latency_increase",
)
"""The rules of which a higher value, or none, lets more pass."""
_FAIL_ON: Final = ("borderline", "fail", "never")
_STRICTEST_FIRST: Final[Mapping[str, tuple[object, ...]]] = {
    "on_borderline": ("fail", "warn"),
    "on_regression": ("fail", "net", "warn"),
    "on_unchecked": ("error", "warn"),
    "require_baseline": (True, "expected", False),
    "prove": (True, False),
    "per_variant": (True, False),
    "require_usage": (True, False),
    "ratchet": (True, False),
    "critical": (True, False, None),
}
"""The values of other rules. None is a rule of a tag that is not set."""


def compare_settings(
    name: str, here: SuiteSettings, main: SuiteSettings, *, is_selection: bool = False
) -> ChangedSettings:
    """Return the settings that differ from main's.

    Args:
        name: the branch and its commit.
        here: the change's settings.
        main: main's; what is not known of them is not compared.
        is_selection: the change runs a part of its cases, so that others are not missing.
    """
    changes = [
        *_compare_providers(here, main),
        *_compare_numbers(here, main),
        *_compare_budgets(here.budget, main.budget),
        *_compare_gates(here.gate, main.gate),
        *_compare_fail_on(here, main),
        *_compare_cases(here, main, is_selection=is_selection),
    ]
    if None not in (here.setup, main.setup) and here.setup != main.setup:
        changes.append(ChangedSetting(what="setup"))
    if None not in (here.against, main.against) and here.against != main.against:
        changes.append(ChangedSetting(what="against"))
    return ChangedSettings(main=name, changes=tuple(changes))


def runs_of_main(here: SuiteSettings, main: SuiteSettings) -> Mapping[str, int]:
    """Return main's number of runs of each case of the change that has fewer.

    A new case takes main's usual number. A suite that goes on while its verdict is open decides by
    itself how many it needs.
    """
    if here.runs is None or main.runs is None or _most_runs(here) > here.runs:
        return {}
    matched = here.match_cases(main)
    runs = {}
    for name, case in here.cases.items():
        own = case.runs or here.runs
        theirs = own
        if name in matched:
            theirs = main.cases[matched[name]].runs or main.runs
        elif case.runs is None:
            theirs = main.runs
        if own < theirs:
            runs[name] = theirs
    return runs


def _most_runs(settings: SuiteSettings) -> int:
    return max(settings.runs or 0, settings.max_runs or 0)


def fails_on(settings: SuiteSettings) -> str:
    """Return the mildest verdict on which a job with these settings fails: `borderline`, `fail` or
    `never`.
    """
    if settings.fail_on:
        return settings.fail_on
    if settings.gate.on_borderline == "fail":
        return "borderline"
    return "fail"


def _compare_fail_on(here: SuiteSettings, main: SuiteSettings) -> Iterator[ChangedSetting]:
    """Yield the difference if it comes from outside of the suite; the gate has the other one."""
    if here.fail_on is None or main.fail_on is None or here.fail_on == main.fail_on:
        return
    mine, theirs = fails_on(here), fails_on(main)
    if mine != theirs:
        weaker = _FAIL_ON.index(mine) > _FAIL_ON.index(theirs)
        yield ChangedSetting(what="fail_on", here=mine, main=theirs, weaker=weaker)


# Providers.


def _compare_providers(here: SuiteSettings, main: SuiteSettings) -> Iterator[ChangedSetting]:
    new = [name for name in here.providers if name not in main.providers]
    gone = [name for name in main.providers if name not in here.providers]
    # A single one under another name is compared as the same; see `match_variants`.
    renamed = dict(zip(new, gone, strict=True)) if len(new) == len(gone) == 1 else {}
    for name, mine in here.providers.items():
        theirs = main.providers.get(renamed.get(name, name))
        if theirs is None:
            if main.providers:
                yield ChangedSetting(what="new provider", name=name)
        elif mine.kind != theirs.kind:
            yield ChangedSetting(
                what="kind",
                name=name,
                here=mine.kind,
                main=theirs.kind,
                weaker=_tests_less(mine, theirs),
            )
        elif theirs.identity and mine.identity != theirs.identity:
            yield ChangedSetting(what="provider", name=name)
    for name in gone:
        if name not in renamed.values() and main.providers[name].identity:
            yield ChangedSetting(what="removed provider", name=name)


def _tests_less(mine: ProviderSettings, theirs: ProviderSettings) -> bool:
    """Return True if a provider of another kind is not the product that main tests.

    A model of another vendor is an upgrade; a mock instead of anything, or something else instead
    of the team's own code, is not.
    """
    if mine.kind == _MOCK:
        return True
    return theirs.kind != _MOCK and (mine.own_code or theirs.own_code)


# Numbers.


def _compare_numbers(here: SuiteSettings, main: SuiteSettings) -> Iterator[ChangedSetting]:
    if here.runs is not None and main.runs is not None and here.runs != main.runs:
        yield ChangedSetting(
            what="runs",
            here=str(here.runs),
            main=str(main.runs),
            weaker=_most_runs(here) < main.runs,
        )
    mine, theirs = here.confirm_runs, main.confirm_runs
    if mine is not None and theirs is not None and mine != theirs:
        yield ChangedSetting(
            what="confirm_runs", here=str(mine), main=str(theirs), weaker=mine < theirs
        )


# The budget.


def _compare_budgets(here: Budget | None, main: Budget | None) -> Iterator[ChangedSetting]:
    """Yield the limits that differ.

    A lower one of the invocation may cut the runs that would make a change red; a higher one of
    each run has fewer of them marked.
    """
    if here is None or main is None:
        return
    for each in fields(Budget):
        mine, theirs = getattr(here, each.name), getattr(main, each.name)
        if each.name != "per_run" and mine != theirs:
            yield _changed_limit(each.name, mine, theirs, weaker=_allows_less(mine, theirs))
    for each in fields(RunBudget):
        mine, theirs = getattr(here.per_run, each.name), getattr(main.per_run, each.name)
        if mine != theirs:
            name = f"per_run.{each.name}"
            yield _changed_limit(name, mine, theirs, weaker=_allows_less(theirs, mine))


def _changed_limit(
    name: str, mine: float | None, theirs: float | None, *, weaker: bool
) -> ChangedSetting:
    return ChangedSetting(
        what="budget", name=name, here=_limit_text(mine), main=_limit_text(theirs), weaker=weaker
    )


def _allows_less(limit: float | None, other: float | None) -> bool:
    return limit is not None and (other is None or limit < other)


def _limit_text(limit: float | None) -> str:
    """`2`, `0.5`, `none`."""
    return "none" if limit is None else f"{limit:.15g}"


# The gate.


def _compare_gates(here: Gate, main: Gate) -> Iterator[ChangedSetting]:
    for name in {**main.rules, **here.rules}:
        mine, theirs = here.rules.get(name), main.rules.get(name)
        if mine != theirs:
            yield ChangedSetting(
                what="gate",
                name=name,
                here=gate_rule_text(mine),
                main=gate_rule_text(theirs),
                weaker=_is_weaker_rule(name, here, main, mine, theirs),
            )


def _is_weaker_rule(name: str, here: Gate, main: Gate, mine: object, theirs: object) -> bool:
    key, _, rest = name.partition(".")
    if key == "tags":
        key = rest.rpartition(".")[2]
    if key in _BARS:
        return _is_lower(_bar(mine, here), _bar(theirs, main))
    if key in _LIMITS:
        if mine is None:
            return True
        return theirs is not None and _number(mine) > _number(theirs)
    order = _STRICTEST_FIRST.get(key)
    return order is not None and order.index(mine) > order.index(theirs)


def _bar(value: object, gate: Gate) -> float | None:
    """Return the bar that a rule sets; None if it sets none.

    Without any bar, every run must pass.
    """
    if value is not None:
        return _number(value)
    return None if has_bars(gate) else 1.0


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return float(value)


def _is_lower(mine: float | None, theirs: float | None) -> bool:
    if theirs is None:
        return False
    return mine is None or mine < theirs


# Cases.


def _compare_cases(
    here: SuiteSettings, main: SuiteSettings, *, is_selection: bool
) -> Iterator[ChangedSetting]:
    matched = here.match_cases(main)
    kept = frozenset(matched.values())
    if not is_selection:
        for name, case in main.cases.items():
            if name not in kept and case.critical:
                yield ChangedSetting(what="removed critical", name=name, weaker=True)
    for name, theirs in matched.items():
        yield from _compare_case(name, here, main, main.cases[theirs])
    if not is_selection:
        for name, case in main.cases.items():
            if name not in kept and not case.critical:
                yield ChangedSetting(what="removed", name=name)
    for name in here.cases:
        if name not in matched:
            yield ChangedSetting(what="new", name=name)


def _compare_case(
    name: str, here: SuiteSettings, main: SuiteSettings, theirs: CaseSettings
) -> Iterator[ChangedSetting]:
    mine = here.cases[name]

    def changed(what: SettingName, *, weaker: bool = False) -> ChangedSetting:
        return ChangedSetting(what=what, name=name, weaker=weaker)

    if theirs.critical and not mine.critical:
        yield changed("critical", weaker=True)
    if mine.recorded and not theirs.recorded:
        yield changed("recorded", weaker=True)
    elif mine.question != theirs.question:
        yield changed("question")
    if mine.grading != theirs.grading:
        yield changed("checks")
    if mine.quarantined and not theirs.quarantined:
        yield changed("quarantine")
    if mine.min_pass_rate != theirs.min_pass_rate:
        bar, bar_of_main = _case_bar(mine, here.gate), _case_bar(theirs, main.gate)
        yield ChangedSetting(
            what="bar",
            name=name,
            here=gate_rule_text(mine.min_pass_rate),
            main=gate_rule_text(theirs.min_pass_rate),
            weaker=_is_lower(bar, bar_of_main),
        )
    if mine.runs != theirs.runs and here.runs is not None and main.runs is not None:
        runs, runs_of_main = mine.runs or here.runs, theirs.runs or main.runs
        most = runs
        if mine.runs is None:  # such a case goes on while the verdict is open
            most = max(runs, _most_runs(here))
        if runs != runs_of_main:
            yield ChangedSetting(
                what="runs",
                name=name,
                here=str(runs),
                main=str(runs_of_main),
                weaker=most < runs_of_main,
            )


def _case_bar(case: CaseSettings, gate: Gate) -> float | None:
    """Return the bar of a single case; without any bar, every run must pass."""
    bar = gate.case_bar(case.min_pass_rate)
    if bar is None and not has_bars(gate):
        return 1.0
    return bar
