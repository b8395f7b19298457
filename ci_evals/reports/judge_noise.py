"""The output of `judge check` for a results folder: the judge's share of the noise between runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from ci_evals.engine.regrading import JudgedAnswers, Regrading, SecondGrade
from ci_evals.format import name_of, number_of, one_line, percent, rate_with_interval, usd
from ci_evals.model.case import Variant
from ci_evals.model.result import Judging
from ci_evals.reports.report_json import stdout_json
from ci_evals.reports.terminal import UNBOUNDED, columns, draw
from ci_evals.stats.judge_noise import (
    JudgeNoise,
    Purchase,
    judge_noise,
    noise_left,
    what_samples_buy,
)
from ci_evals.stats.power import Plan
from ci_evals.stats.rates import Interval
from ci_evals.stats.thresholds import POOLED_RUNS

FEWEST_ANSWERS = 20
"""Fewer answers say too little about a judge."""
FURTHER_GRADES = 4
"""Two would tell if an answer is a coin toss, but with six times the variance."""
_MAX_CHANGED = 20
_REASON_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class NoiseReport:
    """The findings of a second grading, which may be incomplete.

    Args:
        found: the answers of the report.
        asked: the number of answers that were to be graded again.
        judged: the answers with a second verdict.
        unjudged: the answers whose graders gave no second verdict.
        judging: the calls of models.
        noise: the noise of the judge; None without a second verdict.
        left: the share of the judge's noise that is left to more samples, as a range; None if no
            answer was graded further.
        purchase: what these samples buy; None if the noise of runs is not known.
    """

    found: JudgedAnswers
    asked: int
    judged: Sequence[SecondGrade]
    unjudged: Sequence[SecondGrade]
    judging: Judging
    noise: JudgeNoise | None = None
    left: Interval | None = None
    purchase: Purchase | None = None

    @property
    def changed(self) -> Sequence[SecondGrade]:
        return [each for each in self.judged if each.is_changed]

    @property
    def is_enough(self) -> bool:
        """Return True if enough answers have a second verdict."""
        return len(self.judged) >= FEWEST_ANSWERS


def report_noise(found: JudgedAnswers, asked: int, regrading: Regrading) -> NoiseReport:
    """Estimate the noise of a judge from second grades.

    Args:
        found: the answers of the report.
        asked: the number of answers that were to be graded again.
        regrading: their second grades so far.
    """
    judged = [each for each in regrading.seen if each.is_judged]
    unjudged = [each for each in regrading.seen if not each.is_judged]
    if not judged:
        return NoiseReport(found, asked, judged, unjudged, regrading.judging)
    changed = [each for each in judged if each.is_changed]
    noise = judge_noise(len(changed), len(judged), found.tallies)
    left = noise_left(each.further_tally for each in changed)
    purchase = None
    if found.more_samples is not None and noise.run_flips:
        rate = fmean(tally.rate for tally in found.tallies if tally.graded)
        # Two runs of a case disagree with chance 2p(1 - p), so half of it is the variance within a
        # case; the rest of the variance of one run, rate * (1 - rate), is between cases.
        between_cases = 1 - noise.run_flips / 2 / (rate * (1 - rate))
        correlation = min(0.99, max(0.0, between_cases))
        plan = Plan(found.cases, found.runs, rate, correlation)
        base_runs = max(POOLED_RUNS, found.runs)
        purchase = what_samples_buy(plan, noise.flips.value, left or Interval(0.0, 1.0), base_runs)
    return NoiseReport(found, asked, judged, unjudged, regrading.judging, noise, left, purchase)


def render_judge_noise(report: NoiseReport, output: Literal["table", "json"]) -> str:
    """Return the changed verdicts, the judge's share of the noise, and the gain of more samples."""
    if output == "json":
        return _json(report)
    lines = list(_changed_lines(report))
    if len(report.judged) + len(report.unjudged) < report.asked:
        graded = f"{len(report.judged):,} of {number_of(report.asked, 'answer')}"
        lines.append(f"Interrupted: {graded} were graded again.")
    if report.unjudged:
        answers = number_of(len(report.unjudged), "answer")
        lines.append(f"{answers} got no second verdict and count for nothing.")
    if report.noise is not None:
        lines += _noise_sentences(report, report.noise)
    if report.left is not None:
        lines += _sentences_on_samples(report, report.left)
    if report.purchase is not None:
        lines += _purchase_lines(report, report.purchase)
    if not report.is_enough:
        lines.append(f"Too little to tell: at least {FEWEST_ANSWERS} second verdicts are needed.")
    cost = usd(report.judging.cost_usd, "cost unknown")
    lines.append(f"{number_of(report.judging.calls, 'call')} of the judge, {cost}")
    return "\n".join(lines) + "\n"


