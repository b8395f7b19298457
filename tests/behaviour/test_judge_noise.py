"""`ci-evals judge check` of a results folder: how much noise between runs is the judge's."""

import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from leftovers import report_in
from processes import Finished, ci_evals, finished, start, until
from statsmodels.stats.proportion import proportion_confint
from suites import write_suite
from terminals import posix, pseudo_terminal

RESULTS = "ci-evals-results"
CHECK = ("judge", "check", RESULTS)
JUDGE = """
import asyncio, json
from pathlib import Path

def listed(name):
    path = Path(__file__).with_name(name)
    return path.read_text().split() if path.exists() else []

async def reply(messages):
    shown = json.loads("".join(messages[1]["content"].splitlines()[1:-1]))
    with Path(__file__).with_name("asked").open("a") as asked:
        asked.write(shown["question"] + "\\n")
    if len(listed("asked")) > int((listed("hold") or ["1000"])[0]):
        await asyncio.Event().wait()
    if shown["question"] in listed("silent"):
        return "I would rather not say."
    good = shown["answer"] == shown["question"]
    if shown["question"] in listed("turned"):
        good = not good
    return json.dumps({"reason": "it is " + str(good), "verdict": "pass" if good else "fail"})
"""
STRICT = {"name": "strict", "type": "python", "target": "strict:reply"}
FLAKY = {"name": "agent", "type": "mock", "flakiness": 0.2}


def write(folder: Path, cases: int = 40, **settings: Any) -> Path:
    """Write a suite whose judge accepts echoes, and of the listed questions only what is wrong."""
    (folder / "strict.py").write_text(JUDGE, "utf-8")
    written = [
        {"id": f"c{n}", "input": f"q{n}", "expect": [{"judge": {"rubric": "polite"}}]}
        for n in range(cases)
    ]
    usual = {"runs": 3, "providers": [FLAKY], "judges": [STRICT], "gate": {"min_pass_rate": 0.5}}
    return write_suite(folder, written, **(usual | settings))


async def run(folder: Path) -> None:
    ended = await ci_evals(folder, "run", "--confirm-runs", "0")
    assert ended.code == 0, ended.out
    (folder / "asked").unlink(missing_ok=True)


async def check(folder: Path, *arguments: str) -> tuple[Finished, dict[str, Any]]:
    ended = await ci_evals(folder, *CHECK, "--yes", "--format", "json", *arguments)
    return ended, json.loads(ended.out)


def asked(folder: Path) -> int:
    path = folder / "asked"
    return len(path.read_text().split()) if path.exists() else 0


def flips_between_runs(report: dict[str, Any]) -> float:
    """The chance that two runs of a cell disagree, from a report.json."""
    cells: defaultdict[str, list[bool]] = defaultdict(list)
    for result in report["results"]:
        cells[result["case"]].append(result["status"] == "passed")
    return fmean(2 * sum(each) * (len(each) - sum(each)) / (3 * 2) for each in cells.values())


async def test_it_tells_the_judges_share_of_the_noise_between_runs(tmp_path: Path) -> None:
    write(tmp_path)
    await run(tmp_path)
    before = (tmp_path / RESULTS / "results.jsonl").read_bytes()
    turned = ["q3", "q17", "q30"]
    (tmp_path / "turned").write_text(" ".join(turned))
    ended, found = await check(tmp_path)
    assert ended.code == 0, ended.err
    changed = found["changed"]
    assert found["graded_again"] == 40
    assert asked(tmp_path) == found["calls"] == 40 + 4 * len(changed)
    assert 2 <= len(changed) <= 9
    assert {each["case"] for each in changed} <= {"c3", "c17", "c30"}
    rate = len(changed) / 40
    bounds = proportion_confint(len(changed), 40, method="wilson")
    assert found["flips"]["value"] == pytest.approx(rate)
    assert found["flips"]["interval"] == pytest.approx(bounds)
    between = flips_between_runs(report_in(tmp_path / RESULTS))
    assert found["run_flips"] == pytest.approx(between)
    assert found["share"]["value"] == pytest.approx(rate / between)
    assert (found["samples"], found["more_samples"]) == (1, 3)
    text = (await ci_evals(tmp_path, *CHECK, "--yes")).out
    assert f"The judge changed its mind on {len(changed)} of 40 answers: " in text
    assert f"About {100 * rate / between:.0f} % (" in text
    assert " %) of the noise between runs is the judge's:" in text
    first = changed[0]
    line = f"{first['case']} on agent, run {first['run']}: {first['before']}, then {first['after']}"
    assert line in text
    assert (tmp_path / RESULTS / "results.jsonl").read_bytes() == before


