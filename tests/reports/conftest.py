"""Reports that every format has to show."""

import msgspec
import pytest
from factories import grade_of, report_of

from ci_evals.model import Gate, Message, Response, Result, ToolCall, Variant
from ci_evals.report import Report
from ci_evals.reports.summary import Summary
from ci_evals.verdict.gate import decide

GPT = Variant("openai:gpt-4o-mini", "polite")
AGENT = Variant("agent", "polite")
GATE = Gate(min_pass_rate=0.7, tags={"critical": 1.0}, max_error_rate=0.5)

CONTROLS = "".join(map(chr, range(32))) + "\x7f\x85\x9b31m"
HOSTILE = (
    f"{CONTROLS} \u202e\u2066 \u2028 \ufffe \U0001ffff ]]> </details> </summary><script>alert(1)</script> "
    "``` ````` | [red]x[/red] \n::error::owned\n  ::set-env name=A::b\n##[error]owned\r::error::owned\n"
    "@octocat #12 GH-12 https://evil.example www.evil.example [a](b) **b** $x$ 0123456789abcdef ~~~ --- "
    "{{ 7 * 7 }} {% raw %} <!-- &#7; &amp; \x1b]0;title\x07\x1b[2J"
)


def summary_of(report: Report, gate: Gate | None = None) -> Summary:
    return Summary(report, decide(report, gate), gate)


@pytest.fixture
def flights() -> Summary:
    """Two variants and six cases: passing, failing, flaky, errored, and one run that never took place."""
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
            "refund": {"messages": (Message("system", "Be polite."), Message("user", "Give me my money back."))},
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
        {f"case {HOSTILE}": "FFP", "long": "FFF", "surrogate \ud800": "FF", "error": "EEE", "flaky": "PPF"},
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
    return summary_of(report)


def _flight_result(result: Result) -> Result:
    changes: dict[str, object] = {}
    if result.provider == GPT.provider:
        changes |= {"latency_s": 1 + result.run / 10, "cost_usd": None if result.run == 1 else 0.00042}
    if result.case == "refund" and result.status == "failed":
        call = ToolCall("refund", {"amount": 100, "currency": "USD"})
        reason = "expected refund(currency='EUR'), the closest was refund(currency='USD'): currency differs"
        changes["response"] = Response(output="Done.\nAnything else?", tool_calls=(call,))
        changes["grades"] = (
            grade_of(passed=result.run != 2),
            grade_of(grader="tool_call", passed=False, reason=reason),
        )
    return msgspec.structs.replace(result, **changes)


def _hostile_result(result: Result) -> Result:
    if "\ud800" in result.case:  # no encoding has it, so the journal cannot either
        result = msgspec.structs.replace(result, case="surrogate ?", fingerprint="surrogate")
    text = "y" * 1_000_000 if result.case == "long" else HOSTILE
    if result.error is not None:
        return msgspec.structs.replace(result, error=msgspec.structs.replace(result.error, message=text))
    call = ToolCall(text, text)
    return msgspec.structs.replace(
        result,
        response=Response(output=text, tool_calls=(call,)),
        grades=tuple(grade_of(grader=text[:100], passed=grade.passed, reason=text) for grade in result.grades),
    )
