"""Drift of main: each push looks green, and together they lose what a warning shows."""

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fakes.github import FakeGitHub
from jobs import Job, Repository
from leftovers import report_in
from processes import ci_evals
from pulls import comments, open_pull
from suites import write_suite

CASES = 40
RUNS = 5
FAILURES = (4, 4, 4, 7, 10, 13, 16, 19)
"""Of 200 runs in each report of main, which loses one and a half points with every push."""
LOSS = 3
"""The first push that loses any."""
BEFORE = "0" * 40

AGENT = """\
import collections, json, pathlib
calls = collections.Counter()
failing = json.loads(pathlib.Path(__file__).with_name("failing.json").read_text())

def answer(question):
    run = calls[question]
    calls[question] += 1
    return "wrong" if failing[question] == run else "right"
"""


def commit(number: int) -> str:
    return f"{number + 1:x}" * 40


def write_app(folder: Path, failures: int, **gate: Any) -> None:
    """Write a suite of which so many runs fail, at most one of a case."""
    names = [f"case-{number}" for number in range(CASES)]
    cases = [{"id": name, "input": name, "expect": [{"equals": "right"}]} for name in names]
    failing: dict[str, int | None] = dict.fromkeys(names)
    for number, name in enumerate(names):
        if number * failures % CASES < failures:
            failing[name] = number % RUNS
    (folder / "failing.json").write_text(json.dumps(failing))
    (folder / "agent.py").write_text(AGENT)
    provider = {"name": "agent", "type": "python", "target": "agent:answer"}
    write_suite(
        folder,
        cases,
        name="shop",
        runs=RUNS,
        providers=[provider],
        gate={"min_pass_rate": 0.5, **gate},
    )


async def push(repository: Repository, number: int, failures: int, **gate: Any) -> Job:
    write_app(repository.folder, failures, **gate)
    before = commit(number - 1) if number else BEFORE
    return await repository.push(commit(number), before=before)


async def main_of(repository: Repository, failures: Sequence[int]) -> list[Job]:
    repository.fake.state.add_history(*map(commit, range(len(failures) + 2)))
    return [await push(repository, number, each) for number, each in enumerate(failures)]


def warnings_in(job: Job) -> list[str]:
    return [line for line in job.ended.out.splitlines() if "title=Drift" in line]


async def test_a_loss_that_no_report_shows_is_a_warning_until_its_level_is_accepted(
    repository: Repository, fake: FakeGitHub
) -> None:
    jobs = await main_of(repository, FAILURES)
    assert [job.ended.code for job in jobs] == [0] * len(FAILURES)
    warned = [bool(warnings_in(job)) for job in jobs]
    assert warned[-1]
    assert warned == sorted(warned), "once it is there, it stays"
    assert not any(warned[: LOSS + 2])

    last = jobs[-1]
    (drift,) = last.report["comparison"]["drift"]
    command = f"git log {commit(LOSS - 1)[:7]}..{commit(len(FAILURES) - 1)[:7]}"
    pattern = r"main passes about (\S+) points less than before .+ \(at least (\S+)\)"
    found = re.fullmatch(pattern + "(: no single report shows it)?", drift["sentence"])
    assert found, drift["sentence"]
    assert float(found[1]) == round(100 * drift["loss"], 1)
    assert float(found[2]) == round(100 * drift["at_least"], 1)
    assert drift["since"]["revision"] == commit(LOSS)
    assert drift["reports"] == len(FAILURES) - LOSS
    before = sum(FAILURES[:LOSS]) / LOSS
    since = sum(FAILURES[LOSS:]) / drift["reports"]
    assert drift["loss"] == pytest.approx((since - before) / (CASES * RUNS))
    (warning,) = warnings_in(last)
    assert warning.startswith("::warning title=Drift::main passes about")
    for shown in (warning, " ".join(last.ended.out.split()), last.summary, last.page):
        assert command in shown
    assert "**Drift**: main passes about" in last.summary
    assert '<path class="since"' in last.page
    assert last.report["verdict"]["status"] == "pass"

    open_pull(fake, head_sha="f" * 40, base_sha=commit(len(FAILURES) - 1))
    write_app(repository.folder, FAILURES[-1])
    pull = await repository.pull_request("f" * 40)
    assert pull.ended.code == 0
    assert not warnings_in(pull)
    (comment,) = comments(fake)
    assert "main passes about" not in comment.body
    assert drift["sentence"] in pull.page.replace("\xa0", " ")
    drift_of_pull = pull.report["base"]["drift"]

    day = datetime.fromtimestamp(drift["since"]["started_at"], UTC).date().isoformat()
    assert f"{day} accepts the new level" in last.summary
    accepting = await push(repository, len(FAILURES), FAILURES[-1], drift_since=day)
    assert accepting.ended.code == 0
    assert not warnings_in(accepting)
    assert accepting.report["comparison"]["drift"] == []
    assert accepting.report["base"]["drift"] == drift_of_pull, "the pull request left no trace"


async def test_a_baseline_that_is_named_counts_where_no_ci_system_knows_the_branch(
    tmp_path: Path, fake: FakeGitHub
) -> None:
    repository = Repository(tmp_path, fake)
    sums = []
    for number in range(3):
        write_app(tmp_path, FAILURES[number])
        repository.check_out(commit(number))
        arguments = ["--out", f"ci-evals-{number}"]
        if number:
            arguments += ["--baseline", f"ci-evals-{number - 1}"]
        ended = await ci_evals(tmp_path, "run", *arguments)
        assert ended.code == 0, ended.out
        report = report_in(tmp_path / f"ci-evals-{number}")
        assert report["suite"]["on_default_branch"] is None
        if number:
            sums.append(sum(cell["runs"][1] for cell in report["base"]["drift"]["cells"]))
    assert sums == [CASES * RUNS, 2 * CASES * RUNS]


@pytest.mark.parametrize("since", ["yesterday", "2026-02-30", "abc", 1234567, "ABCDEF0"])
async def test_a_level_that_is_no_day_and_no_commit_is_an_error(
    tmp_path: Path, since: object
) -> None:
    write_app(tmp_path, 0, drift_since=since)
    ended = await ci_evals(tmp_path, "validate")
    assert ended.code == 2
    expected = "expected a day such as 2026-12-31, or at least 7 digits of a commit"
    assert f"gate.drift_since: {expected}" in ended.err
