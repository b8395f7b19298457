"""What would be red is run on both sides: the known answers of the reference, and main's part."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from factories import report_of
from sides import FAILED, base_of, head_of, key_of

from ci_evals.gate.baseline import BaseCell, Baseline, Evidence, History, ReportedCell, ReportRef
from ci_evals.gate.both_sides import BothSides, has_collapsed_now
from ci_evals.gate.cells import match_cells
from ci_evals.gate.compare import Comparison, compare, next_runs
from ci_evals.gate.confirmation import FurtherRuns
from ci_evals.gate.rules import rule_verdicts
from ci_evals.gate.wording.comparisons import rate_change, variant_sentence
from ci_evals.model.case import Case, Variant
from ci_evals.model.plan import CellKey
from ci_evals.model.report import Counts, MainNow, Outcome, Tally
from ci_evals.model.rules import Gate
from ci_evals.stats.thresholds import MAIN_COLLAPSED_MIN_CELLS

DATA = Path(__file__).parents[2] / "data"
CHECKED = json.loads((DATA / "checked_known.json").read_text("utf-8"))
SEVERAL = json.loads((DATA / "several_known.json").read_text("utf-8"))
MAIN = MainNow(name="main (0123456)")


class PullRequest:
    """A pull request whose runs are known: those made here alone, and those made on both sides.

    `head[variant][case]` has the planned runs, four that may be made here alone, and ten that may
    be made with `now[variant][case]`.
    """

    def __init__(
        self,
        head: Sequence[Sequence[str]],
        now: Sequence[Sequence[str]],
        reports: Sequence[Sequence[Sequence[int]]],
        runs: int,
    ) -> None:
        self.runs = runs
        self.alone: dict[Any, str] = {}
        self.here: dict[Any, str] = {}
        self.main: dict[Any, str] = {}
        self.steps: list[FurtherRuns] = []
        refs = tuple(ReportRef(f"report {age}", -float(age)) for age in range(len(reports)))
        cells: list[ReportedCell] = []
        bases: dict[CellKey, BaseCell] = {}
        for variant, of_variant in enumerate(head):
            for case, letters in enumerate(of_variant):
                key = (str(case), f"agent {variant}", None)
                planned = Tally(letters[:runs].count("1"), runs)
                counts = Counts(planned.passed, runs - planned.passed, 0, runs)
                named = Case(id=str(case))
                cell = ReportedCell(len(cells), named, Variant(key[1]), counts, str(case), planned)
                cells.append(cell)
                self.alone[key] = letters[runs : runs + 4]
                self.here[key] = letters[runs + 4 :]
                self.main[key] = now[variant][case]
                evidence = [
                    Evidence(ref.id, reports[age][variant][case], runs)
                    for age, ref in enumerate(refs)
                ]
                bases[key] = BaseCell(str(case), History(tuple(evidence)))
        # Case by case, as in a plan.
        self.cells = sorted(cells, key=lambda cell: (int(cell.key[0]), cell.key[1]))
        self.base = Baseline(suite="known", reports=refs, cells=bases)

    def run(self) -> BothSides:
        """Make all runs, step by step, and return what they show."""
        while step := next_runs(self.cells, self.base, 10, Gate(), main_now=MAIN):
            self.steps.append(step)
            for number, cell in enumerate(self.cells):
                if count := step.runs.get(cell.key, 0):
                    self.cells[number] = self.run_again(cell, count, on_main=step.on_main)
        return BothSides(match_cells(self.cells, self.base), 10, Gate())

    def run_again(self, cell: ReportedCell, count: int, *, on_main: bool) -> ReportedCell:
        """Return a cell with so many more of its runs."""
        main_now = dict(cell.main_now)
        if on_main:
            made = len(main_now)
            fresh = self.here[cell.key][made : made + count]
            of_main = self.main[cell.key][made : made + count]
            for place, letter in enumerate(of_main, len(cell.repeats)):
                main_now[place] = Outcome(letter == "1")
        else:
            made = len(cell.again)
            fresh = self.alone[cell.key][made : made + count]
        assert len(fresh) == count
        repeats = (*cell.repeats, *(Outcome(letter == "1") for letter in fresh))
        return replace(cell, repeats=repeats, main_now=main_now)


def names(cells: Sequence[Any]) -> list[tuple[int, int]]:
    """(variant, case) of some cells, in order."""
    return [(int(cell.head.variant.provider.split()[1]), int(cell.head.case.id)) for cell in cells]


@pytest.mark.parametrize("known", CHECKED["gate"], ids=lambda known: known["id"])
def test_known_pull_requests_have_the_answers_of_the_reference(known: Mapping[str, Any]) -> None:
    reports = [[report] for report in known["reports"]]
    made = PullRequest([known["head_runs"]], [known["main_now"]], reports, known["runs"])
    found = made.run()
    assert found.matching.overdispersion(Variant("agent 0")) == pytest.approx(known["phi"])
    assert [case for _, case in names(found.suspects)] == known["suspects"]
    assert sorted(case for _, case in names(found.candidates)) == sorted(known["candidates"])
    assert sorted(int(case) for case, *_ in found.named_cells) == sorted(known["names"])
    if known["names"]:
        assert not any(fall.fell for fall in found.falls.values()), "names are settled first"
    else:
        [fall] = found.falls.values()
        assert fall.fell == known["fell"]


@pytest.mark.parametrize("known", SEVERAL["several"], ids=lambda known: known["id"])
def test_known_variants_have_the_answers_of_the_reference(known: Mapping[str, Any]) -> None:
    made = PullRequest(known["head"], known["now"], known["reports"], known["runs"])
    found, answer = made.run(), known["answer"]
    assert [int(case.id) for case in found.suspect_cases] == answer["suspect_cases"]
    assert [int(case.id) for case in found.candidate_cases] == answer["candidate_cases"]
    if found.cases:
        assert found.cases[0].luck == pytest.approx(answer["case_luck"], rel=1e-9)
    assert {
        case: [int(variant.provider.split()[1]) for variant in named.variants]
        for case, named in found.named_cases.items()
    } == answer["named_cases"]
    assert sorted(names(found.suspects)) == sorted(map(tuple, answer["suspects"]))
    assert sorted(names(found.candidates)) == sorted(map(tuple, answer["candidates"]))
    assert sorted(
        (int(provider.split()[1]), int(case)) for case, provider, _ in found.named_cells
    ) == sorted(map(tuple, answer["named"]))
    looks = [
        {int(variant.provider.split()[1]): test.p for variant, test in look.tests.items() if test}
        for look in found.looks
    ]
    expected = [dict(zip(look["variants"], look["p"], strict=True)) for look in answer["looks"]]
    assert looks == [pytest.approx(each, rel=1e-9) for each in expected]
    fell = [int(v.provider.split()[1]) for v, fall in found.falls.items() if fall.fell]
    assert fell == answer["fell"]


@pytest.mark.parametrize("known", SEVERAL["collapsed"])
def test_known_runs_of_main_that_fail_as_a_whole_now(known: Mapping[str, Any]) -> None:
    head = head_of({str(n): (3, 3) for n in range(len(known["now"]))})
    cells = []
    for cell, (passed, runs) in zip(head, known["now"], strict=True):
        outcomes = [Outcome(place < passed) for place in range(runs)]
        main_now = dict(enumerate(outcomes))
        cells.append(replace(cell, repeats=tuple(outcomes), main_now=main_now))
    base = base_of({str(n): tuple(newest) for n, newest in enumerate(known["newest"])})
    # Of a case or two, nothing is said about main as a whole.
    is_many = len(cells) >= MAIN_COLLAPSED_MIN_CELLS
    assert has_collapsed_now(match_cells(cells, base)) == (known["answer"] and is_many)


# What is said of main.


def compared(here: int, main: int) -> Comparison:
    """One of forty cases fails all planned runs and repeats; of ten on both sides, so many pass."""
    steady = {f"ok {n}": (3, 3) for n in range(39)}
    head = head_of({"a": (0, 3)} | steady)
    outcomes = [Outcome(place < here) for place in range(10)]
    main_now: dict[int, Outcome | None] = {4 + place: Outcome(place < main) for place in range(10)}
    head[0] = replace(head[0], repeats=(*[FAILED] * 4, *outcomes), main_now=main_now)
    base = base_of({"a": (30, 30)} | dict.fromkeys(steady, (30, 30)))
    return compare(head, base, confirm_runs=10, main_now=MAIN)


def test_a_case_that_fails_here_alone_is_named() -> None:
    found = compared(here=0, main=10).by_key[key_of("a")]
    assert (found.kind, found.here_now, found.main_now) == ("regressed", (0, 10), (10, 10))


def test_where_main_fails_now_too_the_change_is_cleared() -> None:
    found = compared(here=0, main=0).by_key[key_of("a")]
    assert (found.kind, found.cleared) == ("suspect", True)


def test_a_variant_is_not_called_worse_for_what_main_fails_now_too() -> None:
    for main, change in ((0, "not this change"), (10, "1 case worse")):
        comparison = compared(here=0, main=main)
        [variant] = comparison.variants
        assert variant.p < comparison.alpha
        assert rate_change(comparison, variant) == f"-2.5 points, {change}"
        assert variant_sentence(comparison, variant).endswith(f": {change}")


def test_where_neither_side_shows_it_nothing_is_said_for_sure() -> None:
    found = compared(here=8, main=10).by_key[key_of("a")]
    assert (found.kind, found.cleared) == ("suspect", False)


def test_a_pair_that_was_cut_names_and_clears_nothing() -> None:
    steady = {f"ok {n}": (3, 3) for n in range(39)}
    head = head_of({"a": (0, 3)} | steady, {"a": (0, 14)})
    base = base_of({"a": (30, 30)} | dict.fromkeys(steady, (30, 30)))
    found = compare(head, base, confirm_runs=10, main_now=MAIN).by_key[key_of("a")]
    assert (found.kind, found.cleared) == ("suspect", False)


def test_main_that_fails_as_a_whole_now_is_no_verdict() -> None:
    names = [str(n) for n in range(6)]
    head = [
        replace(cell, repeats=(FAILED,) * 14, main_now={4 + place: FAILED for place in range(10)})
        for cell in head_of(dict.fromkeys(names, (0, 3)))
    ]
    report = report_of(dict.fromkeys(names, "FFF"))
    found = compare(head, base_of(dict.fromkeys(names, (3, 3))), confirm_runs=10, main_now=MAIN)
    assert found.counts == {"suspect": 6}
    [rule] = rule_verdicts(report, Gate(), found)
    assert (rule.rule, rule.status) == ("main", "error")
    assert rule.sentence.startswith("main (0123456) passes 0 of 60 runs now, less than half of")


def test_where_main_could_not_be_run_its_reports_decide() -> None:
    steady = {f"ok {n}": (3, 3) for n in range(39)}
    head = head_of({"a": (0, 3)} | steady, {"a": (0, 14)})
    base = base_of({"a": (30, 30)} | dict.fromkeys(steady, (30, 30)))
    lacking = replace(MAIN, lack="main (0123456) could not be run")
    found = compare(head, base, confirm_runs=10, main_now=lacking)
    assert found.counts["regressed"] == 1
    assert found.main is None
