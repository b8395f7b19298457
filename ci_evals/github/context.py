"""What GitHub Actions tells a job about itself: environment and event file, read into one frozen value."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, cast

import msgspec
from msgspec import Struct

from ci_evals.github.answers import Pull
from ci_evals.providers.base import Secret

T = TypeVar("T", bound=Struct)

EventKind = Literal["pull_request", "push", "merge_group", "schedule", "workflow_dispatch", "other"]

MAX_EVENT_BYTES: Final = 50 * 1024 * 1024
_KINDS: Final = frozenset(("pull_request", "push", "merge_group", "schedule", "workflow_dispatch"))
_TOKENS: Final = ("GITHUB_TOKEN", "GH_TOKEN")
_NO_COMMIT: Final = "0" * 40  # `before` of a push that created the branch


class Context(Struct, frozen=True, kw_only=True):
    """Who runs, on what, and why.

    Args:
        event: what started the workflow; `other` for anything that ci-evals treats as a plain run.
        repository: `owner/name`; None outside of GitHub.
        sha: the commit under test. Of a pull request its head, and not the merge commit that is checked out.
        branch: the branch that a push, schedule or dispatch ran on.
        base_sha: the commit to compare with: of a pull request or merge group its base, of a push the commit before.
        base_ref: the branch of `base_sha`, without `refs/heads/`.
        problem: why the event is not known, in a sentence.
    """

    event: EventKind = "other"
    repository: str | None = None
    default_branch: str | None = None
    api_url: str = "https://api.github.com"
    server_url: str = "https://github.com"
    run_id: int | None = None
    attempt: int = 1
    workflow: str = ""
    actor: str = ""
    sha: str | None = None
    branch: str | None = None
    base_sha: str | None = None
    base_ref: str | None = None
    pull_request: Pull | None = None
    output_path: Path | None = None
    step_summary_path: Path | None = None
    token: Secret | None = None
    problem: str | None = None

    @property
    def is_fork(self) -> bool:
        """Whether the code under test comes from another repository. A deleted one is another, too."""
        if self.pull_request is None or self.repository is None:
            return False
        head = self.pull_request.head.repo
        return head is None or head.full_name.casefold() != self.repository.casefold()

    @property
    def is_dependabot(self) -> bool:
        """Whether Dependabot started this: its jobs get no secrets and a token that only reads."""
        return self.actor == "dependabot[bot]"

    @property
    def read_only(self) -> bool:
        """Whether GitHub gives such a run no secrets and a token that cannot write."""
        return self.event == "pull_request" and (self.is_fork or self.is_dependabot)

    @property
    def on_default_branch(self) -> bool:
        return self.branch is not None and self.branch == self.default_branch

    @property
    def run_url(self) -> str | None:
        """The page of this workflow run."""
        if self.repository is None or self.run_id is None:
            return None
        return f"{self.server_url}/{self.repository}/actions/runs/{self.run_id}"

    @property
    def unusable(self) -> str | None:
        """Why GitHub's API cannot be asked, in a sentence; None if it can."""
        if self.repository is None:
            return "GITHUB_REPOSITORY is not set: this is no job of GitHub Actions"
        if self.token is None:
            return "GITHUB_TOKEN is not set: pass `github-token` to the action, or set it in the step's `env`"
        return None


def read_context(environ: Mapping[str, str]) -> Context:
    """Read the environment and the event file it names. Never raises: what is missing is None, `problem` says why."""
    name = environ.get("GITHUB_EVENT_NAME", "")
    event, problem = _event_in(environ.get("GITHUB_EVENT_PATH", "")) if name else ({}, None)
    try:
        return _context_of(environ, name, event, problem)
    except (msgspec.ValidationError, KeyError) as error:
        missing = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        problem = f"the event file is not what a `{name}` event looks like: {missing}"
        return _context_of(environ, "", {}, problem)


