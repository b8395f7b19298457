"""Loads a suite: from a config file or a `Suite` to a `CheckedSuite`, or every problem at once."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from ci_evals.errors import ConfigError, Problem, UsageError
from ci_evals.graders.transform import transform_problem
from ci_evals.javascript import node_process
from ci_evals.model.case import Case
from ci_evals.model.fields import NonEmpty
from ci_evals.providers.base import ProviderOptions
from ci_evals.providers.mock import Mock
from ci_evals.redaction import secret_values
from ci_evals.suite import checks
from ci_evals.suite.cases import CaseReader
from ci_evals.suite.dependencies import dependencies
from ci_evals.suite.environment import Interpolation, read_dotenv
from ci_evals.suite.executor import ExecutorOptions
from ci_evals.suite.foreign import is_ours, translate
from ci_evals.suite.keys import keys_of
from ci_evals.suite.overrides import Overrides, apply_overrides
from ci_evals.suite.problems import Written, check, resolve_texts, try_check, unknown
from ci_evals.suite.prompts import prompt_problems, read_prompts, request_problems
from ci_evals.suite.providers import ProviderReader, stage_options
from ci_evals.suite.sweeps import Sweeps
from ci_evals.suite.types import CheckedSuite, Suite, Sweep
from ci_evals.suite.yaml import Lines, parse, read_text

UNLIMITED = 2**31 - 1  # calls at once

_READ_APART = ("providers", "judges", "prompts", "cases", "expect")  # entry by entry


def load_suite(
    path: Path,
    environ: Mapping[str, str],
    overrides: Overrides | None = None,
    *,
    offline: bool = False,
    judging: bool = False,
) -> CheckedSuite:
    """Read, decode and check a config.

    Args:
        path: the config file.
        environ: the environment; a `.env` file beside the config adds to it.
        overrides: values that win over the file's.
        offline: nothing will be called, so keys and variables may be missing.
        judging: judges will be called all the same, so theirs may not.

    Raises:
        ConfigError: with every problem of the file, its datasets and its environment.
    """
    written, problems, origin = _read(path)
    loader = _Loader(
        written, problems, path.resolve().parent, environ, offline=offline, judging=judging
    )
    return replace(loader.load(overrides or Overrides()), imported=origin)


def check_suite(suite: Suite, environ: Mapping[str, str], *, offline: bool = False) -> CheckedSuite:
    """Check a suite that was written in Python, by the rules of a file.

    Args:
        suite: the suite; one that was checked already is returned as it is.
        environ: where keys are looked up; a `.env` file in the suite's folder adds to it.
        offline: nothing will be called, so keys may be missing.

    Raises:
        ConfigError: with every problem.
    """
    if isinstance(suite, CheckedSuite):
        return suite
    values = {
        each.name: value
        for each in fields(suite)
        if each.name in keys_of(Suite) and (value := getattr(suite, each.name)) is not each.default
    }
    values["cases"] = _case_list(suite)
    values |= {key: _as_list(values[key]) for key in ("providers", "judges") if key in values}
    written = Written(values, Lines(suite.line), suite.file, in_code=True)
    return _Loader(written, [], Path(suite.folder), environ, offline=offline, verbatim=True).load(
        Overrides()
    )


def load_mock(path: Path, environ: Mapping[str, str]) -> Mock:
    """Return the first `mock` provider of a config; the rest of the file need not be complete.

    Raises:
        ConfigError: there is none, or it is wrong.
    """
    written, problems, _ = _read(path)
    return _Loader(written, problems, path.resolve().parent, environ).mock()


def load_judge(
    path: Path, environ: Mapping[str, str], name: str
) -> tuple[CheckedSuite, ProviderOptions]:
    """Return a suite, and the judge or else the provider of that name, with its key; other
    providers need none.

    Raises:
        ConfigError: with every problem of the file.
        UsageError: there is no such model, or it answers with embeddings.
    """
    known = load_suite(path, environ, offline=True)
    judges = [str(options.name) for options in known.judges]
    names = [*judges, *(str(options.name) for options in known.providers)]
    if name not in names:
        raise UsageError(unknown("judge", name, names))
    if name in judges:
        suite = load_suite(path, environ, offline=True, judging=True)
        found = next(options for options in suite.judges if options.name == name)
    else:
        suite = load_suite(path, environ, Overrides(providers=(name,)))
        found = suite.providers[0]
    if found.embeds:
        raise UsageError(f"{name} answers with embeddings: name a model that answers with text")
    return suite, found


def _as_list(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else [given]


def _case_list(suite: Suite) -> Any:
    cases = [suite.cases] if isinstance(suite.cases, Case) else suite.cases
    if isinstance(cases, Path):
        return {"file": cases.as_posix()}
    if isinstance(cases, str) or not isinstance(cases, Iterable):
        text = f"expected a list of cases, or Path(…) of a dataset, got {cases!r:.100}"
        raise ConfigError([Problem(suite.file, suite.line, "cases", text)])
    if isinstance(cases, Mapping):
        return cases
    return [
        Case(input=each, file=suite.file, line=suite.line) if isinstance(each, str) else each
        for each in cases
    ]


def _read(path: Path) -> tuple[Written, list[Problem], str]:
    """Return a config, what is wrong with it so far, and whose format it was translated from; empty
    if it is ours.

    Of another tool's config, it is a problem if something is left out for want of which an answer
    could pass.
    """
    file = path.as_posix()
    problems: list[Problem] = []
    value, lines = parse(read_text(path, file), file, problems)
    if not isinstance(value, dict):
        text = "expected a mapping with the keys `providers` and `cases`"
        raise ConfigError([*problems, Problem(file, 1, "", text)])
    written = Written(value, lines, file)
    if is_ours(value):
        return written, problems, ""
    suite, origin, lost = translate(path, written)
    return suite, [*problems, *lost], origin


class _Loader:
    """One pass over one suite.

    Args:
        written: all of it.
        problems: those that reading it brought up; more come.
        folder: where relative paths start.
        environ: the environment; `.env` in the folder adds to it.
        offline: nothing will be called, so keys and variables may be missing.
        judging: judges will be called all the same, so theirs may not.
        verbatim: `${NAME}` is text.
    """

    def __init__(  # noqa: PLR0913  each has its name
        self,
        written: Written,
        problems: list[Problem],
        folder: Path,
        environ: Mapping[str, str],
        *,
        offline: bool = False,
        judging: bool = False,
        verbatim: bool = False,
    ) -> None:
        self.written, self.problems, self.folder = written, problems, folder
        self.dotenv = read_dotenv(folder)
        environ = {**self.dotenv, **environ}
        self.interpolation = Interpolation(environ, problems, offline=offline, verbatim=verbatim)
        self.providers = ProviderReader(folder, problems, self.interpolation)
        for_judges = replace(self.interpolation, offline=offline and not judging)
        self.judges = ProviderReader(folder, problems, for_judges)

    def load(self, overrides: Overrides) -> CheckedSuite:
        written, problems = self.written, self.problems
        filled = written.having(
            {
                key: None if key in _READ_APART else self.interpolation.fill(written[key]).value
                for key in written.value
            }
        )
        found: dict[str, Any] = {"file": written.file, "line": written.line, "folder": self.folder}
        settings = resolve_texts(check(Suite, filled, problems, found=found))
        sweeps = Sweeps(
            try_check(tuple[Sweep, ...], filled["variants"]) or (), filled["variants"], problems
        )
        providers: tuple[ProviderOptions, ...] = ()
        if "providers" in written:
            providers = self.providers.read(written["providers"], overrides.providers, sweeps)
        judges = self.judges.read(written["judges"]) if written["judges"].value else ()
        prompts = read_prompts(written["prompts"], problems, self.folder, self.interpolation)
        prompted, shared = bool(written["prompts"].value), filled["vars"]
        threshold = settings.threshold if settings else None
        with node_process(self.folder):  # which parses JavaScript of graders
            reader = CaseReader(
                self.folder, written["expect"], shared, problems, self.providers, prompted=prompted
            )
            cases = (
                reader.read(written["cases"], threshold, self.transform(filled))
                if "cases" in written
                else ()
            )
        problems += prompt_problems(cases, prompts, () if prompted else providers, self.folder)
        problems += checks.task_problems(cases, providers)
        problems += checks.override_problems(cases, providers, self.folder)
        for name in {name for each in providers for name in (*each.before, *each.after)}:
            if entry := self.providers.entries.get(name):
                self.providers.read_entry(entry)  # for what is wrong with one that was not selected
        stages = stage_options(providers, self.providers.by_name)
        problems += checks.stage_problems(
            stages, self.providers.names, self.providers.places, self.folder
        )
        judges = self.add_grader_models(cases, providers, judges)
        problems += checks.gate_problems(filled["gate"], self.providers, reader, cases)
        if not self.interpolation.offline:  # else the answers are those of others
            problems += checks.needs_problems(
                filled["budget"], cases, providers, self.providers.places
            )
            problems += request_problems(
                cases, prompts, providers, self.providers.places, self.folder
            )
        called = (*providers, *stages.values(), *judges)
        problems += checks.service_problems(called, {**self.judges.places, **self.providers.places})
        problems += checks.price_problems(
            filled["budget"], cases, providers, (*judges, *stages.values())
        )
        problems += checks.runs_problems(settings, written["max_runs"])
        if settings and isinstance(
            executor := settings.executor, ExecutorOptions
        ):  # once checked, it is one
            is_called = not self.interpolation.offline and overrides.executor is None
            problems += checks.executor_problems(
                executor, written["executor"], cases, self.folder, is_called=is_called
            )
        problems += checks.paths_problems(
            settings, written, (*providers, *stages.values()), self.folder
        )
        problems += checks.tag_problems(overrides.tags, reader, written["cases"])
        if problems or settings is None:
            raise ConfigError(_in_file_order(problems))
        visible = (settings.name or "", *_visible((*providers, *judges)))
        found = {
            "name": settings.name or self.folder.name,
            "max_concurrency": UNLIMITED
            if settings.max_concurrency == "unlimited"
            else settings.max_concurrency,
            "providers": providers,
            "judges": judges,
            "stages": stages,
            "prompts": prompts,
            "cases": cases,
            "expect": (),
            "secrets": secret_values(self.interpolation.named, self.dotenv, visible),
            "places": {**self.judges.places, **self.providers.places},
        }
        if settings.skip_unchanged:
            found["depends_on"] = dependencies(
                written.value, cases, (*reader.files.names, *settings.paths), self.folder
            )
        suite = CheckedSuite(
            **{each.name: getattr(settings, each.name) for each in fields(settings)} | found
        )
        suite = apply_overrides(
            suite, replace(overrides, providers=None)
        )  # these are selected, names of sweeps too
        if too_many := checks.size_problem(suite, written["runs"]):
            raise ConfigError([too_many])
        return suite

    def transform(self, filled: Written) -> str | None:
        """Return the suite's own `transform`, if it is right."""
        source = try_check(NonEmpty, filled["transform"])
        if source and (problem := transform_problem(source, self.folder)):
            self.problems.append(filled["transform"].problem(problem))
            return None
        return source

    def mock(self) -> Mock:
        entries = self.written["providers"]
        for entry in entries.items() if isinstance(entries.value, list) else ():
            if isinstance(entry.value, dict) and entry.value.get("type") == "mock":
                provider = self.providers.read_entry(entry)
                if isinstance(provider, Mock) and not self.problems:
                    return provider
        raise ConfigError(self.problems or [entries.problem("none of them is a `mock`")])

    def add_grader_models(
        self,
        cases: Sequence[Case],
        providers: Sequence[ProviderOptions],
        judges: tuple[ProviderOptions, ...],
    ) -> tuple[ProviderOptions, ...]:
        """Return the judges, and the providers that graders ask although they were not selected to
        run.
        """
        for name in sorted({*self.judges.names} & {*self.providers.names}):
            text = f"{name!r} is the name of a provider too: give the judge another"
            self.problems.append(self.written["judges"].problem(text))
        if not self.providers.knows_names or (
            self.written["judges"].value and not self.judges.knows_names
        ):
            return judges
        asked = checks.model_graders(cases)
        selected = {provider.name for provider in (*providers, *judges)}
        named = {grader.provider for grader, _ in asked}
        idle = [
            self.providers.read_entry(entry)
            for name, entry in self.providers.entries.items()
            if name in named and name not in selected
        ]
        models = (*judges, *(options for options in idle if options is not None))
        broken = {*self.judges.names} - self.judges.by_name.keys()
        unreadable = broken | ({*self.providers.names} - self.providers.by_name.keys())
        for grader, place in asked:
            if grader.provider in unreadable or (grader.provider is None and broken):
                continue  # what is wrong with the model is told already
            if problem := checks.judge_problem(grader, models, (*models, *providers)):
                self.problems.append(Problem(*place, problem))
        return models


def _visible(providers: Sequence[ProviderOptions]) -> Iterator[str]:
    """Yield values that reports show anyway: taking them out would make the reports unreadable."""
    for provider in providers:
        for value in (
            provider.name,
            getattr(provider, "model", None),
            getattr(provider, "base_url", None),
        ):
            if value:
                yield value


def _in_file_order(problems: Sequence[Problem]) -> list[Problem]:
    files = list(dict.fromkeys(problem.file for problem in problems))
    return sorted(
        dict.fromkeys(problems), key=lambda problem: (files.index(problem.file), problem.line or 0)
    )
