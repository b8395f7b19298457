"""Running part of a suite: by case ids, by number, by last failures; and how it is reported."""

import json
from pathlib import Path
from typing import Any

import pytest
from leftovers import report_in
from processes import Finished, ci_evals
from suites import ONE_CASE, run_to_verdict, write_suite

CASES = [
    {**ONE_CASE, "id": f"{word} {number}"} for word in ("refund", "cancel") for number in range(5)
]
WRONG = ("refund 3", "cancel 4")


def write(folder: Path, wrong: tuple[str, ...] = WRONG, **settings: Any) -> None:
    entries = [
        {**case, "expect": [{"equals": "goodbye"}]} if case["id"] in wrong else case
        for case in CASES
    ]
    write_suite(folder, entries, **settings)


async def select(folder: Path, *arguments: str) -> tuple[list[str], Finished]:
    """The ids of the cases that were run, in the order of the report."""
    ended = await run_to_verdict(folder, "--quiet", *arguments, out="ci-evals-results")
    return [cell["case"] for cell in report_in(folder / "ci-evals-results")["cells"]], ended


@pytest.mark.parametrize(
    ("arguments", "selected"),
    [
        (("--case", "cancel 1"), ["cancel 1"]),
        (
            ("--case", "*[12]", "--case", "cancel 0"),
            ["refund 1", "refund 2", "cancel 0", "cancel 1", "cancel 2"],
        ),
        (("--first", "2"), ["refund 0", "refund 1"]),
        (("--case", "cancel*", "--first", "1"), ["cancel 0"]),
        (("--first", "99"), [case["id"] for case in CASES]),
    ],
)
async def test_cases_are_selected_by_id_and_number(
    tmp_path: Path, arguments: tuple[str, ...], selected: Any
) -> None:
    write(tmp_path)
    assert (await select(tmp_path, *arguments))[0] == selected


async def test_a_sample_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    write(tmp_path)
    first, _ = await select(tmp_path, "--sample", "4")
    assert len(first) == 4
    assert first == sorted(first, key=[case["id"] for case in CASES].index)
    assert (await select(tmp_path, "--sample", "4"))[0] == first
    write(tmp_path, settings={"seed": 1})
    assert (await select(tmp_path, "--sample", "4"))[0] != first


async def test_what_failed_the_last_time_is_run_again_until_nothing_is_left(tmp_path: Path) -> None:
    write(tmp_path)
    everything, _ = await select(tmp_path)
    assert len(everything) == len(CASES)
    assert (await select(tmp_path, "--failed"))[0] == list(WRONG)
    assert (await select(tmp_path, "--failed", "ci-evals-results", "--first", "1"))[0] == [
        "refund 3"
    ]
    write(tmp_path, wrong=())
    assert (await select(tmp_path, "--failed"))[1].code == 0
    ended = await ci_evals(tmp_path, "run", "--failed", "evals.yaml")
    said = "nothing to run: nothing failed in ci-evals-results, which has 2 of 10 cases\n"
    assert (ended.code, ended.out, ended.err) == (0, "", said)


async def test_a_failed_case_is_remembered_over_runs_of_other_cases(tmp_path: Path) -> None:
    write(tmp_path)
    await select(tmp_path)
    write(tmp_path, wrong=("cancel 4",))
    assert (await select(tmp_path, "--failed", "--first", "1"))[0] == ["refund 3"]
    assert (await select(tmp_path, "--case", "refund 0"))[0] == ["refund 0"]
    assert (await select(tmp_path, "--failed"))[0] == ["cancel 4"], "refund 3 has passed since"
    assert (await select(tmp_path, "--case", "refund 0"))[0] == ["refund 0"]
    write(tmp_path, wrong=())
    assert (await select(tmp_path, "--failed"))[0] == ["cancel 4"]
    ended = await ci_evals(tmp_path, "run", "--failed")
    assert "nothing to run: nothing failed in ci-evals-results" in ended.err
    assert report_in(tmp_path / "ci-evals-results")["suite"]["failed_before"] == []


async def test_a_run_of_everything_forgets_what_failed_before(tmp_path: Path) -> None:
    write(tmp_path)
    await select(tmp_path)
    await select(tmp_path, "--case", "refund 0")
    report = report_in(tmp_path / "ci-evals-results")
    assert report["suite"]["failed_before"] == sorted(WRONG)
    write(tmp_path, wrong=())
    await select(tmp_path)
    assert report_in(tmp_path / "ci-evals-results")["suite"]["failed_before"] == []