def _event_in(path: str) -> tuple[Mapping[str, Any], str | None]:
    if not path:
        return {}, "GITHUB_EVENT_PATH is not set"
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_EVENT_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        return {}, f"the event file {path} cannot be read: {getattr(error, 'strerror', None) or error}"
    try:
        event = msgspec.json.decode(content) if len(content) <= MAX_EVENT_BYTES else None
    except (ValueError, RecursionError):
        return {}, f"the event file {path} is not JSON"
    if not isinstance(event, dict):
        return {}, f"the event file {path} holds no event"
    return event, None


def _context_of(environ: Mapping[str, str], name: str, event: Mapping[str, Any], problem: str | None) -> Context:
    usable = name in _KINDS and problem is None
    facts: Mapping[str, Any] = _FACTS[name](event) if usable and name in _FACTS else {}
    ref = environ.get("GITHUB_REF", "")
    on_branch = name in ("push", "schedule", "workflow_dispatch") and ref.startswith("refs/heads/")
    repository = environ.get("GITHUB_REPOSITORY", "")
    # A push to the branch is compared with what was there before.
    branch = _branch(ref) if on_branch else None
    return Context(
        **{"sha": environ.get("GITHUB_SHA") or None, "base_ref": branch, **facts},
        event=cast("EventKind", name) if usable else "other",
        repository=repository if _is_repository(repository) else None,
        default_branch=_default_branch(event),
        api_url=_url(environ, "GITHUB_API_URL", "https://api.github.com"),
        server_url=_url(environ, "GITHUB_SERVER_URL", "https://github.com"),
        run_id=_number(environ.get("GITHUB_RUN_ID")),
        attempt=_number(environ.get("GITHUB_RUN_ATTEMPT")) or 1,
        workflow=environ.get("GITHUB_WORKFLOW", ""),
        actor=environ.get("GITHUB_ACTOR", ""),
        branch=branch,
        output_path=_path(environ.get("GITHUB_OUTPUT")),
        step_summary_path=_path(environ.get("GITHUB_STEP_SUMMARY")),
        token=next((Secret(environ[each], each) for each in _TOKENS if environ.get(each, "").strip()), None),
        problem=problem,
    )


class _MergeGroup(Struct, frozen=True):
    head_sha: str
    base_sha: str
    base_ref: str


def _pull_request_facts(event: Mapping[str, Any]) -> dict[str, Any]:
    found = _read(event, "pull_request", Pull)
    return {"sha": found.head.sha, "base_sha": found.base.sha, "base_ref": found.base.ref, "pull_request": found}


def _push_facts(event: Mapping[str, Any]) -> dict[str, Any]:
    before = event.get("before")
    return {"base_sha": before if isinstance(before, str) and before != _NO_COMMIT else None}


def _merge_group_facts(event: Mapping[str, Any]) -> dict[str, Any]:
    found = _read(event, "merge_group", _MergeGroup)
    return {"sha": found.head_sha, "base_sha": found.base_sha, "base_ref": _branch(found.base_ref)}


_FACTS = {"pull_request": _pull_request_facts, "push": _push_facts, "merge_group": _merge_group_facts}


def _read(event: Mapping[str, Any], key: str, kind: type[T]) -> T:
    return msgspec.convert(event[key], kind)


def _default_branch(event: Mapping[str, Any]) -> str | None:
    repository = event.get("repository")
    name = repository.get("default_branch") if isinstance(repository, dict) else None
    return name if isinstance(name, str) else None


def _branch(ref: str) -> str:
    return ref.removeprefix("refs/heads/")


def _is_repository(text: str) -> bool:
    owner, _, name = text.partition("/")
    return all(part and part not in (".", "..") and _is_plain(part) for part in (owner, name))


def _is_plain(part: str) -> bool:
    return part.isascii() and all(char.isalnum() or char in "-_." for char in part)


def _url(environ: Mapping[str, str], name: str, usual: str) -> str:
    return (environ.get(name) or usual).rstrip("/")


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 20 else None


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None
