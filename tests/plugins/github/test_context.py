"""What a job knows of itself."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_evals.plugins.github.context import Context, read_context

PULL = {
    "number": 7,
    "head": {"sha": "a" * 40, "ref": "feature", "repo": {"id": 1, "full_name": "acme/app"}},
    "base": {"sha": "b" * 40, "ref": "main", "repo": {"id": 1, "full_name": "acme/app"}},
}
BASICS = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_REPOSITORY": "acme/app",
    "GITHUB_RUN_ID": "100",
    "GITHUB_RUN_ATTEMPT": "2",
    "GITHUB_JOB": "evals",
    "GITHUB_WORKFLOW": "CI",
    "GITHUB_ACTOR": "alice",
    "GITHUB_SHA": "e" * 40,
    "GITHUB_REF": "refs/heads/main",
    "GITHUB_TOKEN": "ghs_verysecretvalue",
}


def context(folder: Path, name: str, event: Any, **changes: str) -> Context:
    path = folder / "event.json"
    path.write_text(event if isinstance(event, str) else json.dumps(event))
    return read_context(
        {**BASICS, "GITHUB_EVENT_NAME": name, "GITHUB_EVENT_PATH": str(path), **changes}
    )


def pull_event(**head: Any) -> Mapping[str, Any]:
    return {
        "pull_request": {**PULL, "head": {**PULL["head"], **head}},  # type: ignore[dict-item]
        "repository": {"default_branch": "main"},
    }


def test_a_pull_requests_commit_is_its_head_and_not_the_merge_commit(tmp_path: Path) -> None:
    found = context(tmp_path, "pull_request", pull_event(), GITHUB_REF="refs/pull/7/merge")
    assert found.event == "pull_request"
    assert (found.sha, found.base_sha, found.base_ref, found.branch) == (
        "a" * 40,
        "b" * 40,
        "main",
        None,
    )
    assert found.pull_request is not None
    assert found.pull_request.number == 7
    assert not found.is_fork
    assert not found.read_only
    assert found.problem is None


@pytest.mark.parametrize("repository", [{"id": 2, "full_name": "mallory/app"}, None])
def test_another_repositorys_branch_is_a_fork_and_a_deleted_one_too(
    tmp_path: Path, repository: Any
) -> None:
    found = context(tmp_path, "pull_request", pull_event(repo=repository))
    assert found.is_fork
    assert found.read_only


def test_the_case_of_a_repositorys_name_makes_no_fork(tmp_path: Path) -> None:
    assert not context(
        tmp_path, "pull_request", pull_event(repo={"id": 1, "full_name": "Acme/App"})
    ).is_fork


def test_dependabot_reads_only(tmp_path: Path) -> None:
    found = context(tmp_path, "pull_request", pull_event(), GITHUB_ACTOR="dependabot[bot]")
    assert found.read_only


def test_a_push_is_compared_with_what_was_there_before(tmp_path: Path) -> None:
    event = {"before": "c" * 40, "repository": {"default_branch": "main"}}
    found = context(tmp_path, "push", event)
    assert (found.event, found.sha, found.branch) == ("push", "e" * 40, "main")
    assert (found.base_sha, found.base_ref) == ("c" * 40, "main")
    assert found.on_default_branch


def test_a_push_that_creates_its_branch_has_nothing_before_it(tmp_path: Path) -> None:
    assert context(tmp_path, "push", {"before": "0" * 40}).base_sha is None


def test_a_tag_is_no_branch(tmp_path: Path) -> None:
    found = context(tmp_path, "push", {"before": "c" * 40}, GITHUB_REF="refs/tags/main")
    assert found.branch is None
    assert not found.on_default_branch


def test_a_merge_group_has_its_own_head_and_base(tmp_path: Path) -> None:
    group = {
        "head_sha": "d" * 40,
        "base_sha": "b" * 40,
        "base_ref": "refs/heads/release/1",
        "head_ref": "queue",
    }
    found = context(tmp_path, "merge_group", {"merge_group": group})
    assert (found.event, found.sha, found.base_sha, found.base_ref) == (
        "merge_group",
        "d" * 40,
        "b" * 40,
        "release/1",
    )
    assert found.pull_request is None


@pytest.mark.parametrize("name", ["schedule", "workflow_dispatch"])
def test_plain_events_know_their_branch(tmp_path: Path, name: str) -> None:
    found = context(tmp_path, name, {"schedule": "0 3 * * *"})
    assert (found.event, found.branch, found.sha) == (name, "main", "e" * 40)


@pytest.mark.parametrize(
    "name", ["pull_request_target", "workflow_run", "issue_comment", "release", "made_up"]
)
def test_any_other_event_is_a_plain_run(tmp_path: Path, name: str) -> None:
    found = context(tmp_path, name, pull_event())
    assert found.event == "other"
    assert found.pull_request is None
    assert found.problem is None


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ("", "Invalid JSON"),
        ('{"pull_request": ', "Invalid JSON"),
        ("[" * 100_000, "Invalid JSON"),
        ("[]", "does not describe"),
        ("{}", "has no `pull_request`"),
        ('{"pull_request": null}', "has no `pull_request`"),
        ('{"pull_request": {"number": "seven"}}', "number: "),
        ('{"pull_request": {"number": 7, "head": {"ref": "x", "sha": 1}, "base": {}}}', "sha"),
    ],
)
def test_a_damaged_event_keeps_its_kind_and_has_a_reason(
    tmp_path: Path, event: str, reason: str
) -> None:
    found = context(tmp_path, "pull_request", event)
    assert (found.event, found.pull_request, found.base_sha) == ("pull_request", None, None)
    assert found.problem is not None
    assert reason in found.problem
    assert found.repository == "acme/app"
    assert "\n" not in found.problem


def test_an_event_file_that_is_not_there_is_a_reason(tmp_path: Path) -> None:
    for path in (str(tmp_path / "none.json"), str(tmp_path), "", "nul\0"):
        found = read_context(
            {**BASICS, "GITHUB_EVENT_NAME": "pull_request", "GITHUB_EVENT_PATH": path}
        )
        assert found.event == "pull_request"
        assert found.problem


def test_outside_of_github_nothing_is_known_and_nothing_is_wrong() -> None:
    found = read_context({})
    assert found == Context()
    assert found.unusable is not None
    assert "GITHUB_REPOSITORY" in found.unusable


def test_an_enterprise_servers_addresses_are_taken() -> None:
    addresses = {
        "GITHUB_API_URL": "https://ghe.acme.test/api/v3/",
        "GITHUB_SERVER_URL": "https://ghe.acme.test",
    }
    found = read_context(BASICS | addresses)
    assert found.api_url == "https://ghe.acme.test/api/v3"
    assert found.run_url == "https://ghe.acme.test/acme/app/actions/runs/100"


def test_pages_are_linked_as_far_as_they_are_known(tmp_path: Path) -> None:
    site = "https://github.com/acme/app"
    assert context(tmp_path, "pull_request", pull_event()).links == {
        "run 100": f"{site}/actions/runs/100",
        "artifacts": f"{site}/actions/runs/100#artifacts",
        "commit aaaaaaa": f"{site}/commit/{'a' * 40}",
        "pull request #7": f"{site}/pull/7",
    }
    assert list(context(tmp_path, "push", {}).links) == ["run 100", "artifacts", "commit eeeeeee"]
    assert Context().links == {}


def test_the_token_is_never_shown() -> None:
    found = read_context(BASICS)
    assert found.token is not None
    assert found.token.reveal() == "ghs_verysecretvalue"
    assert "verysecret" not in repr(found)
    assert found.unusable is None


def test_an_empty_token_is_none() -> None:
    found = read_context({**BASICS, "GITHUB_TOKEN": ""})
    assert found.token is None
    assert found.unusable is not None
    assert "github-token" in found.unusable


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                (
                    "pull_request",
                    "merge_group",
                    "workflow_run",
                    "before",
                    "repository",
                    "default_branch",
                    "head",
                    "base",
                    "number",
                    "sha",
                    "ref",
                    "repo",
                    "full_name",
                    "head_sha",
                    "base_sha",
                    "base_ref",
                    "id",
                    "event",
                )
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=20,
)


@given(
    event=json_values,
    name=st.sampled_from(
        ("pull_request", "push", "merge_group", "workflow_run", "schedule", "release")
    ),
    number=st.text(max_size=6),
)
def test_no_event_and_no_environment_raises(
    tmp_path_factory: pytest.TempPathFactory, event: Any, name: str, number: str
) -> None:
    folder = tmp_path_factory.mktemp("event")
    found = context(folder, name, event, GITHUB_RUN_ID=number, GITHUB_RUN_ATTEMPT=number)
    assert found.event in (name, "other")
    assert found.attempt >= 1 or number.strip("0") == ""
