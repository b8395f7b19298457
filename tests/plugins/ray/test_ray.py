"""User code on a real Ray cluster of several nodes. Ray comes with `make test-ray`."""

import asyncio
import json
import os
import signal
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import psutil
import pytest
from fakes.chat import ChatServer, chatting
from leftovers import comparable, journaled
from processes import Finished, ci_evals, finished, start, until
from suites import chat, write_suite

ray = pytest.importorskip("ray", reason="Ray is not installed: `make test-ray` installs it")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    # Ray's own.
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
    ),
]

MB = 1024**2
# In which a busy machine of two cores starts a command, its cluster's workers and their code.
START_S = 150
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster on this machine: a head without room for runs, two nodes with room for two each."""
    from ray.cluster_utils import Cluster

    os.environ.update(QUIET)
    store = {"object_store_memory": 80 * MB, "include_dashboard": False}
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "ray_client_server_port": 23791, **store},
    )
    for name in ("first", "second"):
        add_node(cluster, name)
    yield cluster
    cluster.shutdown()


def add_node(cluster: Any, name: str) -> Any:
    """Add a node with room for two runs; it unpacks suites to a folder of its own."""
    return cluster.add_node(
        num_cpus=2, object_store_memory=80 * MB, runtime_env_dir_name=f"runtime_resources_{name}"
    )


AGENT = """
    import os, sys, time
    from pathlib import Path

    def answer(question, request):
        if question == "crash":
            raise KeyError("seat")
        if question == "slow":
            time.sleep(30)
        facts = Path('facts.txt').read_text()
        return {"output": f"{question} {facts}", "metadata": {"run": request.run}}

    async def answer_soon(question):
        return question.upper()

    class Agent:
        def __init__(self):
            self.calls = 0

        def __call__(self, question):
            self.calls += 1
            return f"{question} {self.calls}"

    def is_short(output, answer):
        return {"passed": len(output) < 20, "reason": f"run {answer.request.run}"}

    def is_broken(output):
        raise ConnectionError(f"no service to read {output} with")
"""
PROGRAM = """
    import json, sys
    case = json.load(sys.stdin)
    if case["input"] == "crash":
        sys.exit("no seat")
    print(case["input"], case["run"])
