"""The outcome of `pairwise` as text for a terminal, Markdown and JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.text import Text

from ci_evals.format import name_of, number_of, one_line, percent, rate_with_interval
from ci_evals.plugins.pairwise.preference import (
    MAX_UNJUDGED_SHARE,
    CasePreference,
    Preference,
)
from ci_evals.reports.markdown import code, plain
from ci_evals.reports.report_json import stdout_json
from ci_evals.reports.terminal import UNBOUNDED, columns, draw
from ci_evals.reports.tools import markdown_table

PairwiseFormat = Literal["table", "markdown", "json"]


MAX_CASES = 50


_NAME_CHARACTERS = 100


_REASON_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class PairwiseReport:
    """A preference with the names of the two variants."""

    a: str
    b: str
    preference: Preference

    @property
    def sentence(self) -> str:
        """The finding in a line."""
        found, a, b = self.preference, name_of(self.a), name_of(self.b)
        if not found.has_verdict:
            pairs = number_of(found.pairs, "pair")
            judged = found.pairs - found.unjudged
            if not judged:
                return f"NO VERDICT: none of {pairs} was judged"
            allowed = f"{percent(MAX_UNJUDGED_SHARE)} may go without"
            return f"NO VERDICT: only {judged:,} of {pairs} were judged, {allowed}"
        if found.share is None or found.interval is None:
            return f"no case prefers {a} or {b}: every one is a tie"
        share = rate_with_interval(found.share, found.interval.lower, found.interval.upper)
        preference = f"{b} is preferred in {share} of the cases that prefer one"
        match found.side:
            case "tie":
                return f"{preference}: these cases cannot tell the two apart"
            case "a":
                return f"{preference}: {a} is better"
            case "b":
                return f"{preference}: {b} is better"

    @property
    def rows(self) -> Sequence[tuple[str, str]]:
        """The outcomes of cases and pairs, as labels and counts."""
        found = self.preference
        judged = number_of(found.pairs - found.unjudged, "pair")
        rows = [
            (f"prefer {name_of(self.a)}", number_of(found.a, "case")),
            (f"prefer {name_of(self.b)}", number_of(found.b, "case")),
            ("prefer neither", number_of(found.ties, "case")),
            ("flipped with the order", f"{found.flips:,} of {judged}"),
        ]
        if found.unjudged:
            rows.append(("not judged", number_of(found.unjudged, "pair")))
        return rows

    @property
    def decided(self) -> Sequence[CasePreference]:
        """The cases that prefer one."""
        return [case for case in self.preference.cases if case.side != "tie"]

    def preferred(self, case: CasePreference) -> str:
        """Return the name of the variant that a case prefers."""
        if case.side == "a":
            return self.a
        return self.b


def render_pairwise(report: PairwiseReport, output: PairwiseFormat) -> str:
    """Return the preference in one of the formats. No name and no reason acts in any of them."""
    if output == "json":
        return _pairwise_json(report)
    if output == "markdown":
        return _pairwise_markdown(report)
    return _pairwise_text(report)


def _pairwise_text(report: PairwiseReport) -> str:
    lines = []
    for case in report.decided[:MAX_CASES]:
        name = name_of(report.preferred(case), _NAME_CHARACTERS)
        line = f"  {name_of(case.case, _NAME_CHARACTERS)}: {name}"
        for pair in case.pairs:
            if pair.side == case.side and pair.reason:
                line = f"{line} ({one_line(pair.reason, _REASON_CHARACTERS)})"
                break
        lines.append(line)
    left_out = len(report.decided) - MAX_CASES
    if left_out > 0:
        lines.append(f"  … and {number_of(left_out, 'more case')}")
    unjudged = report.preference.first_unjudged
    if unjudged is not None:
        name = name_of(unjudged.case, _NAME_CHARACTERS)
        reason = one_line(unjudged.reason, _REASON_CHARACTERS)
        lines.append(f"not judged: {name}: {reason}")
    lines.append(one_line(report.sentence, 1000))
    table = columns(
        [(one_line(label, 2 * _NAME_CHARACTERS), count) for label, count in report.rows]
    )
    return draw([table, *map(Text, lines)], width=UNBOUNDED)


def _pairwise_markdown(report: PairwiseReport) -> str:
    counts = [(plain(label), plain(value)) for label, value in report.rows]
    parts = [
        f"## {plain(report.sentence)}",
        markdown_table(("outcome", "count"), counts, flush_right=True),
    ]
    if report.decided:
        cases = [
            (code(case.case), code(report.preferred(case))) for case in report.decided[:MAX_CASES]
        ]
        parts.append(markdown_table(("case", "preferred"), cases))
    if (left_out := len(report.decided) - MAX_CASES) > 0:
        parts.append(f"… and {number_of(left_out, 'more case')}")
    return "\n\n".join(parts) + "\n"


def _pairwise_json(report: PairwiseReport) -> str:
    found = report.preference
    preferred = None
    if found.has_verdict:
        preferred = found.side
    return stdout_json(
        {
            "a": report.a,
            "b": report.b,
            "preferred": preferred,
            "sentence": report.sentence,
            "cases": {"a": found.a, "b": found.b, "ties": found.ties},
            "pairs": found.pairs,
            "flips": found.flips,
            "unjudged": found.unjudged,
            "share_of_b": found.share,
            "interval": found.interval,
            "results": [
                {
                    "case": case.case,
                    "preferred": case.side,
                    "pairs": [
                        {
                            "run": pair.run,
                            "preferred": pair.side,
                            "a_first": pair.a_first,
                            "b_first": pair.b_first,
                            "flipped": pair.is_flip,
                            "reason": pair.reason,
                        }
                        for pair in case.pairs
                    ],
                }
                for case in found.cases
            ],
        }
    )
