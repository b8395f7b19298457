"""`ci-evals init`, in each kind of folder that it is run in."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from processes import COMMAND, ci_evals
from terminals import posix, pseudo_terminal
from workflows import job_of

from ci_evals.release import ACTION

COMMIT = "8f3c" * 10
AGENT = (
    "async def answer(question: str, model='small') -> str:\n    return f'You asked: {question}'\n"
)


def git(folder: Path, *arguments: str) -> None:
    quiet = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run(
        ["git", "-C", str(folder), *arguments], check=True, capture_output=True, env=quiet
    )


def bash(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a step of a workflow."""
    command = ["bash", "-e", "-c", script]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


async def test_what_it_writes_runs_at_once(tmp_path: Path) -> None:
    written = await ci_evals(tmp_path, "init")
    assert written.code == 0
    assert written.out.splitlines() == [
        "written: evals.yaml (asks canned answers)",
        "written: .gitignore (ci-evals-results/)",
        "written: .github/workflows/evals.yml",
        "next:",
        "  ci-evals run",
        "canned answers don't test your code, so the workflow fails until you replace them:",
        "  evals.yaml:11: write your function, service or command here",
        "before you push, replace this placeholder in .github/workflows/evals.yml",
        "with the repository of ci-evals and a commit of it:",
        f"  {ACTION}",
    ]
    push, steps = job_of(tmp_path)
    assert push == {"branches": ["main"]}
    assert steps[-1] == {"uses": ACTION}
    suite = yaml.safe_load((tmp_path / "evals.yaml").read_text("utf-8"))
    assert suite["gate"]["require_baseline"] == "expected"
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 0
    assert ended.headline == "✓ PASS  6 of 6 runs passed (canned answers)"
    summary = (tmp_path / "ci-evals-results" / "summary.md").read_text("utf-8")
    assert "6 of 6 runs passed (canned answers)" in summary
    assert {path.name for path in (tmp_path / "ci-evals-results").iterdir()} == {
        *("report.html", "report.json", "results.jsonl", "junit.xml", "summary.md")
    }


async def test_the_workflow_fails_as_long_as_answers_are_canned(tmp_path: Path) -> None:
    git(tmp_path, "init")
    (tmp_path / "my app").mkdir()
    await ci_evals(tmp_path / "my app", "init")
    _, steps = job_of(tmp_path)
    (script,) = [step["run"] for step in steps if "run" in step]
    refused = bash(tmp_path, script)
    assert refused.returncode == 1
    assert refused.stdout.startswith("::error file=my app/evals.yaml,line=11::Canned answers test")
    suite = tmp_path / "my app/evals.yaml"
    assert "type: mock" in suite.read_text().splitlines()[10]
    suite.write_text(suite.read_text().replace("type: mock", "type: python"))
    assert bash(tmp_path, script).returncode == 0


@posix
@pytest.mark.parametrize(
    ("typed", "provider"),
    [
        ("support.agent:answer", {"type": "python", "target": "support.agent:answer"}),
        ("https://bot.example/chat", {"type": "http", "url": "https://bot.example/chat"}),
        ("node agent.js --quiet", {"type": "command", "command": "node agent.js --quiet"}),
        ("gemini", {"type": "gemini", "api_key": "${GEMINI_API_KEY}"}),
        ("", {"type": "mock"}),
    ],
)
def test_in_a_terminal_it_asks_what_answers(
    typed: str, provider: dict[str, str], tmp_path: Path
) -> None:
    with pseudo_terminal() as (screen, terminal):
        os.write(screen.fileno(), f"{typed}\n".encode())
        ended = subprocess.run(
            [*COMMAND, "init"],
            cwd=tmp_path,
            stdin=terminal,
            capture_output=True,
            text=True,
            check=False,
        )
    assert ended.returncode == 0, ended.stderr
    assert "What should the evals call?" in ended.stdout
    written = yaml.safe_load((tmp_path / "evals.yaml").read_text())["providers"][0]
    assert provider.items() <= written.items()
    is_demo = provider["type"] == "mock"
    assert ("the workflow fails until" in ended.stdout) is is_demo
    assert any("Refuse" in step.get("name", "") for step in job_of(tmp_path)[1]) is is_demo


