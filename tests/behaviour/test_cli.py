"""The command line as a user meets it."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from processes import COMMAND, Finished, ci_evals, environment, finished, python, start, until
from suites import ONE_CASE, write_suite

from ci_evals.cli.main import group
from ci_evals.registry import COMMANDS

FAILING = {**ONE_CASE, "expect": [{"equals": "goodbye"}]}


def report_in(folder: Path) -> dict[str, Any]:
    report = json.loads((folder / "report.json").read_bytes())
    assert isinstance(report, dict)
    return report


def check_usage_error(ended: Finished, *words: str) -> None:
    """Exit 2, on stderr, without a traceback."""
    assert ended.code == 2
    assert ended.out == ""
    assert "Traceback" not in ended.err
    for word in words:
        assert word in ended.err


# Help.


async def test_help_names_every_command_and_every_exit_code(tmp_path: Path) -> None:
    ended = await ci_evals(tmp_path, "--help")
    assert ended.code == 0
    assert all(f"\n  {command} " in ended.out for command in COMMANDS)
    assert "0 passed · 1 failed · 2 " in ended.out


def help_by_click() -> str:
    """On a terminal of 80 columns, of which it leaves two free."""
    return CliRunner().invoke(group, ["--help"], prog_name="ci-evals", terminal_width=78).output


def test_the_help_has_a_whole_sentence_for_every_command() -> None:
    shown = help_by_click()
    assert "..." not in shown.partition("Options:")[2]
    assert max(map(len, shown.splitlines())) <= 80


async def test_help_is_printed_to_an_ascii_terminal(tmp_path: Path) -> None:
    ended = await ci_evals(
        tmp_path, "--help", environ={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    )
    assert ended.code == 0
    assert "0 passed" in ended.out
    assert ended.err == ""


def sections(help_text: str) -> dict[str, list[str]]:
    """The options or commands of each section of a help."""
    parts = re.split(r"^(\w[\w ]*):\n", help_text, flags=re.MULTILINE)[1:]
    return {
        title: re.findall(r"^  (?:-\w, )?([\w-]+)", body, re.MULTILINE)
        for title, body in zip(parts[::2], parts[1::2], strict=True)
    }


def test_the_help_lists_commands_by_purpose() -> None:
    found = sections(help_by_click())
    assert list(found) == ["Options", "Suites", "Verdicts", "Reports", "Judges"]
    reports = ("view", "explain", "comment")
    assert found["Reports"] == [name for name in reports if name not in COMMANDS.missing]


@pytest.mark.parametrize("command", ["run", "merge"])
def test_the_help_of_a_run_lists_options_by_purpose(command: str) -> None:
    shown = CliRunner().invoke(group, [command, "--help-all"], terminal_width=78).output
    found = sections(shown)
    titles = [
        "Selection",
        "Execution",
        "Earlier answers",
        "Comparison and verdict",
        "Reports",
        "GitHub Actions and GitLab CI",
    ]
    assert list(found) == [*titles, "Others"]
    assert "--max-runs" in found["Execution"]
    assert found["Others"] == ["--help-all", "--help"]
    assert {len(line) <= 80 for line in shown.splitlines()} == {True}


def test_the_help_of_a_run_lists_the_options_of_the_first_day() -> None:
    shown = CliRunner().invoke(group, ["run", "--help"], terminal_width=78).output
    found = sections(shown)
    assert found["Options"] == [
        "--config",
        "--providers",
        "--tags",
        "--case",
        "--failed",
        "--first",
        "--runs",
        "--resume",
        "--watch",
        "--against",
        "--baseline",
        "--fail-on",
        "--out",
        "--format",
        "--quiet",
    ]
    assert found["Others"] == ["--help-all", "--help"]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_each_command_fits_80_columns(command: str) -> None:
    shown = CliRunner().invoke(group, [command, "--help"], terminal_width=78).output
    assert [line for line in shown.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("command", COMMANDS)
async def test_every_command_has_help(command: str, tmp_path: Path) -> None:
    ended = await ci_evals(tmp_path, command, "--help")
    assert ended.code == 0
    assert ended.out.startswith(f"Usage: ci-evals {command}")
    assert ended.err == ""


async def test_the_version_is_printed(tmp_path: Path) -> None:
    assert (await ci_evals(tmp_path, "--version")).out.startswith("ci-evals 0.")


async def test_an_unknown_option_is_named(tmp_path: Path) -> None:
    check_usage_error(await ci_evals(tmp_path, "run", "--rums", "3"), "--rums", "--runs")


# From nothing to a verdict.


async def test_a_failed_gate_is_exit_1(tmp_path: Path) -> None:
    write_suite(tmp_path, [FAILING])
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 1
    assert 'expected "goodbye"' in ended.out


async def test_the_schema_is_json(tmp_path: Path) -> None:
    schema = json.loads((await ci_evals(tmp_path, "schema")).out)
    assert {"providers", "cases", "gate"} <= schema["properties"].keys() | schema["$defs"].get(
        "Suite", {}
    ).keys()


async def test_the_mock_server_serves_an_openai_provider(tmp_path: Path) -> None:
    server = await start(tmp_path, "mock-server", "--port", "0")
    assert server.stdout is not None
    first = (await server.stdout.readline()).decode()
    assert first.startswith("mock server at http://127.0.0.1:")
    url = first.split()[3]
    write_suite(tmp_path, providers=[{"type": "openai", "model": "any", "base_url": url}])
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 0
    assert "1 of 1 run passed" in ended.out
    assert (await server.stdout.readline()).decode().startswith("POST ")
    server.terminate()
    await finished(server)


# Wrong configs.


async def test_no_config_at_all(tmp_path: Path) -> None:
    check_usage_error(await ci_evals(tmp_path, "run"), "no evals.yaml", "ci-evals init")


async def test_a_config_that_is_not_there(tmp_path: Path) -> None:
    check_usage_error(await ci_evals(tmp_path, "run", "--config", "other.yaml"), "other.yaml")


async def test_a_config_that_is_a_folder(tmp_path: Path) -> None:
    check_usage_error(await ci_evals(tmp_path, "explain", "a", "--config", "."), "directory")


async def test_every_typo_is_listed_with_its_line_and_a_suggestion(tmp_path: Path) -> None:
    (tmp_path / "evals.yaml").write_text(
        "providers: [{type: mock}]\nrunss: 3\n"
        "cases:\n  - id: a\n    input: hi\n    expect:\n      - contians: hi\n"
    )
    for command in ("run", "validate"):
        ended = await ci_evals(tmp_path, command)
        check_usage_error(
            ended, "evals.yaml:2", "did you mean 'runs'", "evals.yaml:7", "did you mean 'contains'"
        )
        assert ended.err.endswith("\n2 problems, nothing was run.\n")
    assert not (tmp_path / "ci-evals-results").exists()


async def test_a_missing_key_says_what_to_set(tmp_path: Path) -> None:
    write_suite(tmp_path, providers=[{"type": "openai", "model": "gpt-4o-mini"}])
    check_usage_error(
        await ci_evals(tmp_path, "run", environ={"OPENAI_API_KEY": ""}), "OPENAI_API_KEY"
    )


async def test_an_unknown_provider_is_refused_with_the_list(tmp_path: Path) -> None:
    write_suite(tmp_path)
    check_usage_error(await ci_evals(tmp_path, "run", "--providers", "ecco"), "'ecco'", "echo")


@pytest.mark.parametrize(
    ("cases", "runs", "says"),
    [(1, 1, "1 case × 1 variant, 1 run"), (2, 3, "2 cases × 1 variant, 6 runs")],
)
async def test_validate_counts(cases: int, runs: int, says: str, tmp_path: Path) -> None:
    write_suite(tmp_path, [{**ONE_CASE, "id": f"case-{n}"} for n in range(cases)], runs=runs)
    assert (await ci_evals(tmp_path, "validate")).out == f"evals.yaml is valid: {says}\n"


# Places that cannot be written or read.


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("command", ["run", "validate", "schema", "init"])
def test_a_full_disk_behind_stdout_is_no_bug(command: str, tmp_path: Path) -> None:
    write_suite(tmp_path)
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [*COMMAND, command],
            cwd=tmp_path,
            env=environment({}),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ended.returncode == 3
    assert (
        ended.stderr.splitlines()[-1]
        == "error: <stdout>: cannot be written: No space left on device"
    )


async def test_a_folder_without_a_trace_is_named(tmp_path: Path) -> None:
    write_suite(tmp_path)
    (tmp_path / "traces").mkdir()
    check_usage_error(await ci_evals(tmp_path, "grade", "traces"), "there is no trace in traces")


async def test_the_name_of_a_report_is_no_results_folder(tmp_path: Path) -> None:
    write_suite(tmp_path)
    ended = await ci_evals(tmp_path, "run", "--out", "results/run.json")
    said = "results/run.json looks like a file, but a folder is expected: pass results/run,"
    check_usage_error(ended, said)
    assert not (tmp_path / "results").exists()


async def test_the_teams_own_code_has_the_variables_of_the_dotenv_file(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("TOWN=x7Paris-83kq\nRIVER=Rhine\n")
    (tmp_path / "town.py").write_text(
        "import os\n\n\ndef answer(_):\n    return ' '.join(map(os.getenv, ['TOWN', 'RIVER']))\n"
    )
    script = "import os; print(os.environ['TOWN'], os.environ['RIVER'])"
    providers = [
        {"name": "function", "type": "python", "target": "town:answer"},
        {"name": "program", "type": "command", "command": [sys.executable, "-c", script]},
    ]
    case = {"id": "a", "input": "q", "expect": [{"contains": "Seine"}]}
    write_suite(tmp_path, [case], providers=providers)
    ended = await ci_evals(tmp_path, "run", environ={"RIVER": "Seine"})
    assert ended.code == 0, ended.out
    journal = (tmp_path / "ci-evals-results" / "results.jsonl").read_text("utf-8")
    assert journal.count("Seine") > 2
    assert "Paris" not in journal, "what is in .env is a secret"


async def test_the_dotenv_file_of_the_working_folder_is_read_after_the_suites(
    tmp_path: Path,
) -> None:
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals" / ".env").write_text("TOWN=Paris\n")
    (tmp_path / ".env").write_text("TOWN=London\nRIVER=Seine\n")
    case = {"id": "a", "input": "q", "expect": [{"equals": "{{ town }} {{ river }}"}]}
    (tmp_path / "evals" / "town.py").write_text(
        "import os\n\n\ndef answer(_):\n    return os.environ['TOWN'] + ' ' + os.environ['RIVER']\n"
    )
    provider = {"type": "python", "target": "town:answer"}
    suite_vars = {"town": "${TOWN}", "river": "${RIVER}"}
    write_suite(tmp_path / "evals", [case], providers=[provider], vars=suite_vars)
    ended = await ci_evals(tmp_path, "run", "evals/evals.yaml")
    assert ended.code == 0, ended.out + ended.err


async def test_a_folder_without_a_journal_is_named(tmp_path: Path) -> None:
    write_suite(tmp_path)
    (tmp_path / "shard").mkdir()
    ended = await ci_evals(tmp_path, "merge", "shard")
    assert ended.code == 3
    assert "there is nothing to merge: no shard has left results in shard" in ended.err


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may read everything")
async def test_a_folder_that_cannot_be_looked_into_is_passed_over(tmp_path: Path) -> None:
    write_suite(tmp_path)
    (tmp_path / "private").mkdir(mode=0o000)
    assert (
        await ci_evals(tmp_path, "validate", ".")
    ).out == "evals.yaml is valid: 1 case × 1 variant, 1 run\n"


# Where settings come from.


@pytest.mark.parametrize(
    ("arguments", "environ", "runs"),
    [
        ((), {}, 1),
        ((), {"CI_EVALS_RUNS": "3"}, 3),
        (("--runs", "4"), {"CI_EVALS_RUNS": "3"}, 4),
        ((), {"CI_EVALS_RUNS": ""}, 1),
    ],
)
async def test_without_a_value_in_the_file(
    arguments: tuple[str, ...], environ: Mapping[str, str], runs: int, tmp_path: Path
) -> None:
    write_suite(tmp_path)
    await ci_evals(tmp_path, "run", *arguments, environ=environ)
    assert report_in(tmp_path / "ci-evals-results")["totals"]["planned"] == runs


@pytest.mark.parametrize(
    ("arguments", "environ", "runs"),
    [
        ((), {}, 2),
        ((), {"CI_EVALS_RUNS": ""}, 2),
        ((), {"CI_EVALS_RUNS": "3"}, 3),
        (("--runs", "4"), {"CI_EVALS_RUNS": "3"}, 4),
    ],
)
async def test_the_command_line_wins_over_the_environment_and_that_over_the_file(
    arguments: tuple[str, ...], environ: Mapping[str, str], runs: int, tmp_path: Path
) -> None:
    write_suite(tmp_path, runs=2)
    await ci_evals(tmp_path, "run", *arguments, environ=environ)
    assert report_in(tmp_path / "ci-evals-results")["totals"]["planned"] == runs


async def test_every_variable_may_be_empty(tmp_path: Path) -> None:
    write_suite(tmp_path)
    names = [
        "config",
        "out",
        "providers",
        "runs",
        "max-concurrency",
        "timeout-s",
        "retries",
        "format",
        "shard",
    ]
    names += ["balance-by", "replay", "resume-from"]
    by_variable = {
        f"CI_EVALS_{name.upper().replace('-', '_')}": "" for name in [*names, "quiet", "resume"]
    }
    assert (await ci_evals(tmp_path, "run", environ=by_variable)).code == 0
    assert (tmp_path / "ci-evals-results" / "report.json").exists()


async def test_variables_set_everything_that_options_do(tmp_path: Path) -> None:
    write_suite(tmp_path, providers=[{"name": name, "type": "mock"} for name in ("a", "b")])
    (tmp_path / "evals.yaml").rename(tmp_path / "other.yaml")
    environ = {
        "CONFIG": "other.yaml",
        "OUT": "there",
        "PROVIDERS": "b",
        "FORMAT": "json",
        "QUIET": "1",
    }
    ended = await ci_evals(
        tmp_path, "run", environ={f"CI_EVALS_{name}": value for name, value in environ.items()}
    )
    assert ended.err == ""
    assert json.loads(ended.out)["totals"]["planned"] == 1
    assert [each["provider"] for each in report_in(tmp_path / "there")["variants"]] == ["b"]


@pytest.mark.parametrize(
    "arguments", [("--runs", "0"), ("--runs", "x"), ("--timeout-s", "0"), ("--shard", "3/2")]
)
async def test_a_value_out_of_range_is_refused(arguments: tuple[str, str], tmp_path: Path) -> None:
    write_suite(tmp_path)
    check_usage_error(await ci_evals(tmp_path, "run", *arguments), arguments[0].lstrip("-"))


@pytest.mark.parametrize(
    ("name", "value"),
    [("RUNS", "0"), ("TIMEOUT_S", "0"), ("SHARD", "3/2"), ("FORMAT", "tabel"), ("RUNS", "1" * 12)],
)
async def test_a_wrong_variable_is_named(name: str, value: str, tmp_path: Path) -> None:
    write_suite(tmp_path)
    ended = await ci_evals(tmp_path, "run", environ={f"CI_EVALS_{name}": value})
    check_usage_error(ended, f"CI_EVALS_{name}: ")
    assert "evals.yaml:1: runs" not in ended.err
    assert "Usage" not in ended.err


@pytest.mark.parametrize(
    ("name", "kind"),
    [("RUNS", "whole number"), ("RETRIES", "whole number"), ("TIMEOUT_S", "number")],
)
async def test_a_text_is_no_number(name: str, kind: str, tmp_path: Path) -> None:
    write_suite(tmp_path)
    ended = await ci_evals(tmp_path, "run", environ={f"CI_EVALS_{name}": "x"})
    check_usage_error(ended, f"CI_EVALS_{name}: 'x' is not a valid {kind}.")


async def test_a_variable_that_sets_nothing_is_told_with_the_one_that_may_be_meant(
    tmp_path: Path,
) -> None:
    write_suite(tmp_path)
    environ = {
        "CI_EVALS_RUN": "3",
        "CI_EVALS_PASSWORD": "s3cret-of-the-team",
        "CI_EVALS_RUNZ": "",
    }
    ended = await ci_evals(tmp_path, "validate", environ=environ)
    assert ended.code == 0
    assert ended.err.splitlines() == [
        "warning: the variable CI_EVALS_PASSWORD sets no option of any command",
        (
            "warning: the variable CI_EVALS_RUN sets no option of any command, "
            "did you mean CI_EVALS_RUNS?"
        ),
    ]


async def test_a_command_that_ci_evals_starts_is_not_told_of_its_variables(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    write_suite(inner)
    script = (
        "import subprocess, sys\n"
        f"sys.exit(subprocess.call({[*COMMAND, 'validate', 'inner']}, stderr=subprocess.STDOUT))"
    )
    expect = [{"equals": "inner/evals.yaml is valid: 1 case × 1 variant, 1 run"}]
    write_suite(
        tmp_path,
        [{"id": "a", "input": "x", "expect": expect}],
        providers=[{"type": "command", "command": [sys.executable, "-c", script]}],
    )
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 0, ended.out + ended.err


# What is printed where.

PRINTING = """
import os, subprocess, sys
print("at import")

