"""Pull requests on suites whose true rates are known, to see how often their verdict is wrong.

Every pull request has cases of its own, whose rates are drawn from one distribution; everything
follows from a seed.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from statistics import NormalDist
from typing import NamedTuple, Protocol

from ci_evals.gate.baseline import (
    BaseCell,
    Baseline,
    Evidence,
    History,
    ReportedCell,
    ReportRef,
    scores_of,
    tally_of,
)
from ci_evals.gate.history_only import find_outages
from ci_evals.gate.outages import find_lost_reports, worst_round
from ci_evals.gate.rehearsal import Again, run_to_the_end
from ci_evals.model.case import Case, Variant
from ci_evals.model.plan import CellKey
from ci_evals.model.report import Counts, Tally
from ci_evals.model.report import Outcome as Run
from ci_evals.model.rules import Gate
from ci_evals.stats.thresholds import ALPHA, CONFIRM_RUNS, SUSPECT_RUNS

STANDARD = NormalDist()
MOST_REPEATS = SUSPECT_RUNS + CONFIRM_RUNS
TRULY_WORSE = 0.1
"""A case counts as broken if its rate fell by more than this."""
Rates = Sequence[float]


class Distribution(Protocol):
    """Where the true pass rates of cases come from."""

    def draw(self, rng: random.Random) -> float: ...


class Beta(NamedTuple):
    """The distribution of the cases' true pass rates."""

    a: float
    b: float

    def draw(self, rng: random.Random) -> float:
        return rng.betavariate(self.a, self.b)


class Alike(NamedTuple):
    """All cases have the same rate."""

    rate: float

    def draw(self, rng: random.Random) -> float:
        del rng
        return self.rate


USUAL = Beta(8, 1)
SPLIT = Beta(0.9, 0.1)
"""As published for tool-agent benchmarks: a mean of 90 %, and an intra-class correlation of 0.5."""


class UpperHalf(NamedTuple):
    """Rates, or mean scores, from 0.5 to 1."""

    rates: Beta

    def draw(self, rng: random.Random) -> float:
        return 0.5 + 0.5 * self.rates.draw(rng)


class Scores(NamedTuple):
    """Graders that give scores, in tenths, of which a case's rate is the mean.

    Args:
        share: the share of the cases that have such a grader.
        spread: the standard deviation of the scores of a case.
        bar: the score that a run needs to pass.
    """

    share: float = 1.0
    spread: float = 0.12
    bar: float = 0.7


class Suite(NamedTuple):
    """A suite, the distribution of its cases' pass rates, and its number of baseline reports.

    With `scores`, the rates of cases that have some are their mean scores.
    """

    rates: Distribution = USUAL
    cases: int = 40
    runs: int = 3
    reports: int = 10
    variants: int = 1
    scores: Scores | None = None

    def grade(self, cell: int, rate: float, draw: float) -> Run:
        """Return a run of a cell.

        Args:
            cell: its number.
            rate: its pass rate, or its mean score.
            draw: a number from 0 to 1; the lower, the better the run.
        """
        scores = self.scores
        if scores is None or cell // self.variants >= scores.share * self.cases:
            passed = draw < rate
            return Run(passed, float(passed))
        better = rate - scores.spread * STANDARD.inv_cdf(max(draw, 1e-9))
        score = min(1.0, max(0.0, round(better, 1)))
        return Run(score >= scores.bar, score)


Past = Callable[[Rates, int], Rates]
"""Maps the base branch's first rates and an age in reports to the rates then; the head is 0 old."""
Change = Callable[[Rates, random.Random], tuple[Rates, frozenset[int]]]
"""Maps the base branch's rates to a pull request's, and to the numbers of the cells it breaks.

The cells of a case, one for each variant, follow each other.
"""


class Luck(NamedTuple):
    """The luck that runs of one report have in common, by default none.

    Args:
        group: so many cells, which follow each other, share luck in each round.
        share: the share of their runs that it decides; the others have luck of their own.
        wobble: the standard deviation of the pass rate from report to report.
    """

    group: int = 1
    share: float = 0.0
    wobble: float = 0.0

    def move(self, rates: Rates, rng: random.Random) -> Rates:
        """Return the rates at the time of a report."""
        if not self.wobble:
            return rates
        return moved(rates, rng.gauss(0, self.wobble))