FASTAPI = """\
from fastapi import FastAPI
from pydantic import BaseModel

app = FastAPI()

class Question(BaseModel):
    session: str
    message: str
    language: str = "en"

class Reply(BaseModel):
    reply: str

@app.get("/health")
def health():
    return {"ok": True}

@app.post("/feedback")
def feedback(text: str):
    return {}

@app.post("/v1/chat")
async def chat(question: Question) -> Reply:
    return Reply(reply=f"{question.session} asked: {question.message}")
"""
FLASK = """\
import flask
server = flask.Flask(__name__)

@server.route("/ask", methods=["GET", "POST"])
def ask():
    data = flask.request.get_json()
    return flask.jsonify(answer=data["question"], took=data.get("took")), 200
"""
FACTORY = """\
from flask import Flask

def create_app():
    app = Flask(__name__)
    from .routes import chat
    app.register_blueprint(chat, url_prefix="/api")
    return app
"""
BLUEPRINT = """\
from flask import Blueprint, request
chat = Blueprint("chat", __name__)

@chat.post("/chat")
def answer():
    body = request.json
    return {"reply": f"You asked: {body.get('prompt')}"}
"""
ROUTER = """\
from fastapi import APIRouter
router = APIRouter(prefix="/bot")

@router.post("/ask")
def ask(question: str) -> str:
    return question
"""


async def test_an_app_of_fastapi_is_started_and_asked(tmp_path: Path, port: str) -> None:
    (tmp_path / "src/support").mkdir(parents=True)
    (tmp_path / "src/support/main.py").write_text(FASTAPI)
    (tmp_path / "requirements.txt").write_text("fastapi\nuvicorn\n")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    written = await ci_evals(tmp_path, "init", environ={"PATH": path})
    assert "written: evals.yaml (asks support.main:app)" in written.out
    assert "still to do" not in written.out
    _, steps = job_of(tmp_path)
    assert [step["run"] for step in steps if "run" in step] == ["pip install -r requirements.txt"]
    suite = tmp_path / "evals.yaml"
    suite.write_text(suite.read_text().replace("8123", port))
    ended = await ci_evals(tmp_path, "run", environ={"PATH": path})
    assert ended.code == 0, ended.out + ended.err
    shown = await ci_evals(tmp_path, "explain", "hello")
    assert "answer: evals asked: Hello! What can you do for me?" in shown.out


async def test_a_suite_in_a_folder_of_its_own_asks_the_code_of_the_repository(
    tmp_path: Path,
) -> None:
    git(tmp_path, "init")
    (tmp_path / "src/bot").mkdir(parents=True)
    (tmp_path / "src/bot/agent.py").write_text(AGENT)
    (tmp_path / "requirements.txt").touch()
    written = await ci_evals(tmp_path, "init", "evals")
    assert "written: evals/evals.yaml (asks bot.agent:answer)" in written.out
    assert (await ci_evals(tmp_path / "evals", "run")).code == 0
    _, (*_, install, evals) = job_of(tmp_path)
    assert install == {"run": "pip install -r requirements.txt"}
    assert evals["with"] == {"working-directory": "evals"}

    (tmp_path / "src/bot/agent.py").write_text(FASTAPI)
    (tmp_path / "evals/evals.yaml").unlink()
    await ci_evals(tmp_path, "init", "evals")
    (service,) = yaml.safe_load((tmp_path / "evals/evals.yaml").read_text())["providers"]
    assert service["serve"]["command"] == "uvicorn bot.agent:app --port 8123 --app-dir src"
    assert service["serve"]["cwd"] == ".."


