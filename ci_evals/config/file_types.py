"""The shape of `evals.yaml` and of dataset rows: what the JSON Schema is generated from."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from ci_evals.model import Budget, Fraction, Gate, Message
from ci_evals.providers.base import Positive, Seconds

Name = Annotated[str, Meta(min_length=1, max_length=200)]


def _refers(definition: str, description: str) -> Meta:
    """Schema for an entry that is decoded by hand because it has several spellings."""
    items = {"$ref": f"#/$defs/{definition}"}
    return Meta(description=description, extra_json_schema={"items": items})


Expect = Annotated[list[Any] | None, _refers("Expectation", "What a good answer looks like: all of it must hold.")]


class CaseEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One case as it is written: in the suite, in a dataset file, in a row."""

    id: Name
    description: str | None = None
    input: Annotated[Any, Meta(description="What is sent when the suite has no prompts: text or any JSON value.")] = (
        None
    )
    vars: Annotated[dict[str, Any], Meta(description="Values for the prompts' templates.")] = {}
    messages: Annotated[tuple[Message, ...], Meta(description="A conversation to continue.")] = ()
    expect: Expect = []
    threshold: Annotated[
        Fraction | None, Meta(description="Pass on a weighted mean score instead of on every grader.")
    ] = None
    tags: tuple[Name, ...] = ()
    runs: Annotated[Positive | None, Meta(description="Runs of this case; wins over the suite and --runs.")] = None
    min_pass_rate: Annotated[Fraction | None, Meta(description="A bar for this case alone.")] = None
    timeout_s: Seconds | None = None
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
    formats: Annotated[tuple[Literal["json", "junit", "markdown"], ...], Meta(min_length=1)] = (
        "json",
        "junit",
        "markdown",
    )


class SuiteEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A suite: what is asked, of whom, how often, and when its answers are good enough to merge."""

    name: Annotated[Name | None, Meta(description="How the suite is called in reports; default: its folder.")] = None
    description: str | None = None
    runs: Annotated[Positive, Meta(description="Executions of every cell: answers vary, so ask more than once.")] = 1
    max_concurrency: Annotated[Positive, Meta(description="Calls under way at once, over all providers.")] = 16
    timeout_s: Annotated[Seconds, Meta(description="Seconds that one call may take.")] = 60.0
    retries: Annotated[int, Meta(ge=0, le=20, description="Further attempts after a refused or lost call.")] = 4
    seed: Annotated[int, Meta(description="Seed of the order in which cells run.")] = 0
    providers: Annotated[list[Any], _refers("Provider", "What answers.")]
    judges: Annotated[
        list[Any] | None, _refers("Provider", "Models that only graders ask; they are no columns of the matrix.")
    ] = []
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
                    {
                        "type": "array",
                        "items": {"anyOf": [{"$ref": "#/$defs/CaseEntry"}, {"$ref": "#/$defs/CaseFiles"}]},
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


class CaseFiles(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Cases from files: paths or globs of .yaml, .json, .jsonl and .csv, relative to the suite."""

    file: str | list[str]
