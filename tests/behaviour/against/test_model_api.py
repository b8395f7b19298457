"""Both sides ask a model API, which counts: runs that are cut, resumed, repeated, or not alone."""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiohttp import web
from fakes.chat import completion
from leftovers import report_in
from loopback import on_loopback
from processes import finished, start, until
from repositories import (
    APPLE,
    BREAD,
    REAL,
    RESULTS,
    Repository,
    against_main,
    left_in,
    results_in,
    running_in,
    sides,
)
from suites import chat, write_suite

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")

CALL_TOKENS = 10
CALLS = Counter(
    {
        "apple of main": 3,
        "bread of main": 3 + 10,
        "apple of the change": 3,
        "bread of the change": 3 + 4 + 10,
    }
)
"""What is asked where the change breaks bread: planned runs, suspects, and what decides."""


class Model:
    """A model API that both sides ask.

    Attributes:
        url: a `base_url`.
        asked: how often each question was asked.
        forgets: how often a question is answered right, before it is answered wrong.
        held: the number of a call that is not answered, by its question.
        together: the first so many calls are answered only when all of them are there.
        ends: set at the end, as a server waits for its calls.
    """

    def __init__(self) -> None:
        self.url = ""
        self.asked: Counter[str] = Counter()
        self.forgets: Mapping[str, int] = {"bread of the change": 0}
        self.held: Mapping[str, int] = {}
        self.together = 0
        self._are_together = asyncio.Event()
        self.ends = asyncio.Event()

    async def complete(self, request: web.Request) -> web.Response:
        question = (await request.json())["messages"][-1]["content"]
        self.asked[question] += 1
        number = self.asked[question]
        if number == self.held.get(question):
            await self.ends.wait()
        if self.asked.total() >= self.together:
            self._are_together.set()
        await self._are_together.wait()
        is_known = number <= self.forgets.get(question, sys.maxsize)
        answer = question if is_known else "no idea"
        return web.Response(body=completion(answer), content_type="application/json")


@pytest.fixture
async def model() -> AsyncIterator[Model]:
    model = Model()
    app = web.Application()
    app.router.add_post("/chat/completions", model.complete)
    async with on_loopback(app) as model.url:
        yield model
        model.ends.set()


def shop_of(folder: Path, model: Model, **settings: Any) -> Repository:
    """A repository whose change asks the model in other words, which it may not know."""
    shop = Repository.new(folder / "shop")
    (folder / "temp").mkdir()

    def write(who: str) -> None:
        write_suite(
            shop.folder,
            **{
                "name": "shop",
                "cases": [APPLE, BREAD],
                "runs": 3,
                "timeout_s": 600,
                "providers": [chat(model.url)],
                "prompts": [{"name": "plain", "user": f"{{{{ input }}}} of {who}"}],
                **settings,
            },
        )

    write("main")
    shop.commit({".gitignore": "ci-evals-results/\nother/\n"})
    write("the change")
    return shop


def calls_in(results: Path) -> int:
    """How many calls of both sides have their results on disk."""
    journals = (results / "results.jsonl", results / "merge-base" / "main.jsonl")
    return sum(len(results_in(journal)) for journal in journals)


class Step(NamedTuple):
    """A step of a run.

    Args:
        held: the number of a call that is held on each side, by its question.
        finished: how many calls of both sides have their results then.
    """

    held: Mapping[str, int]
    finished: int


STEPS = {
    "planned runs": Step({"bread of the change": 2, "apple of main": 2}, 10),
    "runs of suspects": Step({"bread of the change": 3 + 1}, 12 + 3),
    "deciding runs": Step({"bread of the change": 3 + 4 + 6, "bread of main": 3 + 2}, 12 + 4 + 18),
}


@pytest.mark.parametrize("name", STEPS)
async def test_a_run_that_is_killed_in_a_step_makes_no_call_twice(
    tmp_path: Path, model: Model, name: str
) -> None:
    held, finished_calls = STEPS[name]
    temp = tmp_path / "temp"
    shop = shop_of(tmp_path, model)
    before = shop.state
    environ = {"TMPDIR": str(temp)}
    model.held = held
    process = await start(shop.folder, "run", "--against", "main", command=REAL, environ=environ)
    await until(lambda: calls_in(shop.folder / RESULTS) == finished_calls)
    await until(lambda: all(model.asked[question] >= held[question] for question in held))
    assert len(running_in(temp)) >= 2, "this side and main"
    process.kill()
    await finished(process)
    await until(lambda: running_in(temp) == [])
    model.held = {}
    ended = await against_main(shop.folder, "--resume", command=REAL, environ=environ)
    assert ended.code == 1, ended.out + ended.err
    assert model.asked == CALLS + Counter(held.keys()), "only what was held is asked again"
    assert ended.headline == "✗ FAIL  1 case regressed: bread"
    assert "bread: fails now: 0 of 10 here, 10 of 10 on main" in ended.out
    assert (running_in(temp), left_in(temp)) == ([], [])
    assert shop.state == before


VENDOR = {"bread of the change": 0, "bread of main": 3}
"""Main's planned runs knew bread, and now nobody does."""


