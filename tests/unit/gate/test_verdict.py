"""The verdict of the gate on a report, and its words."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import pytest
from factories import Outcome, many, report_of
from hypothesis import example, given
from hypothesis import strategies as st
from known import suite

from ci_evals.format import percent
from ci_evals.gate.bars import ScopeVerdict, VerdictStatus
from ci_evals.gate.verdict import FailOn, Verdict, decide, exit_code, population_bounds, settle
from ci_evals.gate.wording.bars import scope_label
from ci_evals.model.case import Variant
from ci_evals.model.report import SuiteReport
from ci_evals.model.rules import Gate

FAST, STRONG = Variant("fast", "short"), Variant("strong", "short")
BAR = Gate(min_pass_rate=0.6)


def tagged(cells: Mapping[str, Outcome], *tags: str) -> dict[str, dict[str, Any]]:
    """Gives all these cases some tags."""
    return {name: {"tags": tags} for name in cells}


def scope(verdict: Verdict, kind: str, name: str | None = None) -> ScopeVerdict:
    [found] = [
        scope for scope in verdict.scopes if scope.kind == kind and name in (None, scope.name)
    ]
    return found


def test_a_rate_at_or_above_the_bar_passes() -> None:
    verdict = decide(report_of(many((35, "PPP"), (5, "PPF"))), Gate(min_pass_rate=0.9))
    assert (verdict.status, verdict.reason) == ("pass", "pass rate 95.8 % meets the bar of 90 %")
    assert verdict.hint is None


def test_a_rate_that_is_surely_below_the_bar_fails() -> None:
    verdict = decide(report_of(many((30, "PPP"), (10, "FFP"))), Gate(min_pass_rate=0.9))
    assert verdict.status == "fail"
    assert (
        verdict.reason
        == "pass rate 83.3 % is below the bar of 90 % (at most 88.1 %, 95 % confidence)"
    )


def test_a_rate_below_the_bar_within_the_noise_is_borderline() -> None:
    verdict = decide(report_of(many((34, "P"), (6, "F"))), Gate(min_pass_rate=0.9))
    assert verdict.status == "borderline"
    assert verdict.reason == (
        "pass rate 85 % is below the bar of 90 %, but 40 runs are too few to tell; not"
        " blocking. With 4 runs per case (160 calls), even odds of a clear verdict"
    )


def test_the_worked_suite_of_forty_cases() -> None:
    report = report_of(many(*((1, cell) for cell in suite("S40"))))
    [judged] = decide(report, Gate(min_pass_rate=0.9)).scopes
    assert (judged.rate, judged.lower, judged.upper) == pytest.approx(
        (11 / 12, 0.8709788405, 0.9498960589)
    )
    assert (judged.cases, judged.graded, judged.failed) == (40, 120, 10)
    assert [
        decide(report, Gate(min_pass_rate=bar)).status for bar in (0.91, 0.92, 0.949, 0.951)
    ] == [
        "pass",
        "borderline",
        "borderline",
        "fail",
    ]


def test_the_level_of_confidence_decides_what_is_noise() -> None:
    report = report_of(many((31, "P"), (9, "F")))
    verdicts = [
        decide(report, Gate(min_pass_rate=0.9, confidence=level)) for level in (0.95, 0.999)
    ]
    assert [verdict.status for verdict in verdicts] == ["fail", "borderline"]
    assert "(at most " in verdicts[0].reason


@pytest.mark.parametrize(
    ("outcome", "bar"),
    [((9, 10), 0.9), ((7, 10), 0.7), ((29, 100), 0.29), ((57, 100), 0.57), ((2, 3), 2 / 3)],
)
def test_a_rate_that_equals_the_bar_meets_it(outcome: tuple[int, int], bar: float) -> None:
    for cases in (1, 3, 49):
        assert decide(report_of(many((cases, outcome))), Gate(min_pass_rate=bar)).status == "pass"


@given(st.integers(1, 199), st.sampled_from((1, 2, 5)))
def test_no_bar_of_three_decimals_is_missed_by_a_rounding_error(passed: int, cases: int) -> None:
    report = report_of(many((cases, (passed, 200))))
    assert decide(report, Gate(min_pass_rate=passed / 200)).status == "pass"
    assert decide(report, Gate(min_pass_rate=(5 * passed + 1) / 1000)).status != "pass"


def test_a_narrow_miss_is_not_shown_as_a_hit() -> None:
    verdict = decide(report_of({"only": (8_999, 10_000)}), Gate(min_pass_rate=0.9))
    assert verdict.status == "borderline"
    assert verdict.reason.startswith("pass rate 89.99 % is below the bar of 90 %")


def test_a_bar_of_one_leaves_no_room() -> None:
    cells = many((999, "PPP"), (1, "PPF"))
    verdict = decide(report_of(cells), Gate(min_pass_rate=1.0))
    assert (verdict.status, verdict.reason) == (
        "fail",
        "1 of 3,000 runs failed, and every run must pass",
    )
    assert decide(report_of(many((5, "PPP"))), Gate(min_pass_rate=1.0, prove=True)).status == "pass"


def test_a_single_failure_fails_a_bar_of_one_even_where_the_bound_rounds_to_one() -> None:
    cells = {"often": (9_999, 10_000)} | many((40, "P"))
    assert decide(report_of(cells), Gate(min_pass_rate=1)).status == "fail"


def test_proof_takes_more_than_a_rate_above_the_bar() -> None:
    gate = Gate(min_pass_rate=0.9, prove=True)
    likely, proven = report_of(many((40, "P"))), report_of(many((40, "PPP")))
    assert decide(report_of(many((20, "P"))), gate).reason == (
        "pass rate 100 % meets the bar of 90 %, but more runs are needed to prove it"
        " (at least 86.1 %, 95 % confidence)"
    )
    assert decide(report_of(many((20, "P"))), gate).status == "borderline"
    assert decide(likely, gate).status == "pass"
    assert (
        decide(proven, gate).reason
        == "pass rate 100 % meets the bar of 90 % (at least 97.5 %, 95 % confidence)"
    )


def test_proof_changes_nothing_below_the_bar() -> None:
    for cells in (many((34, "P"), (6, "F")), many((30, "PPP"), (10, "FFP"))):
        proving, plain = (
            decide(report_of(cells), Gate(min_pass_rate=0.9, prove=prove))
            for prove in (True, False)
        )
        assert proving == plain


class TestWithoutABar:
    @pytest.mark.parametrize("gate", [None, Gate(), Gate(on_borderline="fail", per_variant=True)])
    def test_every_run_must_pass(self, gate: Gate | None) -> None:
        verdict = decide(report_of(many((39, "PPP"), (1, "PPF"))), gate)
        assert (verdict.status, verdict.reason) == (
            "fail",
            "1 of 120 runs failed, and every run must pass",
        )
        assert verdict.hint == "to let some runs fail, set a bar: `gate: {min_pass_rate: 0.9}`"

    def test_where_no_run_passed_a_bar_is_no_way_out(self) -> None:
        verdict = decide(report_of({"a": "FFF"}), None)
        assert (verdict.reason, verdict.hint) == (
            "3 of 3 runs failed, and every run must pass",
            None,
        )

    def test_all_passed_is_a_pass(self) -> None:
        verdict = decide(report_of({"only": "P"}), None)
        assert (verdict.status, verdict.reason, verdict.hint) == ("pass", "1 of 1 run passed", None)

    def test_a_few_errored_runs_are_left_out_and_told(self) -> None:
        verdict = decide(report_of(many((38, "PPP"), (2, "PPE"))), None)
        reason = "118 of 118 runs passed; 2 of 120 runs errored"
        assert (verdict.status, verdict.reason) == ("pass", reason)

    def test_a_case_with_a_bar_of_its_own_is_held_to_that_instead(self) -> None:
        own = {"shaky": {"min_pass_rate": 0.5}}
        verdict = decide(report_of({"solid": "PPP", "shaky": "PPF"}, cases=own), None)
        assert verdict.status == "pass"
        assert [(scope.kind, scope.name, scope.bar, scope.failed) for scope in verdict.scopes] == [
            ("suite", "capitals", 1.0, 0),
            ("case", "shaky", 0.5, 1),
        ]
        failed = decide(report_of({"solid": "PPF", "shaky": "PPF"}, cases=own), None)
        assert failed.status == "fail"
        assert failed.reason == "other cases: 1 of 3 runs failed, and every run must pass"
        alone = decide(report_of({"shaky": "PPF"}, cases=own), None)
        assert (alone.status, scope(alone, "suite").bar) == ("pass", None)


class TestScopes:
    def test_a_suite_without_the_cases_that_have_their_own_bar_is_labelled_so(self) -> None:
        report = report_of(
            {"solid": "PPP", "shaky": "PPF"}, cases={"shaky": {"min_pass_rate": 0.5}}
        )
        labels = [
            [scope_label(scope, report) for scope in decide(report, gate).scopes]
            for gate in (None, BAR)
        ]
        assert labels == [["suite, other cases", "case"], ["suite", "case"]]

    def test_each_bar_is_judged_by_its_own_part_of_the_matrix(self) -> None:
        cells: dict[str, Outcome | list[Outcome]] = {
            "book": ["PPPP", "FFFF"],
            "cancel": ["PPPP", "PPPP"],
            "chat": ["PPFP", "PPPP"],
        }
        cases: dict[str, dict[str, Any]] = {
            "book": {"tags": ("critical", "tools")},
            "cancel": {"tags": ("critical", "critical")},
            "chat": {"min_pass_rate": 0.7},
        }
        gate = Gate(
            min_pass_rate=0.5, per_variant=True, tags={"critical": 0.4}, providers={"strong": 0.6}
        )
        verdict = decide(report_of(cells, variants=[FAST, STRONG], cases=cases), gate)
        assert [(s.kind, s.name, s.bar, s.cases, s.graded, s.failed) for s in verdict.scopes] == [
            ("suite", "capitals", 0.5, 3, 24, 5),
            ("variant", "fast · short", 0.5, 3, 12, 1),
            ("variant", "strong · short", 0.5, 3, 12, 4),
            ("provider", "strong", 0.6, 3, 12, 4),
            ("tag", "critical", 0.4, 2, 16, 4),
            ("case", "chat", 0.7, 1, 8, 1),
        ]
        rates = [19 / 24, 11 / 12, 8 / 12, 8 / 12, 3 / 4, 7 / 8]
        assert [scope.rate for scope in verdict.scopes] == pytest.approx(rates)
        assert (verdict.status, verdict.reason) == (
            "pass",
            "pass rate 79.2 % meets the bar of 50 %; 5 more bars are met",
        )

    def test_a_provider_has_all_its_prompts(self) -> None:
        variants = [FAST, Variant("fast", "long"), STRONG]
        report = report_of({"book": ["PP", "FF", "PP"]}, variants=variants)
        assert scope(decide(report, Gate(providers={"fast": 0.4})), "provider").rate == 0.5

    def test_the_worst_scope_decides_and_is_named(self) -> None:
        critical = many((3, "PPPP"), (1, "PFPP"), prefix="critical")
        cells = critical | many((36, "PPPP"))
        gate = Gate(min_pass_rate=0.9, tags={"critical": 1.0})
        verdict = decide(report_of(cells, cases=tagged(critical, "critical")), gate)
        assert [scope.status for scope in verdict.scopes] == ["pass", "fail"]
        assert verdict.status == "fail"
        assert verdict.reason == "tag critical: 1 of 16 runs failed, and every run must pass"

    def test_borderline_is_worse_than_a_pass(self) -> None:
        cells = many((20, "P")) | {"shaky": "PPF"}
        verdict = decide(
            report_of(cells, cases={"shaky": {"min_pass_rate": 0.8}}), Gate(min_pass_rate=0.5)
        )
        assert verdict.status == "borderline"
        assert verdict.reason.startswith(
            "case shaky: pass rate 66.7 % is below the bar of 80 %, but 3 runs are too few"
            " to tell; not blocking"
        )

    def test_a_few_further_bars_that_are_missed_are_named_and_more_are_counted(self) -> None:
        cells = many((40, "FFF"))
        gate = Gate(min_pass_rate=0.9, tags={"a": 0.9, "b": 0.9})
        verdict = decide(report_of(cells, cases=tagged(cells, "a", "b")), gate)
        assert verdict.reason.endswith("; tag a and tag b are too low")
        tags = ("a", "b", "c", "d")
        gate = Gate(min_pass_rate=0.9, tags=dict.fromkeys(tags, 0.9))
        many_bars = decide(report_of(cells, cases=tagged(cells, *tags)), gate)
        assert many_bars.reason.endswith("; 4 more bars are missed")
        one = decide(
            report_of(cells, cases=tagged(cells, "a")), Gate(min_pass_rate=0.9, tags={"a": 0.9})
        )
        assert one.reason.endswith("; tag a is too low")

    def test_with_bars_on_tags_only_the_suite_is_shown_but_not_judged(self) -> None:
        critical = many((10, "PPP"), prefix="critical")
        report = report_of(critical | many((10, "FFF")), cases=tagged(critical, "critical"))
        verdict = decide(report, Gate(tags={"critical": 1.0}))
        assert (verdict.status, verdict.reason) == ("pass", "tag critical: 30 of 30 runs passed")
        assert (scope(verdict, "suite").bar, scope(verdict, "suite").rate) == (None, 0.5)

    def test_cells_without_graded_runs_are_left_out_of_the_rate(self) -> None:
        cells = many((38, "PPP"), (1, "FFF"), (1, "EEE"))
        [judged] = decide(report_of(cells), Gate(min_pass_rate=0.9)).scopes
        assert judged.rate == pytest.approx(38 / 39)
        assert (judged.graded, judged.cases) == (117, 40)

    def test_hostile_names_are_escaped_and_shortened(self) -> None:
        name = "\x1b[2J\ud800\n::error::" + "x" * 1_000_000
        report = report_of({"a": "F"}, cases={"a": {"tags": (name,)}})
        reason = decide(report, Gate(tags={name: 1.0})).reason
        assert reason.startswith(r"tag \x1b[2J\ud800 ::error::xxx")
        assert len(reason) < 200
        assert reason.isprintable()


@pytest.mark.parametrize(
    ("status", "warn", "strict"),
    [("pass", 0, 0), ("borderline", 0, 1), ("fail", 1, 1), ("error", 3, 3)],
)
def test_exit_codes(status: VerdictStatus, warn: int, strict: int) -> None:
    verdict = Verdict(status=status, leading=None, sentence="")
    modes: tuple[tuple[Literal["warn", "fail"], int], ...] = (("warn", warn), ("fail", strict))
    for on_borderline, code in modes:
        assert exit_code(verdict, Gate(on_borderline=on_borderline)) == code
    assert exit_code(verdict, None) == warn


@pytest.mark.parametrize(
    ("rate", "marks", "text"),
    [
        (0.9, (), "90 %"),
        (0.925, (), "92.5 %"),
        (2 / 3, (), "66.7 %"),
        (0.89999, (0.9,), "89.999 %"),
        (0.90004, (0.9,), "90.004 %"),
        (0.9996, (), "99.96 %"),
        (0.99996, (), "99.996 %"),
        (0.00002, (), "0.002 %"),
        (1e-7, (), "0.00001 %"),
        (0.899951, (), "90.0 %"),
        (0.99999, (0.99999,), "99.999 %"),
        (1, (), "100 %"),
        (0.0, (), "0 %"),
    ],
)
def test_percentages_are_short_but_never_misleading(
    rate: float, marks: tuple[float, ...], text: str
) -> None:
    assert percent(rate, *marks) == text


@given(st.floats(0, 1), st.floats(0, 1))
@example(0.8598, 0.8603)
def test_a_percentage_is_on_the_right_side_of_its_mark(rate: float, mark: float) -> None:
    def shown(value: float) -> float:
        return float(percent(value, rate, mark).removesuffix(" %"))

    assert (shown(rate) < shown(mark)) == (rate < mark)


class TestNewCases:
    def test_they_are_less_certain_than_the_suite_itself(self) -> None:
        report = report_of(many((30, "PPP"), (6, "FFF"), (4, "PPF")))
        [judged] = decide(report, Gate(min_pass_rate=0.5)).scopes
        assert judged.lower is not None
        assert judged.upper is not None
        bounds = population_bounds(report, None)
        assert bounds is not None
        assert bounds.lower < judged.lower < judged.upper < bounds.upper

    def test_the_bounds_are_at_the_gates_confidence(self) -> None:
        report = report_of(many((8, "P"), (2, "F")))
        usual, sure = (population_bounds(report, gate) for gate in (None, Gate(confidence=0.99)))
        assert usual is not None
        assert sure is not None
        assert sure.lower < usual.lower < usual.upper < sure.upper

    def test_the_variants_of_a_case_are_no_cases_of_their_own(self) -> None:
        one = report_of(many((8, "P"), (2, "F")))
        two = report_of(many((8, "P"), (2, "F")), variants=(FAST, STRONG))
        assert population_bounds(one, None) == population_bounds(two, None)
        assert population_bounds(report_of(many((4, "P")), variants=(FAST, STRONG)), None) is None


@pytest.mark.parametrize(
    ("fail_on", "codes"),
    [("fail", (0, 0, 1, 3)), ("borderline", (0, 1, 1, 3)), ("never", (0, 0, 0, 0))],
)
def test_fail_on_wins_over_the_suites_own_word(fail_on: FailOn, codes: tuple[int, ...]) -> None:
    statuses: tuple[VerdictStatus, ...] = ("pass", "borderline", "fail", "error")
    for status, code in zip(statuses, codes, strict=True):
        verdict = Verdict(status=status, leading=None, sentence="")
        for on_borderline in ("warn", "fail"):
            assert exit_code(verdict, Gate(on_borderline=on_borderline), fail_on) == code


@pytest.mark.parametrize(
    ("runs", "text"), [(1, "1 run exceeded its"), (3, "3 runs exceeded their")]
)
def test_more_runs_over_budget_than_the_gate_allows_are_red(runs: int, text: str) -> None:
    report = report_of(
        {"a": "P" * runs}, edit=lambda result: replace(result, budget_violations=("tokens",))
    )
    verdict = decide(report, Gate(max_budget_violations=0))
    assert (verdict.status, verdict.reason) == ("fail", f"{text} budget, and the gate allows 0")
    assert decide(report, Gate(max_budget_violations=runs)).status == "pass"


def test_a_verdict_that_was_certain_before_the_last_round_says_so() -> None:
    report = report_of(many((19, "F"), (21, "P")), settled="fail")
    verdict = decide(report, Gate(min_pass_rate=0.9))
    assert verdict.status == "fail"
    assert verdict.reason == (
        "pass rate 52.5 % is below the bar of 90 % (at most 66.2 %, 95 % confidence); "
        "stopped after 1 round: the rest could not change the verdict"
    )


@pytest.mark.parametrize(
    ("cells", "gate", "expected"),
    [
        (many((39, "P"), (1, "F")), None, "fail"),
        (many((40, "P")), None, None),
        (many((19, "F"), (21, "P")), Gate(min_pass_rate=0.9), "fail"),
        (many((4, "F"), (36, "P")), Gate(min_pass_rate=0.9), None),
        (many((40, "P")), Gate(min_pass_rate=0.3), "pass"),
        (many((40, "E")), Gate(min_pass_rate=0.3), None),
        (many((40, "P")), Gate(min_pass_rate=0.3, metrics={"accuracy": 0.5}), None),
    ],
)
def test_a_verdict_is_settled_when_no_outcome_of_the_other_rounds_changes_it(
    cells: dict[str, Outcome], gate: Gate | None, expected: str | None
) -> None:
    report = report_of(cells)
    plan = replace(report.plan, counts=[3] * len(report.plan))
    assert settle(report, plan, gate) == expected


@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=30),
    st.integers(3, 6),
    st.sampled_from([0.3, 0.5, 0.8, 0.9, 1.0]),
    st.booleans(),
)
def test_what_was_settled_is_what_the_rounds_that_ran_say(
    passes: list[int], rounds: int, bar: float, prove: bool
) -> None:
    report = report_of({f"case {n}": (passed, 2) for n, passed in enumerate(passes)})
    gate = Gate(min_pass_rate=bar, prove=prove)
    found = settle(report, replace(report.plan, counts=[rounds] * len(report.plan)), gate)
    assert found in (None, decide(report, gate).status)


# Never green without evidence.


def test_nothing_graded_is_no_verdict() -> None:
    assert decide(report_of({}), None).reason == "no run was graded"
    for gate in (None, Gate(min_pass_rate=0.0, max_error_rate=1.0)):
        verdict = decide(report_of({"a": "EEE"}), gate)
        assert (verdict.status, verdict.reason) == ("error", "all 3 runs errored: 429: slow down")
        assert [(s.status, s.rate, s.lower, s.upper) for s in verdict.scopes] == [
            ("error", None, None, None)
        ]


def test_too_many_errored_runs_are_no_verdict() -> None:
    cells = many((26, "PPP"), (14, "PPE"))
    for gate in (None, Gate(min_pass_rate=0.9)):
        verdict = decide(report_of(cells), gate)
        assert verdict.status == "error"
        found = "14 of 120 runs errored (11.7 %), more than the 5 % that the gate allows"
        assert verdict.reason == f"{found}: 429: slow down"
    assert decide(report_of(cells), Gate(min_pass_rate=0.9, max_error_rate=0.2)).status == "pass"


def test_a_bar_that_is_missed_even_if_every_errored_run_had_passed_is_red() -> None:
    verdict = decide(report_of(many((30, "FFP"), (10, "PPE"))), Gate(min_pass_rate=0.9))
    assert verdict.status == "fail"
    assert verdict.reason == (
        "pass rate 50 % is below the bar of 90 % (at most 58.4 %, 95 % confidence); also, 10 of"
        " 120 runs errored (8.3 %), more than the 5 % that the gate allows: 429: slow down"
    )
    perhaps = report_of(many((5, "F"), (15, "P"), (20, "E")))
    tolerant = Gate(min_pass_rate=0.93, max_error_rate=0.5)
    assert decide(perhaps, tolerant).status == "fail"
    assert decide(perhaps, Gate(min_pass_rate=0.93)).status == "error"


def test_as_many_errored_runs_as_allowed_are_fine() -> None:
    for cases, limit in ((20, 0.05), (10, 0.1), (100, 0.07)):
        errored = round(cases * limit)
        cells = many((cases - 2 * errored, "PP"), (2 * errored, "PE"))
        gate = Gate(min_pass_rate=0.9, max_error_rate=limit)
        assert decide(report_of(cells), gate).status == "pass"


def test_a_case_without_a_graded_run_is_named_and_never_green() -> None:
    cells = many((38, "PPP")) | {"refund": "EEE", "cancel": "PEE"}
    verdict = decide(report_of(cells), Gate(max_error_rate=0.1))
    assert (verdict.status, verdict.reason) == ("borderline", "not checked: refund")
    fine = {case: ["PPP", "PPP"] for case in many((40, "PPP"))}
    two: dict[str, Any] = {**fine, "refund": ["EEE", "PPP"], "late": ["EEE", "EEE"]}
    variants = [Variant("gpt"), Variant("claude")]
    verdict = decide(report_of(two, variants=variants), Gate(max_error_rate=0.1))
    assert verdict.reason == "not checked: refund on gpt, late"


def test_a_share_of_errors_just_above_the_limit_is_not_shown_as_the_limit() -> None:
    verdict = decide(report_of({"a": "P" * 9_499 + "E" * 501}), None)
    assert verdict.reason.startswith("501 of 10,000 runs errored (5.01 %), more than the 5 %")


def test_a_bar_without_a_graded_run_is_no_verdict() -> None:
    cells = many((99, "P")) | {"refund": "E"}
    verdict = decide(
        report_of(cells, cases={"refund": {"tags": ("critical",)}}), Gate(tags={"critical": 0.5})
    )
    assert (verdict.status, verdict.reason) == ("error", "tag critical: no run was graded")
    own = decide(
        report_of(cells, cases={"refund": {"min_pass_rate": 0.5}}), Gate(min_pass_rate=0.9)
    )
    assert (own.status, own.reason) == ("error", "case refund: no run was graded")


@pytest.mark.parametrize(
    ("gate", "name"),
    [
        (Gate(tags={"critcal": 1.0}), "tag critcal"),
        (Gate(providers={"slow": 0.9}), "provider slow"),
    ],
)
def test_a_bar_on_what_does_not_exist_is_no_verdict(gate: Gate, name: str) -> None:
    verdict = decide(report_of({"a": "PPP"}), gate)
    assert (verdict.status, verdict.reason) == (
        "error",
        f"{name}: no case with this tag or provider was run",
    )


def test_a_run_that_was_stopped_early_never_passes() -> None:
    verdict = decide(report_of(many((4, "P.."), (36, "..."))), Gate(min_pass_rate=0.9))
    assert verdict.status == "error"
    assert verdict.reason == "too few runs for a verdict; stopped after 4 of 120 runs"
    verdict = decide(report_of(many((1200, "P.."))), Gate(min_pass_rate=0.9))
    assert verdict.reason == "too few runs for a verdict; stopped after 1,200 of 3,600 runs"


def test_a_run_that_was_stopped_early_may_fail() -> None:
    verdict = decide(report_of(many((40, "F.."))), Gate(min_pass_rate=0.9))
    assert verdict.status == "fail"
    assert verdict.reason.endswith("; stopped after 40 of 120 runs")


def test_a_few_missing_runs_do_not_hide_the_verdict() -> None:
    verdict = decide(report_of(many((38, "PPP"), (2, "PP."))), Gate(min_pass_rate=0.9))
    assert verdict.status == "pass"
    assert verdict.reason == "pass rate 100 % meets the bar of 90 %; stopped after 118 of 120 runs"


def test_runs_that_never_happened_do_not_water_down_the_share_of_errors() -> None:
    verdict = decide(report_of({"a": "P" * 9 + "E" + "." * 90}), Gate(min_pass_rate=0.5))
    found = "1 of 10 runs errored (10 %), more than the 5 % that the gate allows: 429: slow down"
    assert verdict.reason == f"{found}; stopped after 10 of 100 runs"


@given(
    st.lists(st.text("PFE.", min_size=1, max_size=4), max_size=12), st.floats(0, 1), st.booleans()
)
def test_no_report_passes_that_has_nothing_to_show(
    outcomes: list[str], bar: float, prove: bool
) -> None:
    report: SuiteReport = report_of(many(*((1, outcome) for outcome in outcomes)))
    verdict = decide(report, Gate(min_pass_rate=bar, prove=prove))
    if verdict.status in {"pass", "borderline"}:
        assert report.totals.graded
        assert report.errored <= 0.05 * (report.totals.graded + report.errored)
    if verdict.status == "pass":
        assert report.pass_rate is not None
        assert report.pass_rate >= bar - 1e-12


def test_one_bar_holds_for_each_case_as_surely_as_for_all_of_them_together() -> None:
    gate = Gate(min_case_pass_rate=0.5)
    cells = {f"case {number}": "PPPPPPPPPP" for number in range(39)}
    by_chance = decide(report_of(cells | {"weak": "FFF"}), gate)
    assert (by_chance.status, by_chance.reason.partition(":")[0]) == ("borderline", "case weak")
    assert decide(report_of({"weak": "FFFFF"}), gate).status == "fail", (
        "a case that is alone bears all of the doubt"
    )
    surely = decide(report_of(cells | {"weak": "F" * 10}), gate)
    assert (surely.status, surely.reason.partition(":")[0]) == ("fail", "case weak")
    assert decide(report_of(cells), gate).status == "pass"


def test_the_bar_of_a_case_wins_over_that_of_each_case() -> None:
    report = report_of({"shaky": "PFFF", "solid": "PPPP"}, cases={"shaky": {"min_pass_rate": 0.2}})
    verdict = decide(report, Gate(min_case_pass_rate=0.9))
    assert verdict.status == "pass"
    assert {scope.name: scope.bar for scope in verdict.scopes if scope.kind == "case"} == {
        "shaky": 0.2,
        "solid": 0.9,
    }


def test_one_bar_for_each_case_stands_beside_that_of_the_suite() -> None:
    cells = {f"case {number}": "PPPPPPPPPP" for number in range(9)} | {"dead": "F" * 10}
    assert decide(report_of(cells), Gate(min_pass_rate=0.8)).status == "pass"
    both = decide(report_of(cells), Gate(min_pass_rate=0.8, min_case_pass_rate=0.6))
    assert (both.status, both.reason.partition(":")[0]) == ("fail", "case dead")
    assert both.scopes[0].status == "pass"
