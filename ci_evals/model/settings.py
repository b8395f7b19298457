"""The settings that decide how strictly a suite measures, and how those of a change differ from
main's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ci_evals.model.fingerprint import grading_half, question_half
from ci_evals.model.rules import Budget, ConfirmRuns, Gate


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """A provider of a suite.

    Attributes:
        kind: its `type`.
        own_code: it calls the team's own code.
        identity: identifies the settings that decide its answers, without its name; empty if that
            is not known.
    """

    kind: str
    own_code: bool = False
    identity: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseSettings:
    """A case of a suite.

    Attributes:
        fingerprint: identifies its question and its grading, as `question.judgement`.
        runs: its own number of runs, if it has one.
        critical: it is critical by its own mark or by a tag.
        min_pass_rate: its own bar, if it has one.
        quarantined: it is in quarantine.
        recorded: a recording answers it.
    """

    fingerprint: str
    runs: int | None = None
    critical: bool = False
    min_pass_rate: float | None = None
    quarantined: bool = False
    recorded: bool = False

    @property
    def question(self) -> str:
        """The half of its fingerprint that identifies the question."""
        return question_half(self.fingerprint)

    @property
    def grading(self) -> str:
        """The half of its fingerprint that identifies how answers are graded."""
        return grading_half(self.fingerprint)


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteSettings:
    """The settings of a suite; None for those that are not known.

    Attributes:
        gate: its rules for merging.
        providers: its providers and stages by name.
        cases: its cases by id.
        runs: the number of runs of every cell.
        max_runs: the number of runs up to which it goes on, if it does.
        confirm_runs: the number of further runs of a suspect.
        setup: identifies what sets up every run.
        budget: the limits of an invocation.
        against: identifies how main's code runs alongside.
        fail_on: the verdict on which the job fails by the command line or the environment; empty if
            these don't say.
    """

    gate: Gate
    providers: Mapping[str, ProviderSettings]
    cases: Mapping[str, CaseSettings]
    runs: int | None = None
    max_runs: int | None = None
    confirm_runs: ConfirmRuns | None = None
    setup: str | None = None
    budget: Budget | None = None
    against: str | None = None
    fail_on: str | None = None

    def without_identities(self) -> "SuiteSettings":
        """Return the settings with the kinds of providers alone."""
        providers = {name: replace(each, identity="") for name, each in self.providers.items()}
        return replace(self, providers=providers)

    def match_cases(self, main: "SuiteSettings") -> Mapping[str, str]:
        """Return the name of each case that main has, too, with its name there.

        A case of main that is gone may be the same under another name. Of one that was reworded,
        the settings are those of the same name, though it asks something else.
        """
        gone = {case.question: name for name, case in main.cases.items() if name not in self.cases}
        matched = {}
        for name, case in self.cases.items():
            if name in main.cases:
                matched[name] = name
            elif (old := gone.pop(case.question, None)) is not None:
                matched[name] = old
        return matched


SettingName = Literal[
    "kind",
    "runs",
    "confirm_runs",
    "main alongside",
    "fail_on",
    "budget",
    "gate",
    "bar",
    "critical",
    "removed critical",
    "recorded",
    "provider",
    "removed provider",
    "new provider",
    "setup",
    "against",
    "quarantine",
    "question",
    "checks",
    "removed",
    "new",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedSetting:
    """A setting of a change that differs from main's.

    Attributes:
        what: the setting: of the suite, or of a provider or case.
        name: the rule of the gate, the limit of the budget, the provider or the case; empty for the
            suite.
        here: its value, as it is written in a suite; empty if it is not set, or has none.
        main: its value on main, likewise.
        weaker: it makes the suite less strict, or its answers no evidence.
    """

    what: SettingName
    name: str = ""
    here: str = ""
    main: str = ""
    weaker: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedSettings:
    """The settings of a change that differ from main's.

    Attributes:
        main: the branch and its commit: `main (0123456)`.
        changes: the settings; those of the same kind follow each other.
    """

    main: str
    changes: tuple[ChangedSetting, ...]

    @property
    def weaker(self) -> Sequence[ChangedSetting]:
        """The settings that make the suite less strict."""
        return [change for change in self.changes if change.weaker]

    @property
    def others(self) -> Sequence[ChangedSetting]:
        """The settings that are only different."""
        return [change for change in self.changes if not change.weaker]

    @property
    def adds_only(self) -> bool:
        """Return True if nothing of main's differs: there are only new cases."""
        return all(change.what == "new" for change in self.changes)
