"""Reports that every format has to show."""

from dataclasses import replace
from typing import Any

import pytest
from factories import STARTED_AT, baseline_of, grade_of, report_of

from ci_evals.gate.compare import NoComparison
from ci_evals.model.case import Variant
from ci_evals.model.report import Looks, SuiteReport
from ci_evals.model.response import Message, Response, ToolCall
from ci_evals.model.result import Result
from ci_evals.model.rules import Gate
from ci_evals.reports.summary import Summary, summarize

GPT = Variant("openai:gpt-4o-mini", "polite")
AGENT = Variant("agent", "polite")
GATE = Gate(min_pass_rate=0.7, tags={"critical": 1.0}, max_error_rate=0.5)

CONTROLS = "".join(map(chr, range(32))) + "\x7f\x85\x9b31m"
HOSTILE = (
    f"{CONTROLS} \u202e\u2066 \u2028 \ufffe \U0001ffff ]]> "
    "</details> </summary><script>alert(1)</script> "
    "``` ````` | [red]x[/red] \n::error::owned\n  ::set-env name=A::b\n"
    "##[error]owned\r::error::owned\n"
    "@octocat #12 GH-12 https://evil.example www.evil.example [a](b) **b** $x$ "
    "0123456789abcdef ~~~ --- "
    "{{ 7 * 7 }} {% raw %} <!-- &#7; &amp; \x1b]0;title\x07\x1b[2J"
)


def summary_of(report: SuiteReport, gate: Gate | None = None) -> Summary:
    return summarize(report, gate)


@pytest.fixture
def flights() -> Summary:
    """Two variants and six cases: passing, failing, flaky, errored, and one run that never ran."""
    report = report_of(
        {
            "book a flight": ["PPPPP", "PPPPF"],
            "refund": ["FFFFF", "PFFPP"],
            "cancel": ["PPPPP", "PPPPE"],
            "status": ["PPPPF", "PPPPP"],
            "greet": ["EEEEE", "PPPP."],
        },
        variants=(GPT, AGENT),
        cases={
            "book a flight": {"tags": ("critical",), "vars": {"from": "Paris", "to": "Lyon"}},
            "refund": {
                "messages": (
                    Message("system", "Be polite."),
                    Message("user", "Give me my money back."),
                )
            },
            "status": {"input": {"flight": "AF 1234"}},
        },
        edit=_flight_result,
        suite={"name": "flight agent"},
        interrupted="SIGINT",
    )
    return summary_of(report, GATE)


@pytest.fixture
def passing() -> Summary:
    return summary_of(report_of({"capital": "PPP", "river": "PPP"}))


@pytest.fixture
def hostile() -> Summary:
    """Everything that a model, a dataset or a provider may write is as bad as it gets."""
    report = report_of(
        {
            f"case {HOSTILE}": "FFP",
            "long": "FFF",
            "surrogate \ud800": "FF",
            "error": "EEE",
            "flaky": "PPF",
        },
        variants=(Variant(f"model {HOSTILE}"),),
        cases={
            "long": {"input": "x" * 1_000_000},
            "surrogate \ud800": {"input": f"\udfff {HOSTILE}", "tags": ("\ud800",)},
            "flaky": {"min_pass_rate": 0.5},
        },
        edit=_hostile_result,
        suite={"name": HOSTILE},
        interrupted=HOSTILE,
    )
    return summary_of(report, Gate(min_pass_rate=0.9))  # without a bar, a hint quotes one


DAY_S = 86_400
PLAIN = Gate(min_pass_rate=0.7)


def compared(
    report: SuiteReport, *bases: SuiteReport, gate: Gate | None = PLAIN, name: str = "main"
) -> Summary:
    return summarize(report, gate, baseline_of(*bases, gate=gate, name=name), confirm_runs=3)


@pytest.fixture
def regressed() -> Summary:
    """One case is worse, which confirm runs made sure of; it is within its own bar."""
    earlier = [
        report_of(
            {"refund": "PPPPPPPPPP", "greet": "PPPPPPPPPP"}, started_at=STARTED_AT - days * DAY_S
        )
        for days in (1, 2, 3)
    ]
    report = report_of(
        {"refund": "PFF", "greet": "PPP"},
        confirming={"refund": "FPFFPFF"},
        cases={"refund": {"min_pass_rate": 0.3}},
        looks=Looks((3, 6, 10), 1),
    )
    return compared(report, *earlier)


