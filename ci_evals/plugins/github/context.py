"""A job of GitHub Actions, read from its environment and event file."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

from pydantic import TypeAdapter, ValidationError

from ci_evals.format import short_sha
from ci_evals.model.fields import Secret, first_problem

EventKind = Literal["pull_request", "push", "merge_group", "schedule", "workflow_dispatch", "other"]

_NO_COMMIT: Final = "0" * 40  # `before` of a push that created the branch

_TOKENS = ("GITHUB_TOKEN", "GH_TOKEN")


@dataclass(frozen=True, slots=True)
class Repository:
    id: int
    full_name: str


@dataclass(frozen=True, slots=True)
class Branch:
    """Head or base of a pull request. `repo` is None when the fork was deleted."""

    ref: str
    sha: str
    repo: Repository | None = None


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull request, as GitHub's events and its API show it."""

    number: int
    head: Branch
    base: Branch


@dataclass(frozen=True, slots=True)
class MergeGroup:
    head_sha: str
    base_sha: str
    base_ref: str


@dataclass(frozen=True, slots=True)
class EventRepository:
    default_branch: str | None = None


@dataclass(frozen=True, slots=True)
class Payload:
    """The parts of an event file that are used. `before` is the commit before a push."""

    pull_request: PullRequest | None = None
    merge_group: MergeGroup | None = None
    before: str | None = None
    repository: EventRepository = EventRepository()


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A job: its event, its commits, its run and its token.

    Attributes:
        event: what started the workflow; `other` for anything that ci-evals treats as a plain run.
        repository: `owner/name`; None outside of GitHub.
        sha: the commit under test; for a pull request its head, not the checked-out merge commit.
        branch: the branch of a push, schedule or dispatch.
        base_sha: the commit to compare with: the base of a pull request or merge group, or the
            commit before a push.
        base_ref: the branch of `base_sha`, without `refs/heads/`.
        temp: the runner's folder for temporary files, which it empties for each job.
        docs_url: the docs of the action that runs, on GitHub's pages; None for one of the
            repository itself.
        problem: why the event could not be read, in a sentence; commits and pull request are None
            then.
    """

    event: EventKind = "other"
    repository: str | None = None
    default_branch: str | None = None
    api_url: str = "https://api.github.com"
    server_url: str = "https://github.com"
    run_id: int | None = None
    attempt: int = 1
    workflow: str = ""
    workflow_file: str | None = None
    actor: str = ""
    sha: str | None = None
    branch: str | None = None
    base_sha: str | None = None
    base_ref: str | None = None
    pull_request: PullRequest | None = None
    output_path: Path | None = None
    step_summary_path: Path | None = None
    temp: Path | None = None
    docs_url: str | None = None
    token: Secret | None = None
    problem: str | None = None

    @property
    def is_fork(self) -> bool:
        """True if the code under test comes from another repository, even a deleted one."""
        if self.pull_request is None or self.repository is None:
            return False
        head = self.pull_request.head.repo
        return head is None or head.full_name.casefold() != self.repository.casefold()

    @property
    def read_only(self) -> bool:
        """True if the run gets no secrets and a read-only token, as for forks and Dependabot."""
        return self.event == "pull_request" and (self.is_fork or self.actor == "dependabot[bot]")

    @property
    def on_default_branch(self) -> bool:
        return self.branch is not None and self.branch == self.default_branch

    @property
    def makes_baselines(self) -> bool:
        """True if results of this job may be a baseline, since it runs on the default branch."""
        # GitHub schedules the default branch only, and its event may not name it.
        if self.event == "schedule":
            return self.branch is not None
        return self.on_default_branch and self.event in ("push", "workflow_dispatch")

    @property
    def run_url(self) -> str | None:
        """The page of this workflow run."""
        if self.repository is None or self.run_id is None:
            return None
        return f"{self.server_url}/{self.repository}/actions/runs/{self.run_id}"

    @property
    def links(self) -> Mapping[str, str]:
        """The pages of the run, its artifacts, the commit and the pull request, by their names."""
        if self.repository is None:
            return {}
        site = f"{self.server_url}/{self.repository}"
        links = {}
        if self.run_url:
            links[f"run {self.run_id}"] = self.run_url
            links["artifacts"] = f"{self.run_url}#artifacts"
        if self.sha:
            links[f"commit {short_sha(self.sha)}"] = f"{site}/commit/{self.sha}"
        if self.pull_request:
            number = self.pull_request.number
            links[f"pull request #{number}"] = f"{site}/pull/{number}"
        return links

    @property
    def source_url(self) -> str | None:
        """The files of the commit under test, on GitHub's pages."""
        repository = self.repository
        if self.pull_request and self.pull_request.head.repo:
            repository = self.pull_request.head.repo.full_name
        if not repository or not self.sha:
            return None
        return f"{self.server_url}/{repository}/blob/{self.sha}"

    @property
    def unusable(self) -> str | None:
        """The reason that GitHub's API cannot be called, in a sentence; None if it can be."""
        if self.repository is None:
            return "GITHUB_REPOSITORY is not set: this is not a job of GitHub Actions"
        if self.token is None:
            return (
                "GITHUB_TOKEN is not set: pass `github-token` to the action,"
                " or set it in the step's `env`"
            )
        return None


