"""The action as the runner sees it: every input is used, and the shell steps do their work."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, requires
from itertools import count
from pathlib import Path
from typing import Any

import comments
import packaging
import pytest
import yaml
from aiohttp import web
from archives import archive
from fakes.github import TOKEN, FakeGitHub
from fakes.github_state import FORK
from fakes.http_server import never, serving
from jobs import Repository, outputs_in
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from processes import ci_evals, environment, finished, start
from pulls import HEAD, NUMBER, open_pull
from pulls import comments as comments_of
from suites import write_suite

from ci_evals import release
from ci_evals.registry import COMMANDS
from ci_evals.reports import report_json

ROOT = Path(__file__).parents[3]
ACTION = ROOT / "action.yml"
WORKFLOWS = sorted(
    [
        *ROOT.glob("examples/workflows/*.yml"),
        *ROOT.glob(".github/workflows/*.yml"),
        ROOT / "templates/init/workflow.yml",
    ]
)
YAML_BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INPUT = re.compile(r"\binputs\.([\w-]+)")
PIN = re.compile(r"^([\w.-]+)==([^\s;]+)((?:.*\\\n)*.*\n)", re.MULTILINE)
posix = pytest.mark.skipif(os.name == "nt", reason="the runner's bash")


@cache
def action() -> Any:
    return yaml.safe_load(ACTION.read_text(encoding="utf-8"))


def steps() -> Iterator[Any]:
    yield from action()["runs"]["steps"]


def step(which: str) -> Any:
    return next(each for each in steps() if each.get("id") == which)


def test_every_input_is_used_and_no_other() -> None:
    used = {name for each in steps() for name in INPUT.findall(json.dumps(each))}
    assert used == set(action()["inputs"])


READ_FROM_THE_ENVIRONMENT = ("GITHUB_TOKEN", "ACTION_REPOSITORY", "ACTION_REF")


def test_every_variable_is_one_of_an_option_or_of_the_script() -> None:
    options = (*COMMANDS["run"].params, *COMMANDS["merge"].params)
    variables = {f"CI_EVALS_{each.name.upper()}" for each in options if each.name}
    variables |= {str(each.envvar) for each in COMMANDS["comment"].params if each.envvar}
    for each in steps():
        for name in each.get("env", {}):
            script = each["run"] + (ROOT / ".ci/install").read_text(encoding="utf-8")
            assert (
                name in variables
                or name in READ_FROM_THE_ENVIRONMENT
                or f"${name}" in script
                or f"${{{name}" in script
            ), name


@pytest.mark.parametrize(
    "path", [ACTION, *WORKFLOWS], ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_no_script_has_an_expression_in_it(path: Path) -> None:
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    jobs = [document["runs"]] if "runs" in document else document["jobs"].values()
    scripts = [each["run"] for job in jobs for each in job["steps"] if "run" in each]
    assert [script for script in scripts if "${{" in script] == []


def test_every_output_is_one_that_is_handed_on() -> None:
    known = {"verdict", "pass-rate", "regressions", "cost-usd", "report-path", "results-path"}
    values = {name: each["value"] for name, each in action()["outputs"].items()}
    assert values.pop("page-url") == "${{ steps.page-1.outputs.artifact-url }}"
    assert values == {
        name: f"${{{{ steps.run.outputs.{name} }}}}" for name in known | {"comment-url"}
    }


def test_one_page_is_enough_for_the_comment_to_link_to_it() -> None:
    pages = [each["id"] for each in steps() if each.get("id", "").startswith("page-")]
    assert len(pages) == 4
    any_page = " || ".join(f"steps.{page}.outputs.artifact-url != ''" for page in pages)
    assert " ".join(step("link")["if"].split()) == f"always() && ({any_page})"


def test_every_command_of_the_run_replaces_the_shell() -> None:
    lines = [line.strip() for line in step("run")["run"].splitlines() if "ci_evals" in line]
    assert len(lines) == 3
    assert all(line.startswith("exec ") for line in lines)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_what_workflows_give_the_action_are_inputs_of_it(path: Path) -> None:
    for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values():
        for each in job["steps"]:
            uses = each.get("uses", "").partition("@")[0]
            if uses in ("$/", release.ACTION.partition("@")[0]):
                assert set(each.get("with", {})) <= set(action()["inputs"])


def test_no_checkout_that_is_shown_leaves_its_token_behind() -> None:
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *WORKFLOWS]
    checkouts = [
        (path.name, part)
        for path in pages
        for part in path.read_text(encoding="utf-8").split("uses: actions/checkout@")[1:]
    ]
    assert len(checkouts) > 10
    following = re.compile(r".*\n +with:\n( +[\w-]+: .*\n)*? +persist-credentials: false\n")
    assert [name for name, part in checkouts if not following.match(part)] == []


def workflows_shown() -> Iterator[tuple[str, Any]]:
    """Every workflow file, and every one in the docs, by a name."""
    for path in WORKFLOWS:
        yield path.name, yaml.safe_load(path.read_text(encoding="utf-8"))
    for page in (ROOT / "README.md", *ROOT.glob("docs/**/*.md")):
        for text in YAML_BLOCK.findall(page.read_text("utf-8")):
            if re.search(r"^on:", text, re.MULTILINE):
                yield page.name, yaml.safe_load(text)


def test_a_push_to_a_pull_request_is_not_paid_for_twice() -> None:
    """A push to a branch with a pull request starts both events."""
    shown = list(workflows_shown())
    assert {"README.md", "github.md", "plain.yml"} <= {name for name, _ in shown}
    both = [
        (name, workflow[True]["push"])
        for name, workflow in shown
        if "pull_request" in workflow[True] and "push" in workflow[True]
    ]
    assert len(both) > 5
    assert [name for name, push in both if len((push or {}).get("branches", ())) != 1] == []


def test_a_fork_cannot_cancel_the_run_of_a_branch_that_is_named_as_its_own() -> None:
    groups = [
        (name, workflow["concurrency"]["group"])
        for name, workflow in workflows_shown()
        if workflow.get("concurrency", {}).get("cancel-in-progress")
    ]
    assert len(groups) > 4
    assert [name for name, group in groups if "head_ref" in group] == []


def test_a_job_that_gives_the_verdict_over_others_cannot_be_skipped() -> None:
    """GitHub counts a skipped job as passed where it is required."""
    conditions = {
        (path.name, name): job["if"]
        for path in ROOT.glob("examples/workflows/*.yml")
        for name, job in yaml.safe_load(path.read_text("utf-8"))["jobs"].items()
        if "if" in job
    }
    assert conditions.pop(("forks.yml", "comment"))  # comments, and is not required
    assert conditions == {
        ("matrix.yml", "verdict"): "always()",
        ("monorepo.yml", "verdict"): "always()",
    }


def test_no_workflow_runs_on_pull_request_target() -> None:
    assert [
        path for path in WORKFLOWS if "pull_request_target" in path.read_text(encoding="utf-8")
    ] == []


def test_the_docs_have_every_input_and_every_output_of_the_action_and_no_other() -> None:
    text = (ROOT / "docs/ci/github.md").read_text(encoding="utf-8")
    for title, key in (("Inputs", "inputs"), ("Outputs", "outputs")):
        part = text.partition(f"## {title}\n")[2].partition("\n## ")[0]
        assert re.findall(r"^\| `([\w-]+)` \|", part, re.MULTILINE) == list(action()[key])


# The shell steps.


def as_runner(script: str, folder: Path) -> tuple[str, ...]:
    """How the runner starts a bash step: the script in a file."""
    path = folder / "step.sh"
    path.write_text(script, encoding="utf-8")
    return "bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(path)


def inputs_of(**given: str) -> dict[str, str]:
    """The environment of the run step, with the defaults of inputs that are not given."""
    values = {name: each.get("default", "") for name, each in action()["inputs"].items()} | given
    env: Mapping[str, str] = step("run")["env"]
    found = {name: INPUT.search(value) for name, value in env.items()}
    texts = {name: values[match[1]] for name, match in found.items() if match}
    return {name: "" if "${{" in text else text for name, text in texts.items()} | {
        "PYTHON": sys.executable
    }


@posix
def test_the_last_step_fails_where_a_verdict_is_missing(tmp_path: Path) -> None:
    last = action()["runs"]["steps"][-1]
    assert last["if"].startswith("steps.run.outputs.verdict == ''")
    ended = subprocess.run(
        as_runner(last["run"], tmp_path), capture_output=True, text=True, check=False
    )
    assert ended.returncode == 3
    assert ended.stdout.startswith("::error title=ci-evals::The evals ended without a verdict.")


@posix
async def test_the_run_step_does_what_its_inputs_say(
    repository: Repository, fake: FakeGitHub, tmp_path: Path
) -> None:
    repository.suite()
    run = fake.state.add_run("a" * 40)
    environ = repository.environment("push", {"before": "b" * 40}, run, tmp_path)
    given = inputs_of(runs="2", **{"extra-args": "--quiet\n  --out  'x'*"})
    command = as_runner(step("run")["run"], tmp_path)
    ended = await ci_evals(tmp_path, command=command, environ={**environ, **given})
    assert ended.code == 0, ended.err
    handed_on = outputs_in(tmp_path / "output")
    assert handed_on["verdict"] == "pass"
    # Extra arguments are split at blanks, and nothing else.
    assert handed_on["report-path"] == str(tmp_path / "'x'*" / "report.json")
    assert json.loads((tmp_path / "'x'*" / "report.json").read_bytes())["totals"]["passed"] == 8


@posix
@pytest.mark.parametrize(
    ("there", "said"), [((1, 2), ""), ((1,), "shard 2/2 is missing: running the missing cells\n")]
)
async def test_the_merge_step_puts_together_what_shards_have_left(
    there: tuple[int, ...], said: str, repository: Repository, fake: FakeGitHub, tmp_path: Path
) -> None:
    repository.suite()
    run, event = fake.state.add_run("a" * 40), {"before": "b" * 40}
    temporary = tmp_path / "runner's temp"
    downloaded = temporary / "ci-evals-shards"
    downloaded.mkdir(parents=True)
    for number in there:
        shard = await repository.job(
            "push", event, run, "--shard", f"{number}/2", CI_EVALS_ARTIFACT=f"shard-{number}"
        )
        shard.results.rename(downloaded / f"ci-evals-shard-{number}")
    environ = repository.environment("push", event, run, tmp_path) | {"RUNNER_TEMP": str(temporary)}
    given = inputs_of(merge="ci-evals-shard-*", **{"extra-args": "--quiet --out merged"})
    command = as_runner(step("run")["run"], tmp_path)
    ended = await ci_evals(tmp_path, command=command, environ={**environ, **given})
    assert (ended.code, ended.err) == (0, said)
    handed_on = outputs_in(tmp_path / "output")
    assert (handed_on["verdict"], handed_on["report-path"]) == (
        "pass",
        str(tmp_path / "merged" / "report.json"),
    )
    assert json.loads((tmp_path / "merged" / "report.json").read_bytes())["totals"]["passed"] == 20


@posix
async def test_the_merge_step_finds_a_shard_that_is_downloaded_without_a_folder_of_its_own(
    repository: Repository, fake: FakeGitHub, tmp_path: Path
) -> None:
    """The download action puts a single artifact straight into the folder that it is given."""
    repository.suite()
    run, event = fake.state.add_run("a" * 40), {"before": "b" * 40}
    shard = await repository.job("push", event, run, "--shard", "1/2")
    shard.results.rename(tmp_path / "ci-evals-shards")
    environ = repository.environment("push", event, run, tmp_path) | {"RUNNER_TEMP": str(tmp_path)}
    given = inputs_of(merge="ci-evals-shard-*", **{"extra-args": "--quiet --out merged"})
    command = as_runner(step("run")["run"], tmp_path)
    ended = await ci_evals(tmp_path, command=command, environ={**environ, **given})
    assert (ended.code, ended.err) == (0, "shard 2/2 is missing: running the missing cells\n")
    assert outputs_in(tmp_path / "output")["verdict"] == "pass"


@posix
def test_the_shards_of_a_merge_are_gone_for_the_next_one_of_the_job(tmp_path: Path) -> None:
    """On Enterprise Server, too, where the workflow downloads them before each merge."""
    merged = tmp_path / "ci-evals-shards" / "ci-evals-shard-1"
    merged.mkdir(parents=True)
    command = as_runner(step("merged")["run"], tmp_path)
    subprocess.run(command, check=True, env=environment({"RUNNER_TEMP": str(tmp_path)}))
    assert list(tmp_path.glob("ci-evals-shards/*")) == []
    assert step("merged")["if"] == "always() && inputs.merge != ''"
    ids = [each.get("id") for each in steps()]
    assert ids.index("run") < ids.index("merged")


@posix
async def test_a_merge_without_any_shard_has_no_verdict_and_says_so(
    repository: Repository, fake: FakeGitHub, tmp_path: Path
) -> None:
    repository.suite()
    open_pull(fake)
    run = fake.state.add_run(HEAD, head_branch="feature", event="pull_request")
    event = {"pull_request": fake.state.pull_answer(fake.state.pulls[NUMBER])}
    environ = repository.environment("pull_request", event, run, tmp_path)
    environ |= {**inputs_of(merge="ci-evals-shard-*"), "RUNNER_TEMP": str(tmp_path)}
    environ |= {"GITHUB_TOKEN": TOKEN}
    ended = await ci_evals(
        tmp_path, command=as_runner(step("run")["run"], tmp_path), environ=environ
    )
    assert ended.code == 3, ended.err
    said = "there is nothing to merge: no shard has left results in"
    assert f"::error title=ci-evals::{said}" in ended.err
    handed_on = outputs_in(tmp_path / "output")
    assert handed_on["verdict"] == "error"
    (comment,) = comments_of(fake)
    assert "### ⚠️ There is nothing to merge: no shard has left results in" in comment.body
    assert "suite=geography" in comment.body
    assert handed_on["comment-url"].endswith(f"#issuecomment-{comment.id}")
    assert "There is nothing to merge" in (tmp_path / "summary").read_text("utf-8")


@pytest.mark.parametrize("wrong", [(), ("river",)])
async def test_the_job_of_a_shard_says_that_it_gives_no_verdict(
    wrong: tuple[str, ...], repository: Repository, fake: FakeGitHub
) -> None:
    repository.suite(wrong=wrong)
    run = fake.state.add_run("a" * 40)
    job = await repository.job("push", {}, run, "--shard", "1/1")
    assert job.ended.code == 0, job.ended.err
    passed = "15 of 20 runs passed" if wrong else "20 of 20 runs passed"
    assert f"## Shard 1/1: {passed}" in job.summary
    assert "gives no verdict. Require the job that merges the shards, not this one." in job.summary
    warnings = [line for line in job.ended.out.splitlines() if line.startswith("::warning ")]
    if wrong:
        (warning,) = warnings
        assert f"::shard 1/1 of geography: {passed}" in warning
        assert "require the job that merges the shards" in warning
    else:
        assert warnings == []


@posix
async def test_the_step_comments_for_a_fork_from_what_its_run_has_uploaded(
    repository: Repository, fake: FakeGitHub, tmp_path: Path
) -> None:
    open_pull(fake, head_repository=FORK, head_ref="feature")
    run = fake.state.add_run(
        HEAD, head_branch="feature", head_repository=FORK, event="pull_request"
    )
    report = b"".join(report_json.render(comments.passing()))
    fake.state.add_artifact(run, archive({"report.json": report}), "ci-evals-windows")
    environ = repository.environment("workflow_run", {}, run, tmp_path)
    environ = {**environ, **inputs_of(**{"from-run": str(run.id)}), "GITHUB_TOKEN": TOKEN}
    ended = await ci_evals(
        tmp_path, command=as_runner(step("run")["run"], tmp_path), environ=environ
    )
    assert ended.code == 0, ended.err
    assert len(fake.state.comments) == 1


@posix
async def test_an_interrupt_of_the_steps_process_leaves_a_report(
    repository: Repository, fake: FakeGitHub, tmp_path: Path
) -> None:
    stuck = asyncio.Event()
    asked = count(1)

    async def respond(request: web.Request) -> web.StreamResponse:
        if next(asked) == 1:
            return web.Response(text="hello")
        stuck.set()
        return await never(request)

    async with serving() as server:
        server.answers(respond)
        provider = {"name": "agent", "type": "http", "url": server.url}
        write_suite(tmp_path, providers=[provider], runs=2, max_concurrency=1)
        run = fake.state.add_run("a" * 40)
        environ = repository.environment("push", {"before": "b" * 40}, run, tmp_path)
        command = as_runner(step("run")["run"], tmp_path)
        process = await start(
            tmp_path, command=command, environ={**environ, **inputs_of(baseline="none")}
        )
        await stuck.wait()
        process.send_signal(signal.SIGINT)
        ended = await finished(process)
    assert ended.code == 130
    handed_on = outputs_in(tmp_path / "output")
    out = tmp_path / "ci-evals-results"
    assert (handed_on["results-path"], handed_on["report-path"]) == (
        str(out),
        str(out / "report.json"),
    )
    report = json.loads((out / "report.json").read_bytes())
    assert (report["interrupted"], report["totals"]["passed"]) == ("SIGINT", 1)


@posix
@pytest.mark.parametrize("python", ["relative", "active"])
def test_the_install_step_finds_the_environment_that_is_meant(python: str, tmp_path: Path) -> None:
    """A stub replaces the environment's pip: only what is installed, and how, matters here."""
    stub = tmp_path / "venv" / "bin" / "python"
    stub.parent.mkdir(parents=True)
    stub.write_text(f'#!/bin/sh\necho "$@" >> "{tmp_path}/asked"\n')
    stub.chmod(0o755)
    given = (
        {"PYTHON": "venv"}
        if python == "relative"
        else {"PYTHON": "", "VIRTUAL_ENV": str(tmp_path / "venv")}
    )
    done = install(tmp_path, **given)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "output").read_text() == f"python={stub}\n"
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked[-1].endswith(f" --no-deps --no-build-isolation {ROOT}")
    assert all("--require-hashes" in each for each in asked[:-1] if " install " in each)


