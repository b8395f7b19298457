"""`ci-evals run SUITE...`: several suites in one command, each with results of its own."""

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from processes import Finished, ci_evals, finished, start, until
from suites import ONE_CASE, write_suite_file

WRONG = {**ONE_CASE, "expect": [{"equals": "goodbye"}]}


def write(
    path: Path, name: str | None = None, case: dict[str, Any] = ONE_CASE, **settings: Any
) -> None:
    write_suite_file(path, cases=[case], name=name or ..., **settings)


def verdicts(folder: Path) -> dict[str, str]:
    """The verdict of each suite, by the name of its folder in the results."""
    reports = {
        path.parent.name: json.loads(path.read_bytes()) for path in folder.glob("*/report.json")
    }
    return {name: report["verdict"]["status"] for name, report in reports.items()}


def check_usage_error(ended: Finished, message: str) -> None:
    assert ended.code == 2
    assert message in ended.err


async def test_suites_that_are_named_run_one_after_the_other_and_the_worst_decides(
    tmp_path: Path,
) -> None:
    write(tmp_path / "a.yaml", "good")
    write(tmp_path / "b.yaml", "bad/er", WRONG)
    ended = await ci_evals(tmp_path, "run", "b.yaml", "a.yaml", "b.yaml")
    assert ended.code == 1, ended.err
    assert verdicts(tmp_path / "ci-evals-results") == {
        "good": "pass",
        "bad-er-" + bad_digest(tmp_path): "fail",
    }
    assert ended.out.splitlines()[-3:] == [
        "2 of 2 suites run",
        "bad/er: Fail: 1 of 1 run failed, and every run must pass",
        "good: Pass: 1 of 1 run passed",
    ]
    as_json = await ci_evals(tmp_path, "run", "b.yaml", "a.yaml", "--format", "json", "--quiet")
    assert [json.loads(line)["suite"]["name"] for line in as_json.out.splitlines()] == [
        "bad/er",
        "good",
    ]


def bad_digest(folder: Path) -> str:
    """What tells a name apart whose folder cannot be called so."""
    (found,) = (folder / "ci-evals-results").glob("bad-er-*")
    return found.name.rpartition("-")[2]


async def test_a_folder_stands_for_every_suite_below_it_be_it_broken(tmp_path: Path) -> None:
    write(tmp_path / "evals" / "one.json", "one")
    write(tmp_path / "evals" / "deep" / "two.yml", "two")
    write(tmp_path / "evals" / ".kept" / "hidden.yaml", "hidden", WRONG)
    write(tmp_path / "evals" / "venv" / "lib" / "theirs.yaml", "theirs", WRONG)
    (tmp_path / "evals" / "venv" / "pyvenv.cfg").touch()
    (tmp_path / "evals" / "data.yaml").write_text("cases: [1]\n")
    (tmp_path / "evals" / "one.baseline.json").write_text(
        '{"suite": {"providers": []}, "cases": []}'
    )
    valid = await ci_evals(tmp_path, "validate", "evals")
    assert valid.out == (
        "evals/deep/two.yml is valid: 1 case × 1 variant, 1 run\n"
        "evals/one.json is valid: 1 case × 1 variant, 1 run\n"
    )
    assert (await ci_evals(tmp_path, "run", "evals", "--out", "out")).code == 0
    assert verdicts(tmp_path / "out") == {"one": "pass", "two": "pass"}
    (tmp_path / "evals" / "broken.yaml").write_text("providers: [a, b\ncases: []\n")
    write(tmp_path / "evals" / "typo.yaml", "typo", rums=3)
    broken = await ci_evals(tmp_path, "run", "evals", "--out", "other")
    check_usage_error(broken, "evals/broken.yaml:2: not valid YAML")
    assert "evals/typo.yaml:1: unknown key 'rums', did you mean 'runs'?" in broken.err
    assert not (tmp_path / "other").exists()


async def test_one_suite_in_a_folder_is_run_as_if_it_were_named(tmp_path: Path) -> None:
    write(tmp_path / "evals" / "one.yaml", "one")
    assert (await ci_evals(tmp_path, "run", "evals")).code == 0
    assert (tmp_path / "ci-evals-results" / "report.json").is_file()


