"""A report in Python: saved, loaded, sliced, summed up."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ci_evals import Case, Gate, Report, Suite, evaluate_sync, grader
from ci_evals.errors import StorageError, UsageError
from ci_evals.gate.compare import Comparison, NoComparison
from ci_evals.graders import Contains
from ci_evals.model.report import Counts
from ci_evals.providers import Mock
from ci_evals.providers.base import Price


@pytest.fixture(scope="module")
def report() -> Report:
    """Two cases on two variants, thrice: `b` fails everything that asks for an echo."""
    return evaluate_sync(
        Suite(
            name="towns",
            cases=[
                Case(
                    input="Paris", tags=["capital"], min_pass_rate=0.5, expect=[Contains("Paris")]
                ),
                Case(id="lyon", input="Lyon", runs=2, expect=[Contains("L")]),
            ],
            providers=[Mock(name="a"), Mock(name="b", default="L")],
            gate=Gate(min_pass_rate=0.9),
            runs=3,
        )
    )


def test_counts_and_rates(report: Report) -> None:
    assert (report.total, report.passed, report.failed, report.all_passed) == (10, 7, 3, False)
    assert report.pass_rate == 0.75
    assert report.verdict.status == "borderline"
    assert report.cases["lyon"].input == "Lyon"


def test_the_summary_has_a_line_for_what_was_asked_of_whom(report: Report) -> None:
    assert report.summary().splitlines()[1:] == [
        "  Paris on a: 3 of 3 runs, score 100 %",
        "  Paris on b: 0 of 3 runs, score 0 %",
        '    3 runs: no "Paris" in the answer: "L"',
        "  Lyon on a: 2 of 2 runs, score 100 %",
        "  Lyon on b: 2 of 2 runs, score 100 %",
    ]


def test_what_was_saved_loads_as_the_same_report(report: Report, tmp_path: Path) -> None:
    loaded = Report.load(report.save(tmp_path / "new" / "baseline.json"))
    assert list(loaded.runs) == list(report.runs)
    assert (loaded.totals, loaded.verdict, loaded.gate) == (
        report.totals,
        report.verdict,
        report.gate,
    )
    assert loaded.by_variant == report.by_variant
    assert {case.id: case.min_pass_rate for case in loaded.cases.values()} == {
        "Paris": 0.5,
        "lyon": None,
    }
    again = loaded.save(tmp_path)
    assert again == tmp_path / "report.json"
    assert again.read_bytes() == (tmp_path / "new" / "baseline.json").read_bytes()
    assert Report.load(tmp_path).totals == report.totals


def test_a_loaded_report_has_its_comparison_and_its_confirm_runs(tmp_path: Path) -> None:
    def suite(said: str) -> Suite:
        cases = [
            Case(input="Paris", expect=[Contains("Paris")]),
            Case(input="Lyon", expect=[Contains("o")]),
        ]
        return Suite(name="towns", cases=cases, providers=Mock(name="a", default=said))

    before = evaluate_sync(suite("Paris, no?"), runs=8)
    after = evaluate_sync(suite("Lyon"), runs=8, baseline=before, out=tmp_path)
    loaded = Report.load(tmp_path)
    assert isinstance(loaded.comparison, Comparison)
    assert [cell.case for cell in loaded.comparison.select("regressed")] == ["Paris"]
    assert after.confirmation is not None
    assert loaded.confirmation is not None
    assert loaded.confirmation.totals == after.confirmation.totals
    assert (
        loaded.save(tmp_path / "again.json").read_bytes() == (tmp_path / "report.json").read_bytes()
    )


def test_what_the_baseline_answered_is_kept_when_a_report_is_saved_and_loaded(
    tmp_path: Path,
) -> None:
    def suite(said: str) -> Suite:
        return Suite(
            name="towns",
            cases=[Case(input="Paris", expect=[Contains("Paris")])],
            providers=Mock(default=said),
        )

    evaluate_sync(suite("Paris, no?"), runs=8, out=tmp_path / "base")
    after = evaluate_sync(suite("Lyon"), runs=8, baseline=tmp_path / "base", out=tmp_path / "head")
    written = (tmp_path / "head" / "report.json").read_bytes()
    assert [cell["answer"] for cell in json.loads(written)["base"]["cells"]] == ["Paris, no?"]
    assert Report.load(tmp_path / "head").save(tmp_path / "again.json").read_bytes() == written
    assert after.save(tmp_path / "same.json").read_bytes() == written


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"",
            (
                r"report\.json: is not a complete report of ci-evals \(it is empty\): "
                r"download it again"
            ),
        ),
        (
            b"{}",
            (
                r"report\.json: is not a complete report of ci-evals \(.*schema_version.*\): "
                r"download it again"
            ),
        ),
        (b"\xff", r"report\.json: is not a complete report of ci-evals \(.*\): download it again"),
        (
            b'{"schema_version": 99}',
            r"report\.json: is of schema version 99, .*: upgrade ci-evals here",
        ),
    ],
)
def test_what_is_no_report_is_refused_with_what_to_try(
    content: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / "report.json").write_bytes(content)
    with pytest.raises(StorageError, match=message):
        Report.load(tmp_path)


def test_a_report_that_is_not_there_or_cannot_be_written_is_an_error(
    report: Report, tmp_path: Path
) -> None:
    with pytest.raises(StorageError, match="there is no report"):
        Report.load(tmp_path / "nowhere.json")
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be written"):
        report.save(tmp_path / "file" / "report.json")


def test_a_slice_is_a_report_of_its_own(report: Report) -> None:
    capital = report.slice(tag="capital")
    assert (capital.total, capital.passed) == (6, 3)
    assert [run.case for run in capital.runs] == ["Paris"] * 6
    assert report.slice(provider="b").pass_rate == 0.5
    assert report.slice(case="lyon", provider="a").summary().startswith("2 of 2 runs passed")
    assert report.slice(tag="capital").slice(provider="b").failed == 3
    assert report.slice(tag="capital", case="lyon").total == 0


@pytest.mark.parametrize(
    ("part", "says"),
    [
        ({"case": "lion"}, "slice(case='lion'): unknown case 'lion', did you mean 'lyon'?"),
        ({"tag": "rare"}, "slice(tag='rare'): unknown tag 'rare', known: capital"),
        ({"provider": "c"}, "slice(provider='c'): unknown provider 'c', known: a, b"),
        (
            {"prompt": "prompt 1"},
            "slice(prompt='prompt 1'): unknown prompt 'prompt 1', known: none",
        ),
    ],
)
def test_a_slice_of_what_a_report_does_not_have_is_refused(
    report: Report, part: dict[str, str], says: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(says)):
        report.slice(**part)


def test_a_cost_that_nobody_knows_is_none_and_not_zero(report: Report) -> None:
    assert report.figures().cost_usd is None
    assert report.spent.total_usd is None
    free = Price(input_per_mtok=0, output_per_mtok=0)
    suite = Suite(cases=["hi"], providers=Mock(price=free), expect=Contains("hi"))
    assert evaluate_sync(suite).figures().cost_usd == 0


def test_a_slice_of_a_loaded_report_can_be_saved(report: Report, tmp_path: Path) -> None:
    part = Report.load(report.save(tmp_path)).slice(provider="b", tag="capital")
    assert Report.load(part.save(tmp_path / "part.json")).totals == Counts(0, 3, 0, 3)


def echoed(**settings: Any) -> Report:
    """Twenty cases whose runs all pass, and twenty whose runs all fail."""
    cases = [
        Case(input=f"{kind} {number}", tags=[kind], expect=[Contains("right")])
        for number in range(20)
        for kind in ("right", "wrong")
    ]
    return evaluate_sync(Suite(name="answers", cases=cases, providers=[Mock(name="a")], **settings))


def test_a_slice_has_the_rounds_that_were_run_beyond_the_first_ones() -> None:
    report = echoed(runs=2, max_runs=4, gate=Gate(min_pass_rate=0.5, prove=True))
    assert report.total == 4 * 40
    assert report.slice(tag="right").totals == Counts(80, 0, 0, 80)
    assert report.slice(case="wrong 3").totals == Counts(0, 4, 0, 4)


def test_a_slice_of_a_report_that_was_settled_early_is_judged_by_its_own_runs() -> None:
    report = echoed(runs=3, stop_early=True, gate=Gate(min_pass_rate=0.9))
    assert report.settled == report.verdict.status == "fail"
    right, wrong = report.slice(tag="right"), report.slice(tag="wrong")
    assert (right.total, right.verdict.status) == (20, "pass")
    assert (wrong.total, wrong.verdict.status) == (20, "fail")


def test_beside_an_earlier_report_a_drop_is_seen(tmp_path: Path) -> None:
    def answered(said: str) -> Report:
        cases = [
            Case(input="Paris", expect=[Contains("Paris")]),
            Case(input="Lyon", expect=[Contains("o")]),
        ]
        return evaluate_sync(
            Suite(name="towns", cases=cases, providers=Mock(name="a", default=said)), runs=20
        )

    before, after = answered("Paris, no?"), answered("Lyon")
    assert {cell.case for cell in after.diff(before).select("regressed")} == {"Paris"}
    assert {cell.case for cell in before.diff(after.save(tmp_path)).select("fixed")} == {"Paris"}
    assert not after.diff(after).select("regressed", "suspect")


def test_an_evaluation_beside_a_baseline_is_judged_by_it(tmp_path: Path) -> None:
    def suite(said: str) -> Suite:
        cases = [
            Case(input="Paris", expect=[Contains("Paris")]),
            Case(input="Lyon", expect=[Contains("o")]),
        ]
        return Suite(
            name="towns",
            cases=cases,
            providers=Mock(name="a", default=said),
            gate=Gate(min_pass_rate=0.0),
        )

    before = evaluate_sync(suite("Paris, no?"), runs=8)
    after = evaluate_sync(suite("Lyon"), runs=8, baseline=before, out=tmp_path)
    assert isinstance(after.comparison, Comparison)
    assert [cell.case for cell in after.comparison.select("regressed")] == ["Paris"]
    assert (before.verdict.status, after.verdict.status) == ("pass", "fail")
    assert (
        json.loads((tmp_path / "report.json").read_bytes())["comparison"]["counts"]["regressed"]
        == 1
    )
    assert evaluate_sync(suite("Lyon"), baseline=tmp_path).verdict.status == "pass"
    (tmp_path / "none").mkdir()
    assert evaluate_sync(suite("Lyon"), baseline=tmp_path / "none").comparison == NoComparison(
        f"there is no report at {(tmp_path / 'none').as_posix()}"
    )


def test_a_baseline_that_is_not_there_is_an_error_before_anything_is_called(tmp_path: Path) -> None:
    suite = Suite(
        name="towns", cases=[Case(input="Paris", expect=[Contains("o")])], providers=Mock(name="a")
    )
    with pytest.raises(StorageError, match="nowhere: there is no baseline here"):
        evaluate_sync(suite, baseline=tmp_path / "nowhere", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_leaderboard_has_the_best_variant_first(report: Report) -> None:
    assert [(each.place, each.variant.variant.provider) for each in report.leaderboard] == [
        ("1=", "a"),
        ("1=", "b"),
    ]


def test_each_evaluation_has_an_id_and_the_label_of_its_suite() -> None:
    suite = Suite(
        name="towns",
        cases=["hi"],
        providers=Mock(),
        expect=[Contains("h")],
        settings={"label": "nightly"},
    )
    first, second = evaluate_sync(suite), evaluate_sync(suite)
    assert first.run_id
    assert first.run_id != second.run_id
    assert first.suite.label == "nightly"


def test_the_difference_is_a_table_with_what_changed_first() -> None:
    def answered(said: str, *more: str) -> Report:
        cases = [Case(input=name, expect=[Contains(name[0])]) for name in ("Lyon", "Paris", *more)]
        return evaluate_sync(
            Suite(name="towns", cases=cases, providers=Mock(name="a", default=said)), runs=20
        )

    table = answered("Lyon", "Oslo").diff_table(answered("Lyon, Paris")).splitlines()
    assert [
        re.split(r"  +", line)[:4]
        for line in table
        if "latency" not in line and "tokens" not in line
    ] == [
        ["", "baseline", "here", "change"],
        ["pass rate", "100 %", "50 %", "-50.0 points"],
        ["mean score", "-0.50 (-0.56 to -0.44)"],
        ["Paris", "20 of 20", "0 of 20", "regressed"],
        ["Oslo", "—", "0 of 20", "new"],
        ["Lyon", "20 of 20", "20 of 20", "unchanged"],
    ]


@pytest.mark.parametrize("runs", [1, 3, 7, 10, 29])
@pytest.mark.parametrize("score", [0.9, 0.1, 0.57, 1 / 3])
def test_scores_that_are_all_at_the_bar_meet_it(score: float, runs: int, tmp_path: Path) -> None:
    graders = [
        grader(name=f"g{weight}", threshold=score, weight=weight)(lambda _: score)
        for weight in (0.1, 1, 7)
    ]
    suite = Suite(
        cases=["a", "b", "c"], providers=Mock(), expect=graders, threshold=score, runs=runs
    )
    report = evaluate_sync(suite)
    for each in (report, Report.load(report.save(tmp_path)), report.slice(case="a")):
        assert each.all_passed
        assert each.match_rate == score
        assert {run.score for run in each.runs} == {score}
        (standing,) = each.leaderboard
        assert standing.variant.match_rate == score
        assert set(standing.variant.grader_means.values()) == {score}


def test_rates_and_scores_that_come_to_the_bar_meet_it() -> None:
    scores = {"a": 0.85, "b": 0.95, "c": 0.8, "d": 1.0, "e": 0.9}
    scored = grader(threshold=0)(lambda output: scores[output])
    report = evaluate_sync(Suite(cases=list(scores), providers=Mock(), expect=scored))
    assert report.match_rate == 0.9
    nine_of_ten = grader(lambda output, answer: (int(output) + answer.request.run) % 10 > 0)
    suite = Suite(
        cases=[str(n) for n in range(29)],
        providers=Mock(),
        expect=nine_of_ten,
        runs=10,
        gate=Gate(min_pass_rate=0.9),
    )
    report = evaluate_sync(suite)
    assert (report.pass_rate, report.verdict.status) == (0.9, "pass")


def test_a_slice_of_a_loaded_report_keeps_how_often_each_case_ran(tmp_path: Path) -> None:
    runs_of = {"Oslo": 1, "Bo": 4}
    cases = [Case(input=text, runs=runs, expect=[Contains("o")]) for text, runs in runs_of.items()]
    report = evaluate_sync(Suite(name="towns", cases=cases, providers=Mock(default="o")))
    part = Report.load(report.save(tmp_path)).slice(provider="mock")
    assert [counts.planned for counts in part.by_case.values()] == [1, 4]
    assert list(part.runs) == list(report.runs)