def answer(text):
    print("on stdout")
    print("on stderr", file=sys.stderr)
    sys.stdout.buffer.write(b"as bytes\\n")
    sys.stdout.flush()
    os.write(1, b"by number\\n")
    subprocess.run([sys.executable, "-c", "print('by a child')"], check=True)
    subprocess.run([sys.executable, "-c", "print('handed on')"], stdout=sys.stdout, check=True)
    print("unfinished", end="")
    return text
"""


async def test_what_a_function_prints_is_on_stderr_and_the_outcome_alone_on_stdout(
    tmp_path: Path,
) -> None:
    (tmp_path / "agent.py").write_text(PRINTING)
    write_suite(tmp_path, providers=[{"name": "agent", "type": "python", "target": "agent:answer"}])
    ended = await ci_evals(tmp_path, "run", "--format", "json", "--quiet")
    assert ended.code == 0
    assert json.loads(ended.stdout)["verdict"]["status"] == "pass"
    says = [
        "at import",
        "on stdout",
        "on stderr",
        "as bytes",
        "by number",
        "by a child",
        "handed on",
        "unfinished",
    ]
    assert sorted(ended.err.splitlines()) == sorted(says)


async def test_quiet_leaves_stderr_empty(tmp_path: Path) -> None:
    write_suite(tmp_path, [FAILING])
    for arguments in ((), ("--resume",), ("--shard", "1/1", "--out", "shard")):
        assert (await ci_evals(tmp_path, "run", "--quiet", *arguments)).err == ""


async def test_quiet_does_not_hide_errors(tmp_path: Path) -> None:
    check_usage_error(await ci_evals(tmp_path, "run", "--quiet"), "no evals.yaml")


async def test_a_red_run_names_the_next_commands(tmp_path: Path) -> None:
    write_suite(tmp_path, [ONE_CASE, {**FAILING, "id": "good bye"}])
    red = await ci_evals(tmp_path, "run")
    *_, explain, again = red.err.splitlines()
    assert (explain, again) == ("next: ci-evals explain 'good bye'", "      ci-evals run --failed")
    explained = await ci_evals(tmp_path, "explain", "good bye")
    assert (explained.code, "the answer is" in explained.out) == (0, True)

    elsewhere = await ci_evals(tmp_path, "run", "--out", "out")
    assert "next: ci-evals explain 'good bye' --report out\n" in elsewhere.err
    assert "ci-evals run --failed=out\n" in elsewhere.err
    again_there = await ci_evals(tmp_path, "run", "--failed=out")
    assert "1 of 2 cases selected" in again_there.out


async def test_a_green_run_names_no_next_command(tmp_path: Path) -> None:
    write_suite(tmp_path)
    assert "next:" not in (await ci_evals(tmp_path, "run")).err


async def test_the_page_and_the_other_results_are_named_in_one_line(tmp_path: Path) -> None:
    write_suite(tmp_path)
    others = "report.json, junit.xml, summary.md, results.jsonl"
    told = (await ci_evals(tmp_path, "run")).err
    assert told == f"written: ci-evals-results/report.html, with {others}\n"
    (tmp_path / "evals.yaml").unlink()
    write_suite(tmp_path, report={"formats": ["junit"]})
    told = (await ci_evals(tmp_path, "run")).err
    assert told == "written: ci-evals-results/junit.xml, with results.jsonl\n"


posix = pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")


@posix
@pytest.mark.parametrize("redirection", ["| true", "2>&1 | true", ">&-", "2>&-", ">&- 2>&-"])
async def test_nobody_has_to_read_what_is_printed(redirection: str, tmp_path: Path) -> None:
    """The exit code is the verdict's, and there is no noise."""
    write_suite(tmp_path, [FAILING])
    script = f'("$0" -m ci_evals run --quiet; echo $? > code) {redirection}'
    ended = await ci_evals(tmp_path, command=("sh", "-c", script, sys.executable))
    assert (tmp_path / "code").read_text().strip() == "1"
    assert ended.err == ""