"""


def write_project(
    folder: Path, address: str | None, *, agent: str = AGENT, **settings: Any
) -> None:
    """Write a suite with an agent, whose executor is the cluster."""
    (folder / "agent.py").write_text(textwrap.dedent(agent))
    (folder / "program.py").write_text(textwrap.dedent(PROGRAM))
    (folder / "facts.txt").write_text("12 seats")
    executor = {
        "type": "ray",
        **({"address": address} if address else {}),
        **settings.pop("executor", {}),
    }
    settings.setdefault("expect", [{"not_empty": True}])
    settings.setdefault(
        "providers", [{"name": "agent", "type": "python", "target": "agent:answer"}]
    )
    write_suite(folder, settings.pop("cases", ()), settings={"executor": executor}, **settings)


def without_times(folder: Path) -> list[dict[str, Any]]:
    """The results of a journal in the order of their runs, without times and durations."""
    results = [{**each, "started_at": None, "latency_s": None} for each in journaled(folder)]
    return sorted(results, key=lambda each: (each["provider"], each["case"], each["run"]))


def files_below(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


async def test_the_report_is_that_of_one_machine_but_for_times(
    cluster: Any, tmp_path: Path
) -> None:
    task = tmp_path / "tasks" / "greet"
    (task / "tests").mkdir(parents=True)
    (task / "task.toml").write_text('version = "1.0"\n')
    (task / "instruction.md").write_text("Write hello into a file.")
    (task / "tests" / "test.sh").write_text(
        'cat greeting.txt; grep -q hello greeting.txt && echo 1 > "$LOGS_DIR/verifier/reward.txt"\n'
    )
    python = {"type": "python"}
    short, broken = {"python": "agent:is_short"}, {"python": "agent:is_broken"}
    write_project(
        tmp_path,
        cluster.address,
        providers=[
            {"name": "sync", **python, "target": "agent:answer"},
            {"name": "async", **python, "target": "agent:answer_soon"},
            {"name": "factory", **python, "target": "agent:Agent", "factory": True},
            {"name": "program", "type": "command", "command": [sys.executable, "program.py"]},
        ],
        cases=[
            {
                "id": "seats",
                "input": "seats",
                "expect": [short, {"python": "len(output) > 2"}, {"contains": "12"}],
            },
            {"id": "crash", "input": "crash", "expect": [short]},
            {"id": "slow", "input": "slow", "timeout_s": 1, "expect": [short]},
            {"id": "broken", "input": "broken", "expect": [short, broken]},
        ],
        runs=2,
    )
    for where in ("local", "cluster"):
        options = ("--executor", "local") if where == "local" else ()
        ended = await ci_evals(tmp_path, "run", "--out", where, *options)
        assert ended.code == 1, ended.err
    assert without_times(tmp_path / "cluster") == without_times(tmp_path / "local")
    assert comparable(tmp_path / "cluster") == comparable(tmp_path / "local")
    statuses = Counter(each["status"] for each in journaled(tmp_path / "cluster"))
    assert set(statuses) == {"passed", "failed", "errored"}

    agent = [
        {
            "name": "agent",
            "type": "task",
            "command": ["sh", "-c", "echo done; echo hello > greeting.txt"],
        }
    ]
    write_project(tmp_path, cluster.address, providers=agent, cases={"tasks": "tasks/*/task.toml"})
    for where in ("local-tasks", "cluster-tasks"):
        options = ("--executor", "local") if where == "local-tasks" else ()
        ended = await ci_evals(tmp_path, "run", "--out", where, *options)
        assert ended.code == 0, ended.err
    assert without_times(tmp_path / "cluster-tasks") == without_times(tmp_path / "local-tasks")
    left = files_below(tmp_path / "cluster-tasks" / "tasks")
    assert left == files_below(tmp_path / "local-tasks" / "tasks")
    assert left["greet/agent/run-1/verifier.stdout.txt"] == b"hello\n"


def living(pids: Iterable[int]) -> list[int]:
    """Which of some processes run; a zombie that waits for its parent does not."""
    there = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
    return [process.pid for process in there if process.status() != psutil.STATUS_ZOMBIE]


WAITING_AGENT = """
    import os, ray, time
    from pathlib import Path

    def answer(question):
        node, here = ray.get_runtime_context().get_node_id(), Path("{here}")
        (here / f"{{question}}-{{node}}-{{os.getpid()}}").touch()
        while not (here / "go").exists():
            time.sleep(0.05)
        return question
"""


async def test_runs_of_a_node_that_dies_are_made_again_and_counted_once(
    cluster: Any, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    cases = [{"id": f"case-{number}", "input": f"q{number}"} for number in range(8)]
    doomed = add_node(cluster, "doomed")
    agent = WAITING_AGENT.format(here=marks)
    write_project(
        tmp_path,
        cluster.address,
        agent=agent,
        cases=cases,
        timeout_s=200,
        expect=[{"contains": "q"}],
    )
    process = await start(tmp_path, "run", "--out", "out")

    def there() -> dict[str, int]:
        """What is asked on the node that is going to die, and in which processes."""
        names = (path.name.split("-") for path in marks.glob(f"*-{doomed.node_id}-*"))
        return {question: int(pid) for question, _, pid in names}

    await until(lambda: len(there()) == 2 and len(list(marks.iterdir())) == 6, START_S)
    lost = there()
    cluster.remove_node(doomed, allow_graceful=False)  # which kills it
    await until(lambda: not living(lost.values()), START_S)
    (marks / "go").touch()
    ended = await finished(process)
    assert ended.code == 0, ended.err
    results = journaled(tmp_path / "out")
    assert Counter(each["case"] for each in results) == Counter(case["id"] for case in cases)
    assert {each["status"] for each in results} == {"passed"}
    assert all(each.get("attempts", 1) == 1 for each in results)
    begun = Counter(path.name.split("-")[0] for path in marks.glob("q*"))
    assert {question for question, times in begun.items() if times == 2} == lost.keys()
    assert "raylet" not in ended.err


async def test_a_worker_that_dies_fails_its_run_and_no_other(cluster: Any, tmp_path: Path) -> None:
    agent = """
        import os
        def answer(question):
            if question == "exit":
                os._exit(3)
            return question
    """
    cases = [
        {"id": word, "input": word, "expect": [{"contains": word}]}
        for word in ("a", "exit", "b", "c")
    ]
    write_project(tmp_path, cluster.address, agent=agent, cases=cases)
    ended = await ci_evals(tmp_path, "run", "--out", "out")
    assert ended.code == 1, ended.err
    results = {each["case"]: each for each in journaled(tmp_path / "out")}
    assert {case: each["status"] for case, each in results.items()} == {
        "a": "passed",
        "b": "passed",
        "c": "passed",
        "exit": "failed",
    }
    assert results["exit"]["error"]["kind"] == "crash"
    assert "the worker process died" in results["exit"]["error"]["message"]


PROGRAMS = """
    import subprocess, sys
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    open("{pids}", "a").write(f"{{child.pid}}\\n")
    child.wait()
