"""`ci-evals case add`: turns a run of a report into a case of a suite."""

import re
from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import click

from ci_evals.cli import options
from ci_evals.cli.console import environment
from ci_evals.cli.reports import choose_cells
from ci_evals.engine.journal import MAX_ASKED_CHARACTERS
from ci_evals.errors import ConfigError, UsageError
from ci_evals.files import write_atomically
from ci_evals.model.case import Case, Variant
from ci_evals.model.response import Message
from ci_evals.model.result import Result
from ci_evals.plugins.importers.parts import unconfirmed, written_message
from ci_evals.plugins.importers.writing import write_case
from ci_evals.redaction import Redactor
from ci_evals.registry import PROVIDERS
from ci_evals.reports.read import read_summary, report_folders
from ci_evals.reports.summary import Summary
from ci_evals.suite.configs import find_config
from ci_evals.suite.load import load_suite
from ci_evals.suite.types import RESULTS, CheckedSuite
from ci_evals.suite.yaml import parse, read_text


@click.group()
def case() -> None:
    """Turn a run of a report into a case."""


@case.command("add", context_settings=options.SETTINGS)
@click.argument("run")
@options.option(
    "--report",
    type=options.PATH,
    metavar="PATH",
    help="A report.json or a results folder; default: the suite's results folder, otherwise"
    " ci-evals-results.",
)
@options.suite
@options.option("--provider", help="The run of this provider.")
@options.option("--prompt", help="The run with this prompt.")
@options.option("--id", "name", help="The id of the new case; default: made from the run's case.")
def case_add(
    run: str,
    report: Path | None,
    config: Path | None,
    provider: str | None,
    prompt: str | None,
    name: str | None,
) -> None:
    """Turn a run of a report into a case of the suite.

    RUN is a case, or one of its runs: `refund#2`. The new case has its question or conversation,
    and its answer as the reference of a judge. The answer is not confirmed: until you delete its
    `quarantine`, the case blocks nothing. It is added at the end of `cases`; the rest of the
    file stays as it is.

    \b
    Examples:
      ci-evals case add refund
      ci-evals case add refund#2 --report nightly/report.json --suite evals.yaml
    """
    path = config or find_config(Path())
    suite = options.load_named_suite(path, offline=True)
    if report is None:
        report = suite.out
        if not report.is_dir():
            report = Path(RESULTS)
    summary, cell, number = _find_run(report, run, provider, prompt)
    result = _result_of(summary, cell, number)
    ids = {each.id: each for each in suite.cases}
    new_case: dict[str, Any] = {"id": _new_id(name, result.case, ids)}
    new_case |= _question(result, ids.get(result.case), suite)
    new_case |= _expected(result, suite, datetime.now(UTC).date())
    new_case["metadata"] |= _origin(summary, result)
    new_case = Redactor(suite.secrets).clean(new_case)
    _append(path, new_case)
    click.echo(f"added to {path.as_posix()}: {new_case['id']}", err=True)
    click.echo("Confirm its answer, and delete its `quarantine`.", err=True)


def _find_run(
    report: Path, run: str, provider: str | None, prompt: str | None
) -> tuple[Summary, int, int]:
    """Return the report, the cell and the number of a run.

    Raises:
        UsageError: there is no such run, or several variants have one.
    """
    summaries = [read_summary(folder) for folder in report_folders(report) or [report]]
    known = {cell.case.id for each in summaries for cell in each.cells}
    name, number = run, 1
    start, _, end = run.rpartition("#")
    if run not in known and start and end.isdecimal():
        name, number = start, int(end)
    cells = choose_cells(summaries, (name, provider, prompt))
    matches = []
    for summary, numbers in zip(summaries, cells, strict=True):
        matches += [(summary, cell) for cell in numbers]
    if len(matches) > 1:
        variants = ", ".join(str(each.report.plan.variant(cell)) for each, cell in matches)
        ways = "choose with --provider, --prompt or --report"
        raise UsageError(f"several variants have {name!r}: {variants}; {ways}")
    ((summary, cell),) = matches
    return summary, cell, number


def _result_of(summary: Summary, cell: int, number: int) -> Result:
    report = summary.report
    results = list(report.results(report.plan.indices(cell)))
    for result in results:
        if result.run == number:
            return result
    case_id = report.plan.case(cell).id
    runs = ", ".join(f"{case_id}#{result.run}" for result in results)
    raise UsageError(f"no run {number} of {case_id!r} in the report; it has {runs or 'none'}")


def _new_id(name: str | None, case_id: str, taken: Collection[str]) -> str:
    if name is not None:
        if name in taken:
            raise UsageError(f"the suite has a case {name!r} already: choose another --id")
        return name
    free = case_id
    number = 2
    while free in taken:
        free = f"{case_id}-{number}"
        number += 1
    return free


