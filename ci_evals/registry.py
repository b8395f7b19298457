"""The one list of everything that has a name: commands, graders, providers, formats and so on.

Each name leads to the `module:attribute` that defines it, which is imported on first use. The
registry has only strings, so that importing it costs nothing; typed registries are next to their
classes, such as `graders.base.GRADERS`. If a folder of `plugins/` is missing, its names are left
out, so that help, messages and the JSON Schema list only what works.
Other packages add names by entry points: see docs/plugins.md.
"""

from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Generic, NamedTuple, TypeVar

from ci_evals.errors import PluginError, describe_exception

T = TypeVar("T")

_PLUGINS = Path(__file__).parent / "plugins"


class Entry(NamedTuple):
    """The target of a name (`module:attribute`), its line of help, and its section in the help.

    `file` is the file name of a report format.
    """

    target: str
    help: str = ""
    section: str = ""
    file: str = ""


def plugin_folder(target: str) -> Path | None:
    """Return the folder of `plugins/` that a target is in; None if it is in the core."""
    package, *parts = target.partition(":")[0].split(".")
    if package != "ci_evals" or parts[0] != "plugins":
        return None
    return _PLUGINS / parts[1]


def is_installed(target: str) -> bool:
    """Return False for a target in a folder of `plugins/` that is missing."""
    folder = plugin_folder(target)
    # A folder that git has removed may still hold `__pycache__`.
    return folder is None or (folder / "__init__.py").is_file()


def missing_clause(target: str) -> str:
    """Return what a name lacks whose target is not installed: `needs FOLDER, which is missing`."""
    return f"needs the plug-in {plugin_folder(target)}, which is missing"


