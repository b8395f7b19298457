"""From a config file to a `Suite`: parse, fill in the environment, decode, check. Reports every problem at once."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from ci_evals.config.case_overrides import override_misfits
from ci_evals.config.cases import CaseReader
from ci_evals.config.code import located
from ci_evals.config.decode import Decoder, unknown
from ci_evals.config.environment import Interpolation, Verbatim, read_dotenv
from ci_evals.config.file_types import SuiteEntry, SweepEntry
from ci_evals.config.judges import askers, unanswerable
from ci_evals.config.prompts import PromptReader, misfits
from ci_evals.config.providers import ProviderReader
from ci_evals.config.source import Map, line_of, parse, read_text
from ci_evals.config.stages import stage_options, stage_problems
from ci_evals.config.sweeps import Sweeps
from ci_evals.config.tasks import task_misfits
from ci_evals.errors import ConfigError, Problem, UsageError
from ci_evals.model import Budget, Case, Gate
from ci_evals.prices import has_price
from ci_evals.providers.base import ProviderOptions
from ci_evals.providers.mock import Mock
from ci_evals.redaction import secret_values
from ci_evals.suite import Suite
from ci_evals.verdict.metric_names import BY_LABEL, WHOLE, read_metric

T = TypeVar("T")
DEFAULT_NAMES = ("evals.yaml", "evals.yml", "evals.json")


class Overrides(Struct, frozen=True, kw_only=True):
    """What the command line or the environment puts in place of the file's values; None leaves them."""

    runs: int | None = None
    max_runs: int | None = None
    confirm_runs: int | None = None
    max_concurrency: int | None = None
    timeout_s: float | None = None
    retries: int | None = None
    seed: int | None = None
    out: Path | None = None
    providers: tuple[str, ...] | None = None
    label: str | None = None
    tags: tuple[str, ...] | None = None


def find_config(folder: Path) -> Path:
    """The config of a project: `evals.yaml` in the folder or its `.github/`.

    Raises:
        UsageError: there is none, or more than one in the same folder.
    """
    for place in (folder, folder / ".github"):
        found = [name for name in DEFAULT_NAMES if (place / name).is_file()]
        if len(found) > 1:
            raise UsageError(f"{place} has both {' and '.join(found)}: remove one, or name one with --config")
        if found:
            return place / found[0]
    raise UsageError(
        f"no evals.yaml in {folder} or its .github folder: name one with --config, or start with `ci-evals init`"
    )


def load_suite(
    path: Path,
    environ: Mapping[str, str],
    overrides: Overrides | None = None,
    *,
    offline: bool = False,
    judging: bool = False,
) -> Suite:
    """Read, decode and check a config.

    Args:
        path: the config file.
        environ: the environment; a `.env` file beside the config adds to it.
        overrides: values that win over the file's.
        offline: nothing will be called, so keys and variables may be missing.
        judging: but judges will be, so theirs may not.

    Raises:
        ConfigError: with every problem of the file, its datasets and its environment.
    """
    return _Loader(_read(path), environ, offline=offline, judging=judging).load(overrides or Overrides())


def suite_of(
    values: Mapping[str, Any],
    place: tuple[str, int],
    folder: Path,
    environ: Mapping[str, str],
    *,
    offline: bool = False,
) -> Suite:
    """Check a suite that was written in Python, by the rules of a file.

    Args:
        values: what would be under the top-level keys; cases, graders and providers may be objects.
        place: the file and line where it is written, for messages and reports.
        folder: where relative paths start.
        environ: where keys are looked up; a `.env` file in the folder adds to it.
        offline: nothing will be called, so keys may be missing.

    Raises:
        ConfigError: with every problem.
    """
    file, line = place
    source = _Source(file, folder, located(values, line), [])
    return _Loader(source, environ, offline=offline, verbatim=True).load(Overrides())


def load_mock(path: Path, environ: Mapping[str, str]) -> Mock:
    """The first `mock` provider of a config; the rest of the file need not be complete.

    Raises:
        ConfigError: there is none, or it is wrong.
    """
    return _Loader(_read(path), environ).mock()