def _question(result: Result, original: Case | None, suite: CheckedSuite) -> dict[str, Any]:
    """Return the question of a run as keys of a case.

    Without a prompt, it is in the result. With a prompt, the result has only the rendered text, so
    the question comes from the case in the suite.

    Raises:
        UsageError: the question is unknown, too long or not a text.
    """
    sent = result.messages
    input_ = None
    if result.prompt is not None:
        if original is None:
            raise UsageError(
                f"the report has {result.case!r} only as rendered by the prompt {result.prompt!r}:"
                " name the suite that has the case with --suite"
            )
        sent = tuple(original.messages)
        input_ = original.input
    elif any(len(message.text) > MAX_ASKED_CHARACTERS for message in sent):
        raise UsageError(f"the question of {result.case!r} is too long: the report cuts it")
    messages = [*sent, *_earlier_turns(result)]
    is_text = all(isinstance(message.content, str) for message in messages)
    if not is_text or isinstance(input_, Message):
        raise UsageError(f"the question of {result.case!r} has files: copy the case by hand")
    question: dict[str, Any] = {}
    if input_ is None and len(messages) == 1 and messages[0].role == "user":
        input_ = messages.pop().text
    if input_ is not None:
        question["input"] = input_
    if messages:
        question["messages"] = [written_message(message) for message in messages]
    if original is not None:
        own = {key: value for key, value in original.vars.items() if suite.vars.get(key) != value}
        if own:
            question["vars"] = own
    if not question:
        raise UsageError(f"the report does not have the question of {result.case!r}")
    return question


def _earlier_turns(result: Result) -> list[Message]:
    """Return the messages of a conversation before its last answer; none for other runs."""
    if result.response is None or not result.response.turns:
        return []
    messages = []
    for turn in result.response.turns:
        messages.append(Message("user", turn.user))
        messages.append(Message("assistant", turn.response.output))
    return messages[:-1]


def _expected(result: Result, suite: CheckedSuite, today: date) -> dict[str, Any]:
    """Return the expectations, the quarantine, and the recorded details as metadata.

    The recorded answer is the reference of the suite's first judge; without a judge, it is kept as
    metadata.
    """
    answer = None
    metadata: dict[str, Any] = {}
    if result.response is not None:
        if result.response.whole is not None:
            raise UsageError(f"the answer of {result.case!r} is too long to be a reference")
        answer = result.response.output.strip() or None
        tools = [call.name for call in result.response.list_calls()]
        if tools:
            metadata["tools"] = tools
    if result.error is not None:
        metadata["error"] = result.error.sentence
    judges = [each.name for each in suite.judges if PROVIDERS.name_of(type(each)) != "embeddings"]
    if answer is not None and not judges:
        metadata["reference"] = answer
        expected = unconfirmed(None, today)
        expected["quarantine"]["reason"] = "say what is expected: the suite has no judge"
    else:
        judge = {}
        if len(judges) > 1:
            judge["provider"] = judges[0]
        expected = unconfirmed(answer, today, judge)
    return {**expected, "metadata": metadata}


def _origin(summary: Summary, result: Result) -> dict[str, Any]:
    variant = Variant(result.provider, result.prompt)
    origin = {"run": f"{result.case}#{result.run}", "variant": str(variant)}
    if summary.report.suite.revision is not None:
        origin["revision"] = summary.report.suite.revision
    return origin


# The file.


def _append(path: Path, case: Mapping[str, Any]) -> None:
    """Add a case at the end of the list of a suite.

    Raises:
        UsageError: the file is not YAML with a list of cases that can be extended. The message has
            the text to paste.
        ConfigError: the suite would be invalid; the file is left unchanged.
    """
    before = path.read_bytes()
    text = _with_case(read_text(path, path.as_posix()), path.as_posix(), case)
    if text is None:
        raise UsageError(
            f"{path.as_posix()} has no list of cases that can be extended: add this to yours\n"
            + write_case(case, 2)
        )
    if b"\r\n" in before:
        text = text.replace("\n", "\r\n")
    write_atomically(path, [text.encode()])
    try:
        load_suite(path, environment(), offline=True)
    except ConfigError:
        write_atomically(path, [before])
        raise


def _with_case(text: str, file: str, case: Mapping[str, Any]) -> str | None:
    """Return the text of a suite with a further case; None if it cannot be added safely."""
    if not file.endswith((".yaml", ".yml")):
        return None
    suite, lines, _ = parse(text, file)
    cases = suite.get("cases")
    if not isinstance(cases, list) or not cases:
        return None
    rows = text.split("\n")
    starts = [lines.at("cases").at(index).line or 0 for index in range(len(cases))]
    first = re.match(r"( *)- ", rows[starts[0] - 1])
    if first is None:
        return None
    indent = len(first[1])
    keys = [lines.at(key).line or 0 for key in suite]
    end = min([line for line in keys if line > starts[-1]], default=len(rows) + 1) - 1
    while end > starts[-1] and _is_between(rows[end - 1], indent):
        end -= 1
    added = write_case(case, indent).split("\n")
    if len(starts) > 1 and not rows[starts[-1] - 2].strip():
        added.insert(0, "")
    rows[end:end] = added
    changed = "\n".join(rows)
    if not changed.endswith("\n"):
        changed += "\n"
    # The text is edited by lines, to keep the user's formatting. Parsing proves that nothing else
    # has changed.
    parsed, _, problems = parse(changed, file)
    if problems or parsed != {**suite, "cases": [*cases, case]}:
        return None
    return changed


def _is_between(row: str, indent: int) -> bool:
    """Return True for an empty line, and for a comment that is not inside a case."""
    content = row.strip()
    if not content:
        return True
    return content.startswith("#") and row.index("#") <= indent