@posix
async def test_a_long_list_of_problems_may_be_cut_short(tmp_path: Path) -> None:
    write_suite(tmp_path, [{"id": "x" * 100, "inputt": "y"} for _ in range(5000)])
    script = '("$0" -m ci_evals validate; echo $? > code) 2>&1 | true'
    ended = await ci_evals(tmp_path, command=("sh", "-c", script, sys.executable))
    assert (tmp_path / "code").read_text().strip() == "2"
    assert ended.err == ""


@pytest.mark.parametrize(
    "environ", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}]
)
async def test_a_terminal_without_unicode_is_served(
    environ: Mapping[str, str], tmp_path: Path
) -> None:
    write_suite(tmp_path, [{**FAILING, "id": "größe → ✓"}])
    ended = await ci_evals(tmp_path, "run", environ={**environ, "PYTHONCOERCECLOCALE": "0"})
    assert ended.code == 1
    ended.stdout.decode("ascii")
    assert "Traceback" not in ended.stderr.decode("ascii")


def test_a_crash_of_our_own_is_no_failed_gate(tmp_path: Path) -> None:
    """Exit 3, with the traceback and where to send it."""
    write_suite(tmp_path)
    broken = (
        "import ci_evals.cli.run as it; it.summarize = lambda *_, **__: 1 / 0\n"
        "from ci_evals.cli.main import main\n"
        "import sys; sys.argv = ['ci-evals', 'run']\nmain()"
    )
    ended = python(tmp_path, "-c", broken)
    assert ended.code == 3
    assert "ZeroDivisionError" in ended.err
    assert "bug in ci-evals" in ended.err


