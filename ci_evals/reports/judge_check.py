"""What is printed of a judge that was measured against people."""

from ci_evals.model import Judging
from ci_evals.reports.figures import number_of, rate, usd
from ci_evals.reports.json_text import printed
from ci_evals.stats.agreement import Confusion
from ci_evals.stats.classification import accuracy
from ci_evals.stats.intervals import Estimate


def sentence(fit: bool | None, table: Confusion, bar: float, fewest: int) -> str:  # noqa: FBT001  yes, no, unknown
    """Whether a judge is fit to gate, and why."""
    if fit:
        return f"fit to gate: kappa is at least {bar:g}, beyond doubt"
    missing = [label for label, count in zip(table.labels, table.true_counts, strict=True) if not count]
    if fit is None and table.size and missing:
        return f"too little to tell: people labelled no answer `{missing[0]}`; label some of these too"
    if fit is None:
        return f"too little to tell: label more answers, at least {fewest}, passing and failing ones"
    if table.is_one_sided:
        return "not fit to gate: it gave one verdict to everything"
    return f"not fit to gate: kappa is below {bar:g}, beyond doubt"


def render(table: Confusion, kappa: Estimate | None, unanswered: int, judging: Judging, conclusion: str) -> str:
    """Agreement, kappa and the confusion table for a person."""
    lines = [f"{number_of(table.size, 'labelled answer')}, agreement {rate(accuracy(table))}, {_kappa(kappa)}", ""]
    lines.append(f"{'':14}" + "".join(f"{f'judge: {label}':>14}" for label in table.labels))
    for label, row in zip(table.labels, table.counts, strict=True):
        lines.append(f"{f'people: {label}':14}" + "".join(f"{count:>14,}" for count in row))
    lines.append("")
    if unanswered:
        lines.append(f"{number_of(unanswered, 'answer')} got no verdict and count for nothing")
    cost = usd(judging.known_cost_usd, "cost unknown")
    return "\n".join([*lines, f"{number_of(judging.calls, 'call')} of the judge, {cost}", conclusion]) + "\n"


def render_json(
    table: Confusion,
    kappa: Estimate | None,
    unanswered: int,
    judging: Judging,
    fit: bool | None,  # noqa: FBT001
) -> str:
    """The same on one line for scripts."""
    interval = kappa.interval if kappa else None
    return printed(
        {
            "labels": table.labels,
            "confusion": table.counts,
            "agreement": accuracy(table),
            "kappa": kappa.value if kappa else None,
            "kappa_lower": interval.lower if interval else None,
            "kappa_upper": interval.upper if interval else None,
            "unanswered": unanswered,
            "calls": judging.calls,
            "cost_usd": judging.known_cost_usd,
            "fit": fit,
        }
    )


def _kappa(kappa: Estimate | None) -> str:
    if kappa is None:
        return "Cohen's kappa is not defined: people or judge know one verdict only"
    if kappa.interval is None:
        return f"Cohen's kappa {kappa.value:.2f}"
    return f"Cohen's kappa {kappa.value:.2f} ({kappa.interval.lower:.2f} to {kappa.interval.upper:.2f})"
