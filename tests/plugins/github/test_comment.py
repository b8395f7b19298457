"""The comment on a pull request, posted to a GitHub that remembers."""

import asyncio
import random
from itertools import pairwise

import pytest
from fakes.github import TOKEN, FakeGitHub, Fault, github
from fakes.github_state import FORK, StoredRun, Token
from fakes.virtual_time import VirtualTime
from pulls import (
    BOT,
    HEAD,
    NUMBER,
    comments,
    context_of,
    from_renderer,
    open_pull,
    put_section,
    says,
    sections,
)

from ci_evals.errors import HostError
from ci_evals.plugins.ci.comment import CommentOutcome
from ci_evals.plugins.ci.comment_body import MAX_BYTES, Contribution, parse
from ci_evals.plugins.github.api import GitHub, WorkflowRun, connect
from ci_evals.plugins.github.comment import pull_requests_of

ROUNDS = 20


async def test_the_first_section_makes_the_comment(fake: FakeGitHub, client: GitHub) -> None:
    open_pull(fake)
    outcome = await put_section(client, NUMBER, says("All good."))
    (comment,) = comments(fake)
    assert outcome == CommentOutcome(
        url=f"https://github.com/acme/app/pull/7#issuecomment-{comment.id}"
    )
    assert comment.author == BOT
    assert sections(comment)["capitals"].text == "All good."


async def test_a_later_run_edits_the_same_comment(fake: FakeGitHub, client: GitHub) -> None:
    open_pull(fake)
    first = await put_section(client, NUMBER, says("Red."))
    second = await put_section(client, NUMBER, says("Green.", run_id=101))
    (comment,) = comments(fake)
    assert first.url
    assert second == first
    assert sections(comment)["capitals"].text == "Green."


async def test_suites_share_one_comment_in_the_order_of_their_names(
    fake: FakeGitHub, client: GitHub
) -> None:
    open_pull(fake)
    for suite in ("rivers", "capitals", "lakes"):
        await put_section(client, NUMBER, says(f"About {suite}.", suite))
    (comment,) = comments(fake)
    assert list(sections(comment)) == ["capitals", "lakes", "rivers"]


async def test_what_a_job_says_last_is_what_stays_although_its_run_is_the_same(
    fake: FakeGitHub, client: GitHub
) -> None:
    open_pull(fake)
    await put_section(client, NUMBER, says("In progress."))
    await put_section(client, NUMBER, says("Done."))
    assert sections(comments(fake)[0])["capitals"].text == "Done."


async def test_the_mode_new_makes_a_comment_for_each_run_and_one_for_all_its_jobs(
    fake: FakeGitHub, client: GitHub
) -> None:
    open_pull(fake)
    await put_section(client, NUMBER, says("One."), mode="new")
    await put_section(client, NUMBER, says("Two.", "lakes"), mode="new")
    await put_section(client, NUMBER, says("Three.", run_id=101), mode="new")
    assert [list(sections(comment)) for comment in comments(fake)] == [
        ["capitals", "lakes"],
        ["capitals"],
    ]


async def test_a_comment_beyond_250_others_is_found(fake: FakeGitHub, client: GitHub) -> None:
    open_pull(fake)
    for number in range(250):
        fake.state.add_comment(NUMBER, "reviewer", f"Remark {number}")
    await put_section(client, NUMBER, says("Red."))
    await put_section(client, NUMBER, says("Green.", run_id=101))
    ours = [comment for comment in comments(fake) if comment.author == BOT]
    assert len(ours) == 1
    assert sections(ours[0])["capitals"].text == "Green."
    assert all("per_page=100" in call.path for call in fake.asked("GET", r"issues/\d+/comments"))


async def test_a_comment_by_somebody_else_is_never_touched_whatever_it_quotes(
    fake: FakeGitHub, client: GitHub
) -> None:
    open_pull(fake)
    marked = says("Mine.").preview()
    copied = fake.state.add_comment(NUMBER, "mallory", marked)
    quoted = fake.state.add_comment(NUMBER, BOT, f"> {marked}\n\nSomebody wrote this.")
    await put_section(client, NUMBER, says("Red."))
    await put_section(client, NUMBER, says("Green.", run_id=101))
    assert len(comments(fake)) == 3
    assert copied.versions == [marked]
    assert len(quoted.versions) == 1


async def test_the_author_is_whoever_the_token_belongs_to(fake: FakeGitHub, client: GitHub) -> None:
    open_pull(fake)
    await put_section(client, NUMBER, says("By the bot."))
    fake.state.tokens["ghp_robot"] = Token(login="acme-robot")
    async with connect(context_of(fake, "ghp_robot"), sleep=fake.time.sleep) as robot:
        await put_section(robot, NUMBER, says("By the robot.", run_id=101))
        await put_section(robot, NUMBER, says("By the robot again.", run_id=102))
    assert [comment.author for comment in comments(fake)] == [BOT, "acme-robot"]