@posix
@pytest.mark.parametrize("arguments", [(), ("key",)])
def test_the_install_step_works_beside_modules_that_are_named_as_pythons_own(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    """Everything but pip is real."""
    for name in ("email", "types", "token", "hashlib", "pip"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('this is a module of the agent')")
    stub = programs(tmp_path, {"bash": shutil.which("bash")}) / "python3"
    stub.write_text(
        f"""#!/bin/sh
        case "$*" in
          "-m venv "*)
            mkdir -p "{tmp_path}/ci-evals/bin"
            cp "$0" "{tmp_path}/ci-evals/bin/python" ;;
          "-m pip "*) ;;
          *) PYTHONPATH="{tmp_path}/site" exec "{sys.executable}" -S "$@" ;;
        esac
        """
    )
    stub.chmod(0o755)
    pinned_packages(tmp_path / "site")
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    done = install(tmp_path, *arguments, PYTHON="", VIRTUAL_ENV="", PATH=path)
    assert done.returncode == 0, done.stderr
    handed_on = (tmp_path / "output").read_text()
    if arguments:
        assert re.fullmatch(r"key=[0-9a-f]{64}\n", handed_on)
    else:
        assert handed_on == f"python={tmp_path}/ci-evals/bin/python\n"


@posix
def test_an_environment_from_the_cache_is_not_made_again(tmp_path: Path) -> None:
    stub = programs(tmp_path, {"bash": shutil.which("bash")}) / "python3"
    stub.write_text(f'#!/bin/sh\necho "$@" >> "{tmp_path}/asked"\n')
    restored = tmp_path / "ci-evals" / "bin" / "python"
    restored.parent.mkdir(parents=True)
    restored.with_name("python").symlink_to(stub)
    (tmp_path / "ci-evals" / "pyvenv.cfg").touch()
    (tmp_path / "ci-evals-build").mkdir()
    stub.chmod(0o755)
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    done = install(tmp_path, PYTHON="", VIRTUAL_ENV="", PATH=path)
    assert done.returncode == 0, done.stderr
    asked = (tmp_path / "asked").read_text().splitlines()
    assert [each for each in asked if "venv" in each] == []
    (installed,) = (each for each in asked if " install " in each)
    assert installed.endswith(f" --no-deps --no-build-isolation {ROOT}")


@posix
def test_an_environment_that_is_given_has_no_key_in_the_cache(tmp_path: Path) -> None:
    done = install(tmp_path, "key", PYTHON=sys.executable)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "output").exists()


def test_the_environment_is_saved_before_code_under_test_runs_in_it() -> None:
    names = [each.get("id") or each["name"] for each in steps()]
    order = ["environment", "cached", "install", "Save the environment", "run"]
    assert [name for name in names if name in order] == order
    restore, save = step("cached"), action()["runs"]["steps"][names.index("Save the environment")]
    assert restore["with"]["path"] == save["with"]["path"]
    assert "cache-hit != 'true'" in save["if"]


def test_artifacts_are_left_to_the_workflow_on_enterprise_server() -> None:
    """That server refuses these versions, which is an error of the job."""
    hosted = (
        "(github.server_url == 'https://github.com' || endsWith(github.server_url, '.ghe.com'))"
    )
    uses = [each for each in steps() if "-artifact@" in each.get("uses", "")]
    assert len(uses) == 6
    assert [each["name"] for each in uses if hosted not in each["if"]] == []


@pytest.mark.parametrize("name", ["constraints.txt", "build-constraints.txt"])
def test_every_dependency_of_the_action_is_pinned_with_hashes(name: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    needed = (
        project["build-system"]["requires"]
        if "build" in name
        else project["project"]["dependencies"]
    )
    pins = PIN.findall((ROOT / ".ci" / name).read_text(encoding="utf-8"))
    assert len(pins) >= len(needed)
    assert [pin for pin, _, hashes in pins if "--hash=sha256:" not in hashes] == []
    versions = {canonicalize_name(pin): version for pin, version, _ in pins}
    for requirement in map(Requirement, needed):
        assert versions[canonicalize_name(requirement.name)] in requirement.specifier, requirement


@posix
@pytest.mark.slow  # downloads the dependencies
@pytest.mark.timeout(600)
def test_what_is_there_stays_and_what_is_missing_comes_as_it_is_pinned(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "agent"], check=True)
    python = tmp_path / "agent" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "click==8.1.8"], check=True)
    done = install(tmp_path, PYTHON="agent")
    assert done.returncode == 0, done.stderr
    listed = subprocess.run(
        [python, "-m", "pip", "list", "--format", "json"], check=True, capture_output=True
    )
    versions = {
        str(canonicalize_name(each["name"])): each["version"] for each in json.loads(listed.stdout)
    }
    pins = {
        name: version
        for name, version, _ in PIN.findall((ROOT / ".ci/constraints.txt").read_text("utf-8"))
    }
    assert versions["click"] == "8.1.8"
    differing = {
        name
        for name, version in pins.items()
        if versions.get(canonicalize_name(name), version) != version
    }
    assert differing == {"click"}
    assert {"ci-evals", *("aiohttp", "pydantic", "cryptography")} <= set(versions)
    assert "hatchling" not in versions