async def test_a_selected_case_that_passed_is_not_run_again_as_failed(tmp_path: Path) -> None:
    write(tmp_path)
    await select(tmp_path)
    ended = await ci_evals(tmp_path, "run", "--failed", "--case", "refund 1")
    said = "nothing to run: none of the selected cases failed in ci-evals-results\n"
    assert (ended.code, ended.err) == (0, said)


async def test_a_case_in_quarantine_is_none_that_failed(tmp_path: Path) -> None:
    write(tmp_path)
    await select(tmp_path)
    quarantine = {"reason": "flaky index", "until": "2999-01-01"}
    entries = [
        {**case, "quarantine": quarantine} if case["id"] in WRONG else case for case in CASES
    ]
    write_suite(tmp_path, entries)
    ended = await ci_evals(tmp_path, "run", "--failed")
    assert ended.code == 0
    assert (
        ended.err
        == "nothing to run: nothing failed in ci-evals-results, except 2 cases in quarantine\n"
    )


async def test_a_case_that_failed_and_is_gone_is_told(tmp_path: Path) -> None:
    write(tmp_path)
    await select(tmp_path)
    write_suite(tmp_path, [case for case in CASES if case["id"] != WRONG[0]])
    ended = await ci_evals(tmp_path, "run", "--failed")
    assert "not run: evals.yaml no longer has cases that failed: refund 3" in ended.err
    assert [cell["case"] for cell in report_in(tmp_path / "ci-evals-results")["cells"]] == [
        WRONG[1]
    ]


