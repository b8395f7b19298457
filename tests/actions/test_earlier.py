"""What an event is compared with."""

from typing import Any

import pytest

from ci_evals.actions.search import search_for
from ci_evals.github.baseline import Search
from ci_evals.github.context import Context

ON_MAIN = {"branch": "main", "default_branch": "main", "sha": "c" * 40}


def searched(**facts: Any) -> Search | None:
    return search_for(Context(**facts), "evals")


def test_a_pull_request_is_compared_with_its_merge_base() -> None:
    found = searched(event="pull_request", base_ref="release", base_sha="a" * 40, sha="b" * 40)
    assert found == Search("evals", "release", "a" * 40, "b" * 40)


def test_a_merge_group_is_compared_with_its_base_itself() -> None:
    found = searched(event="merge_group", base_ref="main", base_sha="a" * 40, sha="b" * 40)
    assert found == Search("evals", "main", "a" * 40)


def test_a_push_to_the_default_branch_is_compared_with_what_was_there_before() -> None:
    assert searched(event="push", base_sha="a" * 40, **ON_MAIN) == Search("evals", "main", "a" * 40)


def test_a_scheduled_run_is_compared_with_the_newest_whatever_its_event_says_of_the_repository() -> None:
    assert searched(event="schedule", branch="main") == Search("evals", "main", None)
    assert searched(event="workflow_dispatch", **ON_MAIN) == Search("evals", "main", None)


@pytest.mark.parametrize("event", ["push", "workflow_dispatch"])
def test_another_branch_runs_plainly(event: str) -> None:
    assert searched(event=event, branch="feature", default_branch="main", base_sha="a" * 40) is None


def test_other_events_run_plainly() -> None:
    assert searched(event="other", **ON_MAIN) is None