async def test_an_app_of_another_name_ends_with_the_one_comment_that_it_made_first(
    fake: FakeGitHub, client: GitHub
) -> None:
    open_pull(fake)
    fake.state.tokens[TOKEN] = Token(bot="acme-ci[bot]")
    first = await put_section(client, NUMBER, says("Red."))
    await put_section(client, NUMBER, says("Green.", run_id=101))
    (comment,) = comments(fake)
    assert first.url
    assert first.url.endswith(f"-{comment.id}")
    assert sections(comment)["capitals"].text == "Green."


async def test_a_run_of_an_older_commit_leaves_the_comment_alone(
    fake: FakeGitHub, client: GitHub
) -> None:
    pull = open_pull(fake)
    await put_section(client, NUMBER, says("Of the old head."))
    pull.head_sha = "c" * 40
    outcome = await put_section(client, NUMBER, says("Too late.", run_id=101))
    assert outcome.note
    assert "moved on to ccccccc" in outcome.note
    assert sections(comments(fake)[0])["capitals"].text == "Of the old head."


async def test_a_run_that_another_one_overtook_on_the_same_commit_leaves_its_section(
    fake: FakeGitHub, client: GitHub
) -> None:
    open_pull(fake)
    await put_section(client, NUMBER, says("Newer.", run_id=101))
    for older in (says("Older run.", run_id=100, attempt=2), says("Older still.", run_id=99)):
        outcome = await put_section(client, NUMBER, older)
        assert outcome.note
        assert "run 101" in outcome.note
    assert sections(comments(fake)[0])["capitals"].text == "Newer."


async def test_a_later_attempt_takes_the_place_of_an_earlier_one(
    fake: FakeGitHub, client: GitHub
) -> None:
    open_pull(fake)
    await put_section(client, NUMBER, says("Attempt 2.", attempt=2))
    outcome = await put_section(client, NUMBER, says("Attempt 1.", attempt=1))
    assert outcome.note
    await put_section(client, NUMBER, says("Attempt 3.", attempt=3))
    assert sections(comments(fake)[0])["capitals"].text == "Attempt 3."


async def test_a_token_that_only_reads_is_an_outcome_and_no_error(
    fake: FakeGitHub, client: GitHub
) -> None:
    open_pull(fake, head_repository="mallory/app")
    fake.state.tokens[TOKEN] = Token(may_comment=False)
    outcome = await put_section(client, NUMBER, says("From a fork."))
    assert outcome.warning
    assert "Resource not accessible by integration" in outcome.warning
    assert "fork" in outcome.warning
    assert not comments(fake)


@pytest.mark.parametrize("login", [None, "acme-robot"])
async def test_while_github_does_not_say_whose_the_token_is_there_is_still_one_comment(
    fake: FakeGitHub, client: GitHub, login: str | None
) -> None:
    open_pull(fake)
    fake.state.tokens[TOKEN] = Token(login=login)
    await put_section(client, NUMBER, says("Red."))
    fake.fails(*[Fault(lambda _method, path: path == "/user", 502)] * 5)
    await put_section(client, NUMBER, says("Green.", run_id=101))
    (comment,) = comments(fake)
    assert comment.author == (login or BOT)
    assert sections(comment)["capitals"].text == "Green."


async def test_a_comment_that_is_deleted_meanwhile_is_made_anew(
    fake: FakeGitHub, client: GitHub
) -> None:
    open_pull(fake)
    await put_section(client, NUMBER, says("Red."))
    fake.fails(Fault(lambda method, _path: method == "PATCH", 404, message="Not Found"))
    outcome = await put_section(client, NUMBER, says("Green.", run_id=101))
    assert outcome.url
    assert sections(comments(fake)[0])["capitals"].text == "Green."


async def test_what_cancelled_jobs_of_earlier_runs_left_is_cleared_away(
    fake: FakeGitHub, client: GitHub
) -> None:
    open_pull(fake)
    await put_section(client, NUMBER, says("Red."))
    fake.state.add_comment(NUMBER, BOT, says("Left behind.", "lakes").preview())
    await put_section(client, NUMBER, says("Green.", run_id=101))
    (comment,) = comments(fake)
    assert sections(comment)["capitals"].text == "Green."


async def test_a_creation_whose_answer_is_lost_is_not_made_twice(
    fake: FakeGitHub, client: GitHub
) -> None:
    open_pull(fake)
    fake.fails(Fault(lambda method, _path: method == "POST", None, after=True))
    outcome = await put_section(client, NUMBER, says("Once."))
    assert outcome.url
    assert len(fake.asked("POST")) == 1
    assert len(comments(fake)) == 1


