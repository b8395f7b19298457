import asyncio
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from fakes.http_server import LONG_S, ask_in_folder, request_of
from processes import python

from ci_evals.engine.resources import open_resources
from ci_evals.errors import ConfigError, ProviderError
from ci_evals.model.case import Case, CaseOverrides
from ci_evals.model.request import Request
from ci_evals.model.response import Response, ToolCall
from ci_evals.providers.python import Python

_numbers = count()


class Agent:
    """A module in a folder, and the provider that calls it."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name

    def write(self, source: str) -> None:
        (self.folder / f"{self.name}.py").write_text(textwrap.dedent(source))

    def options(self, function: str = "answer", *, factory: bool = False) -> Python:
        return Python(target=f"{self.name}:{function}", factory=factory)

    async def answer(
        self, function: str = "answer", *, factory: bool = False, request: Request | None = None
    ) -> Response:
        options = self.options(function, factory=factory)
        said_hi = request_of(input="Hi", timeout_s=LONG_S)
        return await ask_in_folder(options, self.folder, request or said_hi)

    async def error(
        self, *, factory: bool = False, request: Request | None = None
    ) -> ProviderError:
        with pytest.raises(ProviderError) as caught:
            await self.answer(factory=factory, request=request)
        return caught.value

    async def problem(self, function: str = "answer", *, factory: bool = False) -> str:
        with pytest.raises(ConfigError) as caught:
            await self.answer(function, factory=factory)
        (problem,) = caught.value.problems
        return str(problem)

    @property
    def module(self) -> Any:
        return sys.modules[self.name]


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    name = f"agent_{next(_numbers)}"
    yield Agent(tmp_path, name)
    sys.modules.pop(name, None)


@pytest.mark.parametrize(
    "source",
    [
        "def answer(text): return text + '!'",
        "async def answer(text): return text + '!'",
        "answer = lambda text: text + '!'",
        "async def later(text): return text + '!'\ndef answer(text): return later(text)",
        "class A:\n  def __call__(self, text): return text + '!'\nanswer = A()",
        "class A:\n  async def __call__(self, text): return text + '!'\nanswer = A()",
        (
            "import functools\nasync def f(mark, text): return text + mark\n"
            "answer = functools.partial(f, '!')"
        ),
        "def answer(text, request): return f'{request.input}!'",
        "async def answer(text, request=None): return f'{request.input}!'",
        (
            "def answer(text, temperature=0.5, *rest): return text + "
            "'!' if temperature == 0.5 else 'no'"
        ),
    ],
)
async def test_any_kind_of_function_answers(agent: Agent, source: str) -> None:
    agent.write(source)
    assert await agent.answer() == Response("Hi!")


async def test_a_method_of_an_object_answers(agent: Agent) -> None:
    agent.write("class A:\n  def say(self, text): return text + '!'\nbot = A()")
    assert await agent.answer("bot.say") == Response("Hi!")


async def test_a_builtin_without_signature_gets_the_input(agent: Agent) -> None:
    agent.write("answer = dict.fromkeys")
    assert await agent.answer(request=request_of(input=["a"], timeout_s=LONG_S)) == Response(
        '{"a":null}'
    )


async def test_a_mapping_may_hold_tool_calls(agent: Agent) -> None:
    agent.write(
        "def answer(text): return {'tool_calls': [{'name': 'book', 'arguments': {'to': text}}]}"
    )
    assert (await agent.answer()).tool_calls == (ToolCall("book", {"to": "Hi"}),)


@pytest.mark.parametrize("prefix", ["", "async "])
async def test_a_function_cannot_change_the_case_for_the_next_run(
    agent: Agent, prefix: str
) -> None:
    agent.write(f"{prefix}def answer(data): data['seen'].append(1); return str(len(data['seen']))")
    data: dict[str, list[int]] = {"seen": []}
    request = request_of(input=data, timeout_s=LONG_S)
    assert [(await agent.answer(request=request)).output for _ in range(2)] == ["1", "1"]
    assert data == {"seen": []}


@pytest.mark.parametrize(
    "source",
    [
        (
            "class Make:\n  def __init__(self): self.n = 0\n"
            "  def __call__(self, text): self.n += 1; return f'{self.n}'"
        ),
        (
            "class Make:\n  n = 0\n"
            "  async def __call__(self, text, request): self.n += 1; return f'{self.n}'"
        ),
        (
            "def Make():\n  seen = []\n"
            "  def call(text): seen.append(1); return f'{len(seen)}'\n  return call"
        ),
        (
            "async def Make():\n  seen = []\n"
            "  def call(text): seen.append(1); return f'{len(seen)}'\n  return call"
        ),
        (
            "async def Make():\n  seen = []\n"
            "  async def call(text): seen.append(1); return f'{len(seen)}'\n  return call"
        ),
    ],
)
async def test_a_factory_makes_a_fresh_agent_per_run(agent: Agent, source: str) -> None:
    agent.write(source)
    async with open_resources(agent.folder, 4) as resources:
        provider = agent.options("Make", factory=True).open(resources)
        outputs = [(await provider.answer(request_of(timeout_s=LONG_S))).output for _ in range(3)]
    assert outputs == ["1", "1", "1"]


async def test_a_factory_that_makes_nothing_callable_crashes(agent: Agent) -> None:
    agent.write("def answer(): return {}")
    assert (await agent.error(factory=True)).message == (
        "TypeError: the factory made a dict, which cannot be called and has no method"
        " `answer`, `run`, `invoke`"
    )


@pytest.mark.parametrize("prefix", ["", "async "])
async def test_a_crash_with_a_huge_message_is_told_shortened(agent: Agent, prefix: str) -> None:
    agent.write(f"""
        def inner(text):
            raise ValueError("no such\\ncity \\ud800" + "x" * 10**6)

        {prefix}def answer(text):
            return inner(text)
    """)
    error = await agent.error()
    assert error.kind == "crash"
    assert error.message.startswith("ValueError: no such")
    assert len(error.message) <= 300
    assert error.detail
    assert len(error.detail) <= 8000
    error.detail.encode()
    assert "line 3, in inner" in error.detail


@pytest.mark.parametrize("prefix", ["", "async "])
async def test_a_traceback_starts_in_the_users_code(agent: Agent, prefix: str) -> None:
    agent.write(f"{prefix}def answer(text):\n    return 1 / 0")
    error = await agent.error()
    assert error.message.startswith("ZeroDivisionError: division by zero (")
    assert error.message.endswith(f"{agent.name}.py:2 in answer)")
    assert error.detail
    lines = error.detail.splitlines()
    assert f"{agent.name}.py" in lines[1]
    assert "ci_evals" not in error.detail


@pytest.mark.parametrize("prefix", ["", "async "])
@pytest.mark.parametrize(
    ("raised", "message"),
    [
        ("SystemExit(2)", "SystemExit: 2"),
        ("GeneratorExit()", "GeneratorExit"),
        ("StopIteration()", "StopIteration"),
        ("asyncio.CancelledError()", "CancelledError"),
        ("TimeoutError('db')", "TimeoutError: db"),
        ("BaseException('odd')", "BaseException: odd"),
        ("ExceptionGroup('two', [ValueError(1)])", "ValueError: 1 ("),
    ],
)
async def test_whatever_is_raised_is_a_crash(
    agent: Agent, prefix: str, raised: str, message: str
) -> None:
    agent.write(f"import asyncio\n{prefix}def answer(text): raise {raised}")
    error = await agent.error()
    assert error.kind == "crash"
    assert message in error.message.replace("asyncio.exceptions.", "")


async def test_endless_recursion_is_a_crash(agent: Agent) -> None:
    agent.write("def answer(text): return answer(text)")
    error = await agent.error()
    assert error.message.startswith("RecursionError")


@pytest.mark.parametrize(
    ("source", "words"),
    [("None", "` returned None. Return text"), ("object()", "` returned an object. Return")],
)
async def test_what_is_no_answer_is_a_bad_answer(agent: Agent, source: str, words: str) -> None:
    agent.write(f"def answer(text): return {source}")
    error = await agent.error()
    assert error.kind == "bad_answer"
    assert words in error.message


@pytest.mark.parametrize(
    "source",
    [
        "import asyncio\nasync def answer(text): await asyncio.Event().wait()",
        (
            "from asyncio import *\nasync def answer(_):\n  try: await sleep(99)\n"
            "  except CancelledError: return 'late'"
        ),
        (
            "import asyncio\nasync def answer(text):\n  try: await asyncio.Event().wait()\n"
            "  finally: raise ValueError"
        ),
        "import threading\nstop = threading.Event()\ndef answer(text): stop.wait()",
    ],
)
async def test_a_call_that_takes_too_long_is_a_timeout(agent: Agent, source: str) -> None:
    agent.write(source)
    error = await agent.error(request=request_of(timeout_s=0.05))
    assert (error.kind, error.message) == ("timeout", "no answer within 0.05 s")
    if hasattr(agent.module, "stop"):
        agent.module.stop.set()


async def test_a_cancelled_call_is_cancelled(agent: Agent) -> None:
    agent.write("""
        import asyncio
        begun = asyncio.Event()

        async def answer(text):
            begun.set()
            await asyncio.Event().wait()
    """)
    async with open_resources(agent.folder, 4) as resources:
        provider = agent.options().open(resources)
        task = asyncio.create_task(provider.answer(request_of(timeout_s=LONG_S)))
        await agent.module.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_blocking_functions_run_at_the_same_time(agent: Agent) -> None:
    agent.write("""
        import threading
        meeting = threading.Barrier(4)

        def answer(text):
            meeting.wait()
            return "met"
    """)
    async with open_resources(agent.folder, 4) as resources, asyncio.TaskGroup() as group:
        provider = agent.options().open(resources)
        for _ in range(4):
            group.create_task(provider.answer(request_of(timeout_s=LONG_S)))


def test_a_hanging_call_does_not_keep_the_program_from_exiting(agent: Agent) -> None:
    agent.write("import threading\ndef answer(text): threading.Event().wait()")
    program = f"""