@posix
# The latter belongs to an extra of a dependency.
@pytest.mark.parametrize("package", ["click", "cryptography"])
def test_what_is_too_old_is_replaced_by_what_is_pinned_with_its_hashes(
    package: str, tmp_path: Path
) -> None:
    """The interpreter is a real one that sees an old package; its pip only takes that away."""
    old = distribution_in(tmp_path / "old", package, "0.9")
    pinned_packages(tmp_path / "site")
    stub = tmp_path / "venv" / "bin" / "python"
    stub.parent.mkdir(parents=True)
    stub.write_text(
        f"""#!/bin/sh
        for last; do :; done
        case "$*" in
          "-m pip install"*needed.txt)
            echo "$@" > "{tmp_path}/asked"
            cat "$last" >> "{tmp_path}/needed"
            rm -r "{old}" ;;
          "-m pip "*) ;;
          *) PYTHONPATH="{tmp_path}/old:{tmp_path}/site" exec "{sys.executable}" -S "$@" ;;
        esac
        """
    )
    stub.chmod(0o755)
    done = install(tmp_path, PYTHON="venv")
    assert done.returncode == 0, done.stderr
    assert {"--require-hashes", "--no-deps"} <= set((tmp_path / "asked").read_text().split())
    pins = PIN.findall((ROOT / ".ci/constraints.txt").read_text("utf-8"))
    needed = PIN.findall((tmp_path / "needed").read_text("utf-8"))
    assert needed == [pin for pin in pins if pin[0] == package]
    assert "--hash=sha256:" in needed[0][2]


