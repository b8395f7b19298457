"""A suite: the top-level keys of `evals.yaml`, which are the arguments in Python, and its checked
form.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

from annotated_types import MinLen
from pydantic import AfterValidator, Field

from ci_evals.errors import Place
from ci_evals.executors import LOCAL, ExecutorOptions, OrShortExecutor
from ci_evals.format import closest, number_of
from ci_evals.graders.scoring import model_graders
from ci_evals.model.case import Case, Prompt, Setup, Variant, written_at
from ci_evals.model.fields import (
    Above0,
    Bool,
    Concurrency,
    Int,
    Many,
    Name,
    NonEmpty,
    OneOrMore,
    Options,
    OrMapping,
    Positive,
    Retries,
    Seconds,
    Share,
)
from ci_evals.model.fingerprint import digest
from ci_evals.model.response import Message
from ci_evals.model.ruler import MainRules
from ci_evals.model.rules import Budget, ConfirmRuns, Gate
from ci_evals.model.settings import CaseSettings, ProviderSettings, SuiteSettings
from ci_evals.providers.base import ProviderOptions
from ci_evals.registry import FORMATS
from ci_evals.stats.thresholds import CONFIRM_RUNS
from ci_evals.suite.fingerprint import (
    Fingerprints,
    OwnCode,
    check_fingerprints,
    identify,
    provider_identity,
    setup_identity,
)
from ci_evals.user_code.folders import NO_CODE_FOLDERS, CodeFolders

_NO_BUDGET = Budget()

RESULTS: Final = "ci-evals-results"
"""The usual name of the results folder, and of the artifact that a CI job uploads it as."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptTemplate(Options):
    """A template: `user` (and `system`) text, or a `file`, or the `messages` of a conversation.

    Or a `function` that makes one for each case.
    """

    name: Name | None = None
    user: str | None = None
    system: str | None = None
    file: str | None = None
    messages: Many[Message] = ()
    function: NonEmpty | None = None


def _check_format(name: str) -> str:
    """Return the name of a report format.

    Raises:
        ValueError: the format does not exist, or its package cannot be loaded.
    """
    if name in FORMATS.own:
        return name
    if name in FORMATS:
        problem = FORMATS.problem(name)
        if problem is not None:
            raise ValueError(problem)
        return name
    close = closest(name, FORMATS)
    hint = f"did you mean {close!r}?" if close else f"known: {', '.join(FORMATS)}"
    raise ValueError(f"unknown format {name!r}, {hint}")


def _check_files(names: Sequence[str]) -> Sequence[str]:
    """Return the names of report formats.

    Raises:
        ValueError: two of them write the same file.
    """
    by_file: dict[str | None, str] = {}
    for name in names:
        if name in FORMATS.own:
            file = FORMATS.own[name].file
            other = by_file.setdefault(file, name)
            if other != name:
                raise ValueError(f"{other!r} and {name!r} both write {file}: remove one of them")
    return names


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions(Options):
    """The report files to write, and their folder."""

    out: Annotated[str, Field(description="Folder for the results; --out wins.")] = RESULTS
    formats: Annotated[
        OneOrMore[Annotated[str, AfterValidator(_check_format)]], AfterValidator(_check_files)
    ] = (
        "json",
        "junit",
        "markdown",
        "html",
    )


Grid = Annotated[
    dict[Name, OneOrMore[Any]],
    MinLen(1),
    Field(
        description="Compare the provider under all combinations of these settings or params"
        " (`params.a.b` goes deeper), each with its values."
    ),
]