class Draws:
    """Numbers from 0 to 1 for the runs of one report: a run passes if its number is below its rate.

    Args:
        luck: what these runs have in common.
        cells: how many there are.
        runs: how many of each cell.
        rng: where they come from.
    """

    def __init__(self, luck: Luck, cells: int, runs: int, rng: random.Random) -> None:
        self.luck = luck
        self.rng = rng
        self.of_groups: list[list[float]] = []
        if luck.share:
            for _ in range(0, cells, luck.group):
                self.of_groups.append([rng.random() for _ in range(runs)])

    def draw(self, cell: int, run: int) -> float:
        if self.of_groups and self.rng.random() < self.luck.share:
            return self.of_groups[cell // self.luck.group][run]
        return self.rng.random()


class Story(NamedTuple):
    """What happens. `out` is the share of the runs that fail as the provider is out.

    Args:
        past: what became of the base branch.
        change: what the pull request does; None: nothing.
        head_out: that share in each planned round of the pull request.
        base_out: that share in base reports, by age; the newest is 0.
        luck: what the runs of each report have in common, on both sides.
        vendor: what has changed since the newest base report, on both sides.
        main_runs: what would be red is run on main's code, too.
        rules: those that the pull request is judged by.
    """

    past: Past = lambda rates, _age: rates
    change: Change | None = None
    head_out: Sequence[float] = ()
    base_out: Mapping[int, float] = {}
    luck: Luck = Luck()
    vendor: Change | None = None
    main_runs: bool = False
    rules: Gate = Gate()


QUIET = Story()


class Outcome(NamedTuple):
    """What a pull request came to.

    Args:
        named: the numbers of the cases that are said to have regressed.
        broken: the numbers of those that the pull request broke, on one variant or on all.
        fallen: a variant is called worse.
        withdrawn: runs were set aside as an outage.
        calls: how many runs were made.
        before: the runs of each cell in the newest base report.
        here: its planned runs.
        waived: the named cases that don't make it red, as their variants are better as a whole.
    """

    named: frozenset[int]
    broken: frozenset[int]
    fallen: bool
    withdrawn: bool
    calls: int
    before: Sequence[Tally] = ()
    here: Sequence[Tally] = ()
    waived: frozenset[int] = frozenset()

    @property
    def red(self) -> bool:
        return self.fallen or bool(self.named - self.waived)


def moved(rates: Rates, by: float) -> Rates:
    """Move the mean of all rates by so much: down in proportion, or up towards 1."""
    mean = sum(rates) / len(rates)
    if by < 0:
        return [rate * (1 + by / mean) for rate in rates]
    by = min(by, 1 - mean)
    return [rate + (1 - rate) * by / (1 - mean) for rate in rates] if by else rates


def breaks(
    share: float, *, times: float = 0.0, variants: int = 1, on: int = 1, alive: bool = False
) -> Change:
    """Break this share of the cases: their rate is multiplied on the first `on` of all variants.

    Args:
        share: of the cases.
        times: what their rates are multiplied by.
        variants: of the suite.
        on: so many of them.
        alive: only cases break that mostly pass, on the first variant.
    """

    def change(rates: Rates, rng: random.Random) -> tuple[Rates, frozenset[int]]:
        cases = range(len(rates) // variants)
        number = round(share * len(cases))
        may_break = [case for case in cases if not alive or rates[case * variants] > 0.5]
        broken = rng.sample(may_break, min(number, len(may_break)))
        chosen = frozenset(case * variants + variant for case in broken for variant in range(on))
        return [
            rate * times if number in chosen else rate for number, rate in enumerate(rates)
        ], chosen

    return change


def redraws(share: float, rates: Beta, *, least: float, most: float) -> Change:
    """Draw the rates of this share of the cases again, so that the mean rises by `least` to `most`.

    Some cases get better then, and others worse, as in real changes. If these are the rates of the
    suite, changes that fall are those that rise, backwards.
    """

    def change(before: Rates, rng: random.Random) -> tuple[Rates, frozenset[int]]:
        while True:
            after = list(before)
            for number in rng.sample(range(len(after)), round(share * len(after))):
                after[number] = rates.draw(rng)
            if least <= (sum(after) - sum(before)) / len(after) <= most:
                worse = [n for n, rate in enumerate(after) if rate < before[n] - TRULY_WORSE]
                return after, frozenset(worse)

    return change


def rises(by: float, then: Change | None = None) -> Change:
    """All cells rise, so that their mean rises by so much; then another change follows."""

    def change(rates: Rates, rng: random.Random) -> tuple[Rates, frozenset[int]]:
        risen = moved(rates, by)
        return then(risen, rng) if then is not None else (risen, frozenset())

    return change


def falls(by: float) -> Change:
    """All cells fall in proportion, so that their mean falls by so much."""
    return lambda rates, _rng: (moved(rates, -by), frozenset())


def fell(by: float, age: int) -> Past:
    """The base branch fell by so much: its `age` newest reports show it."""
    return lambda rates, then: moved(rates, -by) if then < age else rates


def slides(by: float, reports: int = 10) -> Past:
    """The base branch falls by so much with every report."""
    return lambda rates, then: (
        moved(rates, -by * (reports - 1 - then)) if then < reports - 1 else rates
    )


def crashes(share: float) -> Past:
    """This share of all runs fails, whatever the case."""
    return lambda rates, _then: [rate * (1 - share) for rate in rates]


def pull_requests(suite: Suite, story: Story = QUIET, *, number: int) -> Iterator[Outcome]:
    """Yield the outcomes of so many pull requests, each with cases and a history of its own."""
    for seed in range(number):
        rng = random.Random(f"{suite} {seed}")
        first = [suite.rates.draw(rng) for _ in keys(suite)]
        yield pull_request(suite, story, first, rng)


def pull_request(suite: Suite, story: Story, first: Rates, rng: random.Random) -> Outcome:
    """Return the outcome of a pull request on a base branch that began with these rates."""
    base = base_of(suite, story, first, rng)
    now, broken = story.past(first, 0), frozenset[int]()
    if story.vendor:
        now, _ = story.vendor(now, rng)
    main = now
    if story.change:
        now, broken = story.change(now, rng)
    now = story.luck.move(now, rng)
    planned = Draws(story.luck, len(now), suite.runs, rng)
    outages = [out_in(story, run) for run in range(suite.runs)]
    rounds = [
        {
            run + 1: made_unless_out(suite.grade(cell, rate, planned.draw(cell, run)), rng, out)
            for run, out in enumerate(outages)
        }
        for cell, rate in enumerate(now)
    ]
    further = Draws(story.luck, len(now), MOST_REPEATS, rng)
    repeats = [
        [suite.grade(cell, rate, further.draw(cell, run)) for run in range(MOST_REPEATS)]
        for cell, rate in enumerate(now)
    ]
    # Last, so that pull requests are the same where main does not run.
    of_main = None
    if story.main_runs:
        of_main = [
            [suite.grade(cell, rate, rng.random()) for _ in range(MOST_REPEATS)]
            for cell, rate in enumerate(main)
        ]
    return outcome(suite, base, rounds, repeats, of_main, story.rules)._replace(
        broken=frozenset(cell // suite.variants for cell in broken),
        before=[cell.history.evidence[0].tally for cell in base.cells.values()],
        here=[tally_of(each.values()) for each in rounds],
    )


def is_scored(runs: Iterable[Run]) -> bool:
    """Return True if a grader gave other than 0 or 1."""
    return any(run.score not in (0, 1) for run in runs)


def made_unless_out(run: Run, rng: random.Random, out: float) -> Run:
    """Return a run, or one that failed as the provider was out: `out` is the chance of that."""
    if rng.random() >= out:
        return run
    return Run(passed=False, score=0.0)


def out_in(story: Story, run: int) -> float:
    return story.head_out[run] if run < len(story.head_out) else 0.0


def outcome(
    suite: Suite,
    base: Baseline,
    rounds: Sequence[Mapping[int, Run]],
    repeats: Sequence[Sequence[Run]],
    of_main: Sequence[Sequence[Run]] | None = None,
    rules: Gate = QUIET.rules,
) -> Outcome:
    """Judge a head as a session does: lost rounds, suspects, repeats, outages, the comparison.

    Args:
        suite: what is run.
        base: the baseline.
        rounds: for each cell, its planned runs by their numbers.
        repeats: for each cell, its repeats, as many as there may be.
        of_main: the same of main's runs; None if main does not run.
        rules: those that it is judged by.
    """
    names = list(keys(suite))
    variants = [Variant(*key[1:]) for key in names]
    planned = list(rounds)
    withdrawn = False
    for variant in dict.fromkeys(variants):
        mine = [number for number, each in enumerate(variants) if each == variant]
        passed = [{run: each.passed for run, each in planned[number].items()} for number in mine]
        if (lost := worst_round(passed)) is not None:
            withdrawn = True
            for number in mine:
                planned[number] = {
                    run: each for run, each in planned[number].items() if run != lost.run
                }
    head = []
    for number, (key, variant) in enumerate(zip(names, variants, strict=True)):
        runs = planned[number].values()
        tally = tally_of(runs)
        counts = Counts(tally.passed, tally.graded - tally.passed, 0, tally.graded)
        cell = ReportedCell(number, case_of(key[0]), variant, counts, key[0], tally)
        head.append(replace(cell, scores=scores_of(runs), is_scored=is_scored(runs)))
    on_main = None
    if of_main is not None:
        on_main = one_by_one(of_main)
    judged, compared = run_to_the_end(
        head,
        base,
        one_by_one(repeats),
        on_main,
        confirm_runs=CONFIRM_RUNS,
        rules=rules,
    )
    out: Mapping[Variant, object] = {}
    if of_main is None:
        out = find_outages(judged, base, ALPHA)
    return Outcome(
        named=frozenset(
            int(cell.case) for cell in compared.select("regressed") if cell.variant not in out
        ),
        broken=frozenset(),
        fallen=any(variant.variant not in out for variant in compared.worse_variants()),
        withdrawn=withdrawn or bool(out),
        calls=len(names) * suite.runs
        + sum(len(cell.repeats) + len(cell.main_now) for cell in judged),
        waived=frozenset(int(case) for case, *_ in compared.waived),
    )


def one_by_one(runs: Sequence[Sequence[Run]]) -> Again:
    """Return what makes the runs of each cell, one after the other."""
    left = [iter(each) for each in runs]
    return lambda number: next(left[number])


@cache
def case_of(id_: str) -> Case:
    return Case(id=id_)


def run_again(
    suite: Suite, change: Change, lost: float, *, number: int
) -> Iterator[tuple[Outcome, Outcome]]:
    """Yield pull requests whose planned runs errored in part, and their second attempts.

    A second attempt continues the first one's journal: graded runs stay, errored ones are repeated.
    """
    for seed in range(number):
        rng = random.Random(f"{suite} {lost} {seed}")
        first = [suite.rates.draw(rng) for _ in keys(suite)]
        base = base_of(suite, QUIET, first, rng)
        now, _ = change(first, rng)
        whole = [
            {run: suite.grade(cell, rate, rng.random()) for run in range(1, suite.runs + 1)}
            for cell, rate in enumerate(now)
        ]
        early = [
            {run: each for run, each in runs.items() if rng.random() >= lost} for runs in whole
        ]
        repeats = [
            [suite.grade(cell, rate, rng.random()) for _ in range(MOST_REPEATS)]
            for cell, rate in enumerate(now)
        ]
        yield outcome(suite, base, early, repeats), outcome(suite, base, whole, repeats)


def base_of(suite: Suite, story: Story, first: Rates, rng: random.Random) -> Baseline:
    refs = tuple(ReportRef(f"report {age}", -float(age)) for age in range(suite.reports))
    then = [story.luck.move(story.past(first, age), rng) for age in range(suite.reports)]
    draws = [Draws(story.luck, len(first), suite.runs, rng) for _ in refs]
    shared = cache(History)
    cells: dict[CellKey, BaseCell] = {}
    for number, key in enumerate(keys(suite)):
        evidence = []
        for age, ref in enumerate(refs):
            rate = then[age][number] * (1 - story.base_out.get(age, 0.0))
            runs = [
                suite.grade(number, rate, draws[age].draw(number, run)) for run in range(suite.runs)
            ]
            sums = scores_of(runs) if is_scored(runs) else None
            evidence.append(Evidence(ref.id, *tally_of(runs), sums))
        cells[key] = BaseCell(key[0], shared(tuple(evidence)))
    return find_lost_reports(Baseline(suite="simulated", reports=refs, cells=cells))


def stored_reports(cells: Iterable[CellKey], reports: Sequence[Sequence[Tally]]) -> Baseline:
    """Return the baseline of reports, newest first, each with the runs of all cells."""
    refs = tuple(ReportRef(f"report {age}", -float(age)) for age in range(len(reports)))
    known = {}
    for key, *tallies in zip(cells, *reports, strict=True):
        evidence = [Evidence(ref.id, *tally) for ref, tally in zip(refs, tallies, strict=True)]
        known[key] = BaseCell(key[0], History(tuple(evidence)))
    return find_lost_reports(Baseline(suite="simulated", reports=refs, cells=known))


def keys(suite: Suite) -> Iterator[CellKey]:
    """Yield the key of each cell."""
    return (
        (str(case), f"agent {variant}", None)
        for case in range(suite.cases)
        for variant in range(suite.variants)
    )


class Frequencies(NamedTuple):
    """Per cent of pull requests: red, with a false name, with runs withdrawn as an outage.

    `named` is the share of broken cells that were named, None if none was broken; `calls` is the
    mean number of calls.
    """

    red: float
    named: float | None
    false_name: float
    withdrawn: float
    calls: float


def frequencies(outcomes: Iterable[Outcome]) -> Frequencies:
    seen = list(outcomes)
    size, broken = len(seen), sum(len(each.broken) for each in seen)
    named = None
    if broken:
        named = 100 * sum(len(each.named & each.broken) for each in seen) / broken
    return Frequencies(
        red=100 * sum(each.red for each in seen) / size,
        named=named,
        false_name=100 * sum(bool(each.named - each.broken) for each in seen) / size,
        withdrawn=100 * sum(each.withdrawn for each in seen) / size,
        calls=sum(each.calls for each in seen) / size,
    )
