"""Draws the pictures of the docs with the functions of the gate and of `ci-evals power`."""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, islice
from math import log10, sqrt
from pathlib import Path
from statistics import fmean
from typing import NamedTuple
from xml.sax.saxutils import escape

from benchmarks.drift import BEFORE, Branch, evidence, reports, slides
from benchmarks.pull_requests import USUAL, Draws, Luck, Rates
from ci_evals.gate.outages import worst_round
from ci_evals.reports.findings import brief_chance
from ci_evals.stats.exact_tests import fisher_lower
from ci_evals.stats.overdispersion import Counts, overdispersion
from ci_evals.stats.power import Plan, comparison_power, planned_drop
from ci_evals.stats.thresholds import (
    ASSUMED_FAILURES,
    ASSUMED_PASSES,
    CANDIDATE_FEW_RUNS_P,
    CANDIDATE_P,
    DRIFT_ALARM,
    MAIN_FELL_P,
    SUSPECT_CELL_P,
)

DOCS = Path(__file__).parents[1] / "docs"
FOLDER = DOCS / "pictures"
COLORS = ("#0072b2", "#d55e00", "#009e73", "#7a3e9d", "#8a6d00")
IN_THE_DARK = {
    "#fff": "#1e2129",
    "#333": "#dcdfe4",
    "#ddd": "#454b57",
    "#999": "#7d8590",
    "#777": "#a0a7b1",
    "#0072b2": "#56b4e9",
    "#d55e00": "#ff8b3d",
    "#009e73": "#2fc79a",
    "#7a3e9d": "#c49be0",
    "#8a6d00": "#e0be4f",
}
"""What each colour becomes where the reader prefers dark pages."""
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 720, 380, 64, 48, 120, 56
MARKS = {
    "+": f'<circle r="4.5" fill="{COLORS[0]}"/>',
    "-": f'<path d="M-4 -4L4 4M-4 4L4 -4" stroke="{COLORS[1]}" stroke-width="2.5"/>',
    "?": '<circle r="4" fill="none" stroke="#777" stroke-dasharray="2 2" stroke-width="1.5"/>',
}
Line = Sequence[tuple[float, float]]


def open_picture(wide: int, high: int, title: str, left: int) -> list[str]:
    """Return the beginning of a picture: its size, colours, paper and title."""
    rules = []
    for light, dark in IN_THE_DARK.items():
        rules.append(f'[fill="{light}"]{{fill:{dark}}}')
        rules.append(f'[stroke="{light}"]{{stroke:{dark}}}')
    return [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" '
            f'role="img" aria-label="{title}">'
        ),
        f"<style>@media (prefers-color-scheme: dark){{{''.join(rules)}}}</style>",
        '<g font-family="system-ui, sans-serif" font-size="13" fill="#333">',
        f'<rect width="{wide}" height="{high}" fill="#fff"/>',
        f'<text x="{left}" y="26" font-size="16" font-weight="600">{title}</text>',
    ]


def save(path: Path, parts: Sequence[str]) -> None:
    """Write a picture that `open_picture` began."""
    path.write_text("\n".join([*parts, "</g>", "</svg>\n"]), encoding="utf-8")