@pytest.mark.parametrize("ending", ["sys.exit(0)", "raise asyncio.CancelledError"])
def test_code_that_ends_the_program_in_our_midst_gives_no_verdict(
    ending: str, tmp_path: Path
) -> None:
    write_suite(tmp_path)
    broken = (
        "import asyncio, sys\nimport ci_evals.cli.run as it\n"
        f"def end(*_, **__): {ending}\nit.summarize = end\n"
        "from ci_evals.cli.main import main; sys.argv = ['ci-evals', 'run']\nmain()"
    )
    ended = python(tmp_path, "-c", broken)
    assert ended.code == 3
    assert "bug in ci-evals" in ended.err


async def test_shells_get_completions(tmp_path: Path) -> None:
    ended = await ci_evals(tmp_path, environ={"_CI_EVALS_COMPLETE": "bash_source"})
    assert (ended.code, ended.err) == (0, "")
    assert "complete" in ended.out


async def test_a_grader_that_ends_the_program_is_a_failed_check(tmp_path: Path) -> None:
    (tmp_path / "judge.py").write_text("import sys\n\ndef judge(answer):\n    sys.exit(0)\n")
    write_suite(tmp_path, [{**ONE_CASE, "expect": [{"python": "judge:judge"}]}])
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 1
    (result,) = report_in(tmp_path / "ci-evals-results")["results"]
    assert result["status"] == "failed"
    assert result["grades"][0]["reason"] == "raised SystemExit: 0 (judge.py:4 in judge)"


