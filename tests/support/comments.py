"""Summaries that cover all a comment on a pull request may show, one for each situation.

Each is made once, and nobody changes it.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from factories import STARTED_AT, baseline_of, grade_of, many, report_of

from ci_evals.gate.compare import NoComparison
from ci_evals.model.case import Variant
from ci_evals.model.report import SuiteReport
from ci_evals.model.response import Message, Response, ToolCall
from ci_evals.model.result import Result, RunError
from ci_evals.model.rules import Gate
from ci_evals.reports.markdown import Links, comment_document
from ci_evals.reports.summary import BaseAnswer, Summary, summarize

HOUR_S = 3600.0
LINKS = Links(
    run="https://github.com/acme/app/actions/runs/100",
    artifact="https://github.com/acme/app/actions/runs/100/artifacts/7",
    page="https://github.com/acme/app/actions/runs/100/artifacts/8",
)
STEADY = many((34, "PPP"), prefix="faq")
NO_BASELINE = NoComparison("main has no report yet, the first push to it makes one")


class Talk(NamedTuple):
    """What a case asks, a right and a wrong answer, and the words that tell them apart."""

    question: str
    right: str
    wrong: str
    words: str


TALKS: Mapping[str, Talk] = {
    "refund": Talk(
        "My flight was cancelled. Please refund the 100 EUR that I paid.",
        "I have refunded 100 EUR to your card.",
        "I have refunded 100 USD to your card.",
        "EUR",
    ),
    "cancel": Talk(
        "Please cancel my booking QX7R2.",
        "Your booking QX7R2 is cancelled.",
        "I cannot find a booking under that name.",
        "cancelled",
    ),
    "upgrade": Talk(
        "Can I fly in business class?",
        "Yes, the upgrade costs 250 EUR.",
        "Please ask at the gate.",
        "250 EUR",
    ),
    "seat": Talk(
        "I would like to sit at the window.",
        "You now have 12A, a window seat.",
        "You now have 12C, an aisle seat.",
        "window",
    ),
    "greet": Talk(
        "Hello, is anybody there?",
        "Hello! How can I help you?",
        "State your booking number.",
        "help",
    ),
    "meal": Talk(
        "Is there a vegetarian meal?",
        "Yes, order it up to 24 hours before the flight.",
        "There is chicken or pasta.",
        "24 hours",
    ),
}
USUAL_TALKS = (
    Talk(
        "How many bags may I take?",
        "One bag of up to 23 kg is included.",
        "That depends on your ticket.",
        "23 kg",
    ),
    Talk(
        "When does check-in close?",
        "Check-in closes 45 minutes before departure.",
        "Please be at the airport early.",
        "45 minutes",
    ),
    Talk(
        "May I bring my dog?",
        "Dogs of up to 8 kg may travel in the cabin.",
        "We love animals!",
        "8 kg",
    ),
)
POLICY: Mapping[str, Talk] = {
    "refund": Talk(
        "The lamp arrived broken. I want my money back.",
        "We refund the full price to your card.",
        "We issue store credit for the full price.",
        "refund",
    ),
    "parcel": Talk(
        "My parcel never arrived. What now?",
        "I'm sorry! We refund $42.00 to your card.",
        "I'm sorry! We issue store credit of $42.00.",
        "refund",
    ),
    "exchange": Talk(
        "May I exchange the shoes for another size?",
        "Yes, within 30 days, and we pay the return.",
        "Yes, you get store credit for the shoes.",
        "30 days",
    ),
}
"""What the cases of a shop ask whose policy changes, by the first word of their names."""
BEFORE = (
    "I have refunded 100 EUR to your card.\nAnything else?\n"
    '→ refund {"amount":100,"currency":"EUR"}'
)


@cache
def passing() -> Summary:
    """Nothing changed."""
    return _compared({**STEADY, "refund": "PPP"}, [{**STEADY, "refund": "PPP"}] * 4)


@cache
def regression() -> Summary:
    """Cases that surely or possibly got worse, are fixed, still fail, are new, edited, flaky."""
    return _regression(STEADY)


@cache
def small_regression() -> Summary:
    """The same without those that pass as before."""
    return _regression({})


def _regression(steady: Mapping[str, Any]) -> Summary:
    base = {
        **steady,
        "refund": "PPP",
        "cancel": "PPP",
        "upgrade": "FFF",
        "seat": "FFF",
        "greet": "PPF",
        "old": "PPP",
    }
    head = {
        **steady,
        "refund": "FFF",
        "cancel": "PPF",
        "upgrade": "PPP",
        "seat": "FFF",
        "greet": "PFP",
        "meal": "PPP",
    }
    return _compared(
        {**head, "luggage": "PPP"},
        [{**base, "luggage": "PPP"}] * 10,
        confirming={"refund": "FPFPFPP", "cancel": "PPPPPPP"},
        asks={"luggage": "How much may I take along?"},
        cases={"greet": {"min_pass_rate": 0.5}, "refund": {"critical": True}},
        edit=_refund,
        gate=Gate(min_pass_rate=0.9),
        before={("refund", "agent", None): BEFORE},
    )


@cache
def many_regressions() -> Summary:
    """More than a comment has room for, on two variants."""
    names = many(
        (300, "PPP"), prefix="a rather long name of a case about flights and their passengers"
    )
    return _compared(
        dict.fromkeys(names, "FFF"),
        [names] * 4,
        confirming=dict.fromkeys(names, "F" * 7),
        variants=(Variant("gpt-4o-mini", "polite"), Variant("agent", "polite")),
        edit=_talkative,
        before={
            (name, provider, "polite"): "Yes.\n" * 20
            for name in names
            for provider in ("gpt-4o-mini", "agent")
        },
    )


@cache
def policy_change() -> Summary:
    """Most cases regressed, for two reasons."""
    broken = {
        **many((64, "PPP"), prefix="refund"),
        **many((57, "PPP"), prefix="parcel"),
        **many((7, "PPP"), prefix="exchange"),
    }
    steady = many((22, "PPP"), prefix="faq")
    return _compared(
        {**dict.fromkeys(broken, "FFF"), **steady},
        [{**broken, **steady}] * 4,
        confirming=dict.fromkeys(broken, "F" * 7),
        edit=_shop,
        gate=Gate(min_pass_rate=0.9),
        before={(name, "agent", None): POLICY[name.split()[0]].right for name in broken},
        suite={"name": "support bot"},
    )


@cache
def first_run() -> Summary:
    """There is nothing to compare with."""
    report = _report(
        {**STEADY, "refund": "PFP", "cancel": "FFF"}, edit=_refund, suite={"name": "flight agent"}
    )
    return summarize(report, Gate(min_pass_rate=0.98), NO_BASELINE)


@cache
def errored_provider() -> Summary:
    """One of two providers could not be reached."""

    def refuse(result: Result) -> Result:
        if result.error is None:
            return result
        message = "429: You exceeded your current quota (request req_8c1f)"
        return replace(result, error=RunError("rate_limit", message, status=429))

    head: dict[str, Any] = {name: ["PPP", "EEE"] for name in STEADY}
    return _compared(
        head, [STEADY] * 4, variants=(Variant("agent"), Variant("gpt-4o-mini")), edit=refuse
    )


@cache
def fork() -> Summary:
    """Replayed without keys: two cases have no record."""

    def replayed(result: Result) -> Result:
        if result.error is not None:
            message = "no recorded answer to this input, and only recorded answers are allowed"
            return replace(result, error=RunError("not_recorded", message))
        return replace(result, recorded=True)

    gate = Gate(min_pass_rate=0.9, max_error_rate=0.2)
    head = {**STEADY, "refund": "EEE", "new question": "EEE"}
    suite = {"name": "flight agent", "without_secrets": True}
    return _compared(head, [{**STEADY, "refund": "PPP"}] * 4, edit=replayed, gate=gate, suite=suite)


@cache
def borderline() -> Summary:
    """Below the bar, but within noise."""
    head = {**many((28, "PPP"), (4, "PPF"), prefix="faq"), "seat": "FFF"}
    base = {**many((30, "PPP"), (2, "PPF"), prefix="faq"), "seat": "FFF"}
    return _compared(head, [base] * 4, gate=Gate(min_pass_rate=0.94))


def said(text: str) -> Summary:
    """A failing case whose answer is a given text."""

    def answer(result: Result) -> Result:
        return replace(result, response=Response(output=text))

    return summarize(report_of({"capital": "F"}, edit=answer), None)


SITUATIONS: Mapping[str, Callable[[], Summary]] = {
    "pass": passing,
    "regression": regression,
    "many-regressions": many_regressions,
    "policy-change": policy_change,
    "first-run": first_run,
    "errored-provider": errored_provider,
    "fork": fork,
    "borderline": borderline,
}


def text_of(summary: Summary, max_bytes: int = 64_000) -> str:
    return comment_document(summary, LINKS).render(max_bytes)


def _compared(
    head: Mapping[str, Any],
    base: list[dict[str, Any]],
    *,
    gate: Gate | None = None,
    confirming: Mapping[str, Any] | None = None,
    confirm_runs: int = 3,
    before: Mapping[Any, str] | None = None,
    **report: Any,
) -> Summary:
    """A report beside those of the base branch, the newest three hours older than it."""
    options = {"suite": {"name": "flight agent"}, **report}
    variants = {"variants": report["variants"]} if "variants" in report else {}
    older = [
        _report(
            cells, started_at=STARTED_AT - 3 * HOUR_S * number, suite=options["suite"], **variants
        )
        for number, cells in enumerate(base, start=1)
    ]
    made = _report(head, confirming=confirming, **options)
    summary = summarize(made, gate, baseline_of(*older), confirm_runs=confirm_runs)
    answers = {key: BaseAnswer(text=text) for key, text in (before or {}).items()}
    return replace(summary, before=answers)


def _report(
    cells: Mapping[str, Any],
    *,
    cases: Mapping[str, Mapping[str, Any]] | None = None,
    edit: Callable[[Result], Result] = lambda result: result,
    **report: Any,
) -> SuiteReport:
    """A report whose cases ask and answer something of their own."""
    talking = {}
    for name in cells:
        own = (cases or {}).get(name, {})
        talking[name] = {"vars": {"question": _talk(name).question}, **own}
    return report_of(cells, cases=talking, edit=lambda result: edit(_said(result)), **report)


def _talk(case: str) -> Talk:
    """The talk of a case that has a name, or one of the usual ones by the case's number."""
    digits = [character for character in case if character.isdigit()]
    number = int("".join(digits) or "0")
    return TALKS.get(case, USUAL_TALKS[number % len(USUAL_TALKS)])