@pytest.fixture
def changed() -> Summary:
    """Something of each kind beside nothing that is surely worse."""
    base = report_of(
        {
            "possible": (28, 30),
            "mended": (0, 30),
            "old name": (30, 30),
            "gone": (30, 30),
            "reworded": (9, 30),
            "never good": (0, 30),
            "wavering": (20, 30),
            "steady": (30, 30),
            "asleep": "EEE",
        },
        started_at=STARTED_AT - 3 * 3600,
    )
    report = report_of(
        {
            "possible": "PPF",
            "mended": "PPP",
            "new name": "PPP",
            "reworded": "PPP",
            "brand new": "FFF",
            "never good": "FFF",
            "wavering": "PPF",
            "steady": "PPP",
            "asleep": "PPP",
        },
        confirming={"possible": "PPPPPPF"},
        asks={"new name": "old name", "reworded": "another question"},
        cases={"wavering": {"min_pass_rate": 0.5}},
    )
    return compared(report, base)


@pytest.fixture
def several() -> Summary:
    """Three variants: one new, one much worse as a whole, dearer and slower, and one better."""
    names = [f"case {number}" for number in range(5)]
    old, new = Variant("gpt", "polite"), Variant("haiku", "polite")
    base = report_of(
        {name: ["PPPPPPPPPP", "PFPFPFPFPF"] for name in names},
        variants=(old, new),
        started_at=STARTED_AT - 60,
    )

    def slower(result: Result) -> Result:
        if result.provider != "gpt":
            return result
        return replace(result, cost_usd=0.0013, latency_s=0.8 + 0.01 * int(result.case.split()[1]))

    report = report_of(
        {name: ["PPF", "PPP", "PPP"] for name in names},
        variants=(old, new, Variant("flash", "polite")),
        edit=slower,
    )
    return compared(report, base, gate=Gate(min_pass_rate=0.6))


@pytest.fixture
def uncompared() -> Summary:
    reason = "there is no report at main/report.json"
    return summarize(report_of({"capital": "PPP"}), None, NoComparison(reason))


@pytest.fixture
def hostile_comparison() -> Summary:
    """As `hostile`, with a baseline of the same kind."""
    names = [f"{word} {HOSTILE}" for word in ("worse", "maybe", "better", "edited", "flaky")]
    worse, maybe, better, edited, flaky = names
    model = Variant(f"model {HOSTILE}")
    base = report_of(
        {
            worse: (30, 30),
            maybe: (28, 30),
            better: (0, 30),
            edited: "P",
            f"gone {HOSTILE}": "P",
            flaky: (20, 30),
        },
        variants=(model, Variant(f"old {HOSTILE}")),
        started_at=STARTED_AT - 60,
        suite={"revision": HOSTILE},
    )
    report = report_of(
        {
            worse: "FFF",
            maybe: "PPF",
            better: "PPP",
            edited: "P",
            flaky: "PPF",
            f"came {HOSTILE}": "P",
        },
        confirming={worse: "FFFFFFF", maybe: "PPPPPPF"},
        variants=(model, Variant(f"new {HOSTILE}"), Variant(f"newer {HOSTILE}")),
        asks={edited: "other", f"came {HOSTILE}": f"gone {HOSTILE}"},
        cases={flaky: {"min_pass_rate": 0.5}},
        edit=_hostile_result,
        suite={"name": HOSTILE},
    )
    return compared(report, base, gate=None, name=HOSTILE)


def _flight_result(result: Result) -> Result:
    changes: dict[str, Any] = {}
    if result.provider == GPT.provider:
        changes |= {
            "latency_s": 1 + result.run / 10,
            "cost_usd": None if result.run == 1 else 0.00042,
        }
    if result.case == "refund" and result.status == "failed":
        call = ToolCall("refund", {"amount": 100, "currency": "USD"})
        changes["response"] = Response(output="Done.\nAnything else?", tool_calls=(call,))
        changes["score"] = 0.0 if result.run == 2 else 0.5
        changes["grades"] = (
            grade_of(passed=result.run != 2),
            grade_of(
                grader="tool_call",
                passed=False,
                reason='refund: currency is not "EUR"',
                sentence='refund: currency is "USD", expected "EUR"',
            ),
        )
    return replace(result, **changes)


def _hostile_result(result: Result) -> Result:
    if "\ud800" in result.case:  # no encoding has it, so the journal cannot either
        result = replace(result, case="surrogate ?", fingerprint="surrogate")
    text = "y" * 1_000_000 if result.case == "long" else HOSTILE
    if result.error is not None:
        return replace(result, error=replace(result.error, message=text))
    call = ToolCall(text, text)
    return replace(
        result,
        response=Response(output=text, tool_calls=(call,)),
        grades=tuple(
            grade_of(grader=text[:100], passed=grade.passed, reason=text) for grade in result.grades
        ),
    )
