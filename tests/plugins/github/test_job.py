"""A job of GitHub Actions: its log, outputs, step summary and annotations."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from factories import AGENT, STARTED_AT, Outcome, baseline_of, many, report_of
from hypothesis import given
from hypothesis import strategies as st

from ci_evals.errors import StorageError
from ci_evals.model.case import Variant
from ci_evals.model.result import Judging, Result, RunError
from ci_evals.plugins.ci.annotations import Annotation, annotations
from ci_evals.plugins.github.log import (
    MAX_MESSAGE,
    MAX_PER_LEVEL,
    JobLog,
    annotation_commands,
    command,
)
from ci_evals.plugins.github.step_files import (
    MAX_SUMMARY_BYTES,
    append_summary,
    outputs,
    write_outputs,
)
from ci_evals.reports.summary import summarize

# What the runner obeys in a log.


def test_the_cost_among_the_outputs_is_that_of_confirm_runs_and_judges_too() -> None:
    def judged(result: Result) -> Result:
        return replace(result, judging=Judging(calls=2, cost_usd=0.5, unpriced=1))

    report = report_of({"a": "PF", "b": "PE"}, confirming={"a": "FFF"}, edit=judged)
    assert outputs(summarize(report, None), Path())["cost-usd"] == "3.506000"


def test_a_cost_that_nobody_knows_is_an_empty_output() -> None:
    report = report_of({"a": "PF"}, edit=lambda result: replace(result, cost_usd=None))
    assert outputs(summarize(report, None), Path())["cost-usd"] == ""


def test_own_commands_go_between_what_is_stopped_and_every_word_is_used_once() -> None:
    stream = io.StringIO()
    log = JobLog(stream)
    with log.stop_commands():
        log.write_commands("::error::ours\n")
    first, resumed, ours, second, end = stream.getvalue().splitlines()
    assert first == f"::stop-commands::{resumed.strip(':')}"
    assert ours == "::error::ours"
    assert second == f"::stop-commands::{end.strip(':')}"
    assert resumed != end


def test_commands_are_resumed_after_a_crash() -> None:
    stream = io.StringIO()
    log = JobLog(stream)
    with pytest.raises(RuntimeError), log.stop_commands():
        raise RuntimeError
    start, end = stream.getvalue().splitlines()
    assert start == f"::stop-commands::{end.strip(':')}"


def test_the_title_of_a_group_is_one_line() -> None:
    stream = io.StringIO()
    with JobLog(stream).fold("a\nb"):
        pass
    assert stream.getvalue() == "::group::a b\n::endgroup::\n"


def test_what_is_said_is_no_command() -> None:
    stream = io.StringIO()
    JobLog(stream).say(["::error::quoted", "fine ##[error]old\r::debug::cr"])
    assert not any(
        line.startswith("::") or "##[" in line for line in stream.getvalue().splitlines()
    )


# Outputs, step summaries, workflow commands and annotations.


def as_the_runner_reads(text: str) -> dict[str, str]:
    """The outputs in a file of outputs."""
    found: dict[str, str] = {}
    lines = iter(text.split("\n"))
    for line in lines:
        if not line:
            continue
        name, _, delimiter = line.partition("<<")
        value = []
        for each in lines:
            if each == delimiter:
                break
            value.append(each)
        found[name] = "\n".join(value)
    return found


def unescaped(text: str) -> str:
    return text.replace("%0A", "\n").replace("%0D", "\r").replace("%25", "%")


class TestOutputs:
    def test_values_of_several_lines_are_read_back(self, tmp_path: Path) -> None:
        values = {
            "verdict": "fail",
            "report-path": "a b/c.json",
            "text": "one\ntwo\nEOF\nverdict=pass",
            "empty": "",
        }
        write_outputs(tmp_path / "output", values)
        assert as_the_runner_reads((tmp_path / "output").read_text()) == values

    def test_what_is_in_the_file_stays(self, tmp_path: Path) -> None:
        path = tmp_path / "output"
        path.write_text("earlier=1\n")
        write_outputs(path, {"verdict": "pass"})
        assert path.read_text().startswith("earlier=1\n")

    def test_delimiters_cannot_be_guessed(self, tmp_path: Path) -> None:
        write_outputs(tmp_path / "output", {"a": "1"})
        write_outputs(tmp_path / "output", {"a": "1"})
        first, second = [
            line for line in (tmp_path / "output").read_text().splitlines() if "<<" in line
        ]
        assert first != second

    def test_a_file_that_cannot_be_written_is_a_storage_error(self, tmp_path: Path) -> None:
        with pytest.raises(StorageError):
            write_outputs(tmp_path, {"a": "1"})
        with pytest.raises(StorageError):
            append_summary(tmp_path / "missing" / "summary", lambda _: "text")


class TestSummary:
    def test_the_summary_follows_what_is_there(self, tmp_path: Path) -> None:
        path = tmp_path / "summary"
        path.write_text("# Earlier\n")
        append_summary(path, lambda _: "# One")
        assert path.read_text() == "# Earlier\n# One\n"

    @pytest.mark.parametrize("before", [0, 100, MAX_SUMMARY_BYTES - 350_000])
    def test_it_has_the_room_that_is_left(self, tmp_path: Path, before: int) -> None:
        path = tmp_path / "summary"
        path.write_bytes(b"x" * before)
        append_summary(path, lambda max_bytes: "y" * max_bytes)
        assert path.stat().st_size == MAX_SUMMARY_BYTES

    def test_a_full_file_takes_nothing(self, tmp_path: Path) -> None:
        path = tmp_path / "summary"
        path.write_bytes(b"x" * MAX_SUMMARY_BYTES)
        append_summary(path, lambda _: "more")
        assert path.stat().st_size == MAX_SUMMARY_BYTES


class TestCommands:
    def test_data_and_properties_are_escaped(self) -> None:
        line = command("error", "100%\r\nnext: a,b", file="a,b:c%.yaml", line=3, title="")
        assert line == "::error file=a%2Cb%3Ac%25.yaml,line=3::100%25%0D%0Anext: a,b\n"

    @given(st.text(), st.text())
    def test_whatever_is_said_stays_one_line_that_starts_no_other_command(
        self, message: str, title: str
    ) -> None:
        line = command("warning", f"{message}##[error]{message}", title=title)
        assert line.count("\n") == 1
        assert "\r" not in line
        assert "##[" not in line
        assert line.startswith("::warning")
        body = line[:-1].split("::", 2)[2]
        assert unescaped(body).replace("# #[", "##[") == f"{message}##[error]{message}".replace(
            "# #[", "##["
        )


class TestAnnotations:
    def test_errors_come_first_and_each_level_in_the_order_given(self) -> None:
        text = annotation_commands([
            Annotation("error", "e1", "evals.yaml", 10, "capital regressed"),
            Annotation("warning", "w1"),
            Annotation("error", "e2"),
        ])  # fmt: skip
        assert text.splitlines() == [
            "::error file=evals.yaml,line=10,title=capital regressed::e1",
            "::error::e2",
            "::warning::w1",
        ]

    def test_ten_of_a_level_are_shown(self) -> None:
        lines = annotation_commands(
            [Annotation("error", str(number)) for number in range(10)]
        ).splitlines()
        assert len(lines) == MAX_PER_LEVEL
        assert "not shown" not in lines[-1]

    def test_of_more_than_ten_the_tenth_counts_the_others(self) -> None:
        lines = annotation_commands(
            [Annotation("error", str(number)) for number in range(25)]
        ).splitlines()
        assert len(lines) == MAX_PER_LEVEL
        assert lines[:2] == ["::error::0", "::error::1"]
        assert lines[-1] == "::error::16 more are not shown here; the results have all of them"

    def test_messages_end_where_github_would_cut_them(self) -> None:
        line = annotation_commands([Annotation("warning", "x\n" * 10_000)])
        assert len(unescaped(line.removeprefix("::warning::")[:-1])) == MAX_MESSAGE

    def test_a_line_without_a_file_is_not_said(self) -> None:
        assert annotation_commands([Annotation("error", "e", None, 10)]) == "::error::e\n"

    def test_nothing_to_say_is_no_text(self) -> None:
        assert annotation_commands([]) == ""


# What is annotated: each failing case, but one remark on all that errored for the same reason.


def test_an_outage_is_one_remark_on_its_first_case() -> None:
    def edit(result: Result) -> Result:
        message = "no such model" if result.case == "odd" else f"not reached after {result.run} s"
        return replace(result, error=RunError("network", message)) if result.error else result

    cells = {"wrong": "FF", "a": "EE", "b": "EE", "odd": "EE", "c": "EE"}
    report = report_of(cells, edit=edit)
    wrong, outage, odd = annotations(summarize(report, None))
    assert (wrong.title, wrong.line) == ("Failing: wrong", 10)
    text = "3 cases without a graded run\nnot reached after 1 s"
    assert outage == Annotation("warning", text, "evals.yaml", 20, "No verdict: a and 2 more")
    text = "all 2 runs errored\nno such model\nreport.html#case=odd"
    assert odd == Annotation("warning", text, "evals.yaml", 40, "No verdict: odd")


@pytest.mark.parametrize(
    ("outcomes", "title", "found"),
    [
        (["E", "E"], "a on one and 3 more", "2 cases on 2 variants"),
        (["P", "E"], "a on two and 1 more", "2 cases on two"),
    ],
)
def test_an_outage_of_variants_is_told_in_cases_and_variants(
    outcomes: list[Outcome], title: str, found: str
) -> None:
    report = report_of({"a": outcomes, "b": outcomes}, variants=(Variant("one"), Variant("two")))
    (outage,) = annotations(summarize(report, None))
    assert outage.title == f"No verdict: {title}"
    assert outage.message.startswith(f"{found} without a graded run\n")


def test_runs_that_were_given_up_have_no_remark_of_their_own() -> None:
    def edit(result: Result) -> Result:
        message = "api.example answered 401: bad key"
        given_up = RunError(
            "given_up", f"given up after 5 failures in a row: {message}", cause=message
        )
        return replace(
            result, error=given_up if result.case == "c" else RunError("auth", message, status=401)
        )

    (outage,) = annotations(summarize(report_of(dict.fromkeys("abc", "E"), edit=edit), None))
    assert outage.message == "3 cases without a graded run\napi.example answered 401: bad key"


def test_a_case_that_regressed_on_several_variants_is_one_regression() -> None:
    variants = (AGENT, Variant("other"))
    base = baseline_of(
        report_of(many((4, "P" * 12)), variants=variants, started_at=STARTED_AT - 60)
    )
    summary = summarize(
        report_of(many((3, "P" * 12), (1, "F" * 12)), variants=variants), None, base
    )
    assert summary.compared
    assert (summary.compared.counts["regressed"], outputs(summary, Path())["regressions"]) == (
        2,
        "1",
    )