@pytest.mark.parametrize("main", ["main passes", "main fails, too"])
@pytest.mark.parametrize("by", ["a budget", "a signal"])
async def test_pairs_of_runs_that_are_cut_neither_name_nor_clear(
    tmp_path: Path, model: Model, main: str, by: str
) -> None:
    settings: dict[str, Any] = {"gate": {"min_pass_rate": 0.1}}
    if main == "main fails, too":
        model.forgets = VENDOR
    if by == "a budget":
        settings |= {"budget": {"max_tokens": (12 + 4 + 12) * CALL_TOKENS}, "max_concurrency": 2}
    else:
        model.held = STEPS["deciding runs"].held
    shop = shop_of(tmp_path, model, **settings)
    process = await start(shop.folder, "run", "--against", "main")
    if by == "a signal":
        await until(lambda: calls_in(shop.folder / RESULTS) == STEPS["deciding runs"].finished)
        process.terminate()
    ended = await finished(process)
    assert ended.code == (0 if by == "a budget" else 143), ended.out + ended.err
    report = report_in(shop.folder / RESULTS)
    (bread,) = (cell["comparison"] for cell in report["cells"] if cell["case"] == "bread")
    assert (bread["kind"], bread["cleared"], bread["main_now"]) == ("suspect", False, [0, 0])
    assert "regressed" not in ended.headline
    assert "not this change" not in ended.out
    assert report["verdict"]["status"] == "borderline"
    assert "not checked on main, as the runs ended first: bread" in ended.unwrapped


async def test_a_signal_in_the_repeats_puts_nothing_down_to_the_change(
    tmp_path: Path, model: Model
) -> None:
    """What looks worse is what the vendor changed, which main's runs would have shown."""
    model.forgets = VENDOR
    model.held = {"bread of the change": 3 + 2}
    shop = shop_of(tmp_path, model, gate={"min_pass_rate": 0.1})
    process = await start(shop.folder, "run", "--against", "main")
    await until(lambda: calls_in(shop.folder / RESULTS) == 12 + 3)
    process.terminate()
    ended = await finished(process)
    assert ended.code == 143, ended.out + ended.err
    assert "FAIL" not in ended.headline
    assert "fell" not in ended.out
    assert "not checked on main, as the runs ended first: bread" in ended.unwrapped
    report = report_in(shop.folder / RESULTS)
    assert len(report["results"]) > 6, "finished repeats are reported"


async def test_runs_of_another_hour_are_no_pairs(tmp_path: Path, model: Model) -> None:
    """All runs here are made in an outage, an hour before main's."""
    model.held = {"bread of main": 3 + 1}
    shop = shop_of(tmp_path, model, gate={"min_pass_rate": 0.1}, max_concurrency=2)
    process = await start(shop.folder, "run", "--against", "main", command=REAL)
    await until(lambda: calls_in(shop.folder / RESULTS) == 12 + 4 + 10)
    process.kill()
    await finished(process)
    journal = shop.folder / RESULTS / "results.jsonl"
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    for line in lines:
        line["started_at"] -= 3600
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    model.forgets, model.held = {}, {}
    ended = await against_main(shop.folder, "--resume")
    assert ended.code == 0, ended.out + ended.err
    assert "regressed" not in ended.headline
    assert model.asked["bread of the change"] == 3 + 4 + 10 + 10
    report = report_in(shop.folder / RESULTS)
    (bread,) = (cell["comparison"] for cell in report["cells"] if cell["case"] == "bread")
    assert (bread["here_now"], bread["main_now"]) == ([10, 10], [10, 10])


async def test_two_runs_on_one_checkout_do_not_meet(tmp_path: Path, model: Model) -> None:
    """All four sides are at work at once."""
    shop = shop_of(tmp_path, model, cases=[APPLE], runs=1)
    before = shop.state
    temp = tmp_path / "temp"
    model.together = 4
    both = await asyncio.gather(
        *(
            against_main(shop.folder, "--out", out, command=REAL, environ={"TMPDIR": str(temp)})
            for out in (RESULTS, "other")
        )
    )
    for ended, out in zip(both, (RESULTS, "other"), strict=True):
        assert ended.code == 0, ended.out + ended.err
        assert "which ran alongside" in ended.out
        assert sides(shop.folder, out) == ({"apple of the change"}, {"apple of main"})
    assert left_in(temp) == []
    assert shop.state == before


@pytest.mark.parametrize("at_once", [1, 8], ids=["one after the other", "at once"])
async def test_a_second_run_into_the_same_results_is_refused_before_it_calls_anything(
    tmp_path: Path, model: Model, at_once: int
) -> None:
    shop = shop_of(tmp_path, model, max_concurrency=at_once)
    model.held = {"bread of the change": 2}
    first = await start(shop.folder, "run", "--against", "main")
    await until(lambda: model.asked["bread of the change"] >= 2)
    second = await against_main(shop.folder)
    assert (second.code, "another ci-evals is writing to it" in second.err) == (3, True)
    model.ends.set()
    ended = await finished(first)
    assert "bread: fails now: 0 of 10 here, 10 of 10 on main" in ended.out, ended.err
    assert model.asked == CALLS


async def test_what_main_left_in_the_results_before_is_no_evidence(
    tmp_path: Path, model: Model
) -> None:
    """Main failed then, as its vendor was out, so nothing was put down to the change."""
    shop = shop_of(tmp_path, model, gate={"min_pass_rate": 0.1})
    model.forgets = VENDOR
    earlier = await against_main(shop.folder)
    assert "fails it now, too (0 of 10): not this change" in earlier.unwrapped
    model.forgets = {"bread of the change": 0}
    model.asked.clear()
    ended = await against_main(shop.folder)
    assert ended.headline == "✗ FAIL  1 case regressed: bread"
    assert model.asked == CALLS
