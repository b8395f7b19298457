"""Overrides: what the command line or the environment says instead of the file."""

from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ci_evals.errors import UsageError
from ci_evals.model.rules import ConfirmRuns
from ci_evals.suite.problems import unknown
from ci_evals.suite.types import CheckedSuite


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Values of the command line or the environment that win over the file's; None leaves these."""

    runs: int | None = None
    max_runs: int | None = None
    confirm_runs: ConfirmRuns | None = None
    max_concurrency: int | None = None
    timeout_s: float | None = None
    retries: int | None = None
    seed: int | None = None
    out: Path | None = None
    providers: tuple[str, ...] | None = None
    label: str | None = None
    tags: tuple[str, ...] | None = None
    cases: tuple[str, ...] | None = None


def apply_overrides(suite: CheckedSuite, overrides: Overrides) -> CheckedSuite:
    """Return a suite with some values replaced and only what is selected of it, without the bars for anything else.

    Raises:
        UsageError: a provider, a tag or the id of a case is named that the suite does not have.
    """
    values = {name: value for name, value in asdict(overrides).items() if value is not None}
    if overrides.out is not None:
        values["report"] = replace(suite.report, out=values.pop("out").as_posix())
    providers, cases, gate = suite.providers, suite.cases, suite.gate
    if overrides.providers is not None:
        _check("provider", overrides.providers, [str(each.name) for each in providers])
        providers = tuple(each for each in providers if each.name in overrides.providers)
    if overrides.tags is not None:
        _check("tag", overrides.tags, sorted({tag for case in cases for tag in case.tags}))
        tags = frozenset(overrides.tags)
        cases = tuple(case for case in cases if not tags.isdisjoint(case.tags))
    if overrides.cases is not None:
        _check("case", overrides.cases, {case.id: case for case in cases})
        ids = frozenset(overrides.cases)
        cases = tuple(case for case in cases if case.id in ids)
    if gate is not None and (gate.providers or gate.tags):
        names, tags = {each.name for each in providers}, frozenset(tag for case in cases for tag in case.tags)
        gate = replace(
            gate,
            providers={name: bar for name, bar in gate.providers.items() if name in names},
            tags={tag: rule for tag, rule in gate.tags.items() if tag in tags},
        )
    values.pop("tags", None)
    return replace(suite, **values | {"providers": providers, "cases": cases, "gate": gate})


def _check(noun: str, names: Iterable[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise UsageError(unknown(noun, name, known))
