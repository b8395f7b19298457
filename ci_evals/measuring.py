"""The stories of what is measured beside a verdict: a judge, a preference, what a suite can detect."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ci_evals.engine.pairwise import Judge, Results, chosen, compare, read_results
from ci_evals.errors import StorageError
from ci_evals.redaction import Redactor
from ci_evals.reports.pairwise import Comparison, render_json, render_markdown, render_text
from ci_evals.reports.text import without_commands
from ci_evals.rules import Gate
from ci_evals.saved import read_baseline
from ci_evals.streams import say
from ci_evals.suite import Suite
from ci_evals.verdict.comparison import NoComparison
from ci_evals.verdict.pairwise import preference
from ci_evals.world import World, loaded

if TYPE_CHECKING:
    from ci_evals.reports.power import PowerFormat


def check_judge(suite: Suite, labels: Path, rubric: str | None, world: World, output: str) -> int:
    """Measure a suite's judge against people's labels; returns 0 if it is fit to gate, 1 if not, 3 if unknown."""
    from ci_evals.engine import judge_check
    from ci_evals.interruption import until_ended
    from ci_evals.reports.judge_check import render, render_json, sentence

    judge = judge_check.judge_of(suite, rubric)
    loaded()
    found = until_ended(judge_check.check(suite, judge, judge_check.read_rows(labels)))
    counted = (found.table, found.kappa, len(found.unanswered), found.judging)
    if output == "json":
        text = render_json(*counted, found.fit)
    else:
        text = render(*counted, sentence(found.fit, found.table, judge_check.BAR, judge_check.FEWEST_LABELS))
    redactor = Redactor(suite.secrets)
    for told in dict.fromkeys(found.unanswered[:3]):
        say(world.stderr, redactor.clean_text(without_commands(f"no verdict: {told}\n")))
    say(world.stdout, redactor.clean_text(text))
    return {True: 0, False: 1, None: 3}[found.fit]


def pairwise(suite: Suite, sides: Sequence[str], report: Path, judge: Judge, world: World, output: str) -> Comparison:
    """Compare two variants by preference, and print what was found.

    Args:
        suite: knows the cases.
        sides: each the path of a report (`PATH`, `PATH::VARIANT`), or the name of a variant of `report`.
        report: where variants that are no path are looked up.
        judge: who prefers.
        world: environment and streams.
        output: `table`, `markdown` or `json`.
    """
    from ci_evals.interruption import until_ended

    names, results = zip(*(_side(side, report) for side in sides), strict=True)
    labels = names if names[0] != names[1] else sides
    loaded()
    pairs = until_ended(compare(suite, results[0], results[1], judge))
    comparison = Comparison(labels[0], labels[1], preference(pairs, (suite.gate or Gate()).confidence))
    render = {"table": render_text, "markdown": render_markdown, "json": render_json}[output]
    say(world.stdout, Redactor(suite.secrets).clean_text(render(comparison)))
    return comparison


def _side(side: str, report: Path) -> tuple[str, Results]:
    path, _, name = side.partition("::")
    if Path(path).exists():
        return chosen(read_results(Path(path)), name or None, path)
    return chosen(read_results(report), side, report.as_posix())


def tell_power(suite: Suite, history: Iterable[Path], world: World, output: "PowerFormat") -> None:
    """Print what a suite can detect. `history` are reports that show how its answers vary."""
    from ci_evals.reports.power import render_power
    from ci_evals.verdict.power import Size, power_of

    paths = tuple(history)
    known = read_baseline(paths, suite.name) if paths else None
    if isinstance(known, NoComparison):
        raise StorageError(known.reason)
    each = Counter(suite.runs if case.runs is None else case.runs for case in suite.cases)
    size = Size(len(suite.cases), each.most_common(1)[0][0])
    found = power_of(suite.name, size, len(suite.variants), known, ", ".join(path.as_posix() for path in paths))
    say(world.stdout, Redactor(suite.secrets).clean_text(render_power(found, output)) + "\n")
