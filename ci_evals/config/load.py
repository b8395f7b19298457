"""From a config file to a `Suite`: parse, fill in the environment, decode, check. Reports every problem at once."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from ci_evals.config.case_overrides import override_misfits
from ci_evals.config.cases import CaseReader
from ci_evals.config.checks import check_gate, check_prices, check_runs, check_tags, task_misfits
from ci_evals.config.decode import Decoder
from ci_evals.config.environment import Interpolation, Verbatim, read_dotenv
from ci_evals.config.file_types import SuiteEntry, SweepEntry
from ci_evals.config.judges import askers, unanswerable
from ci_evals.config.overrides import Overrides, overridden
from ci_evals.config.prompts import PromptReader, misfits
from ci_evals.config.providers import ProviderReader
from ci_evals.config.source import Map, line_of, parse, read_text
from ci_evals.config.stages import stage_options, stage_problems
from ci_evals.config.sweeps import Sweeps
from ci_evals.errors import ConfigError, Problem, UsageError
from ci_evals.model import Case, Prompt
from ci_evals.providers.base import ProviderOptions
from ci_evals.redaction import secret_values
from ci_evals.suite import Suite

if TYPE_CHECKING:
    from ci_evals.providers.mock import Mock

DEFAULT_NAMES = ("evals.yaml", "evals.yml", "evals.json")


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
    from ci_evals.config.code import located

    file, line = place
    source = _Source(file, folder, located(values, line), [])
    return _Loader(source, environ, offline=offline, verbatim=True).load(Overrides())


def load_mock(path: Path, environ: Mapping[str, str]) -> "Mock":
    """The first `mock` provider of a config; the rest of the file need not be complete.

    Raises:
        ConfigError: there is none, or it is wrong.
    """
    return _Loader(_read(path), environ).mock()


class _Source(Struct, frozen=True):
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
        self.file, self.folder = source.file, source.folder
        self.root, self.problems = source.root, source.problems
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
        self.problems.extend(stage_problems(stages, self.providers.names, self.providers.places, self.folder))
        judges = self.judging(cases, providers, judges)
        check_gate(settings.get("gate"), self.providers, reader, cases, self.decoder)
        others = (*judges, *stages.values())
        check_prices(settings.get("budget"), line_of(root, "budget"), cases, providers, others, self.decoder)
        check_runs(entry, line_of(root, "max_runs"), self.decoder)
        check_tags(overrides.tags, reader, line_of(root, "cases"), self.decoder)
        if self.problems or entry is None:
            raise ConfigError(_in_file_order(self.problems))
        suite = self.suite(entry, providers, judges, prompts, cases, stages)
        selected = msgspec.structs.replace(overrides, providers=None)  # they have been, by names that sweeps go by, too
        return overridden(suite, selected)

    def suite(
        self,
        entry: SuiteEntry,
        providers: tuple[ProviderOptions, ...],
        judges: tuple[ProviderOptions, ...],
        prompts: tuple[Prompt, ...],
        cases: tuple[Case, ...],
        stages: Mapping[str, ProviderOptions],
    ) -> Suite:
        visible = (entry.name or "", *_visible((*providers, *judges)))
        return Suite(
            name=entry.name or self.folder.name,
            description=entry.description,
            label=entry.label,
            file=self.file,
            folder=self.folder,
            runs=entry.runs,
            max_runs=entry.max_runs,
            stop_early=entry.stop_early,
            confirm_runs=entry.confirm_runs,
            max_concurrency=entry.max_concurrency,
            timeout_s=entry.timeout_s,
            retries=entry.retries,
            seed=entry.seed,
            providers=providers,
            judges=judges,
            prompts=prompts,
            cases=cases,
            gate=entry.gate,
            budget=entry.budget,
            stages=stages,
            places={**self.judges.places, **self.providers.places},
            out=Path(entry.report.out),
            formats=entry.report.formats,
            secrets=secret_values(self.interpolation.named, self.dotenv, visible),
        )

    def mock(self) -> "Mock":
        from ci_evals.providers.mock import Mock

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
        for grader, place in asked:
            if problem := unanswerable(grader, models, (*models, *providers)):
                self.problems.append(Problem(*place, problem))
        return models

    def sweeps(self, entries: Any) -> Sweeps:
        return Sweeps((entries and self.decoder.quietly(entries, list[SweepEntry])) or [], entries, self.decoder)


def _visible(providers: Sequence[ProviderOptions]) -> Iterator[str]:
    """Values that reports show anyway: taking them out would make the reports unreadable."""
    for provider in providers:
        for value in (provider.name, getattr(provider, "model", None), getattr(provider, "base_url", None)):
            if value:
                yield value


def _in_file_order(problems: Sequence[Problem]) -> list[Problem]:
    files = list(dict.fromkeys(problem.file for problem in problems))
    return sorted(dict.fromkeys(problems), key=lambda problem: (files.index(problem.file), problem.line or 0))
