"""A suite whose folder has modules with the names of others."""

import json
from pathlib import Path

from fakes.chat import completion
from fakes.http_server import Scripted, serving
from processes import ci_evals
from suites import chat, write_suite

from ci_evals.engine.journal import JOURNAL

TAKEN = ("aiohttp", "calendar", "email", "http", "json", "logging", "queue", "ssl", "types", "yarl")


async def test_names_that_are_taken_get_in_nobodys_way_and_what_the_config_names_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "suite"
    (folder / "uuid").mkdir(parents=True)
    for name in TAKEN:
        (folder / f"{name}.py").write_text("raise RuntimeError('got in the way')")
    (folder / "wording.py").write_text("from uuid import uuid4\nLOUD = str.upper\nassert uuid4().hex")
    (folder / "email.py").write_text("import calendar, wording\ndef answer(text): return wording.LOUD(text)")
    (folder / "uuid" / "__init__.py").write_text("raise RuntimeError('got in the way')")
    (folder / "html").mkdir()
    (folder / "html" / "__init__.py").write_text("")
    (folder / "html" / "words.py").write_text("from wording import LOUD\ndef is_loud(text): return text == LOUD(text)")
    async with serving() as server:
        server.answers(Scripted(body=completion("HELLO")))
        write_suite(
            folder,
            [{"id": "greeting", "input": "hello", "expect": [{"python": "html.words:is_loud"}, {"equals": "HELLO"}]}],
            providers=[chat(server.url), {"name": "own", "type": "python", "target": "email:answer"}],
        )
        ended = await ci_evals(tmp_path, "run", "--config", "suite/evals.yaml", "--out", "results")
    assert ended.code == 0, ended.err + ended.out
    _, *results = (tmp_path / "results" / JOURNAL).read_text("utf-8").splitlines()
    assert sorted((line["provider"], line["response"]["output"]) for line in map(json.loads, results)) == [
        ("chat", "HELLO"),
        ("own", "HELLO"),
    ]