ColumnNames = Annotated[
    Mapping[str, Any],
    Field(
        description="A case with names of columns, or templates over `row`, in place of its values."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFiles(Options):
    """Cases from files: paths or globs of .yaml, .json, .jsonl, .csv, .tsv and .xlsx, relative to
    the suite.
    """

    file: str | Many[str]
    map: ColumnNames | None = None
    delimiter: Annotated[
        Literal[",", ";", "\t", "|"] | None,
        Field(description="Separator of cells in .csv files; default: guessed from the header."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFunction(Options):
    """Cases from a function of the team's own, which returns or yields `Case`s, mappings as in
    YAML, or rows for `map`.
    """

    python: Annotated[
        str, Field(description="`module:function`, looked for in the suite's folder first.")
    ]
    params: Annotated[Mapping[str, Any], Field(description="Its arguments, by name.")] = field(
        default_factory=dict
    )
    map: ColumnNames | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFolders(Options):
    """Cases from task folders: paths or globs of task.toml files, relative to the suite."""

    tasks: str | Many[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse(Options):
    """Reuse of answers of earlier runs if nothing that they depend on has changed."""

    example: ClassVar[str] = "{max_age_days: 7}"

    max_age_days: Annotated[Above0, Field(description="Older answers are not reused.")] = 7.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Against(Options):
    """How main's code runs alongside a change."""

    example: ClassVar[str] = "{prepare: npm ci}"

    env: Annotated[
        Mapping[str, str],
        Field(description="Variables of main's code, such as the address that main answers at."),
    ] = field(default_factory=dict)
    prepare: Annotated[
        NonEmpty | Many[NonEmpty] | None,
        Field(description="A command that runs in main's checkout first; no shell is involved."),
    ] = None
    link: Annotated[
        NonEmpty | Many[NonEmpty],
        Field(
            description="Ignored files and folders that both sides share, relative to the suite;"
            " `node_modules` and `.venv` are linked, too, unless there is a `prepare`."
        ),
    ] = ()


def against_identity(against: Against | Literal["auto", "off"]) -> str:
    """Return a digest of how main's code runs alongside; `auto` is the same as no settings."""
    if against == "auto":
        against = Against()
    return digest(against)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(Options):
    """What few suites set: nothing that is asked, expected or decided."""

    label: Annotated[
        Name | None, Field(description="Kept in reports, to group them by; --label wins.")
    ] = None
    executor: Annotated[
        OrShortExecutor,
        Field(
            description="Where your own code runs: `local`, `ray`, or a mapping; --executor wins."
        ),
    ] = LOCAL
    max_answer_bytes: Annotated[
        Positive,
        Field(
            description="Longer answers are kept in a file next to the journal;"
            " graders see all of each."
        ),
    ] = 1_000_000
    pythonpath: Annotated[
        NonEmpty | Many[NonEmpty],
        Field(
            description="Folders to import your code from; default: pytest's `pythonpath` in"
            " pyproject.toml, then the repository's root and `src`."
        ),
    ] = ()
    seed: Annotated[Int, Field(description="Seed for the order in which cells run.")] = 0


_SET_BY_LOADER = {"set_by_loader": True}  # not a key of the file


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Suite(Options):
    """A suite: questions, providers, the number of runs, and the rules for merging.

    The keys of `evals.yaml` are the arguments in Python. There, `cases` may be texts (their
    inputs), `Case`s, what `discover_tasks` found, mappings as in YAML, or the `Path` of a dataset
    or of a folder of tasks; `providers` and `judges` may be functions, objects with
    `answer(request)`, and those of `ci_evals.providers`, one or a list; `expect` takes graders of
    `ci_evals.graders`, functions, and objects with `grade(answer)`, one or a list. Relative paths
    start in `folder`, where `.env` is looked for, too; by default, this is the working directory.
    `max_concurrency` may also be `math.inf`.

    The constructor checks nothing: `check_suite` and `evaluate` report all problems at once, with
    the place where the suite is written, or `file` and `line` if these are given.
    """

    # Entries of providers, judges, prompts, cases and expect have several spellings, so they are
    # `Any` here: readers of their own check each entry by itself.

    name: Annotated[
        Name | None,
        Field(
            description="The suite's name in reports; default: its file's name, and for"
            " `evals.yaml` its folder's."
        ),
    ] = None
    description: str | None = None
    runs: Annotated[
        Positive,
        Field(description="Executions of every cell: answers vary, so ask more than once."),
    ] = 3  # a single run tells almost nothing from noise
    max_runs: Annotated[
        Positive | None,
        Field(
            description="Continue up to this many runs a cell while the verdict is open;"
            " cases with their own `runs` don't."
        ),
    ] = None
    stop_early: Annotated[
        Bool, Field(description="Stop as soon as no outcome of the rest can change the verdict.")
    ] = False
    confirm_runs: Annotated[
        ConfirmRuns,
        Field(
            description="Runs that name a case, if it still looks worse than the baseline when"
            " it runs again; 0: nothing runs again, and the planned runs decide."
        ),
    ] = CONFIRM_RUNS
    max_concurrency: Annotated[
        Concurrency,
        Field(description="Concurrent calls, over all providers; or `unlimited`."),
    ] = 16
    timeout_s: Annotated[Seconds, Field(description="Seconds that one call may take.")] = 60.0
    retries: Annotated[
        Retries, Field(description="Further attempts after a refused or lost call.")
    ] = 4
    providers: Annotated[Any, Field(description="What answers.")]
    judges: Annotated[
        Any, Field(description="Models that only graders use; not columns of the matrix.")
    ] = ()
    prompts: Annotated[
        Any, Field(description="Templates to compare; none: a case's input is sent as it is.")
    ] = ()
    cases: Annotated[Any, Field(description="Cases, inline or from files.")]
    vars: Annotated[
        Mapping[str, Any], Field(description="Vars of every case; those of the case itself win.")
    ] = field(default_factory=dict)
    setup: Annotated[
        Setup, Field(description="Functions or commands that set up each run and give it vars.")
    ] = ()
    expect: Annotated[
        Any, Field(description="Expected of every case; texts may be templates over its vars.")
    ] = ()
    transform: Annotated[
        NonEmpty | None,
        Field(
            description="What graders see of an answer: JSONPath, module:function or an expression."
        ),
    ] = None
    threshold: Share | None = None
    gate: OrMapping[Gate] | None = None
    against: Annotated[
        Literal["auto", "off"] | OrMapping[Against],
        Field(
            description="Run main's code beside a change, where something would be red: `auto`,"
            " `off`, or how; main's file decides."
        ),
    ] = "auto"
    budget: OrMapping[Budget] = _NO_BUDGET
    reuse: Annotated[
        OrMapping[Reuse] | None,
        Field(description="Take unchanged answers of earlier runs; --reuse wins."),
    ] = None
    skip_unchanged: Annotated[
        Bool | Many[NonEmpty],
        Field(
            description="Run nothing for a pull request that changes no file that the suite"
            " depends on: true, or the files and folders of your code, which may have `*`."
        ),
    ] = False
    report: OrMapping[ReportOptions] = field(default_factory=ReportOptions)
    settings: OrMapping[Settings] = field(default_factory=Settings)
    folder: Path | str = field(default=Path(), metadata=_SET_BY_LOADER)
    file: str = field(default="", metadata=_SET_BY_LOADER)
    line: int | None = field(default=None, metadata=_SET_BY_LOADER)

    def __post_init__(self) -> None:
        if not self.file:
            file, line = written_at(2)
            object.__setattr__(self, "file", file)
            object.__setattr__(self, "line", line)
        object.__setattr__(self, "folder", Path(self.folder).resolve())

    def __repr__(self) -> str:
        name = ""
        if self.name:
            name = f" {self.name!r}"
        place = self.file
        if self.line:
            place += f":{self.line}"
        return f"<Suite{name} of {place}>"


def variants_of(
    providers: Iterable[ProviderOptions], prompts: Sequence[Prompt]
) -> Sequence[Variant]:
    """Return every provider with the first prompt, then with the second, and so on.

    A provider with `prompts` of its own has only these.
    """
    names: list[str | None] = [prompt.name for prompt in prompts]
    if not names:
        names = [None]
    variants = []
    for name in names:
        for provider in providers:
            if not provider.prompts or name in provider.prompts:
                variants.append(Variant(str(provider.name), name))  # noqa: PERF401
    return variants


@dataclass(frozen=True, kw_only=True, repr=False)
class CheckedSuite(Suite):
    """A checked suite as the engine reads it, with every default filled in.

    Grids are expanded into `providers`, and the suite's `expect` is part of each case's.

    Args:
        file: the config as the user named it.
        secrets: values that must not be written anywhere.
        stages: the provider of each stage, by name.
        places: the places of providers and stages, by name.
        imported: the tool whose format the file has, if it is not ours.
        selection: how many of the cases are selected; None for all.
        depends_on: patterns of the files that `skip_unchanged` watches.
        code_folders: the folders of `pythonpath` or, without it, of the project.
    """

    name: str
    folder: Path
    max_concurrency: int
    providers: tuple[ProviderOptions, ...]
    judges: tuple[ProviderOptions, ...] = ()
    stages: Mapping[str, ProviderOptions] = field(default_factory=dict)
    prompts: tuple[Prompt, ...] = ()
    cases: Sequence[Case]
    gate: Gate | None = None
    against: Literal["auto", "off"] | Against = "auto"
    budget: Budget = _NO_BUDGET
    reuse: Reuse | None = None
    report: ReportOptions
    settings: Settings
    secrets: tuple[str, ...] = ()
    places: Mapping[str, Place] = field(default_factory=dict)
    imported: str = ""
    selection: str | None = None
    depends_on: tuple[str, ...] = ()
    code_folders: CodeFolders = NO_CODE_FOLDERS

    def __repr__(self) -> str:
        sizes = (len(self.cases), "case"), (len(self.columns), "variant"), (self.runs, "run")
        return f"<CheckedSuite {self.name!r}: {' × '.join(number_of(*size) for size in sizes)}>"

    @property
    def out(self) -> Path:
        """The folder for results."""
        return Path(self.report.out)

    @property
    def executor(self) -> ExecutorOptions:
        """Where the team's own code runs."""
        executor = self.settings.executor
        assert isinstance(executor, ExecutorOptions)
        return executor

    @property
    def formats(self) -> Sequence[str]:
        """The reports to write."""
        return self.report.formats

    @cached_property
    def grader_models(self) -> tuple[ProviderOptions, ...]:
        """The models that graders use: the judges, and the providers that graders name."""
        names = {grader.provider for case in self.cases for grader in model_graders(case.expect)}
        if not names:
            return ()
        named = [options for options in self.providers if options.name in names]
        return (*self.judges, *named)

    @property
    def own_code(self) -> tuple[str, ...]:
        """The providers that run the team's own code: themselves, in a stage or as a tool."""
        names = []
        for provider in self.providers:
            stages = [self.stages[name] for name in (*provider.before, *provider.after)]
            has_tools = bool(getattr(provider, "tools", ()))
            if has_tools or any(options.own_code for options in (provider, *stages)):
                names.append(str(provider.name))
        return tuple(names)

    @cached_property
    def columns(self) -> tuple[Variant, ...]:
        """The columns of the matrix: the variants that some case runs on."""
        variants = variants_of(self.providers, self.prompts)
        used = [each for each in variants if any(case.runs_on(each) for case in self.cases)]
        return tuple(used)

    @property
    def fingerprint(self) -> str:
        """Identifies the questions, providers, number of runs and grading; holds no secrets."""
        return self._fingerprints.suite

    def judgement_fingerprint(self, row: int) -> str:
        """Return the fingerprint of the graders and judges of the case in a row."""
        return self._fingerprints.judgements[row]

    def case_fingerprint(self, row: int) -> str:
        """Return the fingerprint of the case in a row: its question and its grading.

        Its id and the provider take no part.
        """
        return self._fingerprints.cases[row]

    def main_rules(self) -> MainRules:
        """Return what it asks and expects, for a change that is compared with it."""
        return MainRules(
            variants=self.columns,
            gate=self.gate,
            settings=self.strictness,
            grader_files=self.grader_files,
        )

    @property
    def grader_files(self) -> Mapping[str, str]:
        """The digests of the files of code that grades, by their paths in the repository."""
        _ = self._fingerprints  # which read them
        return self._own_code.files

    @property
    def provider_kinds(self) -> Mapping[str, str]:
        """The `type` of each provider and stage, by its name."""
        kinds = {name: options.kind for name, options in self.stages.items()}
        return kinds | {str(options.name): options.kind for options in self.providers}

    @property
    def without_skills(self) -> Mapping[str, str]:
        """The providers that leave out their skills, each with the name of the same with them."""
        pairs = {}
        for provider in self.providers:
            full = provider.with_skills
            for other in self.providers:
                if full is not None and replace(full, name=other.name) == other:
                    pairs[str(provider.name)] = str(other.name)
        return pairs

    @cached_property
    def strictness(self) -> SuiteSettings:
        """The settings that decide how strictly it measures."""
        gate = self.gate or Gate()
        providers = {}
        named = [*self.stages.items(), *((str(each.name), each) for each in self.providers)]
        for name, options in named:
            providers[name] = ProviderSettings(
                kind=options.kind,
                own_code=options.own_code,
                identity=digest(provider_identity(replace(options, name=None))),
            )
        cases = {}
        for row, case in enumerate(self.cases):
            cases[case.id] = CaseSettings(
                fingerprint=self.case_fingerprint(row),
                runs=case.runs,
                critical=case.critical or gate.marks_critical(case.tags),
                min_pass_rate=case.min_pass_rate,
                quarantined=case.quarantine is not None,
                recorded=case.recording is not None,
            )
        return SuiteSettings(
            gate=gate,
            providers=providers,
            cases=cases,
            runs=self.runs,
            max_runs=self.max_runs,
            confirm_runs=self.confirm_runs,
            setup=digest(setup_identity(self.setup)),
            budget=self.budget,
            against=against_identity(self.against),
        )

    def check_fingerprints(self, case: Case) -> tuple[str, ...]:
        """Return the fingerprint of each expectation of a case, with the models that it asks."""
        own_code = self._own_code
        return check_fingerprints(case.expect, self.judges, self.grader_models, own_code)

    @cached_property
    def _fingerprints(self) -> Fingerprints:
        settings: tuple[Any, ...] = (self.runs, self.max_runs, self.prompts, self.columns)
        if self.setup:
            settings = (*settings, setup_identity(self.setup))
        return identify(
            settings, self.providers, self.judges, self.grader_models, self.cases, self._own_code
        )

    @cached_property
    def _own_code(self) -> OwnCode:
        """The code of its graders, transforms and judges, of which each file is read once."""
        return OwnCode(self.folder, self.code_folders)