ROAMING = """
import os, sys
os.chdir("elsewhere")

def answer(text):
    os.chdir("deeper")
    sys.path.pop(0)
    return text
"""


async def test_a_function_may_go_elsewhere_and_its_results_stay_here(tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "deeper").mkdir(parents=True)
    (tmp_path / "agent.py").write_text(ROAMING)
    write_suite(tmp_path, providers=[{"name": "agent", "type": "python", "target": "agent:answer"}])
    ended = await ci_evals(tmp_path, "run", "--out", "here")
    assert ended.code == 0, ended.err
    assert report_in(tmp_path / "here")["totals"]["passed"] == 1
    merged = await ci_evals(
        tmp_path, "run", "--resume-from", "here", "--replay", "here", "--out", "again"
    )
    assert "Resumed: 1 of 1 run" in merged.out
    assert [path.name for path in (tmp_path / "elsewhere").rglob("*")] == ["deeper"]


async def test_two_commands_at_once_do_not_share_a_journal(tmp_path: Path) -> None:
    write_suite(
        tmp_path, providers=[{"name": "slow", "type": "mock", "latency_s": 60}], timeout_s=100
    )
    first = await start(tmp_path, "run")
    journal = tmp_path / "ci-evals-results" / "results.jsonl"
    await until(lambda: journal.exists() and journal.stat().st_size > 0)
    second = await ci_evals(tmp_path, "run")
    first.kill()
    await finished(first)
    assert second.code == 3
    assert "another ci-evals is writing to it" in second.err