async def test_it_tells_what_samples_and_runs_would_buy(tmp_path: Path) -> None:
    write(tmp_path)
    await run(tmp_path)
    (tmp_path / "turned").write_text("q3 q17 q30")
    _, found = await check(tmp_path)
    drops = found["purchase"]
    assert drops["by_runs"] < drops["now"]
    assert drops["by_samples"] == pytest.approx([least := drops["by_samples"][0], drops["now"]])
    assert least < drops["now"]
    power = await ci_evals(
        tmp_path, "power", "--history", f"{RESULTS}/report.json", "--format", "json"
    )
    assert drops["now"] == pytest.approx(json.loads(power.out)["sizes"][0]["pooled"])
    text = (await ci_evals(tmp_path, *CHECK, "--yes")).out
    rows = [line.split("  ") for line in text.splitlines() if " points" in line]
    assert [[part.strip() for part in row if part.strip()] for row in rows] == [
        ["40 cases × 3 runs", f"{100 * drops['now']:.1f} points"],
        [
            "the same, `samples: 3`",
            f"{100 * least:.1f} to {100 * drops['now']:.1f} points",
            "3 times the judge's calls",
        ],
        ["40 cases × 6 runs", f"{100 * drops['by_runs']:.1f} points", "twice all calls"],
    ]


PLANTED = """
import json, random
from pathlib import Path

HERE = Path(__file__).parent
CHANCES = json.loads((HERE / "chances.json").read_text())

async def reply(messages):
    shown = json.loads("".join(messages[1]["content"].splitlines()[1:-1]))
    question = shown["question"]
    with (HERE / "graded").open("a") as graded:
        graded.write(question + "\\n")
    times = (HERE / "graded").read_text().split().count(question)
    passes = random.Random(f"{question} {times}").random() < CHANCES[question]
    return json.dumps({"reason": "r", "verdict": "pass" if passes else "fail"})
"""


@pytest.mark.parametrize(
    ("chances", "advice"),
    [
        ([0.5] * 20 + [1.0] * 20, "it is torn over the answers above."),
        ([0.4, 0.6] * 15 + [1.0] * 20, "it is torn over the answers above."),
        ([0.5] * 2 + [0.9] * 8 + [1.0] * 30, "few verdicts changed; a report with more runs"),
        ([0.93] * 100, "its doubt is slight and about many answers"),
    ],
    ids=["coins", "torn over some", "too few to tell", "slight doubt"],
)
async def test_it_tells_how_much_of_its_noise_samples_leave(
    chances: list[float], advice: str, tmp_path: Path
) -> None:
    by_question = {f"q{number}": chance for number, chance in enumerate(chances)}
    (tmp_path / "chances.json").write_text(json.dumps(by_question))
    (tmp_path / "planted.py").write_text(PLANTED, "utf-8")
    planted = {"name": "planted", "type": "python", "target": "planted:reply"}
    agent = {"name": "agent", "type": "mock"}
    write(tmp_path, len(chances), providers=[agent], judges=[planted], max_concurrency=1)
    await run(tmp_path)
    ended, found = await check(tmp_path, "--answers", "300")
    assert ended.code == 0, ended.err
    majorities = [chance**2 * (3 - 2 * chance) for chance in chances]
    noise = [chance * (1 - chance) for chance in chances]
    truth = sum(each * (1 - each) for each in majorities) / sum(noise)
    lower, upper = found["left"]
    assert lower <= truth <= upper
    assert found["calls"] == 3 * len(chances) + 4 * len(found["changed"])
    assert all(each["further"]["graded"] == 4 for each in found["changed"])
    ended = await ci_evals(tmp_path, *CHECK, "--yes", "--answers", "300")
    _, _, told = ended.out.partition("`samples: 3` would leave ")
    assert told.partition("of the judge's noise:\n")[2].startswith(advice), ended.out


