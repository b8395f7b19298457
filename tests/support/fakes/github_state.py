"""The fake GitHub's data: a repository, its pull requests, comments, commits, runs, artifacts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any

from fakes.github_contract import example

REPOSITORY = "acme/app"
REPOSITORY_ID = 1_000
FORK = "mallory/app"
FORK_ID = 2_000


@dataclass
class Token:
    """A token's owner and rights. `login` is None for an installation, which comments as `bot`."""

    login: str | None = None
    bot: str = "github-actions[bot]"
    may_comment: bool = True
    may_read_actions: bool = True


@dataclass
class StoredComment:
    id: int
    number: int
    author: str
    body: str
    at: float
    versions: list[str] = field(default_factory=list)


@dataclass
class StoredPull:
    number: int
    head_sha: str
    head_ref: str = "feature"
    head_repository: str | None = REPOSITORY
    base_ref: str = "main"
    base_sha: str = "b" * 40
    state: str = "open"


@dataclass
class StoredRun:
    id: int
    head_sha: str
    head_branch: str = "main"
    head_repository: str = REPOSITORY
    event: str = "push"
    status: str = "completed"
    conclusion: str = "success"
    workflow: str = "evals.yml"


@dataclass
class StoredArtifact:
    id: int
    name: str
    run: StoredRun
    content: bytes
    at: float
    expired: bool = False


