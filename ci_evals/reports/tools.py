"""The outputs of `power` and `judge check`: text for a terminal, Markdown and JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Literal

from ci_evals.engine.judge_check import BAR, FEWEST_LABELS, JudgeCheck
from ci_evals.format import join_first, name_of, number_of, one_line, percent, usd
from ci_evals.gate.power import Detectable, Power
from ci_evals.gate.rehearsal import Replayed, Simulated
from ci_evals.reports.markdown import code, plain
from ci_evals.reports.report_json import stdout_json
from ci_evals.reports.terminal import UNBOUNDED, columns, draw
from ci_evals.stats.classification import accuracy
from ci_evals.stats.thresholds import POOLED_RUNS, POWER

_NAME_CHARACTERS = 100

PowerFormat = Literal["text", "markdown", "json"]

_MAX_CASES = 10  # named cases on which a judge and people disagree


def render_power(
    power: Power, simulated: Simulated, replayed: Replayed | None, output: PowerFormat
) -> str:
    """Return what a suite detects: sentences, a table of sizes, and the assumptions.

    Args:
        power: the drops that a formula gives, size by size.
        simulated: the verdicts on pull requests drawn at random.
        replayed: the verdicts on the suite's own reports; None if there are too few.
        output: the format.
    """
    if output == "json":
        found = asdict(power) | {"simulated": simulated, "replayed": replayed}
        return stdout_json(found, indent=2)
    head = (
        "cases × runs",
        "calls",
        "against one report",
        "against pooled history",
        "below its bar",
    )
    rows = [_power_row(size) for size in power.sizes]
    sentences = [f"{_seen_sentence(power, simulated)}."]
    if replayed is not None:
        sentences.append(_replayed_sentence(replayed))
    if output == "markdown":
        sentences[0] = f"{code(power.suite)}: {sentences[0]}"
        table = markdown_table(head, rows, flush_right=True)
        return "\n\n".join([*sentences, table, plain(_basis(power, simulated))]) + "\n"
    sentences[0] = f"{name_of(power.suite)}: {sentences[0]}"
    table = draw([columns([head, *rows], flush_right=True)], width=UNBOUNDED)
    return "\n\n".join([*sentences, table + "\n" + _basis(power, simulated)]) + "\n"


def _seen_sentence(power: Power, simulated: Simulated) -> str:
    """Say what is red in most pull requests, and what it costs where nothing changed.

    `40 cases × 3 runs: detects a fall of all cases by 7 points, or one case of 40 that dies, in
    four of five pull requests; about 24 further calls where nothing changed`.
    """
    size = f"{number_of(power.now.cases, 'case')} × {number_of(power.now.runs, 'run')}"
    calls = number_of(round(simulated.further_calls), "further call")
    return f"{size}: {_seen(power.now.cases, simulated)}; about {calls} where nothing changed"


def _seen(cases: int, simulated: Simulated) -> str:
    dead_case = simulated.dead_case
    if cases == 1:
        dead_case = None  # which is the same as the fall
    one_case = f"one case of {cases:,} that dies"
    if simulated.drop is None:
        found = "too few to detect that all cases fall, by however much"
        if dead_case is None:
            return found
        return f"{found}; {one_case} is detected in {percent(dead_case)} of pull requests"
    found = f"detects a fall of all cases by {_whole_points(simulated.drop)}"
    share = "in four of five pull requests"
    if dead_case is None:
        found += f" {share}"
    elif dead_case >= POWER:
        found += f", or {one_case}, {share}"
    else:
        found += f" {share}, and {one_case} in {percent(dead_case)}"
    if simulated.only_warns:
        found += ", and only warns"
    return found


def _whole_points(drop: float) -> str:
    return number_of(round(100 * drop), "point")


def _replayed_sentence(replayed: Replayed) -> str:
    """`Replayed on its last 10 reports, each compared with those before it, this gate would have
    been red in 0 of 9 comparisons.`
    """
    reports = number_of(replayed.comparisons + replayed.left_out + 1, "report")
    compared = number_of(replayed.comparisons, "comparison")
    text = (
        f"Replayed on the last {reports}, each compared with those before it, this gate would"
        f" have been red in {replayed.red} of {compared}. Bars, scores and further runs take no"
        " part."
    )
    if replayed.partial_cases:
        text += (
            f" {number_of(replayed.partial_cases, 'case')} took no part in some reports: added or"
            " edited since, or without a graded run."
        )
    if replayed.left_out:
        text += f" Left out, as an outage: {number_of(replayed.left_out, 'report')}."
    return text


def _power_row(size: Detectable) -> tuple[str, ...]:
    drops = map(_points, (size.one_report, size.pooled, size.gate))
    return f"{size.cases:,} × {size.runs}", f"{size.calls:,}", *drops


def _points(drop: float | None) -> str:
    if drop is None or drop >= 1:
        return "-"
    return f"{100 * drop:.1f} points"


def _basis(power: Power, simulated: Simulated) -> str:
    source = (
        f"as is usual, with about {POOLED_RUNS} runs of each case on main; --history takes all of"
        " this from reports"
    )
    if power.known_from:
        source = f"as {power.known_from} shows"
    rate, between_cases = percent(round(power.rate, 3)), percent(round(power.correlation, 2))
    fewest = ""
    if power.now.calls != power.now.cases * power.now.runs * power.variants:
        fewest = " Variants differ in their cases: this is for the one with the fewest."
    drawn = number_of(simulated.pull_requests, "pull request")
    beside = ""
    if simulated.main_runs:
        beside = ", with main's code beside the change"
    scores = ""
    if simulated.without_scores:
        scores = (
            " Their runs pass or fail: the scores of graders, by which more is seen, are left out."
        )
    return (
        f"The first sentence is what the gate said of {drawn} drawn at random{beside}; where"
        f" nothing changed, {percent(simulated.unchanged)} were red.{scores}"
        " The table is by a formula: about how far the pass rate of a variant must fall, or be"
        " below its bar, to be seen with a chance of 80 %. Both are for a mean pass rate of"
        f" {rate}, and {between_cases} of the variance of single runs between cases, {source}."
        f"{fewest}"
    )


def render_judge_check(check: JudgeCheck, output: Literal["table", "json"]) -> str:
    """Return a judge's agreement with people: confusion table, Cohen's kappa, conclusion."""
    table, judging = check.table, check.judging
    agreement = "Cohen's kappa is not defined: people or judge know one verdict only"
    kappa = lower = upper = None
    if check.kappa is not None:
        kappa = check.kappa.value
        agreement = f"Cohen's kappa {kappa:.2f}"
        if check.kappa.interval is not None:
            lower, upper = check.kappa.interval.lower, check.kappa.interval.upper
            agreement = f"{agreement} ({lower:.2f} to {upper:.2f})"
    if output == "json":
        return stdout_json(
            {
                "labels": table.labels,
                "confusion": table.counts,
                "agreement": accuracy(table),
                "kappa": kappa,
                "kappa_lower": lower,
                "kappa_upper": upper,
                "disagreements": check.disagreements,
                "unanswered": len(check.unanswered),
                "left_out": check.left_out,
                "calls": judging.calls,
                "cost_usd": judging.cost_usd,
                "fit": check.fit,
            }
        )
    rows = [("", *(f"judge: {label}" for label in table.labels))]
    for label, counts in zip(table.labels, table.counts, strict=True):
        rows.append((f"people: {label}", *(f"{count:,}" for count in counts)))
    ending = []
    for verdict, done in (("pass", "passed"), ("fail", "failed")):
        disagreements = [each.case for each in check.disagreements if each.judge == verdict]
        cases = list(dict.fromkeys(disagreements))
        named = join_first([one_line(case, _NAME_CHARACTERS) for case in cases], _MAX_CASES)
        if cases:
            ending.append(f"{done} by the judge alone: {named}")
    if check.unanswered:
        count = number_of(len(check.unanswered), "answer")
        ending.append(f"{count} got no verdict and count for nothing")
    if check.left_out:
        count = number_of(check.left_out, "answer")
        ending.append(f"{count} left out, of cases that the suite does not judge by this rubric")
    cost = usd(judging.cost_usd, "cost unknown")
    ending.append(f"{number_of(judging.calls, 'call')} of the judge, {cost}")
    ending.append(_fitness(check))
    labelled = number_of(table.size, "labelled answer")
    title = f"{labelled}, agreement {percent(accuracy(table))}, {agreement}"
    confusion = draw([columns(rows, flush_right=True)], width=UNBOUNDED)
    return "\n".join([f"{title}\n\n{confusion}", *ending]) + "\n"


def _fitness(check: JudgeCheck) -> str:
    """Return the conclusion about the judge, fit to gate or not, with the reason."""
    table = check.table
    missing = [
        label for label, count in zip(table.labels, table.true_counts, strict=True) if not count
    ]
    if check.fit:
        return f"fit to gate: kappa is at least {BAR:g}, beyond doubt"
    if check.fit is None and table.size and missing:
        return (
            f"too little to tell: people labelled no answer `{missing[0]}`; label some of these too"
        )
    if check.fit is None:
        needed = f"at least {FEWEST_LABELS}, passing and failing ones"
        return f"too little to tell: label more answers, {needed}"
    if table.is_one_sided:
        return "not fit to gate: it gave one verdict to everything"
    return f"not fit to gate: kappa is below {BAR:g}, beyond doubt"


def markdown_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, flush_right: bool = False
) -> str:
    """Return a Markdown table; the cells must be Markdown already."""
    column = "---:" if flush_right else "---"
    rule = "|---" + f"|{column}" * (len(head) - 1) + "|"
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join([lines[0], rule, *lines[1:]])