def _said(result: Result) -> Result:
    """A result with the question and an answer of its case."""
    return _say(result, _talk(result.case))


def _shop(result: Result) -> Result:
    """A result of a shop whose policy changes."""
    talk = POLICY.get(result.case.split()[0])
    if talk is None:
        return result
    return _say(result, talk)


def _say(result: Result, talk: Talk) -> Result:
    asked = replace(result, messages=(Message("user", talk.question),))
    if result.response is None:
        return asked
    answer = talk.wrong
    grade = grade_of(passed=False, reason=f'no "{talk.words}" in the answer')
    if result.status == "passed":
        answer = talk.right
        grade = grade_of(reason=f'"{talk.words}" is in the answer')
    response = replace(result.response, output=answer)
    return replace(asked, response=response, grades=(grade,))


def with_suite_name(summary: Summary, name: str) -> Summary:
    report = summary.report
    return replace(summary, report=replace(report, suite=replace(report.suite, name=name)))


def _refund(result: Result) -> Result:
    if result.case != "refund" or result.status != "failed":
        return result
    call = ToolCall("refund", {"amount": 100, "currency": "USD"})
    grade = grade_of(
        grader="tool_call",
        passed=False,
        reason='refund: currency is not "EUR"',
        sentence='refund: currency is "USD", expected "EUR"',
    )
    return replace(
        result,
        response=Response(
            output="I have refunded 100 USD to your card.\nAnything else?", tool_calls=(call,)
        ),
        grades=(grade,),
    )


def _talkative(result: Result) -> Result:
    """A long wrong answer; no other case has one that is like it, or its reason."""
    number = "".join(filter(str.isdigit, result.case))
    wrong = grade_of(passed=False, reason=f'no "{result.case}" in the answer')
    return replace(result, grades=(wrong,), response=Response(output=f"{number}\n" * 20))