def overridden(suite: Suite, overrides: Overrides) -> Suite:
    """A loaded suite with some values replaced.

    Raises:
        UsageError: a provider or a tag is named that the suite does not have.
    """
    changes = {
        name: value
        for name in (
            "runs",
            "max_runs",
            "confirm_runs",
            "max_concurrency",
            "timeout_s",
            "retries",
            "seed",
            "out",
            "label",
        )
        if (value := getattr(overrides, name)) is not None
    }
    if overrides.providers is not None:
        names = [str(provider.name) for provider in suite.providers]
        for name in overrides.providers:
            if name not in names:
                raise UsageError(unknown("provider", name, names))
        changes["providers"] = tuple(each for each in suite.providers if each.name in overrides.providers)
    if overrides.tags is not None:
        known = sorted({tag for case in suite.cases for tag in case.tags})
        for tag in overrides.tags:
            if tag not in known:
                raise UsageError(unknown("tag", tag, known))
        changes["cases"] = cases = _with_tags(suite.cases, overrides.tags)
        changes["gate"] = _without_bars_of_absent_tags(suite.gate, cases)
    return msgspec.structs.replace(suite, **changes)


class _Source(NamedTuple):
    """What a suite is made of, and where it was written."""

    file: str
    folder: Path
    root: Map
    problems: list[Problem]


def _read(path: Path) -> _Source:
    file = path.as_posix()
    problems: list[Problem] = []
    root = parse(read_text(path, file), file, problems)
    if not isinstance(root, Map):
        text = "expected a mapping with the keys `providers` and `cases`"
        raise ConfigError([*problems, Problem(file, 1, "", text)])
    return _Source(file, path.resolve().parent, root, problems)


