"""A pull request on the fake GitHub, and jobs that have something to say about it."""

from collections.abc import Callable

from fakes.github import TOKEN, FakeGitHub
from fakes.github_state import REPOSITORY, StoredComment, StoredPull

from ci_evals.model.fields import Secret
from ci_evals.plugins.ci.comment import CommentOutcome, Mode
from ci_evals.plugins.ci.comment_body import Contribution, Section, SectionId, Stamp, parse
from ci_evals.plugins.github.api import GitHub
from ci_evals.plugins.github.comment import put_sections
from ci_evals.plugins.github.context import Context

NUMBER = 7
HEAD = "a" * 40
BOT = "github-actions[bot]"


def context_of(fake: FakeGitHub, token: str = TOKEN) -> Context:
    """A job of the fake's repository."""
    return Context(
        repository=REPOSITORY, api_url=fake.api_url, run_id=100, token=Secret(token, "GITHUB_TOKEN")
    )


def open_pull(
    fake: FakeGitHub, number: int = NUMBER, head_sha: str = HEAD, **changes: str | None
) -> StoredPull:
    """A pull request from a branch of the repository itself, but for what is given."""
    pull = StoredPull(number, head_sha, **changes)  # type: ignore[arg-type]  # only texts are changed
    fake.state.pulls[number] = pull
    return pull


def says(
    text: str,
    suite: str = "capitals",
    *,
    job: str = "evals",
    run_id: int = 100,
    attempt: int = 1,
    sha: str = HEAD,
) -> Contribution:
    """A contribution of one text, however little room there is."""
    return from_renderer(
        lambda _max_bytes: text, suite, job=job, run_id=run_id, attempt=attempt, sha=sha
    )


def from_renderer(
    render: Callable[[int], str],
    suite: str = "capitals",
    *,
    job: str = "evals",
    run_id: int = 100,
    attempt: int = 1,
    sha: str = HEAD,
) -> Contribution:
    return Contribution(SectionId(suite, job), Stamp(run_id, attempt, sha), "pass", render)


async def put_section(
    github: GitHub, pull_request: int, contribution: Contribution, *, mode: Mode = "auto"
) -> CommentOutcome:
    """Put a single section into the comment."""
    return await put_sections(github, pull_request, [contribution], mode=mode)


def comments(fake: FakeGitHub, number: int = NUMBER) -> list[StoredComment]:
    return fake.state.comments_of(number)


def sections(comment: StoredComment) -> dict[str, Section]:
    """The sections of a comment by their suite."""
    body = parse(comment.body)
    assert body is not None
    return {section.id.suite: section for section in body.sections}