async def test_suites_may_be_named_by_the_variable_one_to_the_line(tmp_path: Path) -> None:
    write(tmp_path / "my evals" / "a.yaml", "a")
    write(tmp_path / "b.yaml", "b")
    environ = {"CI_EVALS_CONFIG": "my evals\n\nb.yaml\n"}
    assert (await ci_evals(tmp_path, "run", environ=environ)).code == 0
    assert verdicts(tmp_path / "ci-evals-results") == {"a": "pass", "b": "pass"}
    assert (await ci_evals(tmp_path, "run", "b.yaml", "--out", "out", environ=environ)).code == 0
    assert json.loads((tmp_path / "out" / "report.json").read_bytes())["suite"]["name"] == "b"


async def test_suites_without_a_name_are_called_by_their_files(tmp_path: Path) -> None:
    for name in ("evals.yaml", "billing.yaml", "search.json"):
        write(tmp_path / "shop" / name)
    write(tmp_path / "desk" / ".github" / "evals.yaml")
    assert (await ci_evals(tmp_path, "run", "shop", "desk")).code == 0
    names = {"shop", "billing", "search", "desk"}
    assert verdicts(tmp_path / "ci-evals-results") == dict.fromkeys(names, "pass")


async def test_a_config_of_almost_the_name_is_suggested(tmp_path: Path) -> None:
    write(tmp_path / "evals.yaml")
    ended = await ci_evals(tmp_path, "run", "evals.yml")
    check_usage_error(ended, "evals.yml: no such file, did you mean 'evals.yaml'?")


async def test_what_cannot_be_told_apart_or_is_for_one_suite_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    write(tmp_path / "evals" / "a.yaml")
    write(tmp_path / "evals" / "b.yaml", "a")
    check_usage_error(
        await ci_evals(tmp_path, "run", "empty"),
        "empty: there is no suite in this folder or below it",
    )
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "promptfooconfig.yaml").touch()
    foreign = await ci_evals(tmp_path, "run", "foreign")
    check_usage_error(
        foreign, "only a config of another tool: name foreign/promptfooconfig.yaml itself"
    )
    both = await ci_evals(tmp_path, "run", "evals")
    check_usage_error(
        both, "evals/a.yaml and evals/b.yaml are both called 'a': change the `name` of one"
    )
    twice = await ci_evals(tmp_path, "run", "evals/a.yaml", "--config", "evals/b.yaml")
    check_usage_error(twice, "pass all suites as arguments")
    write(tmp_path / "evals" / "b.yaml", "b")
    shard = await ci_evals(tmp_path, "run", "evals", "--shard", "1/2")
    check_usage_error(shard, "--shard works with one suite, got 2: run them one by one")
    assert not (tmp_path / "ci-evals-results").exists()


