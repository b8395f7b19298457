"""The shape of `evals.yaml` and of dataset rows: what the JSON Schema is generated from."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from ci_evals.bounds import Fraction
from ci_evals.model import NO_OVERRIDES, CaseOverrides
from ci_evals.providers.base import Positive, Seconds
from ci_evals.response import Message
from ci_evals.rules import Allowance, Budget, Gate

Name = Annotated[str, Meta(min_length=1, max_length=200)]


def _refers(definition: str, description: str) -> Meta:
    """Schema for an entry that is decoded by hand because it has several spellings."""
    items = {"$ref": f"#/$defs/{definition}"}
    return Meta(description=description, extra_json_schema={"items": items})


Expect = Annotated[list[Any] | None, _refers("Expectation", "What a good answer looks like: all of it must hold.")]


class TurnEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One turn of a conversation."""

    user: Annotated[str, Meta(min_length=1, description="What the user says.")]
    expect: Annotated[Expect, Meta(description="Expected of the answer to this turn.")] = []


class UserEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A user whom another provider plays."""

    provider: Annotated[
        Any,
        Meta(
            description="Who plays: the name of a provider, or one of its own that answers no case.",
            extra_json_schema={"anyOf": [{"type": "string"}, {"$ref": "#/$defs/Provider"}]},
        ),
    ]
    persona: Annotated[str, Meta(min_length=1, description="Who the user is, and how they talk.")]
    goal: Annotated[
        str, Meta(min_length=1, description="What the user wants; the conversation ends when they have it.")
    ]
    max_turns: Annotated[int, Meta(ge=1, le=100)] = 10


class CaseEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One case as it is written: in the suite, in a dataset file, in a row."""

    id: Name
    description: str | None = None
    input: Annotated[Any, Meta(description="What is sent when the suite has no prompts: text or any JSON value.")] = (
        None
    )
    vars: Annotated[dict[str, Any], Meta(description="Values for the prompts' templates.")] = {}
    messages: Annotated[tuple[Message, ...], Meta(description="A conversation to continue.")] = ()
    turns: Annotated[tuple[TurnEntry, ...], Meta(description="A conversation: what the user says, turn by turn.")] = ()
    user: Annotated[UserEntry | None, Meta(description="A simulated user who talks to the provider.")] = None
    expect: Expect = []
    threshold: Annotated[
        Fraction | None, Meta(description="Pass on a weighted mean score instead of on every grader.")
    ] = None
    tags: tuple[Name, ...] = ()
    runs: Annotated[Positive | None, Meta(description="Runs of this case; wins over the suite and --runs.")] = None
    min_pass_rate: Annotated[Fraction | None, Meta(description="A bar for this case alone.")] = None
    critical: Annotated[
        bool, Meta(description="A regression of this case, or its missed bar, is red whatever else the gate allows.")
    ] = False
    timeout_s: Seconds | None = None
    budget: Annotated[Allowance | None, Meta(description="What a run may take, instead of budget.per_run.")] = None
    overrides: Annotated[CaseOverrides, Meta(description="Provider settings for this case.")] = NO_OVERRIDES
    metadata: dict[str, Any] = {}


class PromptEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A template: `user` (and `system`) text, or a `file`, or the `messages` of a conversation."""

    name: Name | None = None
    user: str | None = None
    system: str | None = None
    file: str | None = None
    messages: tuple[Message, ...] = ()


class ReportOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which files are written, and where."""

    out: Annotated[str, Meta(description="Folder for the results; --out wins.")] = "ci-evals-results"
    formats: Annotated[tuple[Literal["json", "junit", "markdown", "html"], ...], Meta(min_length=1)] = (
        "json",
        "junit",
        "markdown",
    )


class SweepEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A provider of the suite, compared with itself under other settings: every combination of the grid's values."""

    provider: Annotated[Name, Meta(description="The name of an entry of `providers`.")]
    grid: Annotated[
        dict[Name, Annotated[list[Any], Meta(min_length=1)]],
        Meta(min_length=1, description="Settings or params by name (`params.a.b` goes deeper), each with its values."),
    ]


class SuiteEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A suite: what is asked, of whom, how often, and when its answers are good enough to merge."""

    name: Annotated[Name | None, Meta(description="How the suite is called in reports; default: its folder.")] = None
    description: str | None = None
    label: Annotated[Name | None, Meta(description="Kept in reports, to group them by; --label wins.")] = None
    runs: Annotated[Positive, Meta(description="Executions of every cell: answers vary, so ask more than once.")] = 1
    max_runs: Annotated[
        Positive | None,
        Meta(description="Go on up to so many runs of a cell while the verdict is open; cases with own `runs` don't."),
    ] = None
    stop_early: Annotated[bool, Meta(description="Stop as soon as no outcome of the rest can change the verdict.")] = (
        False
    )
    confirm_runs: Annotated[
        int, Meta(ge=0, le=1000, description="Further runs of a case that looks worse than the baseline; 0: none.")
    ] = 7
    max_concurrency: Annotated[Positive, Meta(description="Calls under way at once, over all providers.")] = 16
    timeout_s: Annotated[Seconds, Meta(description="Seconds that one call may take.")] = 60.0
    retries: Annotated[int, Meta(ge=0, le=20, description="Further attempts after a refused or lost call.")] = 4
    seed: Annotated[int, Meta(description="Seed of the order in which cells run.")] = 0
    providers: Annotated[list[Any], _refers("Provider", "What answers.")]
    judges: Annotated[
        list[Any] | None, _refers("Provider", "Models that only graders ask; they are no columns of the matrix.")
    ] = []
    variants: Annotated[
        tuple[SweepEntry, ...], Meta(description="Providers to compare under several settings of theirs.")
    ] = ()
    prompts: Annotated[
        list[Any] | None, _refers("Prompt", "Templates to compare; none: a case's input is sent as it is.")
    ] = []
    cases: Annotated[
        Any,
        Meta(
            description="Cases, inline or from files.",
            extra_json_schema={
                "anyOf": [
                    {"$ref": "#/$defs/CaseFiles"},
                    {"$ref": "#/$defs/TaskFolders"},
                    {
                        "type": "array",
                        "items": {
                            "anyOf": [
                                {"$ref": "#/$defs/CaseEntry"},
                                {"$ref": "#/$defs/CaseFiles"},
                                {"$ref": "#/$defs/TaskFolders"},
                            ]
                        },
                    },
                ]
            },
        ),
    ]
    expect: Annotated[Expect, Meta(description="Expected of every case; texts may be templates over its vars.")] = []
    threshold: Fraction | None = None
    gate: Gate | None = None
    budget: Budget = Budget()
    report: ReportOptions = ReportOptions()


class TaskFolders(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Cases from task folders: paths or globs of task.toml files, relative to the suite."""

    tasks: str | list[str]


class CaseFiles(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Cases from files: paths or globs of .yaml, .json, .jsonl and .csv, relative to the suite."""

    file: str | list[str]
