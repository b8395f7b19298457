"""Outputs, step summaries, workflow commands and annotations."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_evals.errors import StorageError, UsageError
from ci_evals.github.annotations import MAX_MESSAGE, MAX_PER_LEVEL, Annotation, annotation_commands
from ci_evals.github.commands import command, group
from ci_evals.github.outputs import MAX_SUMMARY_BYTES, append_summary, write_outputs


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
        values = {"verdict": "fail", "report-path": "a b/c.json", "text": "one\ntwo\nEOF\nverdict=pass", "empty": ""}
        write_outputs(tmp_path / "output", values)
        assert as_the_runner_reads((tmp_path / "output").read_text()) == values

    def test_what_is_in_the_file_stays(self, tmp_path: Path) -> None:
        path = tmp_path / "output"
        path.write_text("earlier=1\n")
        write_outputs(path, {"verdict": "pass"})
        assert path.read_text().startswith("earlier=1\n")

    def test_a_value_that_holds_the_delimiter_is_refused_and_nothing_written(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="delimiter"):
            write_outputs(tmp_path / "output", {"a": "1", "b": "x\nci_evals_known\n"}, lambda: "known")
        assert not (tmp_path / "output").exists()

    @pytest.mark.parametrize("name", ["", "a b", "a<<b", "a\nb", "é", "a=b"])
    def test_a_name_that_could_do_something_else_is_refused(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(UsageError):
            write_outputs(tmp_path / "output", {name: "1"})

    def test_delimiters_cannot_be_guessed(self, tmp_path: Path) -> None:
        write_outputs(tmp_path / "output", {"a": "1"})
        write_outputs(tmp_path / "output", {"a": "1"})
        first, second = [line for line in (tmp_path / "output").read_text().splitlines() if "<<" in line]
        assert first != second

    def test_a_file_that_cannot_be_written_is_a_storage_error(self, tmp_path: Path) -> None:
        with pytest.raises(StorageError):
            write_outputs(tmp_path, {"a": "1"})
        with pytest.raises(StorageError):
            append_summary(tmp_path / "missing" / "summary", ["text"])


class TestSummary:
    def test_sections_follow_what_is_there(self, tmp_path: Path) -> None:
        path = tmp_path / "summary"
        path.write_text("# Earlier\n")
        assert append_summary(path, ["# One\n", "# Two"]) == 0
        assert path.read_text() == "# Earlier\n# One\n\n# Two\n\n"

    @pytest.mark.parametrize("before", [0, 100, MAX_SUMMARY_BYTES - 350_000])
    def test_whole_sections_are_left_out_at_the_limit_and_counted(self, tmp_path: Path, before: int) -> None:
        path = tmp_path / "summary"
        path.write_bytes(b"x" * before)
        left_out = append_summary(path, [f"{number}{'é' * 150_000}" for number in range(5)])
        content = path.read_bytes()
        assert len(content) <= MAX_SUMMARY_BYTES
        assert left_out == 5 - content.decode().count("é" * 150_000)
        assert left_out > 0
        assert f"{left_out} more sections" in content.decode()

    def test_a_full_file_takes_nothing(self, tmp_path: Path) -> None:
        path = tmp_path / "summary"
        path.write_bytes(b"x" * MAX_SUMMARY_BYTES)
        assert append_summary(path, ["more"]) == 1
        assert path.stat().st_size == MAX_SUMMARY_BYTES

    def test_exactly_the_limit_fits(self, tmp_path: Path) -> None:
        path = tmp_path / "summary"
        assert append_summary(path, ["x" * (MAX_SUMMARY_BYTES - 2)]) == 0
        assert path.stat().st_size == MAX_SUMMARY_BYTES


class TestCommands:
    def test_data_and_properties_are_escaped(self) -> None:
        line = command("error", "100%\r\nnext: a,b", file="a,b:c%.yaml", line=3, title="")
        assert line == "::error file=a%2Cb%3Ac%25.yaml,line=3::100%25%0D%0Anext: a,b\n"

    @given(st.text(), st.text())
    def test_whatever_is_said_stays_one_line_that_starts_no_other_command(self, message: str, title: str) -> None:
        line = command("warning", f"{message}##[error]{message}", title=title)
        assert line.count("\n") == 1
        assert "\r" not in line
        assert "##[" not in line
        assert line.startswith("::warning")
        body = line[:-1].split("::", 2)[2]
        assert unescaped(body).replace("# #[", "##[") == f"{message}##[error]{message}".replace("# #[", "##[")

    def test_a_group_has_a_title_of_one_line(self) -> None:
        assert group("Evals:\n capitals") == "::group::Evals: capitals\n"


class TestAnnotations:
    def test_errors_come_first_and_each_level_in_the_order_given(self) -> None:
        text = annotation_commands([
            Annotation("notice", "n1"),
            Annotation("error", "e1", "evals.yaml", 10, "capital regressed"),
            Annotation("warning", "w1"),
            Annotation("error", "e2"),
        ])  # fmt: skip
        assert text.splitlines() == [
            "::error file=evals.yaml,line=10,title=capital regressed::e1",
            "::error::e2",
            "::warning::w1",
            "::notice::n1",
        ]

    def test_ten_of_a_level_are_shown(self) -> None:
        lines = annotation_commands([Annotation("error", str(number)) for number in range(10)]).splitlines()
        assert len(lines) == MAX_PER_LEVEL
        assert "not shown" not in lines[-1]

    def test_of_more_than_ten_the_tenth_counts_the_others(self) -> None:
        lines = annotation_commands([Annotation("error", str(number)) for number in range(25)]).splitlines()
        assert len(lines) == MAX_PER_LEVEL
        assert lines[:2] == ["::error::0", "::error::1"]
        assert lines[-1] == "::error::16 more are not shown here; the summary has all of them"

    @pytest.mark.parametrize("char", ["x", "é", "😀", "\n"])
    def test_messages_end_where_github_would_cut_them(self, char: str) -> None:
        line = annotation_commands([Annotation("warning", char * 10_000)])
        message = unescaped(line.removeprefix("::warning::")[:-1])
        assert len(message.encode("utf-16-le")) // 2 <= MAX_MESSAGE
        assert message.endswith("…")
        assert len(message.encode("utf-16-le")) // 2 > MAX_MESSAGE - 3

    def test_a_line_without_a_file_is_not_said(self) -> None:
        assert annotation_commands([Annotation("error", "e", None, 10)]) == "::error::e\n"

    def test_nothing_to_say_is_no_text(self) -> None:
        assert annotation_commands([]) == ""