def write_pictures(folder: Path) -> None:
    """Write every picture into a folder that exists."""
    draw_strips(folder / "a-name.svg", "Three failures are a suspicion, not a name", name_strips())
    draw_strips(folder / "a-re-run.svg", "A re-run goes on with what was graded", re_run_strips())
    draw_strips(
        folder / "an-outage.svg",
        "An outage strikes one round, a change the same cases in every round",
        outages(),
    )
    drops = [point / 4 for point in range(81)]

    def usual(cases: int, runs: int) -> Plan:
        """A plan of the suite that `ci-evals power` assumes without history."""
        passes, failures = ASSUMED_PASSES, ASSUMED_FAILURES
        total = passes + failures
        return Plan(cases, runs, passes / total, 1 / (total + 1))

    seen = {
        f"{runs} run{'s' * (runs > 1)}": [
            (drop, 100 * comparison_power(usual(40, runs), drop / 100, 30)) for drop in drops
        ]
        for runs in (10, 5, 3, 1)
    }
    title = "How likely a test shows that all of 40 cases got worse"
    axes = ("drop of the pass rate, in points", "chance that it shows, in %")
    draw(folder / "chance-of-red.svg", title, axes, seen, (20, 100))
    smallest = {
        f"{cases} cases": [
            (runs, 100 * (planned_drop(usual(cases, runs), 30) or 1)) for runs in range(2, 13)
        ]
        for cases in (20, 40, 100, 300)
    }
    title = "The smallest drop that is detected, with a chance of 80 %"
    draw(
        folder / "what-runs-buy.svg",
        title,
        ("runs of each case", "drop, in points"),
        smallest,
        (12, 12),
    )
    draw_lanes(folder / "both-sides.svg")
    draw_common_luck(folder / "common-luck.svg")
    draw_drift(folder / "drift.svg")
    draw_rules(
        folder / "rules.svg", read_rules((DOCS / "statistics.md").read_text(encoding="utf-8"))
    )


SITUATIONS = (
    ("red, although", "nothing changed"),
    ("green, although", "1 of 40 cases broke"),
    ("green, although a tenth", "of the cases fell to a fifth"),
    ("green, although", "all fell by 10 points"),
)
"""What the columns of the table of rules are, in two lines each."""


def read_rules(page: str) -> dict[str, list[float]]:
    """Return the wrong verdicts of each rule in per cent, as printed by `make simulate`."""
    table = re.search(r"^\| rule \|.*\n\|[-|]+\n((?:\|.*\n)+)", page, re.MULTILINE)
    assert table, "docs/statistics.md has no table of rules"
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table[1].splitlines()]
    return {name: [float(cell.removesuffix(" %")) for cell in cells] for name, *cells in rows}


