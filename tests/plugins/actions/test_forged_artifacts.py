"""Artifacts of forks that lie: what `ci-evals comment --from-run` makes of them."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from archives import archive
from checkouts import RESULTS, SETTLED
from fakes.github import FakeGitHub
from fakes.github_state import FORK, StoredRun
from github_markdown import shown
from jobs import Repository
from processes import Finished, ci_evals
from pulls import NUMBER, comments, open_pull

BASE, HEAD, LATER = "b" * 40, "c" * 40, "d" * 40

Document = dict[str, Any]
Forgery = Callable[[Document], None]


class Fork:
    """A fork's pull request with uploaded results, and the `workflow_run` job that comments."""

    def __init__(self, repository: Repository, run: StoredRun, report: Document) -> None:
        self.report = report
        self.run = run
        self._repository = repository

    async def comment(self, *arguments: str, forge: Forgery = lambda _report: None) -> Finished:
        """Comment on what was uploaded, after a forgery."""
        state = self._repository.fake.state
        for uploaded in (each for each in state.artifacts.values() if each.run is self.run):
            document = json.loads(json.dumps(self.report))
            forge(document)
            uploaded.content = archive({"report.json": json.dumps(document).encode()})
        environ = self._repository.environment(
            "workflow_run", {}, self.run, self._repository.folder
        )
        command = ("comment", "--from-run", str(self.run.id), *arguments)
        return await ci_evals(self._repository.folder, *command, environ=environ, constants=SETTLED)

    async def text(self, *arguments: str, forge: Forgery = lambda _report: None) -> str:
        """What the comment would say."""
        ended = await self.comment("--dry-run", *arguments, forge=forge)
        assert ended.code == 0, ended.err
        return re.sub(r"<!--.*?-->\n?", "", ended.out)


async def fork_of(
    repository: Repository, wrong: tuple[str, ...] = ("river",), **settings: Any
) -> Fork:
    """Compared with main, where every answer was right."""
    repository.fake.state.add_history(BASE, HEAD)
    repository.suite(**settings)
    assert (await repository.push(BASE)).ended.code == 0
    open_pull(repository.fake, head_sha=HEAD, base_sha=BASE, head_repository=FORK)
    run = repository.fake.state.add_run(
        HEAD, head_branch="feature", head_repository=FORK, event="pull_request"
    )
    repository.suite(wrong=wrong, **settings)
    job = await repository.pull_request(HEAD, "--comment", "off", run=run)
    assert job.ended.code == int(bool(wrong)), job.ended.err
    repository.upload(job, run)
    return Fork(repository, run, job.report)


def _tested(report: Document) -> Iterator[Document]:
    return (cell["comparison"] for cell in report["cells"])


def edit_verdict(report: Document) -> None:
    report["verdict"] |= {
        "status": "pass",
        "reason": "all is well",
        "rules": [],
        "scopes": [],
        "hint": "merge it",
    }


def edit_sentences(report: Document) -> None:
    report["comparison"]["sentence"] = "compared with main: all is well"
    for each in (*report["comparison"]["variants"], *_tested(report)):
        each["sentence"] = "all is well"


def edit_p_values(report: Document) -> None:
    for variant in report["comparison"]["variants"]:
        variant |= {"p": 1.0, "adjusted_p": 1.0, "fell": False}
    for comparison in _tested(report):
        comparison |= {"p": 0.9, "adjusted_p": 0.9, "kind": "flaky"}
    report["comparison"]["counts"] = {"unchanged": 4}


def edit_tallies_of_base(report: Document) -> None:
    for cell in report["base"]["cells"]:
        cell["history"] = [[each[0], 0, each[2]] for each in cell["history"]]
        cell["per_run"] = [[5, 0.0, 0.0], 1.0, 1.0, 60.0]


def edit_cases_of_base(report: Document) -> None:
    for comparison in _tested(report):
        comparison |= {"kind": "edited", "p": None, "adjusted_p": None}
    for cell in report["base"]["cells"]:
        cell |= {"fingerprint": "other.other", "history": []}


def count_failures_as_passes(report: Document) -> None:
    for cell in report["cells"]:
        cell |= {"passed": cell["passed"] + cell["failed"], "failed": 0, "outcome": "passed"}


def edit_rates(report: Document) -> None:
    report["totals"] |= {"pass_rate": 1.0, "match_rate": 1.0, "cost_usd": 0.0}
    for variant in (
        *report["variants"],
        *(each for point in report["base"]["trend"] for each in point["variants"]),
    ):
        variant["pass_rate"] = 1.0
    for variant in report["comparison"]["variants"]:
        variant |= {"head_rate": 1.0, "base_rate": 0.0, "differences": {}}