"""


def pids_in(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()] if path.exists() else []


async def test_a_program_that_takes_too_long_is_ended_with_its_children(
    cluster: Any, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    (tmp_path / "hang.py").write_text(textwrap.dedent(PROGRAMS.format(pids=pids)))
    hang = [{"name": "hang", "type": "command", "command": [sys.executable, "hang.py"]}]
    cases = [{"id": "slow", "input": "x", "timeout_s": 8}]
    write_project(tmp_path, cluster.address, providers=hang, cases=cases)
    ended = await ci_evals(tmp_path, "run", "--out", "out")
    assert ended.code == 1, ended.err
    (result,) = journaled(tmp_path / "out")
    assert result["error"]["message"] == "no answer within 8 s; the program was ended"
    assert len(pids_in(pids)) == 1
    assert living(pids_in(pids)) == []


async def test_a_signal_ends_what_runs_on_the_cluster_and_the_run_can_be_resumed(
    cluster: Any, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    (tmp_path / "hang.py").write_text(textwrap.dedent(PROGRAMS.format(pids=pids)))
    providers = [
        {"name": "agent", "type": "python", "target": "agent:answer_soon"},
        {"name": "hang", "type": "command", "command": [sys.executable, "hang.py"]},
    ]
    write_project(
        tmp_path,
        cluster.address,
        providers=providers,
        cases=[{"id": "a", "input": "a"}],
        expect=[{"not_empty": True}],
    )
    process = await start(tmp_path, "run", "--out", "out")
    journal = tmp_path / "out" / "results.jsonl"
    await until(
        lambda: bool(pids_in(pids)) and journal.exists() and len(journaled(tmp_path / "out")) == 1,
        START_S,
    )
    process.send_signal(signal.SIGINT)
    ended = await finished(process)
    assert ended.code == 130, ended.err
    assert living(pids_in(pids)) == []
    assert [each["provider"] for each in journaled(tmp_path / "out")] == ["agent"]
    (tmp_path / "hang.py").write_text("print('done')")
    ended = await ci_evals(tmp_path, "run", "--out", "out", "--resume")
    assert ended.code == 0, ended.err
    assert [each["provider"] for each in journaled(tmp_path / "out")] == ["agent", "hang"]


async def test_waiting_for_a_place_on_the_cluster_takes_none_of_the_time_of_a_run(
    cluster: Any, tmp_path: Path
) -> None:
    agent = """
        import time
        def answer(question):
            time.sleep(2)
            return question
    """
    cases = [{"id": f"case-{number}", "input": "x"} for number in range(6)]
    expect = [{"latency": 6}]
    write_project(
        tmp_path,
        cluster.address,
        agent=agent,
        cases=cases,
        expect=expect,
        timeout_s=6,
        executor={"num_cpus": 2},
    )
    # Three times two: the last would be past their limit.
    ended = await ci_evals(tmp_path, "run", "--out", "out")
    assert ended.code == 0, ended.err


async def test_what_is_too_large_to_send_is_an_error_of_its_run(
    cluster: Any, tmp_path: Path
) -> None:
    agent = """
        def answer(question):
            return "x" * 70_000_000 if question == "long" else str(len(question))
    """
    cases = [
        {"id": "answer", "input": "long", "expect": [{"not_empty": True}]},
        {"id": "usual", "input": "x" * 2_000_000, "expect": [{"equals": "2000000"}]},
    ]
    write_project(tmp_path, cluster.address, agent=agent, cases=cases)
    ended = await ci_evals(tmp_path, "run", "--out", "out")
    results = {each["case"]: each for each in journaled(tmp_path / "out")}
    assert results["usual"]["status"] == "passed", ended.err
    assert results["answer"]["status"] == "failed"
    assert results["answer"]["error"]["kind"] == "bad_answer"
    assert (
        "has 67 MB, more than the limit of 64 MB for a worker"
        in results["answer"]["error"]["message"]
    )


async def test_code_that_cannot_be_loaded_on_the_cluster_is_a_problem_of_the_suite(
    cluster: Any, tmp_path: Path
) -> None:
    agent = """
        import library_of_nobody
        def answer(question): ...
    """
    write_project(tmp_path, cluster.address, agent=agent, cases=[{"id": "a", "input": "a"}])
    ended = await ci_evals(tmp_path, "run", "--out", "out")
    assert ended.code == 2
    assert "library_of_nobody" in ended.err
    assert f"{tmp_path / 'agent.py'}:2" in ended.err, "the file is named as it is called here"
    assert not (tmp_path / "out").exists()


SECRET = "s3cret-of-the-suite"


async def test_variables_reach_the_code_and_no_log_of_ray(cluster: Any, tmp_path: Path) -> None:
    agent = """
        import os
        from pathlib import Path
        def answer(question):
            key, of_the_driver = os.environ['MODEL_KEY'], os.environ.get('OF_THE_DRIVER')
            return f"{key[:3]} {of_the_driver} {Path('.env').exists()}"
    """
    (tmp_path / ".env").write_text(f"MODEL_KEY={SECRET}\n")
    variables = {"runtime_env": {"env_vars": {"MODEL_KEY": "${MODEL_KEY}"}}}
    cases = [{"id": "a", "input": "a", "expect": [{"equals": "s3c None False"}]}]
    write_project(tmp_path, cluster.address, agent=agent, cases=cases, executor=variables)
    ended = await ci_evals(tmp_path, "run", "--out", "out", environ={"OF_THE_DRIVER": "1"})
    assert ended.code == 0, ended.err
    of_ray = files_below(Path(cluster.head_node.get_session_dir_path()))
    assert len(of_ray) > 10
    assert [name for name, content in of_ray.items() if SECRET.encode() in content] == []


def write_wheel(folder: Path, module: str, source: str) -> str:
    """Write a wheel of one module, and return its file name."""
    info = f"{module}-1.0.dist-info"
    files = {
        f"{module}.py": source,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
    }
    name = f"{module}-1.0-py3-none-any.whl"
    record = "".join(f"{file},,\n" for file in (*files, f"{info}/RECORD"))
    with ZipFile(folder / name, "w") as wheel:
        for file, text in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(file, text)
    return name


@pytest.fixture
def one_node() -> Iterator[Any]:
    """A one-node cluster: several nodes would install into the same folder at once."""
    from ray.cluster_utils import Cluster

    os.environ.update(QUIET)
    node = {"num_cpus": 1, "object_store_memory": 80 * MB, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    yield cluster
    cluster.shutdown()


async def test_requirements_beside_the_suite_are_installed_on_the_nodes(
    one_node: Any, tmp_path: Path
) -> None:
    agent = """
        def answer(question):
            import seats_of_today  # which is not installed here
            return str(seats_of_today.COUNT)
    """
    wheel = write_wheel(tmp_path, "seats_of_today", "COUNT = 12\n")
    (tmp_path / "requirements.txt").write_text(f"${{RAY_RUNTIME_ENV_CREATE_WORKING_DIR}}/{wheel}\n")
    cases = [{"id": "a", "input": "a", "expect": [{"equals": "12"}]}]
    write_project(tmp_path, one_node.address, agent=agent, cases=cases)
    ended = await ci_evals(tmp_path, "run", "--out", "out")
    assert ended.code == 0, ended.err
    write_project(
        tmp_path, one_node.address, agent=agent, cases=cases, executor={"runtime_env": {"pip": []}}
    )
    assert (await ci_evals(tmp_path, "run", "--out", "out")).code == 1


def no_cluster(ended: Finished, address: str) -> None:
    assert ended.code == 2
    assert f"no Ray cluster answers at {address}: start one with `ray start --head`" in ended.err


async def test_a_cluster_that_is_not_there_is_said_with_what_to_start(tmp_path: Path) -> None:
    write_project(tmp_path, "127.0.0.1:9", cases=[{"id": "a", "input": "a"}])
    no_cluster(await ci_evals(tmp_path, "run"), "127.0.0.1:9")
    no_cluster(
        await ci_evals(tmp_path, "run", "--executor", "ray://127.0.0.1:9"), "ray://127.0.0.1:9"
    )
    assert not (tmp_path / "ci-evals-results").exists()


async def test_calls_to_model_apis_are_made_from_here_and_need_no_cluster(tmp_path: Path) -> None:
    async with chatting(ChatServer(lambda *_: None)) as server:
        write_project(
            tmp_path,
            "127.0.0.1:9",
            providers=[chat(server.url)],
            cases=[{"id": "a", "input": "a", "expect": [{"contains": "a"}]}],
        )
        ended = await ci_evals(tmp_path, "run")
    assert ended.code == 0, ended.err


async def test_without_an_address_a_cluster_on_this_machine_is_started_and_ended(
    tmp_path: Path,
) -> None:
    cases = [{"id": "a", "input": "a", "expect": [{"contains": "12 seats"}]}]
    write_project(tmp_path, None, cases=cases)
    ended = await ci_evals(tmp_path, "run", "--out", "out", "--format", "json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["verdict"]["status"] == "pass"
    write_project(tmp_path, None, cases=cases, executor={"num_gpus": 4})
    ended = await ci_evals(tmp_path, "run", "--out", "out")
    assert ended.code == 2
    assert "no node has room for a run, which needs CPU 1, GPU 4: the nodes have CPU " in ended.err


async def test_ray_client_and_a_folder_above_the_suite(cluster: Any, tmp_path: Path) -> None:
    suite = tmp_path / "evals"
    suite.mkdir()
    (tmp_path / "shared.txt").write_text("from above")
    agent = """
        from pathlib import Path
        def answer(question):
            return Path(__file__).parent.parent.joinpath("shared.txt").read_text()
    """
    cases = [{"id": "a", "input": "a", "expect": [{"equals": "from above"}]}]
    write_project(
        suite,
        "ray://127.0.0.1:23791",
        agent=agent,
        cases=cases,
        executor={"runtime_env": {"working_dir": ".."}},
    )
    ended = await ci_evals(tmp_path, "run", "evals", "--out", "out")
    assert ended.code == 0, ended.err


async def test_functions_and_objects_of_python_go_to_the_cluster(
    cluster: Any, tmp_path: Path
) -> None:
    script = f"""
        import json, os, threading
        from ci_evals import Case, Suite, evaluate_sync, grader, provider

        class Counting:
            name = "counting"
            def __init__(self):
                self.calls = 40
            def answer(self, request):
                self.calls += 1
                return f"{{self.calls > 40}} {{os.getpid()}}"

        @provider(name="shout")
        def shout(question):
            return f"{{question.upper()}} {{os.getpid()}}"

        def make(pid):
            @grader
            def elsewhere(output):
                return int(output.split()[1]) != pid != os.getpid()
            return elsewhere

        suite = Suite(
            providers=[shout, Counting()],
            cases=["a", "b"],
            expect=[make(os.getpid())],
            settings={{"executor": {{"type": "ray", "address": "{cluster.address}"}}}},
        )
        report = evaluate_sync(suite)
        print(json.dumps([run.status for run in report.runs]))

        counting = Counting()
        counting.lock = threading.Lock()
        try:
            suite = Suite(providers=[counting], cases=["a"], expect=[make(0)])
            evaluate_sync(suite, executor="ray", environ={{}})
        except Exception as error:
            print(type(error).__name__, error)
    """
    (tmp_path / "script.py").write_text(textwrap.dedent(script))
    environ = {**os.environ, "RAY_ADDRESS": cluster.address}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "script.py", cwd=tmp_path, env=environ, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    passed, refused = out.decode().splitlines()
    assert json.loads(passed) == ["passed"] * 12
    assert refused.startswith("ConfigError ")
    assert "cannot be sent to the cluster (cannot pickle '_thread.lock' object)" in refused
