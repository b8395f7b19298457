import asyncio
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from fakes.http_server import LONG_S, ask_in_folder, request_of

from ci_evals.errors import ProviderError
from ci_evals.model.case import Case
from ci_evals.model.request import Request
from ci_evals.model.response import Message, Response, ToolCall
from ci_evals.providers.command import Command

posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX processes")
linux = pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere /proc tells of no environments"
)


def python(source: str, *arguments: str, **options: Any) -> Command:
    """A command that runs some Python."""
    return Command(command=(sys.executable, "-c", source, *arguments), **options)


async def error_of(
    options: Command, folder: Path = Path(), request: Request | None = None
) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await ask_in_folder(options, folder, request)
    return caught.value


async def test_text_on_stdout_is_the_output_without_its_last_newline() -> None:
    assert await ask_in_folder(python(r"print('Paris\n')")) == Response("Paris\n")


async def test_the_case_is_on_stdin() -> None:
    case = Case(id="capital", vars={"q": "é\ud800"}, metadata={"owner": "me"})
    request = Request("Hi", (Message("system", "Be kind."), Message("user", "Hi")), case, 2, LONG_S)
    response = await ask_in_folder(
        python("import sys; print('got', sys.stdin.read(), end='')"), request=request
    )
    assert json.loads(response.output.removeprefix("got ")) == {
        "id": "capital",
        "input": "Hi",
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}],
        "vars": {"q": "é\ufffd"},
        "metadata": {"owner": "me"},
        "run": 2,
        "timeout_s": LONG_S,
    }


async def test_json_with_known_keys_is_taken_by_its_keys() -> None:
    said = {
        "tool_calls": [{"name": "book", "arguments": {"to": "Paris"}}],
        "usage": {"output_tokens": 3},
    }
    response = await ask_in_folder(python(f"print({json.dumps(said)!r})"))
    assert response.tool_calls == (ToolCall("book", {"to": "Paris"}),)
    assert response.usage
    assert response.usage.output_tokens == 3


@pytest.mark.parametrize("text", ['{"city":  "Paris"}', '{"output": ', "{" * 100_000, "[1]"])
async def test_other_json_stays_as_it_was_written(text: str, tmp_path: Path) -> None:
    (tmp_path / "answer.txt").write_text(text)
    response = await ask_in_folder(python("print(open('answer.txt').read())"), tmp_path)
    assert response.output == text


async def test_json_with_a_wrong_key_is_a_bad_answer() -> None:
    error = await error_of(python("""print('{"output": "x", "tool_cals": []}')"""))
    assert error.kind == "bad_answer"
    assert "unknown key 'tool_cals'" in error.message


async def test_a_lone_surrogate_in_json_can_be_stored() -> None:
    response = await ask_in_folder(python(r"""print('{"output": "\\ud800"}')"""))
    assert response.output == "\ufffd"


async def test_invalid_utf8_is_replaced() -> None:
    response = await ask_in_folder(python(r"import sys; sys.stdout.buffer.write(b'caf\xe9')"))
    assert response.output == "caf\ufffd"


async def test_an_exit_status_is_told_with_the_end_of_stderr() -> None:
    error = await error_of(
        python("import sys; sys.stderr.write('x' * 9000 + '\\nno key\\n\\n'); sys.exit(3)")
    )
    assert (error.kind, error.status, error.message) == ("crash", 3, "exit status 3: no key")
    assert error.detail
    assert error.detail.endswith("xx\nno key\n\n")
    assert len(error.detail) <= 4096


STACK = "    at openSync (node:fs:573:18)\n    at file:///agent.mjs:1:25 {\n  code: 'ENOENT'\n}\n"


@pytest.mark.parametrize(
    ("stderr", "reason"),
    [
        (
            (
                "(node:7) Warning: old\nnode:fs\n  open(\n    ^\n\nError: no such file\n"
                f"{STACK}\nNode.js v22.1.0\n"
            ),
            ": Error: no such file",
        ),
        ("/agent.cjs:1\nthrow {a: 1}\n^\n{ a: 1 }\n\nNode.js v22.1.0\n", ": { a: 1 }"),
        ("no key\n(node:7) Warning: old\n(Use `node --trace-warnings ...` to see)\n", ": no key"),
        ("(node:7) Warning: old\n", ""),
    ],
)
async def test_remarks_of_nodejs_are_no_reason(stderr: str, reason: str) -> None:
    error = await error_of(python(f"import sys; sys.stderr.write({stderr!r}); sys.exit(1)"))
    assert error.message == f"exit status 1{reason}"


async def test_a_silent_failure_says_so() -> None:
    error = await error_of(python("raise SystemExit(1)"))
    assert error.message == "exit status 1, nothing on stderr"


@posix
async def test_a_signal_is_named() -> None:
    error = await error_of(python("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"))
    assert (error.kind, error.status, error.message) == (
        "crash",
        None,
        "killed by SIGSEGV, nothing on stderr",
    )


