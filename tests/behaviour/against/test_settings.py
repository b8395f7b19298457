"""The key `against` of main's file, and what both sides share."""

import sys
from pathlib import Path
from typing import Any

import pytest
from fakes.http_server import Scripted, serving
from repositories import APPLE, RESULTS, Repository, against_main, agent_of, sides
from suites import AGENT, write_suite

SAYS_BOT = """
import os

def answer(question):
    return f"{question}, says {os.environ.get('BOT')}"
"""
SHOUTS_BOT = SAYS_BOT.replace(".get('BOT')", ".get('BOT', 'nobody').upper()")
"""Settings of `.env` are secrets, which no journal has as they are."""
READS_INDEX = """
from pathlib import Path

def answer(question):
    words = Path(__file__).with_name("data") / "index" / "words.txt"
    return f"{question}, as in {words.read_text()}"
"""
GENERATED = """
from generated import reply

def answer(question):
    return reply(question)
"""
MAKE = """
import os
from pathlib import Path
reply = f"def reply(question):\\n    return question + ', says {os.environ.get('BOT')}'\\n"
Path("generated.py").write_text(reply)
"""


def shop(folder: Path, agent: str, **settings: Any) -> Repository:
    """A repository with an agent, whose working tree has another comment than main."""
    repository = Repository.new(folder / "shop")
    write_suite(repository.folder, [APPLE], name="shop", providers=[AGENT], **settings)
    repository.commit({"agent.py": agent, ".gitignore": "data/\ngenerated.py\n.env\n"})
    repository.write({"agent.py": f"{agent}\n# changed\n"})
    return repository


async def test_its_variables_reach_mains_code_only(tmp_path: Path) -> None:
    bot = shop(tmp_path, SAYS_BOT, against={"env": {"BOT": "the bot of main"}})
    ended = await against_main(bot.folder, environ={"BOT": "the usual bot"})
    assert ended.code == 0, ended.out
    assert sides(bot.folder) == ({"apple, says the usual bot"}, {"apple, says the bot of main"})


async def test_what_the_change_writes_there_counts_from_the_next_change_on(tmp_path: Path) -> None:
    bot = shop(tmp_path, SAYS_BOT)
    settings = {"env": {"BOT": "a weaker bot"}, "prepare": "no-such-program"}
    write_suite(bot.folder, [APPLE], name="shop", providers=[AGENT], against=settings)
    ended = await against_main(bot.folder)
    assert ended.code == 0, ended.out
    assert sides(bot.folder).main == {"apple, says None"}


async def test_settings_of_dot_env_hold_for_both_sides(tmp_path: Path) -> None:
    bot = shop(tmp_path, SHOUTS_BOT)
    bot.write({".env": "BOT=the bot of .env\n"})
    await against_main(bot.folder)
    assert sides(bot.folder) == ({"apple, says THE BOT OF .ENV"}, {"apple, says THE BOT OF .ENV"})


async def test_so_do_those_that_git_tracks_and_the_change_edits(tmp_path: Path) -> None:
    bot = shop(tmp_path, SHOUTS_BOT)
    bot.write({".env": "BOT=the old bot\n"})
    bot.git("add", "--force", ".env")
    bot.git("commit", "--quiet", "--message=settings", ".env")
    bot.write({".env": "BOT=the new bot\n"})
    ended = await against_main(bot.folder)
    assert "which ran alongside" in ended.out, ended.err
    assert sides(bot.folder) == ({"apple, says THE NEW BOT"}, {"apple, says THE NEW BOT"})


async def test_a_folder_that_git_ignores_is_shared_by_a_link(tmp_path: Path) -> None:
    bot = shop(tmp_path, READS_INDEX, against={"link": ["data/index"]})
    bot.write({"data/index/words.txt": "apple pie"})
    ended = await against_main(bot.folder)
    assert "which ran alongside" in ended.out, ended.err
    assert sides(bot.folder) == ({"apple, as in apple pie"}, {"apple, as in apple pie"})


