"""Loads a suite from a config file or a `Suite`: either a `CheckedSuite`, or every problem."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from ci_evals.errors import ConfigError, Problem, UsageError
from ci_evals.javascript import node_processes
from ci_evals.model.case import Case, Prompt
from ci_evals.model.fields import NonEmpty
from ci_evals.providers.base import ProviderOptions
from ci_evals.providers.mock import Mock
from ci_evals.redaction import secret_values, sensitive_variables
from ci_evals.registry import IMPORTING, is_installed
from ci_evals.suite.cases import CaseReader
from ci_evals.suite.checks import CHECKS, check_size
from ci_evals.suite.configs import default_name
from ci_evals.suite.draft import Draft
from ci_evals.suite.environment import Interpolation, read_dotenv
from ci_evals.suite.keys import keys_of
from ci_evals.suite.nodes import Node, Reading, collect
from ci_evals.suite.overrides import Overrides, apply_overrides
from ci_evals.suite.problems import check, once_per_cause, resolve_texts, try_check, unknown
from ci_evals.suite.providers import ProviderList, ProviderReader
from ci_evals.suite.types import Against, CheckedSuite, Suite
from ci_evals.suite.yaml import Lines, parse, read_text
from ci_evals.user_code.folders import CodeFolders, code_in, find_code_folders

UNLIMITED = 2**31 - 1  # calls at once

_ENTRIES = ("providers", "judges", "prompts", "cases", "expect")  # read one by one


def load_suite(
    path: Path,
    environ: Mapping[str, str],
    overrides: Overrides | None = None,
    *,
    offline: bool = False,
    judging: bool = False,
) -> CheckedSuite:
    """Read and check a config.

    Args:
        path: the config file.
        environ: the environment; a `.env` file next to the config adds to it.
        overrides: values that win over the file's.
        offline: allow missing keys and variables, because nothing will be called.
        judging: require those of judges, because they will be called even when `offline`.

    Raises:
        ConfigError: every problem of the file, its datasets and its environment.
    """
    node, problems, origin = _read_config(path)
    folder, name = path.resolve().parent, default_name(path)
    loader = _Loader(folder, environ, name, offline=offline, judging=judging)
    suite = loader.load(node, overrides or Overrides(), problems)
    return replace(suite, imported=origin)


def check_suite(suite: Suite, environ: Mapping[str, str], *, offline: bool = False) -> CheckedSuite:
    """Check a suite that is written in Python, with the rules for files.

    Args:
        suite: the suite; a checked one is returned unchanged.
        environ: the environment; a `.env` file in the suite's folder adds to it.
        offline: allow missing keys, because nothing will be called.

    Raises:
        ConfigError: every problem of the suite.
    """
    if isinstance(suite, CheckedSuite):
        return suite
    values: dict[str, Any] = {}
    for field in fields(suite):
        value = getattr(suite, field.name)
        if field.name in keys_of(Suite) and value is not field.default:
            values[field.name] = value
    values["cases"] = _list_cases(suite)
    for key in ("providers", "judges"):
        if key in values:
            values[key] = _as_list(values[key])
    node = Node(values, Lines(suite.line), suite.file, in_code=True)
    loader = _Loader(Path(suite.folder), environ, offline=offline, verbatim=True)
    return loader.load(node, Overrides())


def load_mock(path: Path, environ: Mapping[str, str]) -> Mock:
    """Return the first `mock` provider of a config; the rest of the file may be incomplete.

    Raises:
        ConfigError: there is no such provider, or it is invalid.
    """
    node, problems, _ = _read_config(path)
    loader = _Loader(path.resolve().parent, environ)
    providers = node["providers"]
    if isinstance(providers.value, list):
        for node in providers.items():
            if not isinstance(node.value, dict) or node.value.get("type") != "mock":
                continue
            entry = loader.provider_reader.read_entry(node)
            problems += entry.problems
            if isinstance(entry.options, Mock) and not problems:
                return entry.options
    raise ConfigError(problems or [providers.problem("none of them is a `mock`")])


def load_against(path: Path, environ: Mapping[str, str]) -> Against | None:
    """Return how a config has main run alongside a change; None if it says `off`.

    The rest of the file may be invalid.

    Raises:
        ConfigError: the file cannot be read, or the key is invalid.
    """
    node, _, _ = _read_config(path)
    written = node["against"]
    if written.value == "off":
        return None
    if not isinstance(written.value, dict):
        return Against()
    filled, problems = collect(_Loader(path.resolve().parent, environ).interpolation.fill(written))
    against, more = collect(check(Against, filled))
    if against is None:
        raise ConfigError([*problems, *more])
    return against


def load_judge(
    path: Path, environ: Mapping[str, str], name: str
) -> tuple[CheckedSuite, ProviderOptions]:
    """Return a suite, and its judge or else its provider of a name.

    Only that model needs its key.

    Raises:
        ConfigError: every problem of the file.
        UsageError: the model does not exist, or it answers with embeddings.
    """
    # Read without keys first: only then is it known whose key is needed.
    known = load_suite(path, environ, offline=True)
    judges = [str(options.name) for options in known.judges]
    names = [*judges, *(str(options.name) for options in known.providers)]
    if name not in names:
        raise UsageError(unknown("judge", name, names))
    if name in judges:
        suite = load_suite(path, environ, offline=True, judging=True)
        model = suite.judges[judges.index(name)]
    else:
        suite = load_suite(path, environ, Overrides(providers=(name,)))
        model = suite.providers[0]
    if model.embeds:
        raise UsageError(f"{name} answers with embeddings: name a model that answers with text")
    return suite, model


def _as_list(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return list(value)
    return [value]


def _list_cases(suite: Suite) -> Any:
    """Return the cases of a suite in Python in the form that a file has."""
    cases = suite.cases
    if isinstance(cases, Case):
        return [cases]
    if isinstance(cases, Path):
        return _source_at(cases, suite)
    if isinstance(cases, Mapping):
        return cases
    if isinstance(cases, str) or not isinstance(cases, Iterable):
        text = f"expected a list of cases, or Path(…) of a dataset, got {cases!r:.100}"
        raise ConfigError([Problem(suite.file, suite.line, "cases", text)])
    listed: list[Any] = []
    for case in cases:
        if isinstance(case, str):
            listed.append(Case(input=case, file=suite.file, line=suite.line))
        elif isinstance(case, Path):
            listed.append(_source_at(case, suite))
        else:
            listed.append(case)
    return listed


def _source_at(path: Path, suite: Suite) -> dict[str, str]:
    """Return the source of cases that a path in Python means: a dataset, or a folder of tasks."""
    if (Path(suite.folder) / path).is_dir():
        return {"tasks": (path / "**" / "task.toml").as_posix()}
    return {"file": path.as_posix()}


def _read_config(path: Path) -> tuple[Node, list[Problem], str]:
    """Return a config, its problems so far, and the tool whose format it has; empty for ours.

    Raises:
        ConfigError: the file cannot be read, or is not a mapping.
    """
    file = path.as_posix()
    value, lines, problems = parse(read_text(path, file), file)
    if not isinstance(value, dict):
        text = "expected a mapping with the keys `providers` and `cases`"
        raise ConfigError([*problems, Problem(file, 1, "", text)])
    node = Node(value, lines, file)
    if _is_ours(value) or not is_installed(IMPORTING["translate"]):
        return node, problems, ""
    from ci_evals.suite.foreign import translate

    translated, origin, lost = translate(path, node)
    return translated, [*problems, *lost], origin


def _is_ours(config: dict[str, Any]) -> bool:
    """Return True for our format: providers have a `type`, or there are `cases` as well."""
    providers = config.get("providers")
    if not isinstance(providers, list):
        return False
    entries = [entry for entry in providers if isinstance(entry, dict)]
    if any("type" in entry for entry in entries):
        return True
    return "cases" in config and not any("kind" in entry for entry in entries)


class _Loader:
    """Loads one suite.

    Args:
        folder: where relative paths start.
        environ: the environment; `.env` in the folder adds to it.
        name: the name of a suite that gives none; default: its folder's.
        offline: allow missing keys and variables, because nothing will be called.
        judging: require those of judges, because they will be called even when `offline`.
        verbatim: read `${NAME}` as plain text.
    """

    def __init__(
        self,
        folder: Path,
        environ: Mapping[str, str],
        name: str = "",
        *,
        offline: bool = False,
        judging: bool = False,
        verbatim: bool = False,
    ) -> None:
        self.folder = folder
        self.default_name = name or folder.name
        self.dotenv = read_dotenv(folder)
        environ = {**self.dotenv, **environ}
        self.sensitive = sensitive_variables(environ)
        self.interpolation = Interpolation(environ, offline=offline, verbatim=verbatim)
        self.provider_reader = ProviderReader(folder, self.interpolation)
        for_judges = replace(self.interpolation, offline=offline and not judging)
        self.judge_reader = ProviderReader(folder, for_judges)

    def load(
        self, node: Node, overrides: Overrides, problems: Sequence[Problem] = ()
    ) -> CheckedSuite:
        """Read a suite part by part, check the parts against each other, and complete it.

        Args:
            node: the suite as it is written.
            overrides: values that win over it.
            problems: problems of an earlier step.

        Raises:
            ConfigError: every problem of the suite.
        """
        folders = self._find_code_folders(node["settings"]["pythonpath"])
        with code_in(folders):
            draft, draft_problems = collect(self._read_draft(node, overrides))
            all_problems = [*problems, *draft_problems]
            for check_draft in CHECKS:
                all_problems += check_draft(draft)
        if all_problems or draft.settings is None:
            raise ConfigError(once_per_cause(_in_file_order(all_problems)))
        suite = self._complete(draft, draft.settings, node.value, folders)
        # The draft has selected the providers already, under the names of their grids.
        suite = apply_overrides(suite, replace(overrides, providers=None))
        too_many_runs = list(check_size(suite, node, overrides))
        if too_many_runs:
            raise ConfigError(too_many_runs)
        return suite

    def _find_code_folders(self, written: Node) -> CodeFolders:
        """Return the folders of the suite's code.

        Problems are ignored here: `_read_settings` reports an invalid `pythonpath`.
        """
        filled, _ = collect(self.interpolation.fill(written))
        names = filled.value or ()
        if isinstance(names, str):
            names = (names,)
        if not isinstance(names, list | tuple):
            names = ()
        return find_code_folders(self.folder, [each for each in names if isinstance(each, str)])

    def _read_draft(self, written: Node, overrides: Overrides) -> Reading[Draft]:
        """Read every part of a suite by itself, so that one run finds the problems of all."""
        node, settings = yield from self._read_settings(written)
        providers, judges = ProviderList(node["providers"]), ProviderList(node["judges"])
        if "providers" in node:
            providers = yield from self.provider_reader.read_list(
                node["providers"], overrides.providers
            )
        if node["judges"].value:
            judges = yield from self.judge_reader.read_list(node["judges"])
        yield from providers.problems()
        yield from judges.problems()
        prompts: tuple[Prompt, ...] = ()
        if "prompts" in node:
            from ci_evals.suite.prompts import read_prompts

            prompts = yield from read_prompts(node["prompts"], self.folder, self.interpolation)
        with node_processes(self.folder):  # they parse the JavaScript of graders
            transform = yield from self._read_transform(node["transform"])
            threshold = None
            if settings is not None:
                threshold = settings.threshold
            reader = CaseReader(
                node,
                self.folder,
                providers,
                self.provider_reader,
                threshold=threshold,
                transform=transform,
            )
            cases = yield from reader.read()
        if any(prompt.function for prompt in prompts):
            from ci_evals.suite.prompt_functions import make_prompts

            prompts = yield from make_prompts(prompts, cases.cases, node["prompts"], self.folder)
        return Draft(
            node=node,
            settings=settings,
            folder=self.folder,
            overrides=overrides,
            offline=self.interpolation.offline,
            providers=providers,
            judges=judges,
            prompts=prompts,
            cases=cases,
        )

    def _read_settings(self, written: Node) -> Reading[tuple[Node, Suite | None]]:
        """Return the suite with variables filled into its settings, and the settings.

        The entries of its lists stay as they are written: each is read by itself.
        """
        values: dict[str, Any] = dict.fromkeys(written.value)
        for key in values:
            if key not in _ENTRIES:
                filled = yield from self.interpolation.fill(written[key])
                values[key] = filled.value
        place = {"file": written.file, "line": written.line, "folder": self.folder}
        settings = yield from check(Suite, written.with_value(values), extra=place)
        for key in _ENTRIES:
            if key in values:
                values[key] = written.value[key]
        return written.with_value(values), resolve_texts(settings)

    def _read_transform(self, node: Node) -> Reading[str | None]:
        """Return the suite's own `transform`; None if it has none, or an invalid one."""
        if node.value is None:
            return None
        source = try_check(NonEmpty, node)
        if source is None:
            return None
        from ci_evals.graders.transform import transform_problem

        problem = transform_problem(source, self.folder)
        if problem:
            yield node.problem(problem)
            return None
        return source

    def _complete(
        self, draft: Draft, settings: Suite, written: Any, folders: CodeFolders
    ) -> CheckedSuite:
        """Return the suite of a draft without problems.

        Args:
            draft: the draft.
            settings: its settings.
            written: the suite as it is written, without values of the environment.
            folders: the folders of its code.
        """
        values = {field.name: getattr(settings, field.name) for field in fields(settings)}
        if settings.max_concurrency == "unlimited":
            values["max_concurrency"] = UNLIMITED
        models = (*draft.providers.selected, *draft.grader_models)
        visible = (settings.name or "", *_visible_values(models))
        variables = self.sensitive | self.interpolation.used
        values |= {
            "name": settings.name or self.default_name,
            "providers": draft.providers.selected,
            "judges": draft.grader_models,
            "stages": draft.stages,
            "prompts": draft.prompts,
            "cases": draft.cases.cases,
            "expect": (),  # every case has them by now
            "secrets": secret_values(variables, self.dotenv, visible),
            "places": draft.places,
            "code_folders": folders,
        }
        if settings.skip_unchanged:
            from ci_evals.dependencies import find_dependencies

            paths = list(draft.cases.files)
            if settings.skip_unchanged is not True:
                paths += settings.skip_unchanged
            values["depends_on"] = find_dependencies(
                written, draft.cases.cases, paths, self.folder, folders
            )
        return CheckedSuite(**values)


def _visible_values(models: Sequence[ProviderOptions]) -> Iterator[str]:
    """Yield names that must not be redacted even if they are values of variables.

    Reports would be unreadable without them.
    """
    for model in models:
        for key in ("name", "model", "base_url"):
            value = getattr(model, key, None)
            if value:
                yield value


def _in_file_order(problems: Sequence[Problem]) -> list[Problem]:
    """Return each problem once, in the order of files as they first occur, then of lines."""
    files = list(dict.fromkeys(problem.file for problem in problems))
    distinct = list(dict.fromkeys(problems))
    distinct.sort(key=lambda problem: (files.index(problem.file), problem.line or 0))
    return distinct
