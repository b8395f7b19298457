"""Summaries for report.html: one like a team's own, for pictures, and one per kind of answer.

Each is made once, and nobody changes it.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import comments
from factories import STARTED_AT, baseline_of, grade_of, many, report_of

from ci_evals.graders import Contains, LlmJudge
from ci_evals.model.case import Variant
from ci_evals.model.grading import Expectation, Statement
from ci_evals.model.plan import CellKey
from ci_evals.model.response import Message, Passage, Response, Step, ToolCall, Turn, Usage
from ci_evals.model.result import Result
from ci_evals.model.rules import Gate
from ci_evals.reports.summary import BaseAnswer, Summary, summarize

MINI, HAIKU = Variant("gpt-5-mini"), Variant("claude-haiku")
QUESTIONS = {
    "lost-package": "Where is my package? It was due on Monday.",
    "refund-full": "The lamp arrived broken. I want my money back.",
    "refund-partial": "One of the four glasses is broken. What do I get back?",
    "cancel-order": "Please cancel order 4711.",
    "status-flight": "Is my flight AF 1234 on time?",
    "opening-hours": "When are you open on Sundays?",
    "change-address": "I moved. How do I change my address?",
    "invoice-copy": "Can you send me the invoice of May again?",
    "upgrade": "What does the larger plan cost?",
    "angry-customer": "This is the third time that I ask!!!",
}
USUAL_QUESTION = "Do you also send parcels to islands?"
ANSWERS = {
    "lost-package": (
        "I'm sorry about the delay. We refund $42.00 to your card within 5 days.",
        (
            "I'm sorry about the delay. We issue store credit of $42.00. "
            "The credit arrives within 5 business days."
        ),
    ),
    "refund-full": (
        "We refund the full price of $89.00 to your card.",
        "We can offer you store credit of $89.00 for the lamp.",
    ),
}
FARES = """## Fares

| fare | price |
|---|--:|
| light | 89 |
| flex | **189** |