class Registry(Mapping[str, T], Generic[T]):
    """The objects of one kind by name. Iterating yields names; a lookup imports the object once.

    Our own entries win over entry points of the same name, so that a lookup of ours need not search
    the installed packages, which takes longer than most of the command.

    Args:
        group: the group of entry points that other packages add to, such as `ci_evals.graders`.
        noun: the kind in errors, such as `grader`.
        entries: our own entries.
        base: the class (`module:attribute`) that objects of other packages must be instances or
            subclasses of; empty for any object.
    """

    def __init__(self, group: str, noun: str, entries: Mapping[str, Entry], base: str = "") -> None:
        self.group = group
        self.noun = noun
        self._entries = entries
        self._base = base
        self._loaded: dict[str, T] = {}

    @cached_property
    def own(self) -> Mapping[str, Entry]:
        """Our own entries that are installed."""
        return {name: entry for name, entry in self._entries.items() if is_installed(entry.target)}

    @cached_property
    def missing(self) -> Mapping[str, Entry]:
        """Our own entries whose folder of `plugins/` is missing."""
        return {name: entry for name, entry in self._entries.items() if name not in self.own}

    def missing_clause(self, name: object) -> str | None:
        """Return what one of our own names lacks, if its plug-in is missing; else None."""
        if not isinstance(name, str) or name not in self.missing:
            return None
        return missing_clause(self.missing[name].target)

    def __getitem__(self, name: str) -> T:
        """Return the object of this name, imported on first use.

        Raises:
            KeyError: there is no such name.
            PluginError: another package provides it and cannot be used.
        """
        if name not in self._loaded:
            if name in self.own:
                self._loaded[name] = resolve_name(self.own[name].target)
            else:
                self._loaded[name] = self._load_plugin(name)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        yield from self.own
        for name in self._plugins:
            if name not in self.own:
                yield name

    def __len__(self) -> int:
        return len(self.own.keys() | self._plugins.keys())

    def __contains__(self, name: object) -> bool:
        return name in self.own or name in self._plugins

    def problem(self, name: str) -> str | None:
        """Return why an object of another package cannot be loaded; None if it can."""
        try:
            self[name]
        except PluginError as error:
            return str(error)
        return None

    def loadable(self) -> Iterator[tuple[str, T]]:
        """Yield names with objects, without plug-ins of other packages that cannot be loaded."""
        for name in self:
            if self.problem(name) is None:
                yield name, self[name]

    def help(self, name: str) -> str:
        """Return the line of help of a name, without importing its object."""
        if name in self.own:
            return self.own[name].help
        points = self._plugins[name]
        packages = ", ".join(_package_of(point) for point in points)
        return f"From {packages}."

    def section(self, name: str) -> str:
        """Return the title under which a name is listed; empty for names of other packages."""
        if name in self.own:
            return self.own[name].section
        return ""

    def name_of(self, thing: object) -> str | None:
        """Return the name of a registered class; None if it isn't registered."""
        target = f"{getattr(thing, '__module__', '')}:{getattr(thing, '__qualname__', '')}"
        for name, entry in self.own.items():
            if entry.target == target:
                return name
        for name, points in self._plugins.items():
            if points[0].value == target:  # compared as strings: nothing is imported
                return name
        return None

    def own_modules(self) -> dict[str, str]:
        """Return the module of each of our own objects, by its Python name."""
        modules = {}
        for entry in self.own.values():
            module, _, attribute = entry.target.partition(":")
            modules[attribute] = module
        return modules

    @cached_property
    def _plugins(self) -> Mapping[str, tuple[EntryPoint, ...]]:
        """The entry points of other packages by name. Several of one name are an error on use."""
        points: dict[str, tuple[EntryPoint, ...]] = {}
        for point in entry_points(group=self.group):
            points[point.name] = (*points.get(point.name, ()), point)
        return points

    def _load_plugin(self, name: str) -> T:
        point, *others = self._plugins[name]
        package = _package_of(point)
        if others:
            packages = " and ".join([package, *(_package_of(other) for other in others)])
            raise PluginError(
                f"{self.noun} {name!r} is provided by {packages}: uninstall one of them"
            )
        try:
            loaded = point.load()
        except Exception as error:  # the package is not ours and may raise anything
            raise PluginError(
                f"{self.noun} {name!r} of {package} cannot be loaded from {point.value}:"
                f" {describe_exception(error)}"
            ) from error
        if not self._base:
            return loaded  # type: ignore[no-any-return]  # anything will do
        if not is_installed(self._base):
            raise PluginError(f"{self.noun} {name!r} of {package} {missing_clause(self._base)}")
        base = resolve_name(self._base)
        is_fit = issubclass(loaded, base) if isinstance(loaded, type) else isinstance(loaded, base)
        if not is_fit:
            raise PluginError(
                f"{self.noun} {name!r} of {package}: {point.value} is not a {base.__name__}"
            )
        return loaded  # type: ignore[no-any-return]  # it has just been checked


def _package_of(point: EntryPoint) -> str:
    """Return the name and version of the package that declares an entry point."""
    if point.dist is None:
        return point.value
    return f"{point.dist.name} {point.dist.version}"


