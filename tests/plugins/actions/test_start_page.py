"""A new user follows docs/start.md from a suite to a comment and sees what the page shows."""

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import yaml
from fakes.github import FakeGitHub
from jobs import Repository
from processes import ci_evals
from pulls import comments, open_pull

PAGE = (Path(__file__).parents[3] / "docs" / "start.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOP = """\
from fastapi import FastAPI
from pydantic import BaseModel

app = FastAPI()


class Question(BaseModel):
    text: str


@app.post("/chat")
def chat(question: Question) -> dict[str, str]:
    if "helmet" in question.text:
        return {"reply": "You can return it within 30 days."}
    return {"reply": "Yes, we ship to Canada."}
"""
OLDER, BASE, RED = "a" * 40, "b" * 40, "c" * 40


def blocks(language: str) -> list[str]:
    return [text for found, text in FENCE.findall(PAGE) if found == language]


def without_times(text: str) -> str:
    """Replace times and commits by words, and runs of blanks by one: times change the width of
    columns.
    """
    text = re.sub(r" +[\d.]+ m?s( to [\d.]+ m?s)?\b", " TIME", text)
    return re.sub(" +", " ", re.sub(r"(\bat |\()[0-9a-f]{7}\b", r"\1COMMIT", text))


def lines_missing(shown: str, printed: str) -> list[str]:
    """The lines of a block of output that were not printed in this order; `…` stands for others."""
    rest = iter(without_times(printed).splitlines())
    return [line for line in without_times(shown).splitlines() if line != "…" and line not in rest]


async def ran(folder: Path, *words: str, code: int = 0) -> str:
    done = await ci_evals(folder, *words, environ={"COLUMNS": "120"})
    assert done.code == code, done.out + done.err
    return done.err + done.out


async def test_ten_minutes_from_a_suite_to_a_comment_on_a_pull_request(
    repository: Repository, fake: FakeGitHub, tmp_path: Path
) -> None:
    agent, suite = tmp_path / "agent.py", tmp_path / "evals.yaml"
    (bot,), (own, _) = blocks("python"), blocks("yaml")
    agent.write_text(bot, encoding="utf-8")
    suite.write_text(own, encoding="utf-8")
    await ran(tmp_path, "validate")

    commits = [
        shlex.split(line)[1:]
        for text in blocks("sh")
        for line in text.splitlines()
        if line.startswith(("git add", "git commit -m"))
    ]
    # The checkout on the user's machine.
    repository.git("init", "--quiet", "--initial-branch=main")
    for command in commits[:2]:
        repository.git(*command)

    (diff,) = blocks("diff")
    before, after = (line[1:] for line in diff.splitlines())
    broken = bot.replace(before, after)
    assert broken != bot
    agent.write_text(broken, encoding="utf-8")
    for block in blocks("console"):
        prompt, _, shown = block.partition("\n")
        words = prompt.removeprefix("$ ci-evals ").split()
        code = 1 if words[0] == "run" else 0
        assert lines_missing(shown, await ran(tmp_path, *words, code=code)) == []

    assert "kept: evals.yaml" in await ran(tmp_path, "init")
    adds = [names for command, *names in commits if command == "add"]
    assert [name for names in adds for name in names if not (tmp_path / name).exists()] == []

    # The jobs have a checkout of their own.
    shutil.rmtree(tmp_path / ".git")
    agent.write_text(bot, encoding="utf-8")
    fake.state.add_history(OLDER, BASE, RED)
    pushed = await repository.push(BASE, before=OLDER)
    assert pushed.ended.code == 0, pushed.ended.err

    agent.write_text(broken, encoding="utf-8")
    open_pull(fake, head_sha=RED, base_sha=BASE)
    red = await repository.pull_request(RED)
    assert red.ended.code == 1
    (comment,) = comments(fake)
    assert "❌ 1 case regressed: <code>lost-package</code>" in comment.body
    answers = re.findall(r'^([-+]) +return "(.+)"$', diff, re.MULTILINE)
    assert len(answers) == 2
    assert "\n".join(sign + answer for sign, answer in answers) in comment.body


async def test_canned_answers_give_a_verdict_right_away(tmp_path: Path) -> None:
    (first_run,) = blocks("text")
    await ran(tmp_path, "init")
    assert lines_missing(first_run, await ran(tmp_path, "run")) == []


async def test_a_web_app_of_ones_own_gets_a_red_pull_request_that_names_the_case(
    repository: Repository, fake: FakeGitHub, tmp_path: Path, port: str
) -> None:
    app, suite = tmp_path / "src" / "shop.py", tmp_path / "evals.yaml"
    app.parent.mkdir()
    app.write_text(SHOP, encoding="utf-8")
    await ran(tmp_path, "init")
    written = yaml.safe_load(suite.read_text(encoding="utf-8").replace("8123", port))
    questions = {
        "helmet": ("May I return a helmet?", "30 days"),
        "canada": ("Do you ship abroad?", "Canada"),
    }
    written["cases"] = [
        {"id": name, "input": question, "tags": ["critical"], "expect": [{"contains": answer}]}
        for name, (question, answer) in questions.items()
    ]
    suite.write_text(yaml.safe_dump(written), encoding="utf-8")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

    fake.state.add_history(OLDER, BASE, RED)
    pushed = await repository.push(BASE, before=OLDER, PATH=path)
    assert pushed.ended.code == 0, pushed.ended.err
    app.write_text(SHOP.replace("within 30 days", "if we like"), encoding="utf-8")
    open_pull(fake, head_sha=RED, base_sha=BASE)
    red = await repository.pull_request(RED, PATH=path)
    assert red.ended.code == 1, red.ended.err
    (comment,) = comments(fake)
    assert "❌ 1 case regressed: <code>helmet</code>" in comment.body
    assert "-You can return it within 30 days.\n+You can return it if we like." in comment.body