def draw_rules(path: Path, rules: Mapping[str, Sequence[float]]) -> None:
    """Write bars side by side: how often each rule is wrong in each situation."""
    title = "How often a pull request gets the wrong colour"
    wide, high, group, left, foot = 980, 380, 240, 20, 312
    parts = open_picture(wide, high, title, left)
    for number, (color, name) in enumerate(zip(COLORS, rules, strict=True)):
        x, y = left + 400 * (number % 2), 42 + 20 * (number // 2)
        parts.append(f'<rect x="{x}" y="{y}" width="12" height="12" fill="{color}"/>')
        parts.append(f'<text x="{x + 18}" y="{y + 11}">{name}</text>')
    parts.append(f'<path d="M{left} {foot}H{wide - left}" stroke="#999"/>')
    for place, lines in enumerate(SITUATIONS):
        start = left + place * group
        for number, (color, shares) in enumerate(zip(COLORS, rules.values(), strict=True)):
            tall, x = shares[place] * 1.6, start + 8 + number * 44
            parts.append(
                f'<rect x="{x}" y="{foot - tall:.1f}" width="38" height="{tall:.1f}" '
                f'fill="{color}"/>'
            )
            above = foot - tall - 6
            parts.append(
                f'<text x="{x + 19}" y="{above:.1f}" font-size="12" text-anchor="middle">'
                f"{shares[place]:g} %</text>"
            )
        for row, line in enumerate(lines):
            parts.append(
                f'<text x="{start + 115}" y="{foot + 22 + 18 * row}" '
                f'text-anchor="middle">{line}</text>'
            )
    save(path, parts)


def draw_drift(path: Path) -> None:
    """Write the pass rates of a base branch that loses two points a week, and their evidence."""
    title = "Two points a week are lost: no report shows it, all of them together do"
    branch = Branch(move=slides(0.02))
    history = list(islice(reports(branch, "picture"), BEFORE + 16))
    followed = list(evidence(history))
    first = BEFORE - 35
    wide, left, step = 640, 64, 12.5
    parts = open_picture(left + wide + 96, 420, title, left)

    def place(number: int) -> float:
        return left + (number - first + 0.5) * step

    def height_of_rate(share: float) -> float:
        return 60 + (1 - share) / 0.3 * 150

    def height_of_evidence(value: float) -> float:
        return 380 - log10(max(1.0, value)) / 5 * 130

    for share in (0.7, 0.8, 0.9, 1.0):
        y = height_of_rate(share)
        parts.append(f'<path d="M{left} {y:.1f}H{left + wide}" stroke="#ddd"/>')
        parts.append(
            f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{100 * share:.0f} %</text>'
        )
    for power in (1, 100, 10_000):
        y = height_of_evidence(power)
        parts.append(f'<path d="M{left} {y:.1f}H{left + wide}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{power:,}</text>')
    points = []
    for number in range(first, len(history)):
        passed = sum(passed for passed, _ in history[number])
        runs = sum(runs for _, runs in history[number])
        x, y = place(number), height_of_rate(passed / runs)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{COLORS[0]}"/>')
        points.append(f"{x:.1f} {height_of_evidence(followed[number]):.1f}")
    parts.append(
        f'<path d="M{"L".join(points)}" fill="none" stroke="{COLORS[1]}" stroke-width="2.5"/>'
    )
    begin, alarm = place(BEFORE) - step / 2, height_of_evidence(DRIFT_ALARM)
    parts.append(f'<path d="M{begin:.1f} 52V380" stroke="#777" stroke-dasharray="3 2"/>')
    parts.append(f'<text x="{begin - 6:.1f}" y="228" text-anchor="end">the loss begins</text>')
    parts.append(
        f'<path d="M{left} {alarm:.1f}H{left + wide}" stroke="{COLORS[1]}" stroke-dasharray="3 2"/>'
    )
    seen = next(number for number, each in enumerate(followed) if each >= DRIFT_ALARM)
    late = seen - BEFORE + 1
    parts.append(
        f'<text x="{left + 6}" y="{alarm - 6:.1f}" fill="{COLORS[1]}">warning, after {late} reports'
        "</text>"
    )
    right = left + wide + 8
    for line, y in (("pass rate", 132), ("of a report", 148)):
        parts.append(f'<text x="{right}" y="{y}" fill="{COLORS[0]}">{line}</text>')
    parts.append(
        f'<text x="{right}" y="{height_of_evidence(300):.1f}" fill="{COLORS[1]}">evidence</text>'
    )
    parts.append(
        f'<text x="{left + wide / 2}" y="406" text-anchor="middle">reports, one a day</text>'
    )
    save(path, parts)


def draw_common_luck(path: Path) -> None:
    """Write the pass rates of ten reports of one branch: cases by themselves, and in groups."""
    title = "Ten reports of main, on which nothing changed"
    wide, high, left, top, bottom, width = 860, 330, 64, 96, 280, 350
    parts = open_picture(wide, high, title, 20)
    lowest, highest = 70, 100

    def height_of(per_cent: float) -> float:
        return bottom - (per_cent - lowest) / (highest - lowest) * (bottom - top)

    for per_cent in range(lowest, highest + 1, 10):
        y = height_of(per_cent)
        parts.append(f'<path d="M{left} {y:.1f}H{wide - 24}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{per_cent} %</text>')
    panels = (
        ("each case has its own luck", Luck()),
        ("ten cases share 70 % of their luck", Luck(group=10, share=0.7)),
    )
    for number, (name, luck) in enumerate(panels):
        rates, history = reports_with(luck)
        start = left + number * (width + 40)
        mean = 100 * fmean(rates)
        variance = sum(rate * (1 - rate) for rate in rates) / 3 / len(rates) ** 2
        spread = 100 * 2 * sqrt(variance)
        y, tall = height_of(mean + spread), height_of(mean - spread) - height_of(mean + spread)
        parts.append(
            f'<rect x="{start}" y="{y:.1f}" width="{width}" height="{tall:.1f}" fill="#ddd" '
            'opacity="0.6"/>'
        )
        points = []
        for place, report in enumerate(history):
            passed = fmean([passed / runs for passed, runs in report])
            points.append((start + 26 + place * 33, height_of(100 * passed)))
        line = "L".join(f"{x} {y:.1f}" for x, y in points)
        parts.append(f'<path d="M{line}" fill="none" stroke="{COLORS[number]}" opacity="0.5"/>')
        for x, y in points:
            parts.append(f'<circle cx="{x}" cy="{y:.1f}" r="4.5" fill="{COLORS[number]}"/>')
        times = f"reports vary {overdispersion(history):.1f} times as much as independent runs"
        for text, y in ((name, 56), (times, 76)):
            parts.append(f'<text x="{start}" y="{y}" fill="{COLORS[number]}">{text}</text>')
    parts.append(
        f'<text x="{left}" y="{bottom + 30}">gray: where 19 of 20 reports are if runs are '
        "independent</text>"
    )
    save(path, parts)


def reports_with(luck: Luck) -> tuple[Rates, Sequence[Sequence[Counts]]]:
    """Return the rates of 40 cases and ten reports of three runs each, with some luck."""
    rng = random.Random(11)
    rates = [USUAL.draw(rng) for _ in range(40)]
    history = []
    for _ in range(10):
        draws = Draws(luck, len(rates), 3, rng)
        report = []
        for cell, rate in enumerate(rates):
            passed = sum(draws.draw(cell, run) < rate for run in range(3))
            report.append((passed, 3))
        history.append(report)
    return rates, history


class Strip(NamedTuple):
    """A row of runs: `+` passed, `-` failed, `?` errored; in brackets if kept from before."""

    label: str
    marks: str
    remark: str = ""


GAP = Strip("", "")


def name_strips() -> Iterator[Strip]:
    """Two cases that begin alike."""
    for case, base, again in (("refund", 30, "----"), ("cancel", 28, "++++")):
        planned = "---" if case == "refund" else "+--"
        p = fisher_lower(planned.count("+"), 3, base, 30)
        p_again = fisher_lower((planned + again).count("+"), 7, base, 30)
        assert p <= SUSPECT_CELL_P
        assert (p_again <= CANDIDATE_P) == (case == "refund")
        yield Strip(f"{case}: main, 10 reports", "+" * base + "-" * (30 - base), f"{base} of 30")
        found = f"{planned.count('+')} of 3 ({brief_chance(p)}): a suspect, not named"
        yield Strip("here, 3 planned runs", planned, found)
        if p_again > CANDIDATE_P:
            found = f"5 of 7 ({brief_chance(p_again)}): it recovers, and runs no more"
            yield Strip("here, 4 more", again, found)
            return
        found = f"0 of 7 ({brief_chance(p_again)}): a candidate, not named"
        yield Strip("here, 4 more", again, found)
        p_now = fisher_lower(0, 10, 10, 10)
        yield Strip("here, 10 more", "-" * 10, "0 of 10")
        found = f"10 of 10 ({brief_chance(p_now)}): named"
        yield Strip("main, at the same time", "+" * 10, found)
        yield GAP


def re_run_strips() -> Iterator[Strip]:
    yield Strip("first attempt", "++-+?+-++?+-", "3 of 10 failed, 2 errored: no verdict")
    yield Strip(
        "second attempt", "(++-+)+(+-++)-(+-)", "runs the 2 that errored; 4 of 12 failed: red"
    )
    yield Strip("third attempt", "(++-+++-++-+-)", "nothing is left to run: red, as it was")


def outages() -> Iterator[Strip]:
    cases = 20
    out = ["+" * 7 + "-" + "+" * 12, "-" * cases, "+" * cases]
    changed = [
        "+" * 5 + "--" + "+" * 13,
        "+" * 5 + "--" + "+" * 9 + "-+++",
        "+" * 5 + "--" + "+" * 13,
    ]
    for title, rounds in (("outage", out), ("change", changed)):
        by_case = [
            {run: marks[case] == "+" for run, marks in enumerate(rounds, 1)}
            for case in range(cases)
        ]
        lost = worst_round(by_case)
        for run, marks in enumerate(rounds, 1):
            remark = (
                "set aside: no verdict, and --resume repeats it" if lost and lost.run == run else ""
            )
            if title == "change" and run == 2:
                remark = "two cases look worse: run them again"
            yield Strip(f"{title}: run {run} of {cases} cases", marks, remark)
        yield GAP


def draw_strips(path: Path, title: str, strips: Iterator[Strip]) -> None:
    """Write rows of runs: dots for passes, crosses for failures, rings for errors; kept: paler."""
    rows = list(strips)
    places = list(accumulate((16 if row == GAP else 30 for row in rows), initial=60))
    height, left, step = places[-1], 190, 13
    parts = open_picture(920, height, title, 16)
    for y, strip in zip(places, rows, strict=False):
        x, opacity = left, 1.0
        parts.append(f'<text x="{left - 14}" y="{y + 4}" text-anchor="end">{strip.label}</text>')
        for mark in strip.marks:
            if mark in "()":
                opacity = 0.35 if mark == "(" else 1.0
                continue
            parts.append(f'<g transform="translate({x} {y})" opacity="{opacity}">{MARKS[mark]}</g>')
            x += step
        parts.append(f'<text x="{x + 8}" y="{y + 4}">{escape(strip.remark)}</text>')
    save(path, parts)


class Lanes(NamedTuple):
    """A case on both sides: its runs here and on main in each of the three phases."""

    case: str
    here: tuple[str, str, str]
    main: tuple[str, str]
    found: str


def lanes() -> Iterator[Lanes]:
    """Four cases, each with another end, by the gate's own thresholds."""
    here = {
        "refund": ("---", "----", "-" * 10),
        "lost-package": ("---", "----", "-" * 10),
        "cancel": ("+--", "++-+", ""),
        "greeting": ("+++", "", ""),
    }
    on_main = {"refund": "+" * 10, "lost-package": "-" * 10}
    for case, (planned, again, deciding) in here.items():
        before = "+++"
        p = fisher_lower(planned.count("+"), 3, 3, 3)
        p_again = fisher_lower((planned + again).count("+"), 7, 3, 3)
        now = on_main.get(case, "")
        assert bool(again) == (p <= SUSPECT_CELL_P)
        assert bool(deciding) == bool(again and p_again <= CANDIDATE_FEW_RUNS_P)
        if not again:
            found = "as on main: nothing runs again"
        elif not deciding:
            found = "recovered"
        elif fisher_lower(now.count("+"), 10, 3, 3) <= MAIN_FELL_P:
            found = "main fails it now, too: not this change"
        else:
            found = f"{deciding.count('+')} of 10 here, {now.count('+')} of 10 on main: red"
        yield Lanes(case, (planned, again, deciding), (before, now), found)


def draw_lanes(path: Path) -> None:
    """Write the runs of both sides, in the order of time from left to right."""
    cases = list(lanes())
    wide, high, step = 920, 400, 13
    columns = {"3 planned runs": 150, "4 more if it looks worse": 310, "10 more on both sides": 500}
    ends = {"here": 120, "main": 272}
    parts = open_picture(wide, high, "What would be red runs on both sides", 16)
    for left, top, width, tall in ((488, 72, 152, 288), (138, 72, 152, 136), (298, 72, 182, 136)):
        parts.append(
            f'<rect x="{left}" y="{top}" width="{width}" height="{tall}" rx="6" fill="#ddd" '
            'opacity="0.5"/>'
        )
    parts.append(
        '<rect x="138" y="224" width="152" height="136" rx="6" fill="none" stroke="#777" '
        'stroke-dasharray="3 2"/>'
    )
    for title, x in columns.items():
        parts.append(f'<text x="{x - 6}" y="60">{title}</text>')
    for title, lane in (("your branch", "here"), ("main", "main")):
        y = ends[lane] - 26
        parts.append(f'<text x="16" y="{y}" font-weight="600">{title}</text>')
    for row, case in enumerate(cases):
        on_main = (case.main[0], "", case.main[1])
        for runs, first in ((case.here, ends["here"]), (on_main, ends["main"])):
            y = first + 26 * row - 4
            parts.append(f'<text x="16" y="{y + 4}">{case.case}</text>')
            for marks, x in zip(runs, columns.values(), strict=True):
                for place, mark in enumerate(marks):
                    at = f"translate({x + step * place} {y})"
                    parts.append(f'<g transform="{at}">{MARKS[mark]}</g>')
        parts.append(f'<text x="656" y="{ends["here"] + 26 * row}">{case.found}</text>')
    parts.append('<text x="138" y="380">its report, or the same runs now</text>')
    parts.append('<text x="488" y="380">in the same minutes</text>')
    save(path, parts)


class Scale(NamedTuple):
    """Axes that start at 0 and reach to `ends`."""

    ends: tuple[float, float]
    wide: int = WIDTH - LEFT - RIGHT
    high: int = HEIGHT - TOP - BOTTOM

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Where a point is in the picture."""
        return LEFT + x / self.ends[0] * self.wide, TOP + (1 - y / self.ends[1]) * self.high


def draw(
    path: Path,
    title: str,
    axes: tuple[str, str],
    lines: Mapping[str, Line],
    ends: tuple[float, float],
) -> None:
    """Write a chart whose axes run from 0 to `ends`, with each line's name at its end."""
    parts = open_picture(WIDTH, HEIGHT, title, LEFT)
    parts += grid(Scale(ends), axes)
    parts += curves(Scale(ends), lines)
    save(path, parts)


def grid(scale: Scale, axes: tuple[str, str]) -> Iterator[str]:
    for step in range(5):
        x, y = (end * step / 4 for end in scale.ends)
        (left, height), (right, _) = scale.at(0, y), scale.at(scale.ends[0], y)
        yield f'<path d="M{left} {height:.1f}H{right}" stroke="#ddd"/>'
        yield f'<text x="{left - 8}" y="{height + 4:.1f}" text-anchor="end">{y:g}</text>'
        place = scale.at(x, 0)[0]
        yield f'<text x="{place:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{x:g}</text>'
    center = LEFT + scale.wide / 2
    yield f'<text x="{center}" y="{HEIGHT - 12}" text-anchor="middle">{axes[0]}</text>'
    turn = f"translate(18 {TOP + scale.high / 2}) rotate(-90)"
    yield f'<text transform="{turn}" text-anchor="middle">{axes[1]}</text>'


def curves(scale: Scale, lines: Mapping[str, Line]) -> Iterator[str]:
    """Each with its name at its end, and no name upon another."""
    labels: list[float] = []
    for color, (name, line) in zip(COLORS, lines.items(), strict=False):
        inside = [scale.at(x, y) for x, y in line if y <= scale.ends[1]]
        path_data = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in inside)
        yield f'<path d="{path_data}" fill="none" stroke="{color}" stroke-width="2.5"/>'
        label = max([inside[-1][1] + 4, *(y + 16 for y in labels)])
        labels.append(label)
        yield f'<text x="{inside[-1][0] + 8:.1f}" y="{label:.1f}" fill="{color}">{name}</text>'


if __name__ == "__main__":
    write_pictures(FOLDER)