@posix
def test_packages_that_pip_does_not_bring_are_an_error_and_not_a_loop(tmp_path: Path) -> None:
    pinned_packages(tmp_path / "site")
    distribution_in(tmp_path / "old", "click", "0.9")
    stub = tmp_path / "venv" / "bin" / "python"
    stub.parent.mkdir(parents=True)
    stub.write_text(
        f"""#!/bin/sh
        case "$*" in
          "-m pip "*) ;;
          *) PYTHONPATH="{tmp_path}/old:{tmp_path}/site" exec "{sys.executable}" -S "$@" ;;
        esac
        """
    )
    stub.chmod(0o755)
    done = install(tmp_path, PYTHON="venv")
    assert done.returncode == 1
    said = "::error title=ci-evals::pip has installed these, and they are still missing: click "
    assert said in done.stderr


def pinned_packages(site: Path) -> None:
    """What an interpreter sees in which everything is installed as it is pinned."""
    for name, version, _ in PIN.findall((ROOT / ".ci/constraints.txt").read_text("utf-8")):
        distribution_in(site, name, version)
    (site / "packaging").symlink_to(Path(packaging.__file__).parent)


def distribution_in(site: Path, name: str, version: str) -> Path:
    """The metadata of a package, with the requirements of the one that is installed here."""
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    with suppress(PackageNotFoundError):
        lines += [f"Requires-Dist: {each}" for each in requires(name) or ()]
    (folder / "METADATA").write_text("\n".join(lines) + "\n")
    return folder