async def test_a_suite_that_cannot_be_opened_keeps_no_other_from_being_run(tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(
        "raise RuntimeError('no')\ndef answer(question): return question\n"
    )
    write(tmp_path / "a.yaml", "a", providers=[{"type": "python", "target": "loud:answer"}])
    write(tmp_path / "b.yaml", "b")
    ended = await ci_evals(tmp_path, "run", "a.yaml", "b.yaml")
    assert ended.code == 2
    assert "importing it raised RuntimeError: no" in ended.err
    assert ended.err.endswith("1 problem, the other suites were run.\n")
    assert verdicts(tmp_path / "ci-evals-results") == {"b": "pass"}


async def test_results_are_resumed_suite_by_suite(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", "a")
    write(tmp_path / "b.yaml", "b")
    await ci_evals(tmp_path, "run", "a.yaml", "b.yaml", "--out", "earlier")
    again = await ci_evals(tmp_path, "run", "a.yaml", "b.yaml", "--out", "earlier", "--resume")
    assert again.out.count("Resumed: 1 of 1 run kept") == 2
    elsewhere = await ci_evals(tmp_path, "run", "a.yaml", "b.yaml", "--resume-from", "earlier")
    assert elsewhere.out.count("Resumed: 1 of 1 run kept") == 2
    compared = await ci_evals(tmp_path, "run", "a.yaml", "b.yaml", "--baseline", "earlier")
    assert compared.out.count("Compared: ") == 2


async def test_one_page_leads_to_those_of_all(tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(
        "raise RuntimeError('<b>no')\ndef answer(question): return question\n"
    )
    write(tmp_path / "a.yaml", "a <b>")
    write(tmp_path / "b.yaml", "b", {**WRONG, "id": "x&y"})
    write(tmp_path / "c.yaml", "c", report={"formats": ["json"]})
    write(tmp_path / "d.yaml", "d", providers=[{"type": "python", "target": "loud:answer"}])
    ended = await ci_evals(tmp_path, "run", "a.yaml", "b.yaml", "c.yaml", "d.yaml")
    assert (ended.code, "written: ci-evals-results/report.html" in ended.err) == (2, True)
    results = tmp_path / "ci-evals-results"
    page = (results / "report.html").read_text("utf-8")
    failed, not_run = (f'<span class="name"><bdi>{name}</bdi>' for name in ("b", "d"))
    assert f"1 of 3 suites failed: {failed};</span> 1 suite not run: {not_run}</span></h1>" in page
    assert re.findall("<h2 .*<bdi>(.*)</bdi></h2>", page) == ["b", "a &lt;b&gt;", "c", "d"], (
        "the worst first"
    )
    assert "RuntimeError: &lt;b&gt;no" in page
    links = re.findall('href="([^"]*)"', page)
    assert links[:2] == ["b/report.html", "b/report.html#case=x%26y"]
    assert len(set(links)) == 3, "c has no page"
    assert all((results / link.partition("#")[0]).is_file() for link in links)
    assert (await ci_evals(tmp_path, "run", "c.yaml")).code == 0
    assert not (results / "report.html").exists(), "it was of another run"


async def test_a_case_is_explained_in_every_suite_that_has_it(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", "a")
    write(tmp_path / "b.yaml", "b", WRONG)
    write(tmp_path / "c.yaml", "c", {**ONE_CASE, "id": "other"})
    await ci_evals(tmp_path, "run", "a.yaml", "b.yaml", "c.yaml")
    both = await ci_evals(tmp_path, "explain", "greeting")
    headings = ["greeting on echo in a  a.yaml:1", "greeting on echo in b  b.yaml:1"]
    assert [line for line in both.out.splitlines() if " on echo" in line] == headings
    one = await ci_evals(tmp_path, "explain", "greeting", "-c", "b.yaml", "--format", "json")
    (cell,) = json.loads(one.out)["cells"]
    assert (cell["suite"], cell["sentence"]) == ("b", "0 of 1 run passed here")
    await ci_evals(tmp_path, "run", "a.yaml", "--out", "of-a")
    other = await ci_evals(tmp_path, "explain", "greeting", "-c", "b.yaml", "--report", "of-a")
    assert (other.code, other.err) == (2, "error: of-a has no report of 'b', only of a\n")
    wrong = await ci_evals(tmp_path, "explain", "greeting", "--report", "of-a/report.html")
    assert (wrong.code, "of-a/report.html: is not a report.json: pass one" in wrong.err) == (
        3,
        True,
    )
    missing = await ci_evals(tmp_path, "explain", "otter")
    assert missing.code == 2
    assert "case 'otter' was not in the last run, did you mean 'other'?" in missing.err
    page = (tmp_path / "ci-evals-results" / "b" / "report.html").read_text("utf-8")
    assert "ci-evals run b.yaml --case greeting" in page


async def test_modules_of_the_same_name_are_those_of_each_suite(tmp_path: Path) -> None:
    for name in ("a", "b"):
        case = {"id": "who", "input": "who?", "expect": [{"equals": name}]}
        provider = {"type": "python", "target": "agent:answer"}
        write(tmp_path / name / "evals.yaml", name, case, providers=[provider])
        code = f"import os\ndef answer(question):\n    os.chdir('/')\n    return {name!r}\n"
        (tmp_path / name / "agent.py").write_text(code)
    ended = await ci_evals(tmp_path, "run", "a", "b")
    assert ended.code == 0, ended.err
    assert verdicts(tmp_path / "ci-evals-results") == {"a": "pass", "b": "pass"}


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
async def test_a_signal_ends_the_suite_that_runs_and_begins_no_other(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", "a", providers=[{"type": "mock", "latency_s": 60}])
    write(tmp_path / "b.yaml", "b")
    process = await start(tmp_path, "run", "a.yaml", "b.yaml", "--timeout-s", "100")
    await until((tmp_path / "ci-evals-results" / "a" / "results.jsonl").exists)
    process.send_signal(signal.SIGINT)
    ended = await finished(process)
    assert ended.code == 130
    assert "1 of 2 suites run" in ended.out
    assert verdicts(tmp_path / "ci-evals-results") == {"a": "error"}