def _changed_lines(report: NoiseReport) -> Sequence[str]:
    """List the answers whose verdict changed, with the reason for the second one."""
    lines = []
    for each in report.changed[:_MAX_CHANGED]:
        result = each.answer.result
        variant = name_of(Variant(result.provider, result.prompt))
        line = f"  {name_of(result.case)} on {variant}, run {result.run}:"
        line = f"{line} {result.status}, then {each.outcome.status}"
        reason = _reason(each)
        if reason:
            line = f"{line} ({reason})"
        further = each.further_tally
        if further.graded:
            line = f"{line}; {further.passed} of {further.graded} more passed"
        lines.append(line)
    left_out = len(report.changed) - _MAX_CHANGED
    if left_out > 0:
        lines.append(f"  … and {number_of(left_out, 'more answer')}")
    if lines:
        lines.append("")
    return lines


def _reason(second: SecondGrade) -> str:
    """Return the reason of the first grade that changed."""
    both = zip(second.answer.result.grades, second.outcome.grades, strict=False)
    for before, after in both:
        if before.passed != after.passed:
            return one_line(after.text, _REASON_CHARACTERS)
    return ""


def _noise_sentences(report: NoiseReport, noise: JudgeNoise) -> Sequence[str]:
    flips = noise.flips
    assert flips.interval is not None
    rate = rate_with_interval(flips.value, flips.interval.lower, flips.interval.upper)
    answers = number_of(len(report.judged), "answer")
    changed = f"{len(report.changed):,}"
    if not report.changed:
        changed = "none"
    sentences = [f"The judge changed its mind on {changed} of {answers}: {rate}."]
    if noise.run_flips is None:
        sentences.append(
            "Each case ran once, so the noise between runs is not known: set `runs: 3`, and run"
            " the suite again."
        )
    elif noise.share is None:
        sentences.append("No case varied between its runs, so there is no noise to explain.")
    else:
        assert noise.share.interval is not None
        share = _whole(noise.share.value)
        bounds = f"{_whole(noise.share.interval.lower)} to {_whole(noise.share.interval.upper)} %"
        runs, again = percent(noise.run_flips), percent(flips.value)
        sentences += [
            f"About {share} % ({bounds}) of the noise between runs is the judge's:",
            f"two runs of a case disagree in {runs}, two gradings of one answer in {again}.",
        ]
    return sentences


def _sentences_on_samples(report: NoiseReport, left: Interval) -> Sequence[str]:
    """Say what more samples leave of the noise, and what to do about it."""
    found = report.found
    share = f"{_whole(left.lower)} to {_whole(left.upper)} %"
    gain = f"`samples: {found.more_samples}` would leave {share} of the judge's noise:"
    if left.lower >= 0.5:
        advice = "it is torn over the answers above. A rubric that decides them helps more."
    elif left.upper <= 0.5:
        advice = "its doubt is slight and about many answers, so that a majority helps."
    elif report.asked < len(found.answers):
        more = min(3 * report.asked, len(found.answers))
        advice = f"few verdicts changed; `--answers {more}` narrows the range."
    else:
        advice = "few verdicts changed; a report with more runs narrows the range."
    return [gain, advice]


def _purchase_lines(report: NoiseReport, purchase: Purchase) -> Sequence[str]:
    found = report.found
    assert found.samples is not None
    assert found.more_samples is not None
    cases = number_of(found.cases, "case")
    times = f"{found.more_samples / found.samples:.2g} times the judge's calls"
    least, most = map(_points, purchase.by_samples)
    by_samples = most
    if least != most:
        by_samples = f"{least.removesuffix(' points')} to {most}"
    rows = [
        (f"{cases} × {number_of(found.runs, 'run')}", _points(purchase.now), ""),
        (f"the same, `samples: {found.more_samples}`", by_samples, times),
        (f"{cases} × {2 * found.runs} runs", _points(purchase.by_runs), "twice all calls"),
    ]
    return [
        "",
        "Drops that the suite detects with a chance of 80 %:",
        draw([columns(rows)], width=UNBOUNDED).rstrip("\n"),
        "",
    ]


def _whole(share: float) -> str:
    return f"{100 * share:.0f}"


def _points(drop: float | None) -> str:
    if drop is None or drop >= 1:
        return "no drop"
    return f"{100 * drop:.1f} points"


def _json(report: NoiseReport) -> str:
    flips = run_flips = share = purchase = None
    if report.noise is not None:
        flips, run_flips, share = report.noise.flips, report.noise.run_flips, report.noise.share
    if report.purchase is not None:
        purchase = report.purchase._asdict()
    changed = [
        {
            "case": each.answer.result.case,
            "provider": each.answer.result.provider,
            "prompt": each.answer.result.prompt,
            "run": each.answer.result.run,
            "before": each.answer.result.status,
            "after": each.outcome.status,
            "further": each.further_tally._asdict(),
            "reason": _reason(each),
        }
        for each in report.changed
    ]
    return stdout_json(
        {
            "answers": len(report.found.answers),
            "asked": report.asked,
            "graded_again": len(report.judged),
            "unjudged": len(report.unjudged),
            "changed": changed,
            "flips": flips,
            "run_flips": run_flips,
            "share": share,
            "samples": report.found.samples,
            "more_samples": report.found.more_samples,
            "left": report.left,
            "purchase": purchase,
            "calls": report.judging.calls,
            "cost_usd": report.judging.cost_usd,
        }
    )