async def test_failed_and_passed_answers_of_all_cases_are_graded_in_proportion(
    tmp_path: Path,
) -> None:
    write(tmp_path)
    await run(tmp_path)
    failed = report_in(tmp_path / RESULTS)["totals"]["failed"]
    ended, _ = await check(tmp_path)
    told = ended.err.partition("again (")[2].partition(" failed")[0]
    assert int(told) == pytest.approx(failed / 3, abs=1)
    questions = (tmp_path / "asked").read_text().split()
    assert len(set(questions)) >= 30


async def test_nothing_is_called_before_somebody_agrees_to_the_price(tmp_path: Path) -> None:
    verdict = json.dumps({"reason": "r", "verdict": "pass"})
    price = {"input_per_mtok": 1000, "output_per_mtok": 1000}
    priced = {"name": "strict", "type": "mock", "default": verdict, "price": price}
    write(tmp_path, judges=[priced])
    await run(tmp_path)
    cost = report_in(tmp_path / RESULTS)["totals"]["judging"]["cost_usd"]
    refused = await ci_evals(tmp_path, *CHECK)
    assert refused.code == 2
    told, problem = refused.err.splitlines()
    assert told.startswith("grading 40 of 120 answers again (")
    assert told.endswith(
        f"about 40 calls of the judge, about ${cost / 3:.3g};"
        " then 4 times more where the verdict changes"
    )
    assert problem == "error: nothing was called: add --yes to accept the cost"
    assert refused.out == ""


@posix
async def test_at_a_terminal_it_asks(tmp_path: Path) -> None:
    write(tmp_path)
    await run(tmp_path)
    command = [sys.executable, "-m", "ci_evals", *CHECK]
    for answer, code, calls in ((b"n\n", 130, 0), (b"y\n", 0, 40)):
        with pseudo_terminal() as (seen, terminal):
            os.write(seen.fileno(), answer)
            done = subprocess.run(  # noqa: ASYNC221  it ends at once
                command, cwd=tmp_path, stdin=terminal, capture_output=True, text=True, check=False
            )
        assert (done.returncode, asked(tmp_path)) == (code, calls), done.stderr
        assert "continue? [y/N]" in done.stderr


async def test_without_a_judge_there_is_nothing_to_check(tmp_path: Path) -> None:
    write_suite(tmp_path, gate={"min_pass_rate": 0.5})
    await run(tmp_path)
    ended = await ci_evals(tmp_path, *CHECK, "--yes")
    assert ended.code == 2
    assert "evals.yaml has no judge to check: add one to `expect`" in ended.err


async def test_too_few_answers_are_refused_before_any_is_graded(tmp_path: Path) -> None:
    write(tmp_path, cases=6)
    await run(tmp_path)
    ended = await ci_evals(tmp_path, *CHECK, "--yes")
    assert (ended.code, asked(tmp_path)) == (2, 0)
    assert "has 18 answers that this suite's judges have graded, but 20 are needed" in ended.err


async def test_answers_that_were_graded_in_another_way_are_left_out(tmp_path: Path) -> None:
    write(tmp_path)
    await run(tmp_path)
    suite = (tmp_path / "evals.yaml").read_text()
    (tmp_path / "evals.yaml").write_text(suite.replace("polite", "brief and polite"))
    ended = await ci_evals(tmp_path, *CHECK, "--yes")
    assert (ended.code, asked(tmp_path)) == (2, 0)
    assert "120 more are of an earlier version of the suite: run the suite again" in ended.err