import asyncio
from pathlib import Path
from ci_evals.engine.resources import open_resources
from ci_evals.errors import ProviderError
from ci_evals.model.case import Case
from ci_evals.model.case import CaseOverrides
from ci_evals.model.request import Request
from ci_evals.providers.python import Python

async def main():
    async with open_resources(Path({str(agent.folder)!r}), 2) as resources:
        provider = Python(target="{agent.name}:answer").open(resources)
        try:
            await provider.answer(Request("", (), Case(id="a"), 1, 0.05))
        except ProviderError as error:
            print(error.kind)

asyncio.run(main())
"""
    ended = python(agent.folder, "-c", program)
    assert ended == (0, b"timeout\n", b"")


@pytest.mark.parametrize(
    "target", ["agent", "agent:", ":f", "agent-x:f", "agent.py:answer:x", "a b:c", "agent:f()"]
)
def test_a_target_must_have_its_form(target: str, tmp_path: Path) -> None:
    (problem,) = Python(target=target).problems(tmp_path)
    assert problem == f"target {target!r} is not of the form module:function, as in agent:answer"


def test_a_missing_module_is_seen_without_running_anything(agent: Agent) -> None:
    agent.write("def answer(text): ...\nraise RuntimeError('validate runs no code')")
    path = list(sys.path)
    assert not agent.options().problems(agent.folder)
    (problem,) = Python(target=f"{agent.name}x:answer").problems(agent.folder)
    assert problem.startswith(
        f"target: there is no module '{agent.name}x' in {agent.folder} or installed"
    )
    assert problem.endswith(f"did you mean '{agent.name}'?")
    assert Python(target="no_such_package.module:f").problems(agent.folder)
    assert sys.path == path


def test_a_package_that_cannot_be_imported_is_a_problem(tmp_path: Path) -> None:
    package = tmp_path / "broken_package"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('stop')")
    (problem,) = Python(target="broken_package.agent:f").problems(tmp_path)
    assert problem == "target: looking for module 'broken_package.agent' raised SystemExit: stop"


async def test_a_misspelt_function_is_refused_with_a_suggestion(agent: Agent) -> None:
    agent.write("def answer(text): return text")
    problem = await agent.problem("anser")
    assert problem == (
        f"{agent.folder}/{agent.name}.py: provider 'python:{agent.name}:anser': "
        f"target '{agent.name}:anser': "
        f"there is no 'anser' in {agent.name}, did you mean 'answer'?"
    )


async def test_a_target_that_cannot_be_opened_names_its_provider(tmp_path: Path) -> None:
    options = Python(name="agent", target="json:decoder.nofn")
    async with open_resources(tmp_path, 1) as resources:
        with pytest.raises(ConfigError) as caught:
            options.open(resources)
    (problem,) = caught.value.problems
    assert problem.path == "provider 'agent'"
    assert problem.message == "target 'json:decoder.nofn': there is no 'nofn' in json.decoder"


@pytest.mark.parametrize(
    ("source", "factory", "words"),
    [
        ("answer = 5", False, "'answer' is of type int, which cannot be called"),
        ("\n\ndef answer(): ...", False, ".py:3: provider 'python:"),
        (
            "def answer(): ...",
            False,
            "arguments; if it makes an agent for each run, set `factory: true`",
        ),
        (
            "def answer(a, b, c): ...",
            False,
            "cannot be called with (input, request): missing a required argument: 'c'",
        ),
        (
            "def answer(text, *, key): ...",
            False,
            "cannot be called with (input): missing a required",
        ),
        ("class answer: ...", False, "is a class: set `factory: true`"),
        (
            "def answer(text): ...",
            True,
            "cannot be called with (): missing a required argument: 'text'",
        ),
        ("\n1/0", False, ".py:2: provider 'python:"),
        ("raise SystemExit('no')", False, "importing it raised SystemExit: no"),
        ("def answer(:", False, ".py:1: provider 'python:"),
        ("import no_such_package", False, "No module named 'no_such_package'; is it installed for"),
    ],
)
async def test_what_cannot_work_is_refused_before_any_call(
    agent: Agent, source: str, factory: bool, words: str
) -> None:
    agent.write(source)
    assert words in await agent.problem(factory=factory)


async def test_suites_may_have_agents_of_the_same_name(agent: Agent, tmp_path: Path) -> None:
    agent.write("def answer(text): return 'first'")
    other = Agent(tmp_path / "other", agent.name)
    other.folder.mkdir()
    other.write("def answer(text): return 'second'")
    assert [(await each.answer()).output for each in (agent, other, agent)] == [
        "first",
        "second",
        "first",
    ]


def test_it_is_the_teams_own_code() -> None:
    options = Python(target="agent:answer")
    assert options.own_code
    assert options.default_name == "python:agent:answer"


FACTORY = """
    class make:
        def __init__(self, config):
            self.config = config
        def __call__(self, text):
            config, self.config["model"] = str(sorted(self.config.items())), "spoiled"
            return config