@pytest.mark.parametrize(
    ("files", "provider"),
    [
        (
            {"src/bot/app.py": FLASK},
            {
                "url": "http://127.0.0.1:8123/ask",
                "body": {"question": "{{ input }}"},
                "output": "$.answer",
                "serve": {
                    "command": "flask --app src/bot/app.py:server run --port 8123",
                    "url": "http://127.0.0.1:8123",
                },
            },
        ),
        (
            {
                "service/api.py": "from fastapi import FastAPI\nfrom . import routes\n"
                "api: FastAPI = FastAPI()\napi.include_router(routes.router, prefix='/v2')\n",
                "service/routes.py": ROUTER,
            },
            {
                "url": "http://127.0.0.1:8123/v2/bot/ask?question={{ input | urlencode }}",
                "output": "$",
                "serve": {
                    "command": "uvicorn service.api:api --port 8123",
                    "url": "http://127.0.0.1:8123",
                },
            },
        ),
        (
            {"bot/__init__.py": FACTORY, "bot/routes.py": BLUEPRINT},
            {
                "url": "http://127.0.0.1:8123/api/chat",
                "body": {"prompt": "{{ input }}"},
                "output": "$.reply",
                "serve": {
                    "command": "flask --app bot:create_app run --port 8123",
                    "url": "http://127.0.0.1:8123",
                },
            },
        ),
        (
            {"src/app.py": FACTORY.replace("Flask", "FastAPI").replace("flask", "fastapi")},
            {
                "url": "http://127.0.0.1:8123/",
                "serve": {
                    "command": "uvicorn app:create_app --port 8123 --factory --app-dir src",
                    "url": "http://127.0.0.1:8123",
                },
            },
        ),
        (
            {"app.py": "from fastapi import FastAPI\napp = FastAPI()\n", "tests/app.py": FLASK},
            {
                "url": "http://127.0.0.1:8123/",
                "serve": {
                    "command": "uvicorn app:app --port 8123",
                    "url": "http://127.0.0.1:8123",
                },
            },
        ),
        (
            {
                "app.py": "from fastapi import FastAPI\nfrom pydantic import BaseModel\n"
                "app = FastAPI()\n"
                "class Chat(BaseModel):\n    messages: list[dict]\n    top_k: int\n"
                "@app.post('/chat', response_model=Chat)\ndef chat(body: Chat):\n"
                "    return {'message': 'hi', 'took': 1}\n"
            },
            {
                "url": "http://127.0.0.1:8123/chat",
                "body": {"messages": [{"role": "user", "content": "{{ input }}"}], "top_k": 1},
                "output": "$.message",
                "serve": {
                    "command": "uvicorn app:app --port 8123",
                    "url": "http://127.0.0.1:8123",
                },
            },
        ),
        (
            {
                "bot.py": "def reply(message): return message, []\n",
                "main.py": FASTAPI.replace("session: str", "session: str = Field(max_length=9)"),
            },
            {
                "url": "http://127.0.0.1:8123/v1/chat",
                "body": {"message": "{{ input }}", "session": "evals"},
                "output": "$.reply",
                "serve": {
                    "command": "uvicorn main:app --port 8123",
                    "url": "http://127.0.0.1:8123",
                },
            },
        ),
        (
            {"agent.py": AGENT, "main.py": FASTAPI},
            {"type": "python", "target": "agent:answer", "name": "agent"},
        ),
    ],
)
async def test_an_app_is_known_by_its_files(
    files: dict[str, str], provider: dict[str, Any], tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
    assert (await ci_evals(tmp_path, "init")).code == 0
    (written,) = yaml.safe_load((tmp_path / "evals.yaml").read_text())["providers"]
    assert written == {"name": "service", "type": "http", **provider}


ROUTE_WITH_DEPENDENCIES = """
from typing import Annotated
from fastapi import Body, Depends, FastAPI
from pydantic import BaseModel

app = FastAPI()

class User(BaseModel):
    message: str

class Settings(BaseModel):
    text: str

class Ask(BaseModel):
    question: str

@app.post("/ask")
def ask({parameters}): return {{"answer": body.question}}
"""


@pytest.mark.parametrize(
    "parameters",
    [
        "body: Annotated[Ask, Body()]",
        "user: Annotated[User, Depends(current_user)], body: Annotated[Ask, Body(embed=False)]",
        "body: Ask, user: User = Depends(current_user)",
        "user: User = Depends(current_user), *, settings: Settings = Depends(), body: Ask",
    ],
)
async def test_a_body_is_what_the_request_fills(parameters: str, tmp_path: Path) -> None:
    route = ROUTE_WITH_DEPENDENCIES.format(parameters=parameters)
    (tmp_path / "app.py").write_text(route)
    assert (await ci_evals(tmp_path, "init")).code == 0
    (service,) = yaml.safe_load((tmp_path / "evals.yaml").read_text())["providers"]
    assert service["url"] == "http://127.0.0.1:8123/ask"
    assert service["body"] == {"question": "{{ input }}"}


async def test_an_app_without_a_known_route_is_still_to_do(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("from fastapi import FastAPI\napp = FastAPI()\n")
    written = await ci_evals(tmp_path, "init")
    assert "still to do before it runs:\n  evals.yaml:12: " in written.out
    assert "write the path, `body` and `output` of the route that answers" in written.out


LOGIN = """
class Login(BaseModel):
    username: str
    password: str

@app.post("/login")
def login(body: Login): ...
"""
SESSIONS = """
class Ask(BaseModel):
    question: str

@app.post("/sessions/{session}/chat")
def chat(session: str, body: Ask): ...
"""


@pytest.mark.parametrize("route", [LOGIN, SESSIONS])
async def test_a_route_that_takes_no_question_is_not_asked(route: str, tmp_path: Path) -> None:
    app = "from fastapi import FastAPI\nfrom pydantic import BaseModel\napp = FastAPI()\n"
    (tmp_path / "app.py").write_text(app + route)
    written = await ci_evals(tmp_path, "init")
    assert "write the path, `body` and `output` of the route that answers" in written.out
    (service,) = yaml.safe_load((tmp_path / "evals.yaml").read_text())["providers"]
    assert service["url"] == "http://127.0.0.1:8123/"
    assert "body" not in service


async def test_warnings_on_the_code_that_it_reads_are_not_shown(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text('DIGITS = "\\d+"\n')
    written = await ci_evals(tmp_path, "init", environ={"PYTHONWARNINGS": "always"})
    assert written.code == 0
    assert "invalid escape" not in written.err


async def test_a_function_that_answers_is_called(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(f"def look_up(order: int): ...\n\n\n{AGENT}")
    (tmp_path / "requirements.txt").write_text("anthropic>=0.40\npytest\n")
    (tmp_path / ".env.example").write_bytes(b"OPENAI_API_KEY=\nGITHUB_TOKEN=\nPORT=8080 # \xff\n")
    written = await ci_evals(tmp_path, "init")
    assert "written: evals.yaml (asks agent:answer)" in written.out
    assert "next:\n  ci-evals run\n  pytest evals.yaml " in written.out
    assert "secrets to the repository:\n  OPENAI_API_KEY, ANTHROPIC_API_KEY\n" in written.out
    assert "type: anthropic\n" in (tmp_path / "evals.yaml").read_text()
    _, (*_, install, evals) = job_of(tmp_path)
    assert install == {"run": "pip install -r requirements.txt"}
    assert evals["env"] == {
        name: f"${{{{ secrets.{name} }}}}" for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")
    }
    ended = await ci_evals(tmp_path, "run")
    assert ended.code == 0
    assert "3 of 3 runs passed" in ended.out


@pytest.mark.parametrize(
    ("path", "code", "target"),
    [
        ("bot.py", "def chat(message): return message\n", "bot:chat"),
        ("support/agent.py", AGENT, "support.agent:answer"),
        ("agent.py", "@app.command()\ndef answer(question: str): ...\n", None),
        ("agent.py", "def answer(order: int): ...\n", None),
        ("agent.py", "def answer(question, *, user): ...\n", None),
        ("agent.py", "class Agent:\n    def answer(self, text): return text\n", "agent:Agent"),
        ("agent.py", "def answer(question:\n", None),
        ("agent.py", "raise SystemExit('imported')\ndef run(host, port): ...\n", None),
        ("tools.py", "def answer(question): ...\n", None),
        ("src/support/agent.py", AGENT, "support.agent:answer"),
        ("src/agent.py", AGENT, "agent:answer"),
        ("tests/agent.py", AGENT, None),
        ("src/my.agent/agent.py", AGENT, None),
    ],
)
async def test_only_what_takes_a_question_is_called(
    path: str, code: str, target: str | None, tmp_path: Path
) -> None:
    file = tmp_path / path
    file.parent.mkdir(exist_ok=True, parents=True)
    (file.parent / "__init__.py").touch()
    file.write_text(code)
    assert (await ci_evals(tmp_path, "init")).code == 0
    provider = yaml.safe_load((tmp_path / "evals.yaml").read_text())["providers"][0]
    assert provider.get("target") == target
    if target is not None:
        assert (await ci_evals(tmp_path, "run")).code == 0


UV = (
    "pip install uv && uv export --directory 'my bot' --frozen --no-emit-project --no-hashes"
    " | pip install -r /dev/stdin"
)
POETRY = (
    "pip install poetry && POETRY_VIRTUALENVS_CREATE=false"
    " poetry install --directory 'my bot' --no-root"
)


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({"uv.lock": "", "pyproject.toml": "[project]\nname = 'bot'\n"}, UV),
        ({"pyproject.toml": "[tool.poetry]\nname = 'bot'\n\n[build-system]\n"}, POETRY),
    ],
)
async def test_a_project_of_uv_or_poetry_installs_what_it_locks(
    files: dict[str, str], command: str, tmp_path: Path
) -> None:
    git(tmp_path, "init")
    (tmp_path / "my bot").mkdir()
    for name, text in {"bot.py": AGENT, **files}.items():
        (tmp_path / "my bot" / name).write_text(text)
    await ci_evals(tmp_path / "my bot", "init")
    _, (*_, install, _) = job_of(tmp_path)
    assert install == {"run": command}


EXPRESS = """
import express from "express";
const app = express();
app.get("/health", (req, res) => res.send("ok"));
app.post("/feedback", (req, res) => { save(req.body.text); res.sendStatus(204); });
app.post("/api/chat", async (req, res) => {
  const { session, message = "" } = req.body;
  res.json({ reply: await bot(message), session });
});
app.listen(process.env.PORT || 3000);
"""
PLAIN_NODE = """
const http = require("node:http");
http.createServer(handle).listen(4321);
"""


@pytest.mark.parametrize(
    ("source", "manifest", "provider", "to_do"),
    [
        (
            EXPRESS,
            {"scripts": {"start": "node server.mjs"}},
            {
                "url": "http://127.0.0.1:8123/api/chat",
                "body": {"message": "{{ input }}"},
                "output": "$.reply",
                "serve": {
                    "command": "npm start",
                    "url": "http://127.0.0.1:8123",
                    "env": {"PORT": "8123"},
                },
            },
            False,
        ),
        (
            PLAIN_NODE,
            {},
            {
                "url": "http://127.0.0.1:4321/",
                "serve": {"command": "node src/server.mjs", "url": "http://127.0.0.1:4321"},
            },
            True,
        ),
    ],
)
async def test_a_server_of_node_is_started_and_asked(
    source: str,
    manifest: dict[str, Any],
    provider: dict[str, Any],
    *,
    to_do: bool,
    tmp_path: Path,
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "server.mjs").write_text(source)
    (tmp_path / "package.json").write_text(json.dumps(manifest))
    (tmp_path / "package-lock.json").touch()
    written = await ci_evals(tmp_path, "init")
    assert "written: evals.yaml (asks src/server.mjs)" in written.out
    (found,) = yaml.safe_load((tmp_path / "evals.yaml").read_text())["providers"]
    assert found == {"name": "service", "type": "http", **provider}
    assert ("write the path, `body` and `output`" in written.out) is to_do
    _, (*_, install, _) = job_of(tmp_path)
    assert install == {"run": "npm ci"}


CLASS = """
class Settings:
    def run(self, first, second): ...

class Bot:
    def __init__(self, model="small"):
        self.model = model

    async def run(self, question: str) -> str:
        return f"{self.model}: {question}"
"""


async def test_a_class_with_a_method_that_answers_makes_an_agent_for_each_run(
    tmp_path: Path,
) -> None:
    (tmp_path / "bot.py").write_text(CLASS)
    written = await ci_evals(tmp_path, "init")
    assert "written: evals.yaml (asks bot:Bot)" in written.out
    (provider,) = yaml.safe_load((tmp_path / "evals.yaml").read_text())["providers"]
    assert provider == {"name": "agent", "type": "python", "target": "bot:Bot", "factory": True}
    ended = await ci_evals(tmp_path, "run")
    assert ended.headline == "✓ PASS  3 of 3 runs passed"


async def test_in_a_folder_of_a_repository_the_workflow_goes_to_its_root(tmp_path: Path) -> None:
    git(tmp_path, "init", "--initial-branch", "trunk")
    app = tmp_path / "apps/my bot"
    app.mkdir(parents=True)
    (app / "bot.py").write_text(AGENT)
    (app / "pyproject.toml").write_text("[project]\nname = 'bot'\n")
    written = await ci_evals(app, "init")
    assert "written: ../../.github/workflows/evals.yml" in written.out
    push, (*_, install, evals) = job_of(tmp_path)
    assert push == {"branches": ["trunk"]}
    assert install == {"run": "pip install './apps/my bot'"}
    assert evals["with"] == {"working-directory": "apps/my bot"}
    again = await ci_evals(tmp_path, "init", "apps/my bot")
    assert again.out.splitlines()[:5] == [
        "kept: apps/my bot/evals.yaml",
        "kept: .github/workflows/evals.yml",
        "next:",
        '  cd "apps/my bot"',
        "  ci-evals run",
    ]


async def test_on_gitlab_the_job_goes_into_its_file(tmp_path: Path) -> None:
    git(tmp_path, "init")
    git(tmp_path, "remote", "add", "origin", "git@gitlab.example.com:acme/app.git")
    app = tmp_path / "my app"
    app.mkdir()
    written = await ci_evals(app, "init")
    assert "written: ../.gitlab-ci.yml" in written.out
    assert not (tmp_path / ".github").exists()
    job = yaml.safe_load((tmp_path / ".gitlab-ci.yml").read_text())["evals"]
    assert job["script"] == ["cd 'my app'", "exec ci-evals run"]
    assert job["artifacts"]["paths"] == ["my app/ci-evals-results"]
    refuse, install = job["before_script"]
    refused = bash(tmp_path, f"set -eo pipefail\n{refuse}")
    assert refused.returncode == 1
    assert refused.stdout.startswith("my app/evals.yaml:11: Canned answers test nothing")
    assert ACTION in install
    suite = app / "evals.yaml"
    suite.write_text(suite.read_text().replace("type: mock", "type: python"))
    assert bash(tmp_path, f"set -eo pipefail\n{refuse}").returncode == 0
    again = await ci_evals(app, "init")
    assert "kept: ../.gitlab-ci.yml" in again.out


async def test_jobs_that_gitlab_has_are_kept_and_the_new_one_is_included(tmp_path: Path) -> None:
    (tmp_path / ".gitlab-ci.yml").write_text("build: {script: [make]}\n")
    written = await ci_evals(tmp_path, "init")
    assert "written: .gitlab/evals.yml" in written.out
    assert "add this to .gitlab-ci.yml:\n  include: {local: .gitlab/evals.yml}" in written.out
    assert (tmp_path / ".gitlab-ci.yml").read_text() == "build: {script: [make]}\n"
    assert "evals" in yaml.safe_load((tmp_path / ".gitlab/evals.yml").read_text())


async def test_the_default_branch_is_that_of_the_remote(tmp_path: Path) -> None:
    git(tmp_path, "init", "--initial-branch", "add-evals")
    git(tmp_path, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/develop")
    await ci_evals(tmp_path, "init")
    assert job_of(tmp_path)[0] == {"branches": ["develop"]}


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/acme/ci-evals",
        "ssh://git@github.com/acme/ci-evals.git",
        "https://host.example/acme",
    ],
)
async def test_the_workflow_uses_the_commit_that_was_installed(url: str, tmp_path: Path) -> None:
    folder, installed = tmp_path / "project", tmp_path / "site/ci_evals-9.9.dist-info"
    folder.mkdir()
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: ci-evals\nVersion: 9.9\n")
    origin = {"url": url, "vcs_info": {"vcs": "git", "commit_id": COMMIT}}
    (installed / "direct_url.json").write_text(json.dumps(origin))
    written = await ci_evals(folder, "init", environ={"PYTHONPATH": str(installed.parent)})
    is_known = "github.com" in url
    assert job_of(folder)[1][-1] == {"uses": f"acme/ci-evals@{COMMIT}" if is_known else ACTION}
    assert ("before you push" in written.out) is not is_known
    assert (f"evals.yml (uses acme/ci-evals@{COMMIT})" in written.out) is is_known


async def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "evals.yml").write_text("mine")
    (tmp_path / ".gitignore").write_text("*.pyc")
    written = await ci_evals(tmp_path, "init")
    assert written.out.startswith("kept: evals.yml\nadded to: .gitignore (ci-evals-results/)\n")
    assert (tmp_path / "evals.yml").read_text() == "mine"
    assert not (tmp_path / "evals.yaml").exists()
    assert (tmp_path / ".gitignore").read_text() == "*.pyc\nci-evals-results/\n"
    workflow = tmp_path / ".github/workflows/evals.yml"
    workflow.write_text("mine, too")
    again = await ci_evals(tmp_path, "init")
    assert again.out.startswith("kept: evals.yml\nkept: .github/workflows/evals.yml\n")
    assert workflow.read_text() == "mine, too"
    assert (tmp_path / ".gitignore").read_text() == "*.pyc\nci-evals-results/\n"


async def test_it_says_where_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / ".github").write_text("a file")
    ended = await ci_evals(tmp_path, "init")
    assert ended.code == 3
    assert ".github/workflows: cannot create this folder" in ended.err
    assert not (tmp_path / "evals.yaml").exists()