async def test_a_program_that_does_not_read_its_input_is_fine() -> None:
    request = request_of(input="x" * 10**6, timeout_s=LONG_S)
    assert (await ask_in_folder(python("print('ok')"), request=request)).output == "ok"


@posix
async def test_the_standard_streams_can_be_opened_as_files() -> None:
    response = await ask_in_folder(
        Command(command=("sh", "-c", "cat /dev/stdin > /dev/stdout; echo x > /dev/stderr"))
    )
    assert json.loads(response.output)["id"] == "hello"


async def test_too_much_output_is_refused() -> None:
    error = await error_of(python("while True: print('x' * 1000000)"))
    assert (error.kind, error.message) == (
        "bad_answer",
        "more than 50 MB on stdout; the program was ended",
    )


async def test_a_large_answer_arrives_whole() -> None:
    response = await ask_in_folder(python("print('x' * 5_000_000)"))
    assert len(response.output) == 5_000_000


async def test_env_is_added_and_cwd_is_relative_to_the_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agent").mkdir()
    monkeypatch.setenv("OUTER", "1")
    source = "import os; print(os.getcwd(), os.environ['OUTER'], os.environ['INNER'])"
    response = await ask_in_folder(python(source, cwd="agent", env={"INNER": "2"}), tmp_path)
    assert response.output == f"{(tmp_path / 'agent').resolve()} 1 2"


async def test_the_variable_for_the_working_folder_names_the_one_that_it_runs_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agent").mkdir()
    monkeypatch.setenv("PWD", "/elsewhere")
    response = await ask_in_folder(
        python("import os; print(os.environ['PWD'])", cwd="agent"), tmp_path
    )
    assert response.output == str(tmp_path / "agent")


def file_of(folder: Path, *, mode: int = 0o755) -> Path:
    path = folder / "agent.sh"
    path.write_text("#!/bin/sh\necho from the script $1\n")
    path.chmod(mode)
    return path


@posix
async def test_a_line_is_split_without_a_shell_and_a_path_is_relative_to_the_folder(
    tmp_path: Path,
) -> None:
    file_of(tmp_path)
    assert (
        await ask_in_folder(Command(command="./agent.sh '$HOME; a'"), tmp_path)
    ).output == "from the script $HOME; a"


@posix
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (Command(command="agnt --fast"), "there is no program 'agnt' on the PATH"),
        (Command(command=("bin/agent",)), "there is no program"),
        (
            Command(command="cd app && python app.py"),
            "'cd' needs a shell, and none is used: use `cwd` and `env`",
        ),
        (Command(command="PORT=1 python app.py"), "'PORT=1' needs a shell, and none is used"),
        (Command(command="python app.py | jq .answer"), "'|' needs a shell, and none is used"),
        (Command(command=["sh", "run.sh", ">", "log"]), "'>' needs a shell, and none is used"),
        (Command(command=()), "command is empty"),
        (Command(command="  "), "command is empty"),
        (Command(command="sh 'x"), "No closing quotation"),
        (Command(command="./agent.sh"), "is not executable: chmod +x ./agent.sh"),
        (Command(command="agent.sh"), "write ./agent.sh"),
        (Command(command="sh", cwd="nowhere"), "there is no folder"),
        (Command(command="sh", env={"PATH": "/nowhere"}), "there is no program 'sh'"),
    ],
)
def test_what_cannot_be_started_is_seen_before_any_call(
    options: Command, words: str, tmp_path: Path
) -> None:
    file_of(tmp_path, mode=0o644)
    (problem,) = options.problems(tmp_path)
    assert words in problem


def test_a_program_that_is_there_has_no_problems(tmp_path: Path) -> None:
    assert not Command(command=(sys.executable,)).problems(tmp_path)


async def test_a_program_that_vanished_is_a_crash(tmp_path: Path) -> None:
    error = await error_of(Command(command=("./gone",)), tmp_path)
    assert error.kind == "crash"
    assert "could not be started" in error.message


def test_the_name_shows_no_options() -> None:
    assert (
        Command(command="/usr/bin/python agent.py --key x").default_name
        == "command:python agent.py"
    )
    assert Command(command=("curl", "-H", "Authorization: x")).default_name == "command:curl"


def test_it_is_the_teams_own_code() -> None:
    assert Command(command="sh").own_code


class Family:
    """A shell and a grandchild, both with a named pipe open: its end of file is their end."""

    def __init__(self, folder: Path, script: str) -> None:
        self._pipe = folder / "alive"
        os.mkfifo(self._pipe)
        self._reading = os.open(self._pipe, os.O_RDONLY | os.O_NONBLOCK)
        self.command = Command(command=("sh", "-c", f"exec 9> alive; {script}"))

    async def started(self) -> None:
        """Wait for the shell's `echo x >&9`."""
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_reader(self._reading, ready.set)
        await ready.wait()
        loop.remove_reader(self._reading)

    async def gone(self) -> bytes:
        """Wait for both to be gone; gives what they wrote."""
        os.set_blocking(self._reading, True)

        def read_to_end() -> bytes:
            with os.fdopen(self._reading, "rb") as file:
                return file.read()

        return await asyncio.to_thread(read_to_end)