async def test_creations_that_fail_again_and_again_are_an_error(
    fake: FakeGitHub, client: GitHub
) -> None:
    open_pull(fake)
    fake.fails(*[Fault(lambda method, _path: method == "POST", 502)] * 9)
    with pytest.raises(HostError, match="502"):
        await put_section(client, NUMBER, says("Never."))
    assert len(fake.asked("POST")) == 3


async def test_a_list_that_lags_behind_ends_with_one_comment(
    fake: FakeGitHub, client: GitHub
) -> None:
    open_pull(fake)
    fake.lagging_lists = 3
    assert (await put_section(client, NUMBER, says("Once."))).url
    assert len(comments(fake)) == 1


async def test_an_edit_whose_answer_is_lost_is_looked_up(fake: FakeGitHub, client: GitHub) -> None:
    open_pull(fake)
    await put_section(client, NUMBER, says("Red."))
    fake.fails(Fault(lambda method, _path: method == "PATCH", 502, after=True))
    assert (await put_section(client, NUMBER, says("Green.", run_id=101))).url
    assert len(fake.asked("PATCH")) == 1


async def test_a_limit_between_reading_and_writing_has_the_comment_read_again(
    fake: FakeGitHub, client: GitHub
) -> None:
    open_pull(fake)
    await put_section(client, NUMBER, says("Red."))

    def other_job_writes(method: str, _path: str) -> bool:
        if method != "PATCH":
            return False
        comment = comments(fake)[0]
        comment.body = says("Meanwhile.", "lakes").preview()
        return True

    fake.fails(
        Fault(
            other_job_writes,
            403,
            {"retry-after": "30"},
            "You have exceeded a secondary rate limit.",
        )
    )
    await put_section(client, NUMBER, says("Green.", run_id=101))
    assert set(sections(comments(fake)[0])) == {"capitals", "lakes"}


async def test_a_github_that_is_down_is_an_error_with_a_reason(
    fake: FakeGitHub, client: GitHub
) -> None:
    open_pull(fake)
    fake.fails(*[Fault(lambda _method, _path: True, 503, message="Unavailable")] * 20)
    with pytest.raises(HostError, match="503") as caught:
        await put_section(client, NUMBER, says("Nobody hears this."))
    assert caught.value.kind == "unreachable"


async def test_a_pull_request_that_is_not_there_is_missing(client: GitHub) -> None:
    with pytest.raises(HostError) as caught:
        await put_section(client, 404, says("Where?"))
    assert caught.value.kind == "missing"


async def test_a_section_gets_the_room_that_the_others_leave(
    fake: FakeGitHub, client: GitHub
) -> None:
    open_pull(fake)
    offered: list[int] = []

    def render(max_bytes: int) -> str:
        offered.append(max_bytes)
        return "x" * max_bytes

    await put_section(client, NUMBER, from_renderer(render))
    alone = max(offered)
    assert alone > MAX_BYTES - 3_000
    await put_section(client, NUMBER, from_renderer(render, "lakes"))
    found = sections(comments(fake)[0])
    assert len(comments(fake)[0].body.encode()) <= MAX_BYTES
    assert len(found["lakes"].text) > MAX_BYTES // 2 - 3_000
    assert len(found["capitals"].text) <= 1_000  # gave way, since it had more than its share


async def test_a_section_that_is_longer_than_it_was_asked_to_be_is_replaced_by_its_shorter_form(
    fake: FakeGitHub, client: GitHub
) -> None:
    open_pull(fake)
    await put_section(client, NUMBER, says("It went **well**."))
    await put_section(client, NUMBER, says("é" * 60_000, "lakes"))
    found = sections(comments(fake)[0])
    assert found["capitals"].text == "It went **well**."
    assert "too long for this comment" in found["lakes"].text


async def test_writers_at_once_end_with_one_comment_and_every_section() -> None:
    """Two jobs, then three, 20 times, with requests and answers up to a second on their way."""
    lost = doubled = 0
    for seed in range(ROUNDS):
        writers = 2 if seed % 2 else 3
        chance = random.Random(seed)
        time = VirtualTime(writers)
        async with github(
            time,
            latency_s=lambda _leg, chance=chance: chance.uniform(0.01, 1.0),  # type: ignore[misc]
        ) as fake:
            open_pull(fake)
            if seed % 4 < 2:
                fake.state.add_comment(
                    NUMBER, BOT, says("Of the last run.", "old", run_id=1).preview()
                )
            outcomes = await _at_once(
                fake, time, [says(f"Suite {number}.", f"s{number}") for number in range(writers)]
            )
            assert all(outcome.url for outcome in outcomes)
            (comment,) = comments(fake)
            expected = {f"s{number}": f"Suite {number}." for number in range(writers)}
            assert {
                name: each.text for name, each in sections(comment).items() if name != "old"
            } == expected
            lost += _lost_updates(comment.versions)
            doubled += len(fake.state.deleted)
    assert lost > 0, "no write ever got lost on the way: nothing was tested"
    assert doubled > 0, "no two jobs ever created a comment at once: nothing was tested"


