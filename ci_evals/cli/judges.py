"""`ci-evals judge`: measure how well a model judges."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import click

from ci_evals.cli import options
from ci_evals.cli.console import Console
from ci_evals.engine.interrupt import run_until_signal
from ci_evals.engine.journal import JOURNAL
from ci_evals.engine.judge_check import check_judge, find_judge, read_labelled_answers
from ci_evals.engine.regrading import (
    GradedAnswer,
    JudgedAnswers,
    Regrading,
    find_judged_answers,
)
from ci_evals.errors import UsageError
from ci_evals.format import number_of, usd
from ci_evals.model.result import Judging
from ci_evals.reports.judge_noise import (
    FEWEST_ANSWERS,
    FURTHER_GRADES,
    NoiseReport,
    render_judge_noise,
    report_noise,
)
from ci_evals.reports.read import read_report
from ci_evals.reports.tools import (
    render_judge_check,
)
from ci_evals.suite.types import CheckedSuite


@click.group()
def judge() -> None:
    """Measure how well a model judges."""


@judge.command("check", context_settings=options.SETTINGS)
@click.argument(
    "path",
    type=click.Path(path_type=Path, exists=True),
    required=False,
    metavar="[LABELS.jsonl | RESULTS]",
)
@options.suite
@options.option("--rubric", help="The rubric of the judge to check, if the suite has several.")
@options.option(
    "--answers",
    type=options.WholeNumber(min=FEWEST_ANSWERS),
    metavar="N",
    default=40,
    show_default=True,
    help="Grade this many stored answers again.",
)
@options.option("--yes", "-y", is_flag=True, help="Accept the cost without being asked.")
@options.output
def judge_check(
    *,
    path: Path | None,
    config: Path | None,
    rubric: str | None,
    answers: int,
    yes: bool,
    output: Literal["table", "json"],
) -> int:
    """Decide if a judge is fit to gate, or how noisy it is.

    With LABELS.jsonl, its verdicts are compared with people's labels. report.html saves such a
    file: each line has an answer with `output`, `label` (pass or fail), and perhaps `input`,
    `reference`, `context` and `case`. The judge is the suite's. It is fit with at least 30 labels
    and a Cohen's kappa whose 95 % interval is at 0.6 or above.

    With RESULTS, the results folder of a run (default: the suite's), stored answers are graded
    again, and those whose verdict changes four times more. The outcome says how much of the noise
    between runs is the judge's, and what more `samples` or runs would gain. The cost is shown
    first.

    \b
    Exit codes with labels: 0 fit to gate · 1 not fit · 3 too little to tell
    Exit codes with results: 0 measured · 3 too little to tell

    \b
    Examples:
      ci-evals judge check labels.jsonl --suite evals.yaml
      ci-evals judge check ci-evals-results --yes
    """
    suite = options.load_named_suite(config, offline=True, judging=True)
    console = Console.of_process(output)
    if path is None or path.is_dir() or path.name == JOURNAL:
        if rubric is not None:
            raise click.UsageError(
                "--rubric is for labels; stored answers are graded by all judges"
            )
        return _check_noise(suite, path or suite.out, answers, console, output, asks=not yes)
    check = run_until_signal(
        check_judge(suite, find_judge(suite, rubric), read_labelled_answers(path))
    )
    for reason in dict.fromkeys(check.unanswered[:3]):
        console.remark(f"no verdict: {reason}")
    console.print(render_judge_check(check, output))
    if check.fit is None:
        return 3
    if not check.fit:
        return 1
    return 0


def _check_noise(
    suite: CheckedSuite,
    folder: Path,
    answers: int,
    console: Console,
    output: Literal["table", "json"],
    *,
    asks: bool,
) -> int:
    """Grade stored answers again, and print how noisy the judge is.

    Raises:
        UsageError: there are too few, or nobody agreed to pay.
    """
    if folder.name == JOURNAL:
        folder = folder.parent
    judged = find_judged_answers(suite, read_report(folder).report, folder / JOURNAL)
    chosen = judged.spread(answers)
    if len(chosen) < FEWEST_ANSWERS:
        text = f"{folder.as_posix()} has {number_of(len(chosen), 'answer')} that this suite's"
        text = f"{text} judges have graded, but {FEWEST_ANSWERS} are needed"
        if judged.outdated:
            text = f"{text}; {judged.outdated:,} more are of an earlier version of the suite"
        raise UsageError(f"{text}: run the suite again")
    console.say([_price(judged, chosen)])
    if asks:
        _ask_to_pay()
    further = FURTHER_GRADES if judged.more_samples else 0
    regrading = Regrading(suite, chosen, folder, further=further)

    def findings() -> NoiseReport:
        return report_noise(judged, len(chosen), regrading)

    async def regrade() -> None:
        try:
            await regrading.run()
        except asyncio.CancelledError:  # show what has been paid for so far
            console.print(render_judge_noise(findings(), output))
            raise

    run_until_signal(regrade())
    report = findings()
    reasons = [answer.outcome.error.sentence for answer in report.unjudged if answer.outcome.error]
    for reason in list(dict.fromkeys(reasons))[:3]:
        console.remark(f"no verdict: {reason}")
    console.print(render_judge_noise(report, output))
    if report.is_enough:
        return 0
    return 3


def _price(judged: JudgedAnswers, chosen: Sequence[GradedAnswer]) -> str:
    """Return a sentence on the cost of a second grading, estimated from the first one."""
    calls = sum(answer.judge_calls for answer in chosen)
    first = Judging()
    for answer in judged.answers:
        if answer.result.judging is not None:
            first += answer.result.judging
    cost = "at an unknown price"
    if first.cost_usd is not None and not first.unpriced:
        cost = f"about {usd(first.cost_usd / first.calls * calls)}"
    failed = [answer for answer in chosen if answer.result.status == "failed"]
    price = (
        f"grading {len(chosen):,} of {number_of(len(judged.answers), 'answer')} again"
        f" ({len(failed):,} failed, {len(chosen) - len(failed):,} passed):"
        f" about {number_of(calls, 'call')} of the judge, {cost}"
    )
    if judged.more_samples:
        price = f"{price}; then {FURTHER_GRADES} times more where the verdict changes"
    return price


def _ask_to_pay() -> None:
    """Ask the user to accept the cost.

    Raises:
        UsageError: nobody can be asked.
    """
    if not sys.stdin.isatty():
        raise UsageError("nothing was called: add --yes to accept the cost")
    click.confirm("continue?", abort=True, err=True)