@posix
def test_an_interpreter_that_is_not_there_is_an_error_that_says_so(tmp_path: Path) -> None:
    done = install(tmp_path, PYTHON="nowhere")
    assert done.returncode == 1
    assert "there is no interpreter at 'nowhere'" in done.stderr


@posix
@pytest.mark.parametrize(
    "given", [{"PYTHON": "./old"}, {"PYTHON": "", "VIRTUAL_ENV": "", "PATH": "bin"}]
)
def test_a_python_that_is_too_old_is_an_error_that_says_so(
    given: dict[str, str], tmp_path: Path
) -> None:
    tools = {name: shutil.which(name) for name in ("bash", "tr")}
    for path in (tmp_path / "old", programs(tmp_path, tools) / "python3"):
        path.write_text("#!/bin/sh\nexit 1\n")
        path.chmod(0o755)
    done = install(tmp_path, **given)
    assert done.returncode == 1
    assert re.search(
        r"^::error title=ci-evals::ci-evals needs Python 3\.11 or later, and \S+ is not",
        done.stderr,
    )


@posix
def test_a_runner_without_python_is_an_error_that_says_so(tmp_path: Path) -> None:
    programs(tmp_path, {name: shutil.which(name) for name in ("bash", "tr")})
    done = install(tmp_path, PYTHON="", VIRTUAL_ENV="", PATH="bin")
    assert done.returncode == 1
    assert done.stderr.startswith(
        "::error title=ci-evals::there is no Python: add actions/setup-python"
    )


def programs(folder: Path, found: Mapping[str, str | None]) -> Path:
    """A folder with nothing but these programs, for PATH."""
    (folder / "bin").mkdir()
    for name, path in found.items():
        assert path
        (folder / "bin" / name).symlink_to(path)
    return folder / "bin"


def install(folder: Path, *arguments: str, **given: str) -> "subprocess.CompletedProcess[str]":
    environ = environment(
        {"SOURCE": str(ROOT), "GITHUB_OUTPUT": str(folder / "output"), "RUNNER_TEMP": str(folder)}
    )
    return subprocess.run(
        as_runner(" ".join([step("install")["run"], *arguments]), folder),
        cwd=folder,
        env={**environ, **given},
        capture_output=True,
        text=True,
        check=False,
    )
