"""Which of two variants is preferred, as text for a terminal, for GitHub, and for machines."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from ci_evals.percentage import percent
from ci_evals.reports.figures import number_of, rate_with_interval
from ci_evals.reports.json_text import printed
from ci_evals.reports.markdown_text import code, plain
from ci_evals.reports.terminal_layout import padded, width_of
from ci_evals.reports.text import named, one_line, without_commands
from ci_evals.verdict.pairwise import MOST_UNJUDGED, CasePreference, Pair, Preference
from ci_evals.verdict.words import in_place

MAX_CASES = 50
_NAME_CHARACTERS = 100
_REASON_CHARACTERS = 200


class Comparison(Struct, frozen=True):
    """A preference with the names of the two."""

    a: str
    b: str
    preference: Preference

    @property
    def sentence(self) -> str:
        """What was found, in a line."""
        found, a, b = self.preference, in_place(self.a), in_place(self.b)
        if not found.has_verdict:
            return self._no_verdict
        if found.share is None or found.interval is None:
            return f"no case prefers {a} or {b}: every one is a tie"
        share = rate_with_interval(found.share, found.interval.lower, found.interval.upper)
        told = f"{b} is preferred in {share} of the cases that prefer one"
        if found.side == "tie":
            return f"{told}: these cases cannot tell the two apart"
        return f"{told}: {a if found.side == 'a' else b} is better"

    @property
    def _no_verdict(self) -> str:
        pairs = number_of(self.preference.pairs, "pair")
        if self.preference.unjudged == self.preference.pairs:
            return f"NO VERDICT: none of {pairs} was judged"
        judged = self.preference.pairs - self.preference.unjudged
        return f"NO VERDICT: only {judged:,} of {pairs} were judged, {percent(MOST_UNJUDGED)} may go without"

    @property
    def rows(self) -> Sequence[tuple[str, str]]:
        found = self.preference
        flips = f"{found.flips:,} of {number_of(found.pairs - found.unjudged, 'pair')}"
        return (
            (f"prefer {in_place(self.a)}", number_of(found.a, "case")),
            (f"prefer {in_place(self.b)}", number_of(found.b, "case")),
            ("prefer neither", number_of(found.ties, "case")),
            ("flipped with the order", flips),
            *([("not judged", number_of(found.unjudged, "pair"))] if found.unjudged else []),
        )

    @property
    def decided(self) -> Sequence[CasePreference]:
        return [case for case in self.preference.cases if case.side != "tie"]


def render_text(comparison: Comparison) -> str:
    """For a terminal; no name and no reason can move the cursor or command a CI runner."""
    rows = [(one_line(label, 2 * _NAME_CHARACTERS), value) for label, value in comparison.rows]
    width = max(width_of(label) for label, _ in rows)
    lines = [f"{padded(label, width)}  {value}" for label, value in rows]
    for case in comparison.decided[:MAX_CASES]:
        name = named(comparison.a if case.side == "a" else comparison.b, _NAME_CHARACTERS)
        lines.append(f"  {named(case.case, _NAME_CHARACTERS)}: {name}{_because(case)}")
    if (left_out := len(comparison.decided) - MAX_CASES) > 0:
        lines.append(f"  … and {number_of(left_out, 'more case')}")
    if (pair := comparison.preference.first_unjudged) is not None:
        lines.append(f"not judged: {named(pair.case, _NAME_CHARACTERS)}: {one_line(pair.reason, _REASON_CHARACTERS)}")
    lines.append(one_line(comparison.sentence, 1000))
    return without_commands("\n".join(lines)) + "\n"


def render_markdown(comparison: Comparison) -> str:
    """For GitHub: the sentence first."""
    lines = [f"## {plain(comparison.sentence)}", "", "| outcome | count |", "|---|---:|"]
    lines += [f"| {plain(label)} | {plain(value)} |" for label, value in comparison.rows]
    if comparison.decided:
        lines += ["", "| case | preferred |", "|---|---|"]
        lines += [
            f"| {code(case.case)} | {code(comparison.a if case.side == 'a' else comparison.b)} |"
            for case in comparison.decided[:MAX_CASES]
        ]
    if (left_out := len(comparison.decided) - MAX_CASES) > 0:
        lines += ["", f"… and {number_of(left_out, 'more case')}"]
    return "\n".join(lines) + "\n"


def render_json(comparison: Comparison) -> str:
    """One line for machines."""
    found = comparison.preference
    document = {
        "a": comparison.a,
        "b": comparison.b,
        "preferred": found.side if found.has_verdict else None,
        "sentence": comparison.sentence,
        "cases": {"a": found.a, "b": found.b, "ties": found.ties},
        "pairs": found.pairs,
        "flips": found.flips,
        "unjudged": found.unjudged,
        "share_of_b": found.share,
        "interval": msgspec.to_builtins(found.interval),
        "results": [
            {"case": case.case, "preferred": case.side, "pairs": [_pair(pair) for pair in case.pairs]}
            for case in found.cases
        ],
    }
    return printed(document)


def _pair(pair: Pair) -> dict[str, object]:
    return {
        "run": pair.run,
        "preferred": pair.side,
        "a_first": pair.a_first,
        "b_first": pair.b_first,
        "flipped": pair.is_flip,
        "reason": pair.reason,
    }


def _because(case: CasePreference) -> str:
    reason = next((pair.reason for pair in case.pairs if pair.side == case.side and pair.reason), "")
    return f" ({one_line(reason, _REASON_CHARACTERS)})" if reason else ""
