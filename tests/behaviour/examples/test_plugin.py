"""The package of examples/plugin, installed; and packages that are broken."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = Path(__file__).parents[3] / "examples" / "plugin"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages that has the example."""
    folder = tmp_path_factory.mktemp("packages")
    source = tmp_path_factory.mktemp("source") / "plugin"
    shutil.copytree(PLUGIN, source, ignore=shutil.ignore_patterns("__pycache__"))
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(folder), "."]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    return folder


def ci_evals(
    folder: Path, packages: Path, *arguments: str, code: str = ""
) -> subprocess.CompletedProcess[str]:
    start = ["-c", code] if code else ["-m", "ci_evals"]
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("CI_EVALS_", "GITHUB_"))
    }
    return subprocess.run(
        [sys.executable, *start, *arguments],
        cwd=folder,
        env={**environ, "PYTHONPATH": str(packages), "COLUMNS": "100"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("evals.yaml", "faq.txt"):
        shutil.copy(PLUGIN / name, tmp_path)
    return tmp_path


def broken(packages: Path, group: str, name: str, target: str) -> None:
    """Let a package be installed whose entry point leads nowhere, or to something else."""
    metadata = packages / f"{name}_package-2.1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}-package\nVersion: 2.1\n"
    )
    (metadata / "entry_points.txt").write_text(f"[ci_evals.{group}]\n{name} = {target}\n")


MOCK = "providers: [{type: mock}]\ncases: [{id: a, input: a, expect: [{%s}]}]\n"


def test_a_suite_uses_its_grader_provider_and_format(folder: Path, installed: Path) -> None:
    ended = ci_evals(folder, installed, "run", "--out", "out")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert (folder / "out" / "results.csv").read_text("utf-8").splitlines() == [
        "case,variant,passed,graded",
        "return,faq:faq.txt,3,3",
        "abroad,faq:faq.txt,3,3",
    ]
    report = json.loads((folder / "out" / "report.json").read_text("utf-8"))
    graders = {grade["grader"] for result in report["results"] for grade in result["grades"]}
    assert graders == {"word_ratio", "contains"}


def test_a_bare_name_of_a_provider_is_a_provider_without_settings(
    folder: Path, installed: Path
) -> None:
    (folder / "evals.yaml").write_text("providers: [faq]\ncases: [{id: a, input: a}]\n")
    ended = ci_evals(folder, installed, "validate")
    assert ended.returncode == 2
    assert "providers[0]: the key 'file' is missing" in ended.stderr


def test_its_options_are_checked_as_ours(folder: Path, installed: Path) -> None:
    suite = folder / "evals.yaml"
    suite.write_text(
        suite.read_text("utf-8")
        .replace("word_ratio: 2", "word_ratio: {vlaue: 2}")
        .replace("file: faq.txt", "flie: faq.txt")
    )
    ended = ci_evals(folder, installed, "validate")
    assert ended.returncode == 2
    assert "evals.yaml:5: expect[0].word_ratio: unknown key 'vlaue', did you mean" in ended.stderr
    assert "evals.yaml:3: providers[0]: unknown key 'flie', did you mean" in ended.stderr


def test_a_misspelt_name_suggests_it(folder: Path, installed: Path) -> None:
    suite = folder / "evals.yaml"
    suite.write_text(suite.read_text("utf-8").replace("word_ratio", "word_ration"))
    ended = ci_evals(folder, installed, "validate")
    assert "unknown grader 'word_ration', did you mean 'word_ratio'?" in ended.stderr


def test_schema_and_help_have_it(folder: Path, installed: Path) -> None:
    schema = json.loads(ci_evals(folder, installed, "schema").stdout)
    assert {"word_ratio", "not_word_ratio"} <= schema["$defs"]["Expectation"]["properties"].keys()
    assert "provider.Faq" in schema["$defs"]
    names = ci_evals(folder, installed, "schema", "--names").stdout
    assert "word_ratio          From acme-evals 1.0." in names
    assert "questions    From acme-evals 1.0." in ci_evals(folder, installed, "--help").stdout


def test_its_command_is_run(folder: Path, installed: Path) -> None:
    ended = ci_evals(folder, installed, "questions", "faq.txt")
    assert ended.stdout.splitlines()[0] == "How do I return an item?"


def test_it_is_not_imported_unless_used(folder: Path, installed: Path) -> None:
    (folder / "evals.yaml").write_text(MOCK % "not_empty: true")
    code = (
        "import sys; sys.argv[0] = 'ci-evals'\n"
        "from ci_evals.cli.main import main\n"
        "try: main()\n"
        "finally: print('imported:', 'acme_evals' in sys.modules)"
    )
    ended = ci_evals(folder, installed, "run", code=code)
    assert "imported: False" in ended.stdout


@pytest.mark.parametrize(
    ("group", "target", "cause"),
    [
        ("graders", "nowhere:Loud", "ModuleNotFoundError: No module named 'nowhere'"),
        ("graders", "json:dumps", "json:dumps is not a GraderOptions"),
        ("providers", "nowhere:Loud", "ModuleNotFoundError: No module named 'nowhere'"),
    ],
)
def test_a_broken_one_is_named_where_it_is_used(
    tmp_path: Path, group: str, target: str, cause: str
) -> None:
    broken(tmp_path / "packages", group, "loud", target)
    suite = tmp_path / "evals.yaml"
    if group == "graders":
        suite.write_text(MOCK % "loud: true}, {not_loud: true")
    else:
        suite.write_text("providers: [{type: loud}, {type: loud, name: b}]\ncases: [a]")
    ended = ci_evals(tmp_path, tmp_path / "packages", "run")
    assert ended.returncode == 2
    assert ended.stderr.count("loud-package 2.1") == 1, "one cause is told once"
    assert " and 1 more: " in ended.stderr
    assert cause in ended.stderr
    suite.write_text(MOCK % "not_empty: true")
    assert ci_evals(tmp_path, tmp_path / "packages", "run").returncode == 0


def test_a_broken_command_is_named(tmp_path: Path) -> None:
    broken(tmp_path / "packages", "commands", "loud", "nowhere:loud")
    ended = ci_evals(tmp_path, tmp_path / "packages", "loud")
    assert ended.returncode == 2
    assert "error: command 'loud' of loud-package 2.1 cannot be loaded" in ended.stderr
    assert ci_evals(tmp_path, tmp_path / "packages", "--help").returncode == 0


def test_a_broken_format_is_found_before_anything_is_touched(tmp_path: Path) -> None:
    broken(tmp_path / "packages", "formats", "loud", "nowhere:LOUD")
    suite = tmp_path / "evals.yaml"
    suite.write_text(MOCK % "not_empty: true")
    assert ci_evals(tmp_path, tmp_path / "packages", "run").returncode == 0
    before = (tmp_path / "ci-evals-results" / "report.json").read_bytes()
    suite.write_text(MOCK % "not_empty: true" + "report: {formats: [json, loud]}\n")
    for command in ("validate", "run"):
        ended = ci_evals(tmp_path, tmp_path / "packages", command)
        assert ended.returncode == 2
        assert "evals.yaml:3: report.formats[1]: " in ended.stderr
        assert "loud-package 2.1" in ended.stderr
    assert (tmp_path / "ci-evals-results" / "report.json").read_bytes() == before


def test_a_broken_executor_is_a_problem_among_others(tmp_path: Path) -> None:
    broken(tmp_path / "packages", "executors", "loud", "nowhere:Loud")
    (tmp_path / "evals.yaml").write_text(MOCK % "contians: a" + "settings: {executor: loud}\n")
    ended = ci_evals(tmp_path, tmp_path / "packages", "validate")
    assert ended.returncode == 2
    assert "evals.yaml:3: settings.executor: " in ended.stderr
    assert "loud-package 2.1" in ended.stderr
    assert "unknown grader 'contians'" in ended.stderr


def test_the_schema_leaves_out_what_is_broken_with_a_warning(tmp_path: Path) -> None:
    broken(tmp_path / "packages", "graders", "loud", "nowhere:Loud")
    ended = ci_evals(tmp_path, tmp_path / "packages", "schema")
    assert ended.returncode == 0
    assert "loud" not in json.loads(ended.stdout)["$defs"]["Expectation"]["properties"]
    assert "warning: left out: grader 'loud' of loud-package 2.1" in ended.stderr


def test_a_broken_host_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("LOUD", "true")
    broken(tmp_path / "packages", "hosts", "LOUD", "nowhere:Loud")
    ended = ci_evals(tmp_path, tmp_path / "packages", "schema", "--names")
    assert ended.returncode == 2
    assert "error: host 'LOUD' of LOUD-package 2.1 cannot be loaded" in ended.stderr