class _Loader:
    """One pass over one config; in a `verbatim` one, `${NAME}` is text."""

    def __init__(
        self,
        source: _Source,
        environ: Mapping[str, str],
        *,
        offline: bool = False,
        judging: bool = False,
        verbatim: bool = False,
    ) -> None:
        self.file, self.folder, self.root, self.problems = source
        self.decoder = Decoder(self.file, self.problems)
        self.dotenv = read_dotenv(self.folder)
        interpolation = Verbatim if verbatim else Interpolation
        self.interpolation = interpolation({**self.dotenv, **environ}, self.decoder.problem, offline=offline)
        self.providers = ProviderReader(self.folder, self.decoder, self.interpolation)
        asking = interpolation(self.interpolation.environ, self.decoder.problem, offline=offline and not judging)
        asking.named = self.interpolation.named
        self.judges = ProviderReader(self.folder, self.decoder, asking, "judges")
        self.prompts = PromptReader(self.folder, self.decoder, self.interpolation)

    def load(self, overrides: Overrides) -> Suite:
        root = self.root
        settings = self.settings()
        entry = self.decoder.struct(settings, SuiteEntry, "", root.line)
        sweeps = self.sweeps(settings.get("variants"))
        providers = (
            self.providers.read(*self.under("providers"), overrides.providers, sweeps) if "providers" in root else ()
        )
        judges = self.judges.read(*self.under("judges")) if root.get("judges") else ()
        prompts = self.prompts.read(*self.under("prompts"))
        reader = CaseReader(self.folder, *self.under("expect"), self.decoder, self.providers)
        cases = reader.read(*self.under("cases"), entry.threshold if entry else None) if "cases" in root else ()
        self.problems.extend(misfits(cases, prompts, () if root.get("prompts") else providers))
        self.problems.extend(task_misfits(cases, providers))
        self.problems.extend(override_misfits(cases, providers, self.folder))
        stages = stage_options(providers, self.providers.by_name)
        line = line_of(root, "providers")
        self.problems.extend(stage_problems(providers, stages, self.file, line, self.folder))
        judges = self.judging(cases, providers, judges)
        self.check_gate(settings.get("gate"), reader)
        self.check_prices(settings.get("budget"), cases, (*providers, *judges))
        self.check_runs(entry)
        self.check_tags(overrides.tags, reader)
        if self.problems or entry is None:
            raise ConfigError(_in_file_order(self.problems))
        gate = _without_bars_of_others(entry.gate, providers)
        if overrides.tags is not None:
            cases = _with_tags(cases, overrides.tags)
            gate = _without_bars_of_absent_tags(gate, cases)
        return Suite(
            name=entry.name or self.folder.name,
            description=entry.description,
            label=_first(overrides.label, entry.label),
            file=self.file,
            folder=self.folder,
            runs=_first(overrides.runs, entry.runs),
            max_runs=_first(overrides.max_runs, entry.max_runs),
            stop_early=entry.stop_early,
            confirm_runs=_first(overrides.confirm_runs, entry.confirm_runs),
            max_concurrency=_first(overrides.max_concurrency, entry.max_concurrency),
            timeout_s=_first(overrides.timeout_s, entry.timeout_s),
            retries=_first(overrides.retries, entry.retries),
            seed=_first(overrides.seed, entry.seed),
            providers=providers,
            judges=judges,
            prompts=prompts,
            cases=cases,
            gate=gate,
            budget=entry.budget,
            stages=stages,
            out=overrides.out or Path(entry.report.out),
            formats=entry.report.formats,
            secrets=secret_values(
                self.interpolation.named, self.dotenv, (entry.name or "", *_visible((*providers, *judges)))
            ),
        )

    def mock(self) -> Mock:
        entries, line = self.under("providers")
        for index, entry in enumerate(entries if isinstance(entries, list) else ()):
            if isinstance(entry, dict) and entry.get("type") == "mock":
                provider = self.providers.entry(entry, f"providers[{index}]", line_of(entries, index))
                if isinstance(provider, Mock) and not self.problems:
                    return provider
        raise ConfigError(self.problems or [Problem(self.file, line, "providers", "none of them is a `mock`")])

    def under(self, key: str) -> tuple[Any, int | None]:
        """What stands under a top-level key, and its line."""
        return self.root.get(key), line_of(self.root, key)

    def settings(self) -> Map:
        """Everything but what has its own decoding."""
        own = ("providers", "judges", "prompts", "cases", "expect")
        head = Map(self.root.line)
        head.lines = self.root.lines
        for key, value in self.root.items():
            head[key] = [] if key in own else self.interpolation.fill(value, key, line_of(self.root, key))
        return head

    def judging(
        self, cases: Sequence[Case], providers: Sequence[ProviderOptions], judges: tuple[ProviderOptions, ...]
    ) -> tuple[ProviderOptions, ...]:
        """The judges, with those of the providers that are asked by graders and were not selected to run."""
        for name in sorted({*self.judges.names} & {*self.providers.names}):
            line = line_of(self.root, "judges")
            self.decoder.problem(line, "judges", f"{name!r} is the name of a provider too: give the judge another")
        if not self.providers.knows_names or (self.root.get("judges") and not self.judges.knows_names):
            return judges
        asked = askers(cases)
        selected = {provider.name for provider in (*providers, *judges)}
        entries = self.root.get("providers") or []
        idle = [
            self.providers.entry(entries[at], f"providers[{at}]", line_of(entries, at))
            for at, name in enumerate(self.providers.names)
            if name not in selected and any(grader.provider == name for grader, _ in asked)
        ]
        models = (*judges, *(options for options in idle if options is not None))
        for grader, case in asked:
            if problem := unanswerable(grader, models, (*models, *providers)):
                self.problems.append(Problem(case.file, case.line, "expect", problem))
        return models

    def sweeps(self, entries: Any) -> Sweeps:
        return Sweeps(self.quietly(entries, list[SweepEntry]) or [], entries, self.decoder)

    def check_gate(self, gate: Any, cases: CaseReader) -> None:
        """A bar for a tag or provider that does not exist would never be missed."""
        if not isinstance(gate, Map):
            return
        if self.quietly(gate.get("per_variant"), bool) and gate.get("min_pass_rate") is None:
            text = "needs `min_pass_rate`, the bar to hold them to"
            self.decoder.problem(line_of(gate, "per_variant"), "gate.per_variant", text)
        self.check_metrics(gate.get("metrics"))
        if self.providers.knows_names:
            self.check_bars("provider", gate.get("providers"), self.providers.names)
        if cases.knows_tags:
            self.check_bars("tag", gate.get("tags"), sorted(cases.tags))

    def check_metrics(self, bars: Any) -> None:
        for name in bars if isinstance(bars, Map) else ():
            if read_metric(name) is None:
                text = (
                    f"{name!r} is no metric: {', '.join(WHOLE)}, or {', '.join(BY_LABEL)} of a label: `recall.refund`"
                )
                self.decoder.problem(line_of(bars, name), "gate.metrics", text)

    def check_tags(self, selected: Sequence[str] | None, cases: CaseReader) -> None:
        """A tag that no case has would select nothing."""
        line = line_of(self.root, "cases")
        if selected is not None and not selected:
            self.decoder.problem(line, "--tags", f"none is named; known: {', '.join(sorted(cases.tags)) or 'none'}")
        for tag in selected or ():
            if cases.knows_tags and tag not in cases.tags:
                self.decoder.problem(line, "--tags", unknown("tag", tag, sorted(cases.tags)))

    def check_prices(self, budget: Any, cases: Sequence[Case], providers: Sequence[ProviderOptions]) -> None:
        """A budget in USD is worth nothing if what answers cost is not known."""
        limits = self.quietly(budget, Budget)
        counts = limits is not None and limits.counts_cost
        if not counts and not any(case.allowance and case.allowance.max_cost_usd for case in cases):
            return
        for provider in providers:
            if not provider.own_code and not has_price(provider):
                text = f"counts USD, and the price of {provider.name} is not known: give the provider a `price`"
                self.decoder.problem(line_of(self.root, "budget"), "budget", text)

    def check_runs(self, entry: SuiteEntry | None) -> None:
        """A suite never runs a cell less often than it says."""
        if entry is not None and entry.max_runs is not None and entry.max_runs < entry.runs:
            text = f"{entry.max_runs} is less than `runs: {entry.runs}`: it says how far to go on after these"
            self.decoder.problem(line_of(self.root, "max_runs"), "max_runs", text)

    def quietly(self, value: Any, kind: type[T]) -> T | None:
        """Decode a value whose problems have been told; None if it has any."""
        decoded: T | None = Decoder(self.file, []).value(value, kind, "", None)
        return decoded

    def check_bars(self, noun: str, bars: Any, known: Sequence[str]) -> None:
        for name in bars if isinstance(bars, Map) else ():
            if name not in known:
                self.decoder.problem(line_of(bars, name), f"gate.{noun}s", unknown(noun, name, known))