def read_context(environ: Mapping[str, str]) -> Context:
    """Read the environment and the event file that it names.

    Never raises: missing facts are None, and `problem` says why.
    """
    name = environ.get("GITHUB_EVENT_NAME", "")
    kind: EventKind = "other"
    for known in get_args(EventKind):
        if known == name:
            kind = known
    branch = None
    ref = environ.get("GITHUB_REF", "")
    if kind in ("push", "schedule", "workflow_dispatch") and ref.startswith("refs/heads/"):
        branch = ref.removeprefix("refs/heads/")
    facts: dict[str, Any] = {
        "event": kind,
        "sha": environ.get("GITHUB_SHA") or None,
        "branch": branch,
        "base_ref": branch,
    }
    if kind != "other":
        path = environ.get("GITHUB_EVENT_PATH", "")
        try:
            event = TypeAdapter(Payload).validate_json(Path(path).read_bytes())
            facts |= _facts_of(kind, event)
        except ValidationError as error:
            facts["problem"] = (
                f"the event file does not describe a `{name}` event: {first_problem(error)}"
            )
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            facts["problem"] = (
                f"the event file {path!r} of GITHUB_EVENT_PATH cannot be read: {error}"
            )
    server_url = (environ.get("GITHUB_SERVER_URL") or "https://github.com").rstrip("/")
    docs_url = None
    action, action_ref = environ.get("ACTION_REPOSITORY"), environ.get("ACTION_REF")
    if action and action_ref:
        docs_url = f"{server_url}/{action}/blob/{action_ref}/docs"
    return Context(
        **facts,
        repository=environ.get("GITHUB_REPOSITORY") or None,
        api_url=(environ.get("GITHUB_API_URL") or "https://api.github.com").rstrip("/"),
        server_url=server_url,
        run_id=_number(environ, "GITHUB_RUN_ID"),
        attempt=_number(environ, "GITHUB_RUN_ATTEMPT") or 1,
        workflow=environ.get("GITHUB_WORKFLOW", ""),
        workflow_file=_workflow_file(environ),
        actor=environ.get("GITHUB_ACTOR", ""),
        output_path=_path(environ, "GITHUB_OUTPUT"),
        step_summary_path=_path(environ, "GITHUB_STEP_SUMMARY"),
        temp=_path(environ, "RUNNER_TEMP"),
        docs_url=docs_url,
        token=_token(environ),
    )


def _token(environ: Mapping[str, str]) -> Secret | None:
    for name in _TOKENS:
        token = environ.get(name, "")
        if token.strip():
            return Secret(token, name)
    return None


def _workflow_file(environ: Mapping[str, str]) -> str | None:
    """Return the path of the workflow's file in the repository.

    GITHUB_WORKFLOW_REF has it as `OWNER/NAME/PATH@REF`.
    """
    path, _, _ = environ.get("GITHUB_WORKFLOW_REF", "").partition("@")
    repository = f"{environ.get('GITHUB_REPOSITORY')}/"
    if not path.startswith(repository):
        return None
    return path.removeprefix(repository)


def _facts_of(kind: EventKind, event: Payload) -> dict[str, Any]:
    """Return the commits of an event, as fields of a context.

    Raises:
        ValueError: the event has none.
    """
    facts: dict[str, Any] = {"default_branch": event.repository.default_branch}
    match kind, event:
        case "pull_request", Payload(pull_request=PullRequest() as pull):
            return facts | {
                "sha": pull.head.sha,
                "base_sha": pull.base.sha,
                "base_ref": pull.base.ref,
                "pull_request": pull,
            }
        case "merge_group", Payload(merge_group=MergeGroup() as group):
            base_ref = group.base_ref.removeprefix("refs/heads/")
            return facts | {"sha": group.head_sha, "base_sha": group.base_sha, "base_ref": base_ref}
        case "pull_request" | "merge_group", _:
            raise ValueError(f"it has no `{kind}`")
        case "push", Payload(before=before) if before != _NO_COMMIT:
            return facts | {"base_sha": before}
        case _:
            return facts


def _number(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name, "")
    if not text.isdecimal():
        return None
    return int(text)


def _path(environ: Mapping[str, str], name: str) -> Path | None:
    path = environ.get(name)
    if not path:
        return None
    return Path(path)