class State:
    """Everything, by id. Commits are told by their parents: `parents[sha]`."""

    def __init__(self, api_url: str, clock_now: float) -> None:
        self.api_url = api_url
        self.now = clock_now
        self.tokens: dict[str, Token] = {}
        self.pulls: dict[int, StoredPull] = {}
        self.comments: dict[int, StoredComment] = {}
        self.deleted: list[StoredComment] = []
        self.parents: dict[str, str | None] = {}
        self.branches: dict[str, str] = {}
        self.runs: dict[int, StoredRun] = {}
        self.artifacts: dict[int, StoredArtifact] = {}
        self.files: dict[str, dict[str, bytes]] = {}  # by the commit that has them
        self.changed: dict[str, tuple[str, ...]] = {}  # files by the head that changes them
        self._ids = count(5_001)

    def next_id(self) -> int:
        return next(self._ids)

    def add_comment(self, number: int, author: str, body: str) -> StoredComment:
        comment = StoredComment(self.next_id(), number, author, body, self.now, [body])
        self.comments[comment.id] = comment
        return comment

    def comments_of(self, number: int) -> list[StoredComment]:
        return sorted(
            (each for each in self.comments.values() if each.number == number),
            key=lambda each: each.id,
        )

    def add_history(self, *shas: str) -> None:
        """Commits of main upon each other, the oldest first."""
        self.branches["main"] = shas[-1]
        for parent, sha in zip((None, *shas), shas, strict=False):
            self.parents[sha] = parent

    def ancestry(self, sha: str) -> list[str]:
        """A commit, or the newest of a branch, and those before it, the nearest first."""
        found = []
        at: str | None = self.branches.get(sha, sha)
        while at is not None and at in self.parents:
            found.append(at)
            at = self.parents[at]
        return found

    def add_run(self, head_sha: str, **changes: Any) -> StoredRun:
        run = StoredRun(self.next_id(), head_sha, **changes)
        self.runs[run.id] = run
        return run

    def add_artifact(
        self, run: StoredRun, content: bytes, name: str = "evals", **changes: Any
    ) -> StoredArtifact:
        artifact = StoredArtifact(self.next_id(), name, run, content, self.now, **changes)
        self.artifacts[artifact.id] = artifact
        return artifact

    def artifact_named(self, name: str) -> StoredArtifact:
        """The newest of this name."""
        found = [each for each in self.artifacts.values() if each.name == name]
        return max(found, key=lambda each: each.id)

    def comment_answer(self, comment: StoredComment) -> dict[str, Any]:
        answer: dict[str, Any] = example("issue-comment")
        url = f"{self.api_url}/repos/{REPOSITORY}/issues/comments/{comment.id}"
        page = f"https://github.com/{REPOSITORY}/pull/{comment.number}#issuecomment-{comment.id}"
        kind = "Bot" if comment.author.endswith("[bot]") else "User"
        changes = {
            "id": comment.id,
            "body": comment.body,
            "url": url,
            "html_url": page,
            "updated_at": _time(comment.at),
        }
        return answer | changes | {"user": answer["user"] | {"login": comment.author, "type": kind}}

    def pull_answer(self, pull: StoredPull, kind: str = "pull-request") -> dict[str, Any]:
        answer: dict[str, Any] = example("pull-request")
        if kind != "pull-request":
            simple = set(example(kind)[0])
            answer = {name: value for name, value in answer.items() if name in simple}
        head = answer["head"] | {
            "sha": pull.head_sha,
            "ref": pull.head_ref,
            "repo": _repository(answer["head"]["repo"], pull.head_repository),
        }
        base = answer["base"] | {
            "sha": pull.base_sha,
            "ref": pull.base_ref,
            "repo": _repository(answer["base"]["repo"], REPOSITORY),
        }
        return answer | {"number": pull.number, "state": pull.state, "head": head, "base": base}

    def run_answer(self, run: StoredRun) -> dict[str, Any]:
        answer: dict[str, Any] = example("workflow-run")
        concluded = run.status == "completed"
        return answer | {
            "id": run.id,
            "head_sha": run.head_sha,
            "head_branch": run.head_branch,
            "event": run.event,
            "status": run.status,
            "conclusion": run.conclusion if concluded else None,
            "path": f".github/workflows/{run.workflow}",
            "pull_requests": [],
            "html_url": f"https://github.com/{REPOSITORY}/actions/runs/{run.id}",
            "repository": _repository(answer["repository"], REPOSITORY),
            "head_repository": _repository(answer["head_repository"], run.head_repository),
        }

    def artifact_answer(self, artifact: StoredArtifact) -> dict[str, Any]:
        answer: dict[str, Any] = example("artifact")
        url = f"{self.api_url}/repos/{REPOSITORY}/actions/artifacts/{artifact.id}"
        return answer | {
            "id": artifact.id,
            "name": artifact.name,
            "size_in_bytes": len(artifact.content),
            "expired": artifact.expired,
            "created_at": _time(artifact.at),
            "url": url,
            "archive_download_url": f"{url}/zip",
            "workflow_run": {
                "id": artifact.run.id,
                "repository_id": REPOSITORY_ID,
                "head_repository_id": _id(artifact.run.head_repository),
                "head_branch": artifact.run.head_branch,
                "head_sha": artifact.run.head_sha,
            },
        }

    def commit_answer(self, sha: str) -> dict[str, Any]:
        answer: dict[str, Any] = example("commit-items")[0]
        return answer | {"sha": sha}

    def comparison_answer(self, base: str, head: str) -> dict[str, Any] | None:
        """None when they have nothing in common."""
        of_base = set(self.ancestry(base))
        merge_base = next((sha for sha in self.ancestry(head) if sha in of_base), None)
        if merge_base is None:
            return None
        answer: dict[str, Any] = example("commit-comparison")
        (file,) = answer["files"]
        files = [file | {"filename": name} for name in self.changed.get(head, ())]
        return answer | {
            "merge_base_commit": answer["merge_base_commit"] | {"sha": merge_base},
            "files": files,
        }


def _repository(answer: Mapping[str, Any], full_name: str | None) -> dict[str, Any] | None:
    if full_name is None:
        return None
    name = full_name.partition("/")[2]
    return {**answer, "id": _id(full_name), "full_name": full_name, "name": name}


def _id(full_name: str) -> int:
    return REPOSITORY_ID if full_name == REPOSITORY else FORK_ID


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