async def test_a_report_that_is_not_there_or_of_another_suite_is_no_selection(
    tmp_path: Path,
) -> None:
    write(tmp_path)
    missing = await ci_evals(tmp_path, "run", "--failed")
    assert missing.code == 3
    assert "ci-evals-results: there is no report" in missing.err
    await select(tmp_path)
    write(tmp_path, name="other")
    other = await ci_evals(tmp_path, "run", "--failed")
    assert (other.code, "report.json is of another suite, 'test'" in other.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--case", "refund 9"), "unknown case 'refund 9', did you mean 'refund "),
        (("--case", "pay*"), "unknown case 'pay*', "),
        (
            ("--case", "cancel 1", "--tags", "smoke"),
            "nothing is selected: no case fits all that --tags and --case ask",
        ),
        (("--first", "0"), "--first"),
    ],
)
async def test_a_selection_of_nothing_is_refused(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    write_suite(tmp_path, [{**CASES[0], "tags": ["smoke"]}, *CASES[1:]])
    ended = await ci_evals(tmp_path, "run", *arguments)
    assert (ended.code, message in ended.err) == (2, True), ended.err
    assert not (tmp_path / "ci-evals-results").exists()


async def test_every_report_says_what_part_of_the_suite_was_run(tmp_path: Path) -> None:
    write(tmp_path)
    _, ended = await select(tmp_path, "--case", "refund [12]")
    assert "2 of 10 cases selected" in ended.out.splitlines()[-1]
    assert "Selected: 2 of 10 cases: the other cases were not run" in ended.out
    results = tmp_path / "ci-evals-results"
    assert report_in(results)["suite"]["selection"] == "2 of 10 cases"
    title, *_ = (results / "summary.md").read_text().splitlines()
    assert "2 of 10 cases selected" in title
    reason = report_in(results)["verdict"]["reason"]
    assert reason == "2 of 10 cases selected: 2 of 2 runs passed"
    _, red = await select(tmp_path, "--case", "refund*")
    assert report_in(results)["verdict"]["reason"].startswith(
        "5 of 10 cases selected: 1 of 5 runs failed"
    )
    assert red.code == 1
    first, *_ = red.out.splitlines()
    assert first.startswith("✗ FAIL  1 case failed: refund ")
    assert first.endswith(" (5 of 10 cases selected)")
    _, whole = await select(tmp_path)
    assert report_in(results)["suite"]["selection"] is None
    assert "selected" not in whole.out


async def test_a_case_that_was_not_selected_is_not_removed(tmp_path: Path) -> None:
    write(tmp_path, runs=3)
    await ci_evals(tmp_path, "run", "--out", "base")
    _, ended = await select(tmp_path, "--case", "refund [12]", "--baseline", "base")
    comparison = report_in(tmp_path / "ci-evals-results")["comparison"]
    assert (comparison["removed"], ended.code) == ([], 0)
    assert "removed" not in ended.out
    compared = await ci_evals(tmp_path, "compare", "base", "ci-evals-results", "--format", "json")
    assert [cell["kind"] for cell in json.loads(compared.out)["cells"]] == [
        "unchanged",
        "unchanged",
    ]


async def test_bars_of_metrics_that_no_selected_case_counts_for_are_left_out(
    tmp_path: Path,
) -> None:
    cases = [
        {
            **ONE_CASE,
            "id": "tone",
            "expect": [{"contains": {"value": "goodbye", "metric": "tone"}}],
        },
        {**ONE_CASE, "id": "label", "expect": [{"classify": "hello"}]},
        {**ONE_CASE, "id": "plain", "expect": [{"equals": "goodbye"}]},
    ]
    write_suite(
        tmp_path, cases, gate={"metrics": {"tone": 0, "recall.hello": 1, "recall.goodbye": 1}}
    )

    async def judged(case: str) -> list[str]:
        await select(tmp_path, "--case", case)
        verdict = report_in(tmp_path / "ci-evals-results")["verdict"]
        return [
            verdict["status"],
            *(scope["name"] for scope in verdict["scopes"] if scope["kind"] == "metric"),
        ]

    assert await judged("tone") == ["pass", "tone"]
    assert await judged("label") == ["pass", "recall.hello"]
    assert await judged("plain") == ["fail"], "without a bar, every run must pass"


async def test_of_several_suites_those_with_a_selected_case_are_run(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_suite(
            tmp_path,
            [{**ONE_CASE, "id": f"{name} {number}", "tags": [name]} for number in range(3)],
            name=name,
        )
        (tmp_path / "evals.yaml").rename(tmp_path / f"{name}.yaml")
    ended = await ci_evals(tmp_path, "run", "a.yaml", "b.yaml", "--case", "b 1")
    assert ended.code == 0
    assert ended.out.splitlines()[-3:] == [
        "1 of 2 suites run",
        "a: not run: none of its cases is selected",
        "b: Pass: 1 of 3 cases selected: 1 of 1 run passed",
    ]
    assert [path.name for path in (tmp_path / "ci-evals-results").iterdir() if path.is_dir()] == [
        "b"
    ]
    nowhere = await ci_evals(tmp_path, "run", "a.yaml", "b.yaml", "--tags", "c")
    assert (nowhere.code, "unknown tag 'c', known: a, b" in nowhere.err) == (2, True)


async def test_of_several_suites_what_failed_is_run_and_the_rest_is_named(tmp_path: Path) -> None:
    for name, wrong in (("a", ()), ("b", WRONG), ("c", WRONG)):
        write(tmp_path, wrong, name=name)
        (tmp_path / "evals.yaml").rename(tmp_path / f"{name}.yaml")
    await ci_evals(tmp_path, "run", "a.yaml", "b.yaml")
    ended = await ci_evals(tmp_path, "run", "--failed", "a.yaml", "b.yaml", "c.yaml")
    assert ended.code == 1
    assert ended.out.splitlines()[-4:] == [
        "1 of 3 suites run",
        "a: not run: nothing failed in ci-evals-results",
        "c: not run: it has no report in ci-evals-results",
        "b: Fail: 2 of 10 cases selected: 2 of 2 runs failed, and every run must pass",
    ]


@pytest.mark.parametrize("arguments", [(), ("--max-concurrency", "unlimited")])
async def test_calls_at_once_may_be_unlimited(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    settings = {} if arguments else {"max_concurrency": "unlimited"}
    write(
        tmp_path, wrong=(), providers=[{"type": "mock", "max_concurrency": "unlimited"}], **settings
    )
    assert (await ci_evals(tmp_path, "run", *arguments)).code == 0


async def test_what_is_no_number_of_calls_is_refused(tmp_path: Path) -> None:
    for wrong, expected in (("many", "a whole number or unlimited"), (0, "a whole number >= 1")):
        write(tmp_path, max_concurrency=wrong)
        ended = await ci_evals(tmp_path, "validate")
        assert f"max_concurrency: expected {expected}, got {wrong!r}" in ended.err