- no refund
- `LYS` only"""
SITE = "https://github.com/octo/shop"
LINKS = {
    "run 812": f"{SITE}/actions/runs/812",
    "artifacts": f"{SITE}/actions/runs/812#artifacts",
    "commit 0123456": f"{SITE}/commit/0123456789abcdef0123456789abcdef01234567",
    "pull request #41": f"{SITE}/pull/41",
}
USUAL = (
    "Thank you for your message. I looked at your order, and this is what I found: "
    "everything is fine."
)


@cache
def support_bot() -> Summary:
    """Two variants; two cases regressed on one of them after ten steady reports."""
    rng = random.Random(7)
    names = [*QUESTIONS, *(f"faq-{number}" for number in range(1, 31))]

    def steady(name: str, chance: float) -> str:
        return (
            "".join("P" if rng.random() < chance else "F" for _ in range(3))
            if name == "angry-customer"
            else "PPP"
        )

    older = [
        report_of(
            {
                name: ["FFF", "FFF"]
                if name == "upgrade"
                else [steady(name, 0.8), steady(name, 0.9)]
                for name in names
            },
            variants=(MINI, HAIKU),
            started_at=STARTED_AT - 86_400 * number,
            suite={"name": "support bot", "revision": f"{number:040x}"[::-1]},
            edit=_answered,
        )
        for number in range(1, 11)
    ]
    head: dict[str, Any] = {name: ["PPP", "PPP"] for name in names}
    head |= {
        "lost-package": ["FFF", "PPP"],
        "refund-full": ["FPF", "PPP"],
        "angry-customer": ["PFP", "PPP"],
    }
    report = report_of(
        head,
        variants=(MINI, HAIKU),
        confirming={"lost-package": ["FFFFFFFFF", ""], "refund-full": ["FFPFFFPFF", ""]},
        cases={
            name: {
                "input": question,
                "tags": ("billing",) if "refund" in name else ("orders",),
                "critical": name == "lost-package",
                "min_pass_rate": 0.5 if name == "angry-customer" else None,
            }
            for name, question in {**dict.fromkeys(names, USUAL_QUESTION), **QUESTIONS}.items()
        },
        edit=_answered,
        suite={"name": "support bot"},
    )
    before: dict[CellKey, BaseAnswer] = {
        (name, "gpt-5-mini", None): BaseAnswer(text=good) for name, (good, _) in ANSWERS.items()
    }
    summary = summarize(report, Gate(min_pass_rate=0.9), baseline_of(*older), confirm_runs=5)
    return replace(summary, before=before, links=LINKS)


MATRIX = [
    Variant(model, prompt)
    for model in ("gpt-5-mini", "haiku")
    for prompt in ("plain", "kind", "terse")
]
TOPICS = [
    "refund",
    "parcel",
    "voucher",
    "invoice",
    "address",
    "hours",
    "warranty",
    "stock",
    "account",
    "delivery",
]


@cache
def policy_change() -> Summary:
    """Six variants and 40 cases of ten tags; all cases of two tags break on every variant.

    Main has a single report, and other cells fail now and then, there and here.
    """
    rng = random.Random(27)
    names = [f"{topic}-{number}" for topic in TOPICS for number in range(1, 5)]
    broken = [name for name in names if name.startswith(("refund", "parcel"))]

    def usual() -> str:
        return rng.choices(("PPP", "PFP"), (9, 1))[0]

    base = report_of(
        {name: [usual() for _ in MATRIX] for name in names},
        variants=MATRIX,
        started_at=STARTED_AT - 3 * 3600,
        suite={"name": "support bot", "revision": f"{1:040x}"},
        edit=_credited,
    )
    head: dict[str, Any] = {name: [usual() for _ in MATRIX] for name in names}
    head |= dict.fromkeys(broken, "FFF")
    report = report_of(
        head,
        variants=MATRIX,
        confirming=dict.fromkeys(broken, "F" * 5),
        cases={
            name: {"input": _question(name), "tags": (name.partition("-")[0],)} for name in names
        },
        edit=_credited,
        suite={"name": "support bot"},
    )
    return summarize(report, Gate(min_pass_rate=0.9), baseline_of(base), confirm_runs=10)


def _question(case: str) -> str:
    topic, _, number = case.partition("-")
    return f"Question {number} about my {topic}: can I have my money back?"


def _credited(result: Result) -> Result:
    topic = result.case.partition("-")[0]
    text = "We refund it to your card within 5 days."
    if result.status == "failed":
        text = "I don't know."
    if result.status == "failed" and topic in ("refund", "parcel"):
        text = "We give you store credit for it."
    grades = (grade_of(),)
    if result.status == "failed":
        grades = (grade_of(passed=False, reason='no "refund" in the answer'),)
    return replace(
        result,
        messages=(Message("user", _question(result.case)),),
        response=Response(text, usage=Usage(120, 24)),
        grades=grades,
    )


def _answered(result: Result) -> Result:
    good, bad = ANSWERS.get(result.case, (USUAL, "I don't know."))
    failed = result.status == "failed"
    slow = result.provider == "claude-haiku"
    asked = Message("user", QUESTIONS.get(result.case, USUAL_QUESTION))
    judge = grade_of(
        grader="judge",
        passed=not failed,
        score=0.2 if failed else 0.9,
        judge_passed=not failed,
        metric="helpfulness",
        reason="The answer offers store credit instead of a refund." if failed else "Answers it.",
    )
    contains = grade_of(
        passed=not failed,
        reason='no "refund" in the answer' if failed else '"refund" is in the answer',
    )
    return replace(
        result,
        latency_s=(0.11 if slow else 0.035) * (1 + result.run / 10),
        cost_usd=0.0016 if slow else 0.0011,
        messages=(Message("system", "You are the friendly support of a shop. Be brief."), asked),
        response=Response(bad if failed else good, usage=Usage(120, 24)),
        grades=(contains, judge),
    )


@cache
def agent() -> Summary:
    """An agent with a failed tool, a conversation, and answers from texts, in JSON, in Markdown."""
    steps = (
        Step(
            "model_request",
            "gpt-5",
            result="I look for flights first.",
            usage=Usage(410, 32),
            duration_s=1.1,
        ),
        Step(
            "tool_call",
            "search",
            {"from": "CDG", "to": "LYS"},
            "2 flights: AF 1234, AF 1236",
            duration_s=0.4,
        ),
        Step("agent", "booking", {"flight": "AF 1234"}),
        Step(
            "tool_call",
            "book",
            {"seat": "12A"},
            error="409: the seat is taken",
            duration_s=2.3,
            agent="booking",
        ),
        Step(
            "message",
            "assistant",
            result="The seat 12A is taken. Shall I book 12C?",
            duration_s=0.9,
        ),
    )
    turns = (
        Turn("I want to fly to Lyon.", Response("When would you like to travel?"), 0.8, 0.001),
        Turn(
            "On Friday.",
            Response("The seat 12A is taken. Shall I book 12C?", steps=steps),
            4.7,
            0.006,
        ),
    )
    passages = (
        Passage("Refunds are paid to the card within 5 days.", "policy.md", 0.91),
        Passage("Store credit is only offered on request.", "credit.md", 0.64),
    )
    answers = {
        "book-seat": Response(
            "The seat 12A is taken. Shall I book 12C?", steps=steps, usage=Usage(812, 90)
        ),
        "book-by-talking": Response("The seat 12A is taken. Shall I book 12C?", turns=turns),
        "refund-policy": Response(
            "You get store credit.", context=passages, metadata={"trace": "7f3a", "index": 12}
        ),
        "extract": Response(
            '{"name": "Ada", "seats": [{"row": 12, "letter": "A"}], "paid": false}'
        ),
        "compare-fares": Response(FARES),
        "list-fares": Response('fare,price,refund\nlight,89,no\n"flex, or more",189,yes'),
        "translate": Response("东京的航班延误了 ✈️ 👨‍👩‍👧 شكرا" * 3),
        "call-only": Response("", tool_calls=(ToolCall("book", {"flight": "AF 1234"}),)),
    }

    faithful = grade_of(
        grader="faithful",
        passed=False,
        score=0.5,
        reason="1 of 2 statements hold; not 'You get store credit'",
        statements=(
            Statement("Refunds take 5 days.", True, (1,)),
            Statement("You get store credit.", False, (2,)),
        ),
    )
    kind = expected_of_judge(rubric="faithful", threshold=0.8)

    def edit(result: Result) -> Result:
        grades = (*result.grades, faithful) if result.case == "refund-policy" else result.grades
        return replace(result, response=answers.get(result.case), grades=grades, latency_s=4.7)

    cases = {"refund-policy": {"expect": (Expectation("contains", Contains("Paris")), kind)}}
    report = report_of(
        {**dict.fromkeys(answers, "FF"), "refused": "EE"},
        cases=cases,
        edit=edit,
        suite={"name": "flight agent"},
    )
    return summarize(report, None)


def expected_of_judge(**options: Any) -> Expectation:
    """A judge that is expected to find an answer good."""
    return Expectation("judge", LlmJudge(**options), weight=2, metric="groundedness")


@cache
def many_failures() -> Summary:
    """497 of 600 cases fail for three reasons, and some for their own."""
    reasons = ('no "refund" in the answer', "more than 400 characters", "the answer is not JSON")

    def edit(result: Result) -> Result:
        if result.status != "failed":
            return result
        number = int(result.case.split()[1])
        reason = "mentions a competitor" if number % 100 == 0 else reasons[number % 3]
        wrong = grade_of(passed=False, reason=reason)
        return replace(result, grades=(wrong,), response=Response(str(number)))

    names = many((497, "FFF"), (103, "PPP"), prefix="ticket")
    return summarize(
        report_of(names, edit=edit, suite={"name": "ticket router"}), Gate(min_pass_rate=0.95)
    )


@cache
def many_variants() -> Summary:
    """Forty variants: ten providers with long names, each with four prompts."""
    rng = random.Random(3)
    variants = [
        Variant(f"provider-with-a-long-name-{number}", f"prompt {each}")
        for number in range(10)
        for each in "abcd"
    ]
    outcomes: dict[str, Any] = {
        f"case {number}": ["".join(rng.choices("PF", (9, 1), k=3)) for _ in variants]
        for number in range(25)
    }

    def edit(result: Result) -> Result:
        return replace(result, cost_usd=0.001 * rng.random(), latency_s=rng.random())

    return summarize(report_of(outcomes, variants=variants, edit=edit), Gate(min_pass_rate=0.8))


SITUATIONS: Mapping[str, Callable[[], Summary]] = {
    "support-bot": support_bot,
    "policy-change": policy_change,
    "agent": agent,
    "many-failures": many_failures,
    "many-variants": many_variants,
    "pass": comments.passing,
    "borderline": comments.borderline,
}


def talkative(result: Result) -> Result:
    """Give a result an answer of some length, each failed one another."""
    if result.response is None:
        return result
    text = f"{USUAL} {result.case} {result.run if result.status == 'failed' else ''}" * 4
    return replace(result, response=replace(result.response, output=text))