"""


async def test_a_factory_gets_its_config_with_the_overrides_of_the_case(agent: Agent) -> None:
    agent.write(FACTORY)
    config = {"model": "small", "tone": "kind"}
    options = replace(agent.options("make", factory=True), config=config)
    plain = await ask_in_folder(options, agent.folder, request_of(input="Hi", timeout_s=LONG_S))
    assert plain.output == "[('model', 'small'), ('tone', 'kind')]"
    overrides = CaseOverrides(model="large", params={"depth": 2})
    case = Case(id="hello", overrides=overrides)
    request = request_of(input="Hi", timeout_s=LONG_S, case=case)
    changed = await ask_in_folder(options, agent.folder, request)
    assert changed.output == "[('depth', 2), ('model', 'large'), ('tone', 'kind')]"
    assert config == {"model": "small", "tone": "kind"}


@pytest.mark.parametrize(
    ("source", "factory"),
    [("def answer(text): ...", False), ("def answer(): ...", True)],
)
async def test_a_config_that_nothing_takes_is_refused(
    agent: Agent, source: str, *, factory: bool
) -> None:
    agent.write(source)
    options = replace(agent.options(factory=factory), config={"model": "small"})
    with pytest.raises(ConfigError, match="takes no `config`: it is for a factory with a param"):
        await ask_in_folder(options, agent.folder, request_of(input="Hi"))


async def test_an_agent_in_place_of_an_answer_asks_for_a_factory(agent: Agent) -> None:
    agent.write("def answer(text): return lambda text: text")
    error = await agent.error()
    assert str(error).endswith("if it makes an agent for each run, set `factory: true`")
