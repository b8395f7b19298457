"""`ci-evals compare` on two saved reports: same comparison as a run's, and its exit code."""

import html
import json
import re
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from factories import STARTED_AT, Outcome, baseline_of, report_of
from processes import ci_evals
from suites import ONE_CASE, write_suite

from ci_evals.cli.reports import compare_reports, explain_cells
from ci_evals.errors import StorageError
from ci_evals.gate.compare import NoComparison
from ci_evals.gate.verdict import exit_code
from ci_evals.model.case import Variant
from ci_evals.model.report import SuiteReport
from ci_evals.model.rules import Gate
from ci_evals.reports import markdown, terminal
from ci_evals.reports import report_json as json_report
from ci_evals.reports.notes import outcome
from ci_evals.reports.read import read_baseline, read_summary
from ci_evals.reports.summary import summarize

GATE = Gate(min_pass_rate=0.5, confidence=0.9, tags={"vital": 1.0})


def saved(
    folder: Path, name: str, report: SuiteReport, *bases: SuiteReport, gate: Gate | None = GATE
) -> Path:
    """A report as a run writes it, compared with others if there are any."""
    summary = summarize(report, gate, baseline_of(*bases) if bases else None, confirm_runs=3)
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(json_report.render(summary)))
    return path


def base_of(cells: Mapping[str, Outcome], hours: int = 1, **more: Any) -> SuiteReport:
    return report_of(cells, started_at=STARTED_AT - 3600 * hours, **more)


def code_of(base: list[Path], head: Path) -> int:
    summary = compare_reports(base, head)
    return exit_code(summary.verdict, summary.gate)


# What comes out is what a run would have said.


def test_a_report_is_rebuilt_as_it_was(tmp_path: Path) -> None:
    base = base_of({"a": (30, 30), "b": (20, 30)})
    head = report_of(
        {"a": "PFF", "b": "PP.", "c": "EPF"},
        confirming={"a": "FFPFFFF"},
        cases={"a": {"tags": ("vital",), "critical": True}, "b": {"min_pass_rate": 0.2}},
        interrupted="SIGTERM",
    )
    summary = read_summary(saved(tmp_path, "report.json", head, base))
    again = summary.report
    assert summary.gate == GATE
    assert again.id == head.id
    assert outcome(again) == outcome(head)
    assert list(again.results()) == list(head.results())
    assert again.confirmation is not None
    assert head.confirmation is not None
    assert list(again.confirmation.results()) == list(head.confirmation.results())
    assert again.figures() == head.figures()
    assert again.fingerprints == head.fingerprints


def test_it_finds_what_the_run_itself_found(tmp_path: Path) -> None:
    base = base_of({"a": (30, 30), "b": (30, 30), "c": (0, 30)})
    head = report_of(
        {"a": "FFF", "b": "PPF", "c": "PPP"}, confirming={"a": "FFPFFFF", "b": "PPPPPPP"}
    )
    path = saved(tmp_path, "head.json", head, base)
    summary = compare_reports([saved(tmp_path, "base.json", base)], path)
    here = read_baseline((tmp_path / "base.json",), head.suite.name)
    by_run = summarize(head, GATE, here, confirm_runs=3)
    assert summary.comparison == by_run.comparison
    assert summary.verdict.rules == by_run.verdict.rules


def test_several_bases_and_folders_of_them_are_one_history(tmp_path: Path) -> None:
    head = saved(tmp_path, "head.json", report_of({"a": "FFF"}), gate=None)
    bases = [base_of({"a": "PPPPP"}, hours) for hours in (1, 2, 3)]
    files = [
        saved(tmp_path, f"main/{number}/report.json", base) for number, base in enumerate(bases)
    ]
    for given in (files, [tmp_path / "main"]):
        comparison = compare_reports(given, head).comparison
        assert not isinstance(comparison, NoComparison)
        assert comparison is not None
        assert comparison.cells[0].base == (15, 15)
        assert comparison.cells[0].base_reports == 3


def test_a_report_is_never_its_own_base(tmp_path: Path) -> None:
    saved(tmp_path, "main/1/report.json", base_of({"a": "PPPPPPPPPP"}))
    head = saved(tmp_path, "main/2/report.json", report_of({"a": "FFF"}))
    comparison = compare_reports([tmp_path / "main"], head).comparison
    assert not isinstance(comparison, NoComparison)
    assert comparison is not None
    assert comparison.cells[0].base == (10, 10)
    alone = compare_reports([head], head)
    assert alone.verdict.reason.endswith("report.json is compared with itself")
    copied = tmp_path / "copy.json"
    copied.write_bytes(Path(head).read_bytes())
    twice = compare_reports([copied], head)
    assert twice.verdict.reason == f"no baseline: {copied} and {head} are the same report"
    assert exit_code(alone.verdict, alone.gate) == 3