def lazy_attributes(module: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a module's `__getattr__` that imports its public names on first use.

    Args:
        module: the module's name.
        modules: the module that defines each name.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(import_module(modules[name]), name)

    return get


COMMANDS: Registry[Any] = Registry(
    "ci_evals.commands",
    "command",
    {
        "init": Entry(
            "ci_evals.cli.init:init", "Write a suite and a workflow that fit the project.", "Suites"
        ),
        "import": Entry(
            "ci_evals.plugins.importers.command:import_command",
            "Turn the config or dataset of another tool into a suite.",
            "Suites",
        ),
        "case": Entry(
            "ci_evals.plugins.importers.pinning:case", "Keep a run of a report as a case.", "Suites"
        ),
        "validate": Entry(
            "ci_evals.cli.validate:validate", "Check suites without calling anything.", "Suites"
        ),
        "power": Entry(
            "ci_evals.cli.power:power",
            "Show what a suite can detect, and what more runs or cases would gain.",
            "Suites",
        ),
        "schema": Entry(
            "ci_evals.cli.schema:schema", "Print the JSON Schema of evals.yaml.", "Suites"
        ),
        "mock-server": Entry(
            "ci_evals.cli.mock_server:mock_server",
            "Serve the endpoints of model APIs on loopback.",
            "Suites",
        ),
        "run": Entry(
            "ci_evals.cli.run:run_command",
            "Run suites, judge them, and exit with the worst verdict.",
            "Verdicts",
        ),
        "merge": Entry(
            "ci_evals.cli.run:merge_command",
            "Merge the results of shards, and judge them.",
            "Verdicts",
        ),
        "grade": Entry(
            "ci_evals.cli.grade:grade",
            "Grade recorded traces without running anything.",
            "Verdicts",
        ),
        "compare": Entry(
            "ci_evals.cli.reports:compare_command",
            "Compare a report with reports of its base, offline.",
            "Verdicts",
        ),
        "view": Entry(
            "ci_evals.cli.reports:view",
            "Make report.html from a saved report, and open it.",
            "Reports",
        ),
        "explain": Entry(
            "ci_evals.cli.reports:explain", "Show everything about one CASE.", "Reports"
        ),
        "comment": Entry(
            "ci_evals.plugins.github.command:comment",
            "Post the comment on a pull request from a report.json.",
            "Reports",
        ),
        "judge": Entry("ci_evals.cli.judges:judge", "Measure how well a model judges.", "Judges"),
        "pairwise": Entry(
            "ci_evals.plugins.pairwise.command:pairwise",
            "Ask which of two variants is preferred, case by case.",
            "Judges",
        ),
    },
    "click:Command",
)

GRADERS: Registry[Any] = Registry(
    "ci_evals.graders",
    "grader",
    {
        "equals": Entry("ci_evals.graders.equals:Equals", "The answer is exactly `value`."),
        "contains": Entry(
            "ci_evals.graders.text:Contains", "The answer has `value` somewhere in it."
        ),
        "contains_all": Entry(
            "ci_evals.graders.text:ContainsAll", "The answer has each of the texts in it."
        ),
        "contains_any": Entry(
            "ci_evals.graders.text:ContainsAny", "The answer has at least one of the texts in it."
        ),
        "starts_with": Entry("ci_evals.graders.text:StartsWith", "The answer begins with `value`."),
        "ends_with": Entry("ci_evals.graders.text:EndsWith", "The answer ends with `value`."),
        "regex": Entry(
            "ci_evals.graders.regex:Regex", "A regular expression matches anywhere in the answer."
        ),
        "is_json": Entry("ci_evals.graders.json:IsJson", "The whole answer is JSON."),
        "contains_json": Entry(
            "ci_evals.graders.json:ContainsJson",
            "The answer has a JSON object or list somewhere in it.",
        ),
        "json_schema": Entry(
            "ci_evals.graders.json_schema:JsonSchema", "The answer is JSON that fits a JSON Schema."
        ),
        "json_path": Entry(
            "ci_evals.graders.json:JsonPath", "The answer is JSON with a value at `path`."
        ),
        "similar": Entry(
            "ci_evals.graders.similar:Similar",
            "The answer and `value` share enough characters in the same order.",
        ),
        "max_length": Entry(
            "ci_evals.graders.text:MaxLength", "The answer has at most `value` characters."
        ),
        "word_count": Entry(
            "ci_evals.graders.text:WordCount",
            "The answer has at most `max` words, and at least `min`.",
        ),
        "not_empty": Entry(
            "ci_evals.graders.text:NotEmpty",
            "The answer has more than white space in it, or calls a tool.",
        ),
        "latency": Entry(
            "ci_evals.graders.limits:Latency", "The answer came within `value` seconds."
        ),
        "cost": Entry(
            "ci_evals.graders.limits:Cost", "The answer cost at most `value` US dollars."
        ),
        "finish_reason": Entry(
            "ci_evals.graders.limits:FinishReason", "The model ended for this reason."
        ),
        "tool_call": Entry(
            "ci_evals.graders.tools:ToolCallMatch", "The answer calls a tool, or several."
        ),
        "tool_arguments": Entry(
            "ci_evals.graders.tool_arguments:ToolArguments",
            "A tool was called with the right arguments.",
        ),
        "trajectory": Entry(
            "ci_evals.graders.trajectory:Trajectory", "The agent called these tools."
        ),
        "no_tool_errors": Entry("ci_evals.graders.trajectory:NoToolErrors", "No tool call failed."),
        "max_tool_calls": Entry(
            "ci_evals.graders.trajectory:MaxToolCalls", "At most `value` tool calls were made."
        ),
        "max_steps": Entry(
            "ci_evals.graders.trajectory:MaxSteps", "At most `value` steps were taken."
        ),
        "max_model_requests": Entry(
            "ci_evals.graders.trajectory:MaxModelRequests",
            "A model was asked at most `value` times.",
        ),
        "skill_used": Entry("ci_evals.graders.skills:SkillUsed", "The agent used this skill."),
        "classify": Entry(
            "ci_evals.graders.classify:Classify",
            "The answer is, or names, the label that is expected.",
        ),
        "judge": Entry("ci_evals.graders.judge:LlmJudge", "A model judges the answer."),
        "embedding_similar": Entry(
            "ci_evals.graders.embeddings:EmbeddingSimilar",
            "The embeddings of the answer and of `value` are close.",
        ),
        "python": Entry(
            "ci_evals.graders.python:PythonGrader",
            "A Python function or expression judges the answer.",
        ),
        "javascript": Entry(
            "ci_evals.graders.javascript:JavaScriptGrader", "JavaScript judges the answer."
        ),
        "any_of": Entry(
            "ci_evals.graders.composite:AnyOf", "At least one of these graders passes."
        ),
        "all_of": Entry("ci_evals.graders.composite:AllOf", "All of these graders pass."),
        "reward": Entry(
            "ci_evals.graders.limits:Reward", "The task's verifier gave at least `value`."
        ),
        "goal_reached": Entry(
            "ci_evals.graders.limits:GoalReached", "The simulated user reached its goal."
        ),
    },
    "ci_evals.graders.base:GraderOptions",
)

PROVIDERS: Registry[Any] = Registry(
    "ci_evals.providers",
    "provider type",
    {
        "openai": Entry(
            "ci_evals.providers.openai:OpenAI",
            "OpenAI's chat completions or responses, or any compatible endpoint.",
        ),
        "anthropic": Entry("ci_evals.providers.anthropic:Anthropic", "A Claude model."),
        "gemini": Entry("ci_evals.providers.gemini:Gemini", "A Gemini model."),
        "bedrock": Entry("ci_evals.plugins.clouds.bedrock:Bedrock", "A model of Amazon Bedrock."),
        "vertex": Entry("ci_evals.plugins.clouds.vertex:Vertex", "A model of Google's Vertex AI."),
        "embeddings": Entry(
            "ci_evals.providers.openai:Embeddings",
            "OpenAI's embeddings, or any compatible endpoint.",
        ),
        "http": Entry("ci_evals.providers.http:Http", "A service of any kind."),
        "command": Entry("ci_evals.providers.command:Command", "A program, started once per run."),
        "python": Entry("ci_evals.providers.python:Python", "A Python function."),
        "javascript": Entry("ci_evals.providers.javascript:JavaScript", "A JavaScript function."),
        "task": Entry(
            "ci_evals.plugins.tasks.agent:TaskAgent",
            "A command that works on a fresh copy of a task folder.",
        ),
        "mock": Entry("ci_evals.providers.mock:Mock", "A table of answers; needs no model."),
    },
    "ci_evals.providers.base:ProviderOptions",
)

TRANSCRIPTS: Registry[Any] = Registry(
    "ci_evals.transcripts",
    "transcript",
    {
        "claude-code": Entry(
            "ci_evals.plugins.tasks.transcripts.claude_code:ClaudeCode",
            "claude -p --output-format stream-json --verbose",
        ),
        "codex": Entry(
            "ci_evals.plugins.tasks.transcripts.codex:Codex",
            "codex exec --json --skip-git-repo-check",
        ),
        "gemini-cli": Entry(
            "ci_evals.plugins.tasks.transcripts.gemini_cli:GeminiCli",
            "gemini --skip-trust --output-format stream-json",
        ),
        "opencode": Entry(
            "ci_evals.plugins.tasks.transcripts.opencode:OpenCode", "opencode run --format json"
        ),
    },
    "ci_evals.plugins.tasks.transcripts.reader:TranscriptReader",
)
"""The transcripts of coding agents, each with the command that prints it."""

CASE_READERS = {
    "tasks": "ci_evals.plugins.tasks.folders:read_task",
    ".xlsx": "ci_evals.suite.workbook:read_workbook",
}
"""The readers of files that few suites have, by the key of `cases` or the suffix of a file; for
`resolve_name`.
"""

EXECUTORS: Registry[Any] = Registry(
    "ci_evals.executors",
    "executor",
    {
        "local": Entry("ci_evals.executors:Local", "This process."),
        "ray": Entry("ci_evals.plugins.ray.options:Ray", "A Ray cluster."),
    },
    "ci_evals.executors:ExecutorOptions",
)

FORMATS: Registry[Any] = Registry(
    "ci_evals.formats",
    "report format",
    {
        "json": Entry(
            "ci_evals.reports.report_json:JSON",
            "report.json: everything, for programs and as a baseline.",
            file="report.json",
        ),
        "junit": Entry(
            "ci_evals.reports.junit:JUNIT",
            "junit.xml: a test case for each case and variant.",
            file="junit.xml",
        ),
        "junit_flaky": Entry(
            "ci_evals.reports.junit:JUNIT_FLAKY",
            "junit.xml that marks cases that passed with some failed runs as flaky.",
            file="junit.xml",
        ),
        "markdown": Entry(
            "ci_evals.reports.markdown:MARKDOWN",
            "summary.md: the verdict and what failed.",
            file="summary.md",
        ),
        "html": Entry(
            "ci_evals.reports.html:HTML",
            "report.html: every case with its runs.",
            file="report.html",
        ),
    },
    "ci_evals.reports.files:Format",
)

IMPORTERS: Registry[Any] = Registry(
    "ci_evals.importers",
    "importer",
    {
        "promptfoo": Entry("ci_evals.plugins.importers.promptfoo", "promptfooconfig.yaml"),
        "GitHub Models": Entry("ci_evals.plugins.importers.gh_models", "*.prompt.yml"),
        "deepeval": Entry("ci_evals.plugins.importers.deepeval", "goldens as JSON or CSV"),
        "Inspect": Entry("ci_evals.plugins.importers.inspect_ai", "samples as JSON Lines or CSV"),
        "OpenAI Evals": Entry("ci_evals.plugins.importers.openai_evals", "a registry's YAML"),
        "pydantic-evals": Entry("ci_evals.plugins.importers.pydantic_evals", "a data set's YAML"),
        "promptopus": Entry("ci_evals.plugins.importers.promptopus", "a suite's YAML"),
        "ag2": Entry("ci_evals.plugins.importers.ag2", "tasks as JSON Lines"),
        "agent skills": Entry(
            "ci_evals.plugins.importers.skills", "evals.json, lists of triggers, SKILL.md"
        ),
        "traces": Entry(
            "ci_evals.plugins.importers.traces",
            "OTLP JSON, and exports of Phoenix, Langfuse and LangSmith",
        ),
    },
)

IMPORTING = {
    "translate": "ci_evals.plugins.importers:translate_config",
    "import": "ci_evals.plugins.importers:import_suite",
    "write": "ci_evals.plugins.importers:suite_text",
}
"""The functions of the importers' folder that the core calls without importing it; for
`resolve_name`.
"""

FUNCTIONS = {"discover_tasks": "ci_evals.plugins.tasks.folders"}
"""The functions of plug-ins that `ci_evals` exports, and the module of each."""

HOSTS: Registry[Any] = Registry(
    "ci_evals.hosts",
    "host",
    {
        "GITHUB_ACTIONS": Entry(
            "ci_evals.plugins.github.host:GitHubActions",
            "GitHub Actions: log, summary, comment, baseline.",
        ),
        "GITLAB_CI": Entry(
            "ci_evals.plugins.gitlab.host:GitLabCI", "GitLab CI: log, note, code quality, baseline."
        ),
    },
    "ci_evals.hosts:Host",
)
"""CI systems, by the variable that each sets to `true`."""


CREDENTIALS: Mapping[str, tuple[str, ...]] = {
    "GITHUB_ACTIONS": (
        "GITHUB_TOKEN",
        "GH_TOKEN",
        "ACTIONS_RUNTIME_*",
        "ACTIONS_ID_TOKEN_REQUEST_*",
        # The files with which a step controls later steps.
        "GITHUB_ENV",
        "GITHUB_OUTPUT",
        "GITHUB_PATH",
        "GITHUB_STATE",
        "GITHUB_STEP_SUMMARY",
    ),
    "GITLAB_CI": (
        "CI_BUILD_TOKEN",
        "CI_DEPENDENCY_PROXY_PASSWORD",
        "CI_DEPLOY_PASSWORD",
        "CI_JOB_TOKEN",
        "CI_REGISTRY_PASSWORD",
        "CI_REPOSITORY_URL",  # has the job's token in it
        "CI_RUNNER_SHORT_TOKEN",
        "GITLAB_TOKEN",
    ),
}
"""Patterns of the variables that code under test must not see, by the variable of the CI system.

They are here, and not in the plug-ins, since they are taken out before anything is imported. A CI
system of another package has them in `Host.credentials`.
"""


def credentials_of(environ: Mapping[str, str]) -> list[str]:
    """Return the variables that code under test must not see."""
    variable = host_variable(environ)
    if variable is None:
        return []
    patterns = CREDENTIALS.get(variable)
    if patterns is None:
        if HOSTS.problem(variable):
            return []  # the command says so
        patterns = HOSTS[variable].credentials
    return [name for name in environ if any(fnmatchcase(name, pattern) for pattern in patterns)]


def find_host(environ: Mapping[str, str]) -> Any:
    """Return the CI system that a process runs in, a `hosts.Host`; None on any other machine."""
    variable = host_variable(environ)
    if variable is None:
        return None
    return HOSTS[variable](environ)


def host_variable(environ: Mapping[str, str]) -> str | None:
    """Return the variable that is set by the CI system that a process runs in.

    Entry points for hosts are searched only if `CI` is set, as that takes time.
    """
    names = HOSTS if environ.get("CI") else HOSTS.own
    for variable in names:
        if environ.get(variable) == "true":
            return variable
    return None


def missing_host(environ: Mapping[str, str]) -> str | None:
    """Return what the CI system of this process lacks, if its plug-in is missing; else None."""
    for variable in HOSTS.missing:
        if environ.get(variable) == "true":
            return HOSTS.missing_clause(variable)
    return None


REGISTRIES: Mapping[str, Registry[Any]] = {
    "Graders": GRADERS,
    "Providers": PROVIDERS,
    "Transcripts": TRANSCRIPTS,
    "Report formats": FORMATS,
    "Executors": EXECUTORS,
    "Importers": IMPORTERS,
    "CI systems": HOSTS,
    "Commands": COMMANDS,
}
"""Everything that has a name, by the title of its kind."""