async def test_answers_without_a_second_verdict_count_for_nothing_and_are_told(
    tmp_path: Path,
) -> None:
    write(tmp_path)
    await run(tmp_path)
    (tmp_path / "silent").write_text(" ".join(f"q{n}" for n in range(30)))
    ended = await ci_evals(tmp_path, *CHECK, "--yes")
    assert ended.code == 3
    assert "no verdict: grader judge could not judge" in ended.err
    assert "got no second verdict and count for nothing." in ended.out
    assert "Too little to tell: at least 20 second verdicts are needed." in ended.out


async def test_a_judge_is_asked_anew(tmp_path: Path) -> None:
    """A mock draws its faults by the number of the run."""
    verdict, other = (json.dumps({"reason": "r", "verdict": word}) for word in ("pass", "fail"))
    fickle = {"name": "strict", "type": "mock", "default": verdict, "wrong": other}
    write(tmp_path, judges=[fickle | {"flakiness": 0.2}])
    await run(tmp_path)
    _, found = await check(tmp_path, "--answers", "100")
    assert found["graded_again"] == 100
    assert found["flips"]["value"] == pytest.approx(2 * 0.2 * 0.8, abs=0.12)


async def test_judges_with_different_samples_get_no_advice_about_them(tmp_path: Path) -> None:
    path = write(tmp_path)
    suite = json.loads(path.read_text())
    for case in suite["cases"][:20]:
        case["expect"][0]["judge"]["samples"] = 3
    path.write_text(json.dumps(suite))
    await run(tmp_path)
    _, found = await check(tmp_path)
    assert (found["samples"], found["more_samples"], found["purchase"]) == (None, None, None)
    assert found["calls"] == 80
    ended = await ci_evals(tmp_path, *CHECK, "--yes")
    assert "about 80 calls of the judge" in ended.err
    assert "`samples`" not in ended.out


@pytest.mark.parametrize(("samples", "more"), [(2, 7), (3, 9), (9, None)])
async def test_three_times_the_samples_are_weighed_if_a_judge_may_take_them(
    samples: int, more: int | None, tmp_path: Path
) -> None:
    path = write(tmp_path, 20)
    suite = json.loads(path.read_text())
    for case in suite["cases"]:
        case["expect"][0]["judge"]["samples"] = samples
    path.write_text(json.dumps(suite))
    await run(tmp_path)
    (tmp_path / "turned").write_text("q3 q17")
    _, found = await check(tmp_path)
    assert (found["samples"], found["more_samples"]) == (samples, more)
    further = 0 if more is None else 4
    assert len(found["changed"]) >= 2
    assert found["calls"] == samples * (40 + further * len(found["changed"]))
    assert (found["left"] is None) == (more is None)


async def test_one_run_of_each_case_shows_no_noise_between_runs(tmp_path: Path) -> None:
    write(tmp_path, runs=1)
    await run(tmp_path)
    ended = await ci_evals(tmp_path, *CHECK, "--yes")
    assert ended.code == 0
    assert "The judge changed its mind on none of 40 answers: 0 % (0 to 8.8 %)." in ended.out
    assert "Each case ran once, so the noise between runs is not known" in ended.out


async def test_a_signal_ends_it_and_what_was_seen_is_told(tmp_path: Path) -> None:
    write(tmp_path, max_concurrency=1)
    await run(tmp_path)
    before = sorted(path.name for path in (tmp_path / RESULTS).iterdir())
    (tmp_path / "turned").write_text(" ".join(f"q{n}" for n in range(40)))
    (tmp_path / "hold").write_text("25")
    process = await start(tmp_path, *CHECK, "--yes")
    await until(lambda: asked(tmp_path) == 26)
    process.send_signal(signal.SIGINT)
    ended = await finished(process)
    assert ended.code == 130
    assert "Interrupted: 25 of 40 answers were graded again." in ended.out
    assert "The judge changed its mind on 25 of 25 answers" in ended.out
    assert sorted(path.name for path in (tmp_path / RESULTS).iterdir()) == before


async def test_labels_have_options_of_their_own(tmp_path: Path) -> None:
    write(tmp_path)
    await run(tmp_path)
    ended = await ci_evals(tmp_path, *CHECK, "--rubric", "polite")
    assert ended.code == 2
    assert "--rubric is for labels" in ended.err