# Exit codes.


def test_a_regression_is_exit_1_and_a_bar_that_is_missed_is_not(tmp_path: Path) -> None:
    base = base_of({"a": (30, 30), "b": (0, 30)})
    path = saved(tmp_path, "base.json", base)
    worse = report_of({"a": "FFF", "b": "FFF"}, confirming={"a": "FFFFFFF"})
    as_bad = report_of({"a": "PPP", "b": "FFF"})
    assert code_of([path], saved(tmp_path, "worse.json", worse, base)) == 1
    assert code_of([path], saved(tmp_path, "as-bad.json", as_bad, base)) == 0


def test_a_gate_that_only_warns_is_exit_0_with_a_borderline_verdict(tmp_path: Path) -> None:
    base = base_of({"a": (30, 30)})
    head = report_of({"a": "FFF"}, confirming={"a": "FFFFFFF"})
    gate = Gate(on_regression="warn")
    path = saved(tmp_path, "head.json", head, base, gate=gate)
    summary = compare_reports([saved(tmp_path, "base.json", base)], path)
    assert summary.verdict.status == "borderline"
    assert exit_code(summary.verdict, summary.gate) == 0


def test_a_suspect_without_its_confirm_runs_is_not_named(tmp_path: Path) -> None:
    base = base_of({"a": (30, 30), **{f"fine {number}": (30, 30) for number in range(20)}})
    cells = {"a": "FFP", **{f"fine {number}": "PPP" for number in range(20)}}
    path = saved(tmp_path, "base.json", base)
    asked = compare_reports(
        [path], saved(tmp_path, "asked.json", report_of(cells), base)
    ).comparison
    assert not isinstance(asked, NoComparison)
    assert asked is not None
    assert asked.counts["suspect"] == 1


# Never a traceback, never a silent pass.


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "it is empty"),
        ("{", "damaged or cut off"),
        ("[]", "damaged or cut off"),
        ('{"schema_version": 99, "suite": {"version": "9.9"}}', "upgrade ci-evals"),
        ('{"schema_version": 1}', "damaged or cut off"),
        ("\udcff", "damaged or cut off"),
    ],
)
@pytest.mark.parametrize("side", ["base", "head"])
def test_what_is_no_report_is_said(content: str, words: str, side: str, tmp_path: Path) -> None:
    good = saved(tmp_path, "good.json", report_of({"a": "PPP"}))
    bad = tmp_path / "bad.json"
    bad.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(StorageError, match=words) as caught:
        compare_reports([bad], good) if side == "base" else compare_reports([good], bad)
    assert "bad.json" in str(caught.value)


def test_a_report_that_is_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    base = base_of({"a": "PPPPP", "b": "PPFPP"})
    whole = saved(tmp_path, "base.json", base).read_bytes()
    head = saved(tmp_path, "head.json", report_of({"a": "PPP", "b": "FFF"}))
    cut = tmp_path / "cut.json"
    for end in range(0, len(whole) - 2, 97):
        cut.write_bytes(whole[:end])
        with pytest.raises(StorageError):
            compare_reports([cut], head)
        with pytest.raises(StorageError):
            compare_reports([head], cut)


def test_a_report_with_one_wrong_value_is_refused_or_compared(tmp_path: Path) -> None:
    base = base_of({"a": "PPPPP", "b": "PPFPP"})
    older = base_of({"a": "PPPPP", "b": "PPFPP"}, hours=2)
    good = saved(tmp_path, "good.json", base, older)
    head = saved(
        tmp_path,
        "head.json",
        report_of({"a": "PPP", "b": "FFF"}, confirming={"b": "FFFFFFF"}),
        base,
    )
    bad = tmp_path / "bad.json"
    refused = 0
    mutations = enumerate(one_wrong_value(json.loads(head.read_bytes())))
    for number, document in islice(mutations, 0, None, 8):  # all of them take a minute
        bad.write_text(json.dumps(document), "utf-8")
        for given in ([bad], head), ([good], bad):
            try:
                summary = compare_reports(*given)
                terminal.render(summary, width=80, color=False)
                explain_cells(given[1], "b", base=given[0])
            except StorageError:
                refused += 1
            except Exception as error:
                raise AssertionError(f"mutation {number}: {error!r}") from error
    assert refused > 20