def leave_comparison_out(report: Document) -> None:
    report |= {"comparison": None, "base": None}
    for cell in report["cells"]:
        cell["comparison"] = None


def forget_confirming(report: Document) -> None:
    report["base"]["confirm_runs"] = 0


def claim_runs_of_main(report: Document) -> None:
    """As if main had run all that was run again, too, and had failed it."""
    report["main"] = {"name": "main (0123456)", "lack": ""}
    report["main_cost"] = {"name": "main (0123456)", "runs": 9}
    for cell in report["cells"]:
        first = cell["planned"] + 1
        cell["main_now"] = [[first + run, False] for run in range(cell["confirm_runs"])]
    for cell in report["base"]["cells"]:
        cell |= {"answer": "main fails, too", "answered_now": True, "missed": "all"}


@pytest.mark.parametrize(
    "forge",
    [
        edit_verdict,
        edit_sentences,
        edit_p_values,
        edit_tallies_of_base,
        edit_cases_of_base,
        count_failures_as_passes,
        edit_rates,
        leave_comparison_out,
        forget_confirming,
        claim_runs_of_main,
    ],
)
async def test_what_follows_from_results_and_base_is_derived_and_never_taken_over(
    repository: Repository, forge: Forgery
) -> None:
    fork = await fork_of(repository)
    honest, forged = await fork.text(), await fork.text(forge=forge)
    assert honest.startswith("### ❌ 1 case regressed: <code>river</code>")
    assert "5/5" in honest.replace("\u00a0", " ").replace(" / ", "/")
    assert forged == honest


def pass_all(report: Document) -> None:
    for result in report["results"]:
        result["status"] = "passed"


def delete_failures(report: Document) -> None:
    report["results"] = [result for result in report["results"] if result["status"] == "passed"]


async def test_a_report_whose_statuses_contradict_its_grades_is_left_out(
    repository: Repository, fake: FakeGitHub
) -> None:
    fork = await fork_of(repository)
    ended = await fork.comment(forge=pass_all)
    assert ended.code == 1
    assert (
        f"warning: artifact '{RESULTS}' was left out: report.json contradicts itself" in ended.err
    )
    assert comments(fake) == []


def leave_cell_out(report: Document) -> None:
    """Without the case that fails, and without a trace of it."""
    _keep(report, lambda cell: cell["case"] != "river")


def leave_failing_runs_out(report: Document) -> None:
    """With fewer runs of every case, of which none has failed."""
    delete_failures(report)
    for cell in report["cells"]:
        cell |= {"planned": cell["passed"], "confirm_runs": 0}
    report["results"] = [result for result in report["results"] if result["run"] <= 3]


def _keep(report: Document, chosen: Callable[[Document], bool]) -> None:
    report["cells"] = [cell for cell in report["cells"] if chosen(cell)]
    report["results"] = [result for result in report["results"] if chosen(result)]


@pytest.mark.parametrize(
    ("forge", "note"),
    [
        (leave_cell_out, "1 case of main was not run"),
        (delete_failures, "1 case has fewer runs than on main"),
        (leave_failing_runs_out, "1 case of main was not run"),
    ],
)
async def test_what_a_report_has_less_of_than_main_is_said_at_once(
    repository: Repository, forge: Forgery, note: str
) -> None:
    fork = await fork_of(repository)
    assert "Missing" not in await fork.text()
    above, _, _ = (await fork.text(forge=forge)).partition("<details>")
    assert f"**Missing**: {note}" in above


def pretend_to_be_edited(report: Document) -> None:
    for cell in report["cells"]:
        if cell["case"] == "river":
            cell["fingerprint"] = f"other.{cell['fingerprint'].partition('.')[2]}"


async def test_a_case_that_claims_to_be_another_one_is_named_at_once(
    repository: Repository,
) -> None:
    fork = await fork_of(repository)
    above, _, _ = (await fork.text(forge=pretend_to_be_edited)).partition("<details>")
    assert (
        "**Edited**: river: said to be another question than on main, or judged otherwise" in above
    )


def soften_gate(report: Document) -> None:
    report["gate"] |= {
        "min_pass_rate": 0.0,
        "max_regressions": 99,
        "on_regression": "warn",
        "max_error_rate": 1.0,
    }
    soften_bars(report)


def soften_bars(report: Document) -> None:
    for cell in report["cells"]:
        cell |= {"bar": 0.0, "min_pass_rate": 0.0}