@posix
async def test_a_timeout_ends_the_grandchildren_too(tmp_path: Path) -> None:
    family = Family(tmp_path, "echo before >&2; sleep 600 & echo x >&9; wait")
    error = await error_of(family.command, tmp_path, request_of(timeout_s=1.0))
    assert (error.kind, error.message) == ("timeout", "no answer within 1 s; the program was ended")
    assert await family.gone() == b"x\n"
    assert error.detail == "before\n"


@posix
async def test_a_family_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    family = Family(tmp_path, "trap '' TERM; (while :; do sleep 600; done) & echo x >&9; wait")
    error = await error_of(family.command, tmp_path, request_of(timeout_s=1.0))
    assert error.kind == "timeout"
    assert await family.gone() == b"x\n"


@posix
async def test_a_program_may_clean_up_on_sigterm(tmp_path: Path) -> None:
    family = Family(
        tmp_path, "trap 'echo cleaned >&9; exit' TERM; echo x >&9; while :; do sleep 0.05; done"
    )
    await error_of(family.command, tmp_path, request_of(timeout_s=1.0))
    assert await family.gone() == b"x\ncleaned\n"


@posix
async def test_a_cancelled_call_leaves_nobody_behind(tmp_path: Path) -> None:
    family = Family(tmp_path, "sleep 600 & echo x >&9; wait")
    task = asyncio.create_task(ask_in_folder(family.command, tmp_path))
    await family.started()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await family.gone() == b"x\n"


@posix
async def test_a_call_cancelled_twice_leaves_nobody_behind(tmp_path: Path) -> None:
    family = Family(tmp_path, "trap '' TERM; (while :; do sleep 600; done) & echo x >&9; wait")
    task = asyncio.create_task(ask_in_folder(family.command, tmp_path))
    await family.started()
    task.cancel()
    asyncio.get_running_loop().call_soon(lambda: asyncio.get_running_loop().call_soon(task.cancel))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await family.gone() == b"x\n"


@posix
async def test_a_grandchild_that_holds_stdout_open_delays_nothing(tmp_path: Path) -> None:
    family = Family(tmp_path, "sleep 600 & echo Paris")
    assert await ask_in_folder(family.command, tmp_path) == Response("Paris")
    assert await family.gone() == b""


@posix
async def test_a_quiet_grandchild_does_not_outlive_its_run(tmp_path: Path) -> None:
    family = Family(tmp_path, "sleep 600 > /dev/null 2>&1 & echo Paris")
    assert await ask_in_folder(family.command, tmp_path) == Response("Paris")
    assert await family.gone() == b""


SETSID = (
    "import os, sys; os.fork() and os._exit(0); os.setsid(); os.execvp(sys.argv[1], sys.argv[1:])"
)
"""Starts a program in a session of its own, as daemons do; it is nobody's child any more."""


def away(*command: str) -> str:
    """A line of shell that starts a program in a session of its own."""
    return shlex.join([sys.executable, "-c", SETSID, *command])


@linux
async def test_a_grandchild_in_a_session_of_its_own_does_not_outlive_its_run(
    tmp_path: Path,
) -> None:
    family = Family(tmp_path, f"{away('sleep', '600')} > /dev/null 2>&1; echo Paris")
    assert await ask_in_folder(family.command, tmp_path) == Response("Paris")
    assert await family.gone() == b""


@linux
async def test_a_timeout_ends_a_grandchild_in_a_session_of_its_own_and_its_children(
    tmp_path: Path,
) -> None:
    lasting = away("sh", "-c", "trap '' TERM; sleep 600 & sleep 600")
    family = Family(tmp_path, f"{lasting}; echo x >&9; sleep 600")
    error = await error_of(family.command, tmp_path, request_of(timeout_s=1.0))
    assert error.kind == "timeout"
    assert await family.gone() == b"x\n"


@linux
async def test_what_other_runs_started_goes_on(tmp_path: Path) -> None:
    asked = (
        "echo started >&9; while [ ! -e asked ]; do sleep 0.02; "
        "done; echo alive >&9; touch told; sleep 600"
    )
    family = Family(
        tmp_path, f"{away('sh', '-c', asked)}; while [ ! -e told ]; do sleep 0.02; done; echo Paris"
    )
    task = asyncio.create_task(ask_in_folder(family.command, tmp_path))
    await family.started()
    assert await ask_in_folder(python("print('Rome')"), tmp_path) == Response("Rome")
    (tmp_path / "asked").touch()
    assert await task == Response("Paris")
    assert await family.gone() == b"started\nalive\n"
