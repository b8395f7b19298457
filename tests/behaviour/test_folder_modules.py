"""A suite whose folder has modules with the names of others."""

from pathlib import Path

from fakes.chat import completion
from fakes.http_server import Scripted, serving
from leftovers import journaled
from processes import ci_evals
from suites import chat, write_suite

TAKEN = ("aiohttp", "calendar", "email", "http", "json", "logging", "queue", "ssl", "types", "yarl")


async def test_modules_with_the_names_of_libraries_get_in_nobodys_way(tmp_path: Path) -> None:
    folder = tmp_path / "suite"
    (folder / "uuid").mkdir(parents=True)
    for name in TAKEN:
        (folder / f"{name}.py").write_text("raise RuntimeError('got in the way')")
    (folder / "wording.py").write_text(
        "from uuid import uuid4\nLOUD = str.upper\nassert uuid4().hex"
    )
    (folder / "agent.py").write_text(
        "import calendar, wording\ndef answer(text): return wording.LOUD(text)"
    )
    (folder / "uuid" / "__init__.py").write_text("raise RuntimeError('got in the way')")
    (folder / "own").mkdir()
    (folder / "own" / "words.py").write_text(
        "from wording import LOUD\ndef is_loud(text): return text == LOUD(text)"
    )
    async with serving() as server:
        server.answers(Scripted(body=completion("HELLO")))
        write_suite(
            folder,
            [
                {
                    "id": "greeting",
                    "input": "hello",
                    "expect": [{"python": "own.words:is_loud"}, {"equals": "HELLO"}],
                }
            ],
            providers=[
                chat(server.url),
                {"name": "own", "type": "python", "target": "agent:answer"},
            ],
        )
        ended = await ci_evals(tmp_path, "run", "--config", "suite/evals.yaml", "--out", "results")
    assert ended.code == 0, ended.err + ended.out
    results = journaled(tmp_path / "results")
    assert sorted((line["provider"], line["response"]["output"]) for line in results) == [
        ("chat", "HELLO"),
        ("own", "HELLO"),
    ]


async def test_a_target_in_such_a_module_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "email.py").write_text("def answer(text): return text")
    cases = [{"id": "greeting", "input": "hello"}]
    write_suite(tmp_path / "suite", cases, providers=[{"type": "python", "target": "email:answer"}])
    ended = await ci_evals(tmp_path, "validate", "--config", "suite/evals.yaml")
    assert ended.code == 2
    assert "evals.yaml:" in ended.err
    assert "target: a module 'email' was already loaded from" in ended.err
    assert "give one of them another name" in ended.err


async def test_a_folder_with_the_name_of_a_standard_module_is_refused_with_the_way_out(
    tmp_path: Path,
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "words.py").write_text("def answer(text): return text")
    (tmp_path / "agent.py").write_text("from code.words import answer")
    cases = [{"id": "greeting", "input": "hello", "expect": [{"equals": "hello"}]}]
    write_suite(tmp_path, cases, providers=[{"type": "python", "target": "code.words:answer"}])
    ended = await ci_evals(tmp_path, "validate")
    assert (ended.code, "target: a module 'code' was already loaded from" in ended.err) == (2, True)
    assert "give one of them another name" in ended.err
    write_suite(tmp_path, cases, providers=[{"type": "python", "target": "agent:answer"}])
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 2
    assert "Python has a module 'code' of its own: if this is yours, rename it" in ended.err
    assert "is it installed" not in ended.err