def soften_thresholds(report: Document) -> None:
    """Let half of the graders be enough, and make statuses and counts of that."""
    for cell in report["cells"]:
        cell["threshold"] = 0.5
    for result in report["results"]:
        result["status"] = "passed"


def quarantine(report: Document) -> None:
    for cell in (cell for cell in report["cells"] if cell["case"] == "river"):
        cell["quarantine"] = {"reason": "known", "until": "2999-01-01"}


@pytest.mark.parametrize("forge", [soften_gate, soften_bars, soften_thresholds, quarantine])
async def test_a_report_is_judged_by_the_rules_of_main_too(
    repository: Repository, forge: Forgery
) -> None:
    fork = await fork_of(repository, gate={"min_pass_rate": 0.9}, expect=[{"max_length": 20}])
    text = await fork.text(forge=forge)
    assert text.startswith("### ❌ 1 case regressed")
    ruled = "**Rules**: judged by those of main, which this pull request changes" in text
    assert ruled == (forge is not soften_bars)  # the gate itself holds then


async def test_where_main_has_no_report_the_comment_says_whose_word_it_takes(
    repository: Repository,
) -> None:
    fork = await fork_of(repository)
    for artifact in repository.fake.state.artifacts.values():
        artifact.expired = artifact.run.event == "push"
    text = await fork.text()
    assert text.startswith("### ❌ 1 case regressed")
    assert (
        "**Not verified**: gate and baseline are what the pull request's own job reports "
        "(no baseline: every artifact 'ci-evals-results' of main has expired)"
    ) in text.replace("&#39;", "'")
    unjudged = await fork.text(forge=leave_comparison_out)
    assert (
        "**Not verified**: the gate is what the pull request's own job reports"
        in unjudged.replace("&#39;", "'")
    )
    assert "o baseline: every artifact" in unjudged


def pretend_that_main_drifts(report: Document) -> None:
    report["suite"] |= {"on_default_branch": True, "dirty": False}
    drift = report["base"]["drift"]
    variant = drift["variants"][0]
    variant["alarm"] = True
    for bet in variant["bets"]:
        bet |= {"evidence": [1e6, 1.0], "since": drift["newest"], "reports": 3}


async def test_a_report_that_claims_to_be_of_main_tells_no_drift_of_it(
    repository: Repository,
) -> None:
    fork = await fork_of(repository)
    held_to_main = await fork.text(forge=pretend_that_main_drifts)
    for artifact in repository.fake.state.artifacts.values():
        artifact.expired = artifact.run.event == "push"
    own_word = await fork.text(forge=pretend_that_main_drifts)
    assert "**Not verified**" in own_word
    for text in (held_to_main, own_word):
        assert "**Drift**" not in text


def rename_suite(report: Document) -> None:
    report["suite"]["name"] = "another"
    leave_comparison_out(report)


async def test_a_forged_report_is_not_green_without_a_baseline_to_hold_it_to(
    repository: Repository,
) -> None:
    """It names another suite, or an artifact that main has not, so no rule of main applies."""
    fork = await fork_of(repository, wrong=())
    renamed = await fork.text(forge=rename_suite)
    assert renamed.startswith("### 🟡 No baseline: main has no report of this suite, only of")
    uploaded = repository.fake.state.artifact_named("ci-evals-results")
    assert uploaded.run is fork.run
    uploaded.name = "ci-evals-mine"
    for forge in (leave_comparison_out, lambda _report: None):
        elsewhere = await fork.text(forge=forge)
        assert elsewhere.startswith(
            "### 🟡 No baseline: no run of main itself has left an artifact"
        )


async def test_a_suite_that_a_forged_artifact_leaves_out_is_named(repository: Repository) -> None:
    fork = await fork_of(repository, wrong=())
    main = next(
        each for each in repository.fake.state.artifacts.values() if each.run is not fork.run
    )
    other = json.loads(json.dumps(fork.report))
    other["suite"] |= {"name": "history", "revision": BASE, "dirty": False}
    own = json.loads(json.dumps(fork.report))
    own["suite"] |= {"revision": BASE, "dirty": False}
    main.content = archive(
        {
            "geography/report.json": json.dumps(own).encode(),
            "history/report.json": json.dumps(other).encode(),
        }
    )
    text = await fork.text()
    assert "**Missing**: not run here, but on main: history" in text


