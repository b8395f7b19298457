"""Draws the pictures of docs/statistics.md from the formulas that `ci-evals power` uses."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ci_evals.stats.power import Plan, comparison_power, planned_drop

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
COLORS = ("#0072b2", "#d55e00", "#009e73", "#7a3e9d")
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 720, 380, 64, 48, 120, 56
Line = Sequence[tuple[float, float]]


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    drops = [point / 4 for point in range(81)]
    seen = {
        f"{runs} run{'s' * (runs > 1)}": [
            (drop, 100 * comparison_power(Plan(40, runs, 0.9), drop / 100, 30)) for drop in drops
        ]
        for runs in (10, 5, 3, 1)
    }
    title = "How likely a pull request is red when all of 40 cases get worse"
    axes = ("drop of the pass rate, in points", "chance of red, in %")
    draw(FOLDER / "chance-of-red.svg", title, axes, seen, (20, 100))
    smallest = {
        f"{cases} cases": [(runs, 100 * (planned_drop(Plan(cases, runs, 0.9), 30) or 1)) for runs in range(2, 13)]
        for cases in (20, 40, 100, 300)
    }
    title = "The smallest drop that is detected, with a chance of 80 %"
    draw(FOLDER / "what-runs-buy.svg", title, ("runs of each case", "drop, in points"), smallest, (12, 24))


class Scale(NamedTuple):
    """Axes that start at 0 and reach to `ends`."""

    ends: tuple[float, float]
    wide: int = WIDTH - LEFT - RIGHT
    high: int = HEIGHT - TOP - BOTTOM

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Where a point is in the picture."""
        return LEFT + x / self.ends[0] * self.wide, TOP + (1 - y / self.ends[1]) * self.high


def draw(path: Path, title: str, axes: tuple[str, str], lines: Mapping[str, Line], ends: tuple[float, float]) -> None:
    """Write a chart whose axes start at 0 and reach to `ends`; each line has its name at its end."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">',
        '<g font-family="system-ui, sans-serif" font-size="13" fill="#333">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="26" font-size="16" font-weight="600">{title}</text>',
        *grid(Scale(ends), axes),
        *curves(Scale(ends), lines),
    ]
    path.write_text("\n".join([*parts, "</g>", "</svg>\n"]), encoding="utf-8")


def grid(scale: Scale, axes: tuple[str, str]) -> Iterator[str]:
    for step in range(5):
        x, y = (end * step / 4 for end in scale.ends)
        (left, height), (right, _) = scale.at(0, y), scale.at(scale.ends[0], y)
        yield f'<path d="M{left} {height:.1f}H{right}" stroke="#ddd"/>'
        yield f'<text x="{left - 8}" y="{height + 4:.1f}" text-anchor="end">{y:g}</text>'
        place = scale.at(x, 0)[0]
        yield f'<text x="{place:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{x:g}</text>'
    yield f'<text x="{LEFT + scale.wide / 2}" y="{HEIGHT - 12}" text-anchor="middle">{axes[0]}</text>'
    middle = TOP + scale.high / 2
    yield f'<text transform="translate(18 {middle}) rotate(-90)" text-anchor="middle">{axes[1]}</text>'


def curves(scale: Scale, lines: Mapping[str, Line]) -> Iterator[str]:
    """Each with its name at its end, and no name upon another."""
    labels: list[float] = []
    for color, (name, line) in zip(COLORS, lines.items(), strict=True):
        inside = [scale.at(x, y) for x, y in line if y <= scale.ends[1]]
        path_data = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in inside)
        yield f'<path d="{path_data}" fill="none" stroke="{color}" stroke-width="2.5"/>'
        label = max([inside[-1][1] + 4, *(y + 16 for y in labels)])
        labels.append(label)
        yield f'<text x="{inside[-1][0] + 8:.1f}" y="{label:.1f}" fill="{color}">{name}</text>'


if __name__ == "__main__":
    main()