def _without_bars_of_others(gate: Gate | None, providers: Sequence[ProviderOptions]) -> Gate | None:
    """The gate without bars for providers that were not selected."""
    if gate is None:
        return None
    names = {provider.name for provider in providers}
    return msgspec.structs.replace(gate, providers={k: v for k, v in gate.providers.items() if k in names})


def _with_tags(cases: Sequence[Case], tags: Iterable[str]) -> tuple[Case, ...]:
    """The cases with at least one of the tags."""
    chosen = frozenset(tags)
    return tuple(case for case in cases if not chosen.isdisjoint(case.tags))


def _without_bars_of_absent_tags(gate: Gate | None, cases: Sequence[Case]) -> Gate | None:
    """The gate without bars for tags of cases that were not selected."""
    if gate is None:
        return None
    tags = {tag for case in cases for tag in case.tags}
    return msgspec.structs.replace(gate, tags={tag: rule for tag, rule in gate.tags.items() if tag in tags})


def _visible(providers: Sequence[ProviderOptions]) -> Iterator[str]:
    """Values that reports show anyway: taking them out would make the reports unreadable."""
    for provider in providers:
        for value in (provider.name, getattr(provider, "model", None), getattr(provider, "base_url", None)):
            if value:
                yield value


def _in_file_order(problems: Sequence[Problem]) -> list[Problem]:
    files = list(dict.fromkeys(problem.file for problem in problems))
    return sorted(dict.fromkeys(problems), key=lambda problem: (files.index(problem.file), problem.line or 0))


def _first(override: T | None, value: T) -> T:
    return value if override is None else override