async def test_a_baseline_may_be_a_file_of_the_job_or_none(repository: Repository) -> None:
    fork = await fork_of(repository)
    base, _ = sorted(repository.folder.glob(f"{RESULTS}-*"))
    named = await fork.text("--baseline", str(base), forge=leave_comparison_out)
    assert named.startswith("### ❌ 1 case regressed")
    alone = await fork.text("--baseline", "none")
    assert "regressed" not in alone
    assert alone.startswith("### ❌")


async def test_code_that_was_not_run_stays_unchecked_whatever_the_report_says_of_it(
    repository: Repository,
) -> None:
    command = [sys.executable, "-c", "import sys; print('the input', sys.stdin.read())"]
    agent = {"name": "agent", "type": "command", "command": command}
    fork = await fork_of(repository, wrong=(), cases=("input",), providers=[agent])
    assert (await fork.text()).startswith("### ❔")

    def pretend_to_be_a_model(report: Document) -> None:
        report["suite"] |= {"own_code": [], "without_secrets": False}
        for result in report["results"]:
            result["recorded"] = True

    forged = await fork.text(forge=pretend_to_be_a_model)
    assert forged.startswith("### ⚠️ Not checked: this pull request")


@pytest.mark.parametrize(
    "forge", [None, pass_all, lambda report: report.clear()], ids=["none", "lies", "empty"]
)
async def test_a_run_without_a_usable_report_withdraws_what_the_comment_said(
    repository: Repository, fake: FakeGitHub, forge: Forgery | None
) -> None:
    fork = await fork_of(repository, wrong=())
    assert (await fork.comment()).code == 0
    (comment,) = comments(fake)
    assert "### ❔" in comment.body

    fake.state.pulls[NUMBER].head_sha = LATER
    run = fake.state.add_run(
        LATER,
        head_branch="feature",
        head_repository=FORK,
        event="pull_request",
        conclusion="failure",
    )
    if forge:
        repository.suite(wrong=("river",))
        job = await repository.pull_request(LATER, "--comment", "off", run=run)
        repository.upload(job, run)
        later = Fork(repository, run, job.report)
    else:
        later = Fork(repository, run, {})
    ended = await later.comment(forge=forge or (lambda _report: None))
    assert ended.code == 1
    (comment,) = comments(fake)
    assert "❔" not in comment.body
    assert "### ⚠️ No verdict: this run has left no usable report" in comment.body


async def test_a_run_that_ran_no_suite_is_no_error_and_withdraws_what_the_comment_said(
    repository: Repository, fake: FakeGitHub
) -> None:
    fork = await fork_of(repository, wrong=())
    assert (await fork.comment()).code == 0
    fake.state.pulls[NUMBER].head_sha = LATER
    run = fake.state.add_run(
        LATER, head_branch="feature", head_repository=FORK, event="pull_request"
    )
    ended = await Fork(repository, run, {}).comment()
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(
        f"run {run.id} succeeded and ran no suite: the artifact 'ci-evals*'"
    )
    (comment,) = comments(fake)
    assert "### ⚠️ No verdict: this run has left no usable report (it ran no suite)" in comment.body


HOSTILE = (
    "</details><script>x</script> @octocat #12 https://evil.example/ ```\n"
    "::error::owned\n##[error]owned | \x1b[31m"
)
_WORDS = {
    "status",
    "kind",
    "outcome",
    "rule",
    "settled",
    "confirm_runs",
    "role",
}  # of which there are only some


def _poison(value: Any, name: str = "") -> Any:
    if name in ("gate", "base_gate"):
        return value
    if isinstance(value, dict):
        return {
            _poison(key, "") if name == "grader_means" else key: _poison(each, key)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_poison(each, name) for each in value]
    return f"{value}{HOSTILE}" if isinstance(value, str) and name not in _WORDS else value


async def test_hostile_text_in_every_field_is_only_text(
    repository: Repository, fake: FakeGitHub
) -> None:
    fork = await fork_of(repository)

    def poison(report: Document) -> None:
        poisoned = _poison(report)
        for scope in poisoned["verdict"]["scopes"]:
            scope["kind"] = "suite"
        report |= poisoned

    ended = await fork.comment(forge=poison)
    assert ended.code == 0, ended.err
    (comment,) = comments(fake)
    assert "river" in comment.body
    seen = shown(comment.body)
    assert seen.references == ()
    assert {urlsplit(link).netloc for link in seen.links} == {"github.com"}
    assert "script" not in seen.tags
    assert "\x1b" not in comment.body
    for line in (ended.out + ended.err).splitlines():
        assert not line.lstrip().startswith("::error")
        assert "##[" not in line