@pytest.mark.parametrize("how", ["text", "list"])
async def test_a_command_prepares_what_git_ignores(tmp_path: Path, how: str) -> None:
    python = sys.executable
    command: Any = [python, "make.py"] if how == "list" else f"{python} make.py"
    settings = {"prepare": command, "env": {"BOT": "a bot that was made"}}
    bot = shop(tmp_path, GENERATED, against=settings)
    bot.write({"make.py": MAKE})
    bot.git("add", "make.py")
    bot.git("commit", "--quiet", "--amend", "--no-edit")
    bot.write({"generated.py": agent_of("the change").replace("answer", "reply")})
    ended = await against_main(bot.folder)
    assert "which ran alongside" in ended.out, ended.err
    assert sides(bot.folder) == ({"apple, says the change"}, {"apple, says a bot that was made"})


async def test_it_may_write_files_that_git_tracks(tmp_path: Path) -> None:
    """As installers do with lock files, and builds with a file of the version."""
    program = "from pathlib import Path; Path('version.py').write_text('VERSION = 2')"
    bot = shop(tmp_path, SAYS_BOT, against={"prepare": [sys.executable, "-c", program]})
    bot.write({"version.py": "VERSION = 1\n"})
    bot.git("add", "version.py")
    bot.git("commit", "--quiet", "--message=version")
    ended = await against_main(bot.folder)
    assert "which ran alongside" in ended.out, ended.err
    assert (bot.folder / "version.py").read_text() == "VERSION = 1\n"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"prepare": [sys.executable, "-c", "import sys; sys.exit('no compiler')"]},
            "ended with exit status 1: no compiler",
        ),
        ({"prepare": "no-such-program"}, "against.prepare: no-such-program: No such file"),
        ({"link": ["data/index"]}, "against.link: there is no data/index"),
        ({"link": ["../elsewhere"]}, "is outside of the checkout"),
    ],
    ids=["fails", "is missing", "no such path", "outside"],
)
async def test_what_fails_before_main_runs_is_told_in_a_sentence(
    tmp_path: Path, settings: Any, sentence: str
) -> None:
    bot = shop(tmp_path, agent_of("everybody"), against=settings)
    (tmp_path / "elsewhere").mkdir()
    ended = await against_main(bot.folder)
    assert ended.code == 0, ended.err
    (line,) = (line for line in ended.err.splitlines() if "could not be run" in line)
    assert sentence in line
    assert "1 of 1 run" in " ".join(ended.out.split())
    assert "Traceback" not in ended.out + ended.err
    assert sides(bot.folder) == ({"apple, says everybody"}, frozenset())


async def test_an_invalid_key_is_told_before_anything_runs(tmp_path: Path) -> None:
    bot = shop(tmp_path, agent_of("everybody"))
    write_suite(bot.folder, [APPLE], providers=[AGENT], against={"links": ["data"]})
    ended = await against_main(bot.folder)
    assert ended.code == 2
    assert "against: unknown key" in ended.err
    assert not (bot.folder / RESULTS).exists()


async def test_what_answers_at_an_address_needs_another_address_for_main(tmp_path: Path) -> None:
    async with serving() as server:
        server.answers(Scripted({"answer": "apple"}))
        provider = {
            "name": "service",
            "type": "http",
            "url": "${BOT_URL}/chat",
            "output": "$.answer",
        }
        environ = {"BOT_URL": f"{server.url}/change"}
        bot = Repository.new(tmp_path)
        write_suite(tmp_path, [APPLE], providers=[provider])
        bot.commit({".gitignore": "ci-evals-results/\n"})
        bot.write({"README.md": "changed"})
        refused = await against_main(tmp_path, environ=environ)
        assert "service answers at a fixed address: set `against.env`" in refused.out
        assert {seen.path for seen in server.seen} == {"/change/chat"}

        other = {"env": {"BOT_URL": f"{server.url}/main"}}
        write_suite(tmp_path, [APPLE], providers=[provider], against=other)
        bot.commit()
        bot.write({"README.md": "changed again"})
        ended = await against_main(tmp_path, environ=environ)
        assert "which ran alongside" in ended.out, ended.err
        assert "Changed here" not in ended.out, "the address differs as main's file says"
        assert {seen.path for seen in server.seen} == {"/change/chat", "/main/chat"}