def one_wrong_value(value: Any, depth: int = 0) -> Any:
    """The same JSON with one value replaced, dropped or doubled, for each place in it."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield {name: other for name, other in value.items() if name != key}
            for wrong in one_wrong_value(each, depth + 1):
                yield {**value, key: wrong}
    elif isinstance(value, list):
        for place, each in list(enumerate(value))[:3]:
            yield value[:place] + value[place + 1 :]
            for wrong in one_wrong_value(each, depth + 1):
                yield [*value[:place], wrong, *value[place + 1 :]]
    elif isinstance(value, bool) or value is None:
        yield 7
    elif isinstance(value, int | float):
        yield from (-1, 10**9, "x")
    else:
        yield from ("another", 3)


def test_another_suite_and_other_variants_and_no_cases_are_sentences_and_exit_3(
    tmp_path: Path,
) -> None:
    head = saved(
        tmp_path, "head.json", report_of({"a": "PP"}, variants=(Variant("x"), Variant("y")))
    )
    for name, base, words in (
        (
            "suite",
            base_of({"a": "PP"}, suite={"name": "weather"}),
            "is of another suite, 'weather'",
        ),
        (
            "variants",
            base_of({"a": "PP"}, variants=(Variant("p"), Variant("q"))),
            "has other providers or prompts (p, q)",
        ),
        (
            "cases",
            base_of({"b": "PP"}, variants=(Variant("x"), Variant("y"))),
            "no case that is the same here and on",
        ),
    ):
        summary = compare_reports([saved(tmp_path, f"{name}.json", base)], head)
        assert words in summary.verdict.reason
        assert exit_code(summary.verdict, summary.gate) == 3
    assert code_of([tmp_path / "nowhere"], head) == 3


# Formats.


def test_json_has_every_cell_with_its_sentence(tmp_path: Path) -> None:
    base = base_of({"a": (30, 30), "gone": "P"})
    head = saved(
        tmp_path,
        "head.json",
        report_of({"a": "FFF", "came": "P"}, confirming={"a": "FFFFFFF"}),
        base,
    )
    summary = compare_reports([saved(tmp_path, "base.json", base)], head)
    document = json.loads(json_report.render_comparison(summary))
    assert {cell["case"]: cell["kind"] for cell in document["cells"]} == {
        "a": "regressed",
        "came": "new",
        "gone": "removed",
    }
    assert document["cells"][0]["sentence"].startswith(
        "a: 30 of 30 on the baseline, 0 of 10 here; p = "
    )
    assert document["verdict"]["status"] == "fail"


def test_markdown_and_text_say_the_same(tmp_path: Path) -> None:
    base = base_of({"a": (30, 30)})
    head = saved(tmp_path, "head.json", report_of({"a": "FFF"}, confirming={"a": "FFFFFFF"}), base)
    summary = compare_reports([saved(tmp_path, "base.json", base)], head)
    assert (
        "<code>a</code> | 30/30 | **0/10** | p\xa0&#60;\xa00.001 |"
        in b"".join(markdown.render(summary)).decode()
    )
    assert "30 of 30 on the baseline, 0 of 10 here; p " in terminal.render(
        summary, width=200, color=False
    )


# Through the command line.


STEADY = {"id": "steady", "input": "fine", "expect": [{"equals": "fine"}]}
BROKEN = {"name": "echo", "type": "mock", "answers": {"greeting": "fine"}}


async def test_a_regression_is_named_compared_offline_and_explained(tmp_path: Path) -> None:
    write_suite(tmp_path, [ONE_CASE, STEADY], runs=10)
    assert (await ci_evals(tmp_path, "run", "--out", "main")).code == 0
    write_suite(tmp_path, [ONE_CASE, STEADY], runs=3, providers=[BROKEN])
    red = await ci_evals(tmp_path, "run", "--baseline", "main")
    assert red.code == 1
    assert "Regressed (1)" in red.out
    assert "confirming 1 suspect" in red.err
    summary = (tmp_path / "ci-evals-results" / "summary.md").read_text(encoding="utf-8")
    assert "| 🔴 <code>greeting</code> | 10/10 | **0/17** |" in summary

    offline = await ci_evals(tmp_path, "compare", "main", "ci-evals-results")
    assert offline.code == 1
    assert "10 of 10 on the baseline, 0 of 17 here" in offline.out
    mended = await ci_evals(tmp_path, "compare", "ci-evals-results", "main", "--format", "json")
    assert mended.code == 0
    assert json.loads(mended.out)["verdict"]["status"] == "pass"

    why = await ci_evals(tmp_path, "explain", "greeting", "--baseline", "main")
    assert why.code == 0
    assert "10 of 10 on the baseline, 0 of 17 here" in why.out
    assert "runs 1 to 17 failed alike" in why.out
    misspelt = await ci_evals(tmp_path, "explain", "greetin")
    assert misspelt.code == 2
    assert "did you mean 'greeting'?" in misspelt.err


async def test_nothing_that_cannot_be_compared_is_green_or_a_traceback(tmp_path: Path) -> None:
    write_suite(tmp_path)
    assert (await ci_evals(tmp_path, "run")).code == 0
    (tmp_path / "cut.json").write_bytes(
        (tmp_path / "ci-evals-results" / "report.json").read_bytes()[:500]
    )
    for base in ("cut.json", "nowhere", "ci-evals-results"):
        ended = await ci_evals(tmp_path, "compare", base, "ci-evals-results")
        assert ended.code == 3
        assert "Traceback" not in ended.err
        assert base in ended.out + ended.err
    alone = await ci_evals(tmp_path, "compare", "ci-evals-results")
    assert alone.code == 2


async def test_a_comparison_is_a_page_with_the_first_report_as_its_base(tmp_path: Path) -> None:
    refund = {"id": "refund", "input": "I want my money", "expect": [{"contains": "refund"}]}
    answer = {"name": "bot", "type": "mock", "answers": {"refund": "We refund you today."}}
    write_suite(tmp_path, [refund, STEADY], runs=10, providers=[answer])
    assert (await ci_evals(tmp_path, "run", "--out", "main")).code == 0
    answer["answers"] = {"refund": "Here is a voucher."}
    write_suite(tmp_path, [refund, STEADY], runs=3, providers=[answer])
    assert (await ci_evals(tmp_path, "run", "--out", "head")).code == 1
    own_page = (tmp_path / "head" / "report.html").read_bytes()
    ended = await ci_evals(tmp_path, "compare", "main", "head/report.json", "--format", "html")
    assert (ended.code, ended.out.strip()) == (1, "head/compare.html")
    page = (tmp_path / "head" / "compare.html").read_text(encoding="utf-8")
    text = html.unescape(re.sub(r"<[^>]*>", "", page))
    assert "10/10 → 0/3" in text
    assert "10 of 10 on the baseline, 0 of 3 here" in text
    assert "We refund you today." in text
    assert (tmp_path / "head" / "report.html").read_bytes() == own_page


async def test_two_variants_of_a_report_are_compared(tmp_path: Path) -> None:
    right = {"name": "right", "type": "mock"}
    wrong = {**BROKEN, "name": "wrong"}
    write_suite(tmp_path, [ONE_CASE, STEADY], runs=10, providers=[right, wrong])
    assert (await ci_evals(tmp_path, "run")).code == 1
    results = "ci-evals-results"
    worse = await ci_evals(tmp_path, "compare", f"{results}::right", f"{results}::wrong")
    assert worse.code == 1
    assert "greeting: 10 of 10 on right, 0 of 10 here" in worse.out
    better = await ci_evals(
        tmp_path, "compare", f"{results}::wrong", f"{results}::right", "--format", "json"
    )
    assert better.code == 0
    assert json.loads(better.out)["comparison"]["counts"]["fixed"] == 1
    page = await ci_evals(
        tmp_path, "compare", f"{results}::right", f"{results}::wrong", "--format", "html"
    )
    assert (page.code, page.out.strip()) == (1, f"{results}/compare.html")
    assert "on right" in (tmp_path / results / "compare.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("sides", "problem"),
    [
        (("::right", "::rong"), "ci-evals-results: unknown variant 'rong', did you mean 'wrong'?"),
        (("::right", ""), "ci-evals-results has several variants (right, wrong): name one, as in "),
        (("::right", "::wrong", "::wrong"), "name two sides if one is a variant"),
    ],
)
async def test_a_variant_that_is_not_clear_is_asked_for(
    sides: tuple[str, ...], problem: str, tmp_path: Path
) -> None:
    providers = [{"name": name, "type": "mock"} for name in ("right", "wrong")]
    write_suite(tmp_path, providers=providers)
    assert (await ci_evals(tmp_path, "run")).code == 0
    ended = await ci_evals(tmp_path, "compare", *(f"ci-evals-results{side}" for side in sides))
    assert ended.code == 2
    assert problem in ended.err