async def test_of_jobs_that_cannot_be_told_apart_the_last_one_stays() -> None:
    time = VirtualTime(2)
    chance = random.Random(1)
    async with github(time, latency_s=lambda _leg: chance.uniform(0.01, 1.0)) as fake:
        open_pull(fake)
        outcomes = await _at_once(fake, time, [says("One."), says("Other.")])
        assert all(outcome.url for outcome in outcomes)
        (comment,) = comments(fake)
        assert sections(comment)["capitals"].text in ("One.", "Other.")


async def test_a_second_passes_between_two_writes(fake: FakeGitHub, client: GitHub) -> None:
    open_pull(fake)
    await put_section(client, NUMBER, says("One.", "lakes"))
    await put_section(client, NUMBER, says("Two.", "rivers"))
    await put_section(client, NUMBER, says("Three.", "capitals"))
    times = [call.at for call in fake.calls if call.method in ("POST", "PATCH", "DELETE")]
    assert all(later - earlier >= 1 for earlier, later in pairwise(times))


async def test_nobody_is_done_before_others_had_time_to_finish_their_writes(
    fake: FakeGitHub, client: GitHub
) -> None:
    open_pull(fake)
    await put_section(client, NUMBER, says("One."))
    last_write = fake.asked("POST")[-1].at
    assert fake.calls[-1].at - last_write >= 3


async def _at_once(
    fake: FakeGitHub, time: VirtualTime, contributions: list[Contribution]
) -> list[CommentOutcome]:
    async def job(contribution: Contribution) -> CommentOutcome:
        try:
            async with connect(context_of(fake), sleep=time.sleep) as connection:
                return await put_section(connection, NUMBER, contribution)
        finally:
            time.leave()

    async with asyncio.TaskGroup() as group:
        jobs = [group.create_task(job(contribution)) for contribution in contributions]
    return [job.result() for job in jobs]


def _lost_updates(versions: list[str]) -> int:
    """How often a write dropped a section that stood there before."""
    parsed = [body for version in versions if (body := parse(version))]
    return sum(not _ids(earlier) <= _ids(later) for earlier, later in pairwise(parsed))


def _ids(body: object) -> set[object]:
    return {section.id for section in getattr(body, "sections", ())}


# The pull request that a workflow run was for.


async def pulls_of(client: GitHub, run: StoredRun) -> list[int]:
    found = await pull_requests_of(client, await client.get(f"actions/runs/{run.id}", WorkflowRun))
    return [pull.number for pull in found]


async def test_a_forks_pull_request_is_found_by_its_branch(
    fake: FakeGitHub, client: GitHub
) -> None:
    open_pull(fake, 7, HEAD, head_repository=FORK, head_ref="main")
    open_pull(fake, 8, "c" * 40, head_repository=FORK, head_ref="other")
    open_pull(fake, 9, HEAD, head_ref="main")
    run = fake.state.add_run(HEAD, head_branch="main", head_repository=FORK, event="pull_request")
    assert await pulls_of(client, run) == [7]


async def test_a_pull_request_that_moved_on_is_not_commented_for_an_old_run(
    fake: FakeGitHub, client: GitHub
) -> None:
    open_pull(fake, 7, "d" * 40, head_repository=FORK)
    run = fake.state.add_run(
        HEAD, head_branch="feature", head_repository=FORK, event="pull_request"
    )
    assert await pulls_of(client, run) == []


async def test_a_branch_with_an_odd_name_is_looked_up_as_it_is(
    fake: FakeGitHub, client: GitHub
) -> None:
    odd = "a&state=all#é%2F{x}"
    open_pull(fake, 7, HEAD, head_repository=FORK, head_ref=odd)
    run = fake.state.add_run(HEAD, head_branch=odd, head_repository=FORK, event="pull_request")
    assert await pulls_of(client, run) == [7]


async def test_a_run_whose_fork_was_deleted_belongs_to_no_pull_request(
    fake: FakeGitHub, client: GitHub
) -> None:
    open_pull(fake, 7, HEAD, head_repository=None)
    run = fake.state.add_run(
        HEAD, head_branch="feature", head_repository=FORK, event="pull_request"
    )
    assert await pulls_of(client, run) == []
