"""Stages before and after a provider, and files that answers come with."""

import hashlib
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from fakes.chat import ChatServer, chatting
from projects import Project
from suites import chat, run_in_process, write_suite

from ci_evals.engine.journal import JOURNAL, keep_file
from ci_evals.errors import ConfigError, StorageError
from ci_evals.model.report import SuiteReport
from ci_evals.model.response import Content
from ci_evals.model.result import Result
from ci_evals.suite.load import load_suite

STAGES = """\
from ci_evals import Content

calls = []

def speak(text):
    calls.append(text)
    return Content(text.encode(), "audio/wav")

def hear(audio):
    assert audio.media_type == "audio/wav"
    return audio.data.decode()

def louder(value):
    if isinstance(value, Content):
        return Content(value.data.upper(), value.media_type)
    return value.upper()

def broken(value):
    raise ValueError("hoarse")

def agent(audio):
    return Content(b"re: " + audio.data, "audio/wav")

def size(output, answer):
    return answer.response.files[-1].data == b"re: HI"
"""
PRICE = {"input_per_mtok": 1_000_000.0, "output_per_mtok": 0.0}  # $7 for each answer of the server
CASE = {"id": "a", "input": "hi", "expect": [{"not_empty": True}]}


@pytest.fixture
def module(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A module of stages that no other test has loaded."""
    name = "stages_" + hashlib.sha256(request.node.name.encode()).hexdigest()[:12]
    (tmp_path / f"{name}.py").write_text(STAGES)
    return name


async def ask(
    folder: Path, providers: list[dict[str, Any]], *, keep: bool = True, runs: int = 1, **case: Any
) -> SuiteReport:
    order = {"files": folder / "out"} if keep else {}
    cases = [{**CASE, **case}]
    return await run_in_process(folder, cases, order=order, providers=providers, runs=runs)


async def one(
    folder: Path, provider: dict[str, Any], *others: dict[str, Any], **case: Any
) -> Result:
    result, *_ = (await ask(folder, [provider, *others], **case)).runs
    return result


def calls(module: str) -> list[str]:
    found = sys.modules[module].calls
    assert isinstance(found, list)
    return found


async def test_text_goes_through_every_stage_in_order(tmp_path: Path, module: str) -> None:
    before, after = [f"{module}:louder"], [f"{module}:speak", f"{module}:hear"]
    result = await one(
        tmp_path, {"type": "mock", "default": "{{ input }}!", "before": before, "after": after}
    )
    assert result.response is not None
    assert result.response.output == "HI!"


async def test_files_reach_the_teams_own_code_and_its_graders_and_stay_out_of_the_journal(
    tmp_path: Path, module: str
) -> None:
    provider = {
        "type": "python",
        "target": f"{module}:agent",
        "before": [f"{module}:speak", f"{module}:louder"],
        "after": [f"{module}:hear"],
    }
    result = await one(
        tmp_path, provider, expect=[{"equals": "re: HI"}, {"python": f"{module}:size"}]
    )
    assert result.status == "passed", result
    assert result.response is not None
    assert [(file.media_type, file.size, file.data) for file in result.response.files] == [
        ("audio/wav", 2, b""),
        ("audio/wav", 2, b""),
        ("audio/wav", 6, b""),
    ]
    contents = [(tmp_path / "out" / str(file.path)).read_bytes() for file in result.response.files]
    assert contents == [b"hi", b"HI", b"re: HI"]
    names = [f"files/{hashlib.sha256(content).hexdigest()}.wav" for content in contents]
    assert [file.path for file in result.response.files] == names


async def test_a_function_without_stages_may_answer_with_a_file_too(
    tmp_path: Path, module: str
) -> None:
    result = await one(
        tmp_path, {"type": "python", "target": f"{module}:speak"}, expect=[{"max_length": 0}]
    )
    assert result.response is not None
    (file,) = result.response.files
    assert (tmp_path / "out" / str(file.path)).read_bytes() == b"hi"


@pytest.mark.parametrize(("cache", "times"), [(True, 1), (False, 6)])
async def test_what_a_stage_made_of_some_content_is_made_once(
    tmp_path: Path, module: str, cache: bool, times: int
) -> None:
    provider = {
        "type": "mock",
        "default": "x",
        "before": [f"{module}:speak", f"{module}:hear"],
        "cache": cache,
    }
    for _ in range(2):
        assert (await ask(tmp_path, [provider], runs=3)).passed == 3
    assert len(calls(module)) == times


async def test_another_text_of_the_module_is_another_stage(tmp_path: Path, module: str) -> None:
    provider = {"type": "mock", "default": "x", "before": [f"{module}:speak", f"{module}:hear"]}
    await ask(tmp_path, [provider])
    with (tmp_path / f"{module}.py").open("a") as file:
        file.write("# changed\n")
    await ask(tmp_path, [provider])
    assert len(calls(module)) == 2


async def test_without_a_results_folder_nothing_is_kept(tmp_path: Path, module: str) -> None:
    provider = {"type": "mock", "default": "x", "after": [f"{module}:speak"]}
    (result,) = (await ask(tmp_path, [provider], keep=False)).runs
    assert result.response is not None
    assert [(file.path, file.size, file.data) for file in result.response.files] == [(None, 1, b"")]
    assert [path.name for path in (tmp_path / "out").iterdir()] == [JOURNAL]


async def test_a_stage_may_be_a_provider_and_costs_what_it_costs(tmp_path: Path) -> None:
    async with chatting(ChatServer()) as server:
        translator = chat(server.url, name="translator", price=PRICE)
        agent = chat(
            server.url,
            name="agent",
            price=PRICE,
            before=["translator"],
            after=["translator"],
            cache=False,
        )
        result = await one(tmp_path, agent, translator)
        assert server.asked == {"hi": 4}, (
            "three by the agent's chain, one by the translator as a provider of its own"
        )
    assert result.cost_usd == 21


async def test_a_stage_that_breaks_is_named(tmp_path: Path, module: str) -> None:
    own = await one(
        tmp_path, {"type": "python", "target": f"{module}:agent", "before": [f"{module}:broken"]}
    )
    assert own.error is not None
    assert (own.status, own.error.kind) == ("failed", "crash")
    assert own.error.message.startswith(f"stage {module}:broken: ValueError: hoarse (")
    down = {"name": "down", "type": "mock", "error_rate": 1, "retries": 0}
    lost = await one(
        tmp_path, {"type": "python", "target": f"{module}:louder", "before": ["down"]}, down
    )
    assert lost.error is not None
    assert (lost.status, lost.error.kind) == ("errored", "upstream")


async def test_a_folder_that_takes_no_files_is_not_the_systems_failure(
    tmp_path: Path, module: str
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "files").write_text("in the way")
    with pytest.raises(StorageError, match="cannot be written"):
        await one(
            tmp_path, {"type": "python", "target": f"{module}:agent", "before": [f"{module}:speak"]}
        )


async def test_a_model_api_is_not_given_what_it_cannot_read(tmp_path: Path, module: str) -> None:
    result = await one(tmp_path, {"name": "m", "type": "mock", "before": [f"{module}:speak"]})
    assert result.error is not None
    assert result.error.message == "m takes text, but the last stage before it returned audio/wav"


def test_stages_take_part_in_the_fingerprint_and_providers_without_stay_as_they_were(
    tmp_path: Path,
) -> None:
    def fingerprint(**stages: Any) -> str:
        provider = {"name": "x", "type": "mock", **stages}
        return load_suite(write_suite(tmp_path, providers=[provider]), {}).fingerprint

    assert (
        len({fingerprint(), fingerprint(before=["json:dumps"]), fingerprint(after=["json:dumps"])})
        == 3
    )
    assert fingerprint(cache=False) == fingerprint()


def test_a_stage_that_cannot_be_is_told(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.suite(
        providers=[{"name": "x", "type": "mock", "before": ["y"], "after": ["nowhere:speak"]}]
    )
    with pytest.raises(ConfigError):
        project.load()
    first, second = project.problems()
    assert "providers[0].before[0]: unknown provider 'y'" in first
    assert "providers[0].after[0]: target: there is no module 'nowhere'" in second


# Files.


WRITERS, ROUNDS = 4, 200


def test_many_may_keep_the_same_content_at_once(tmp_path: Path) -> None:
    start = Barrier(WRITERS)

    def keep(_: int) -> list[str | None]:
        paths = []
        for number in range(ROUNDS):
            start.wait()
            try:
                paths.append(keep_file(Content(b"%d" % number * 1000, "audio/wav"), tmp_path).path)
            except BaseException:
                start.abort()  # or the others wait for ever
                raise
        return paths

    with ThreadPoolExecutor(WRITERS) as writers:
        first, *others = writers.map(keep, range(WRITERS))
    assert all(paths == first for paths in others)
    assert [(tmp_path / str(path)).read_bytes() for path in first] == [
        b"%d" % n * 1000 for n in range(ROUNDS)
    ]
    assert len(list((tmp_path / "files").iterdir())) == ROUNDS, "and nothing is left over"


def test_a_folder_that_takes_no_files_is_told(tmp_path: Path) -> None:
    (tmp_path / "files").write_text("in the way")
    with pytest.raises(StorageError, match="cannot be written"):
        keep_file(Content(b"x", "audio/wav"), tmp_path)
