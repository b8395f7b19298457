"""The docs' blocks of commands run one after the other, in a project like the one they describe."""

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from processes import ci_evals, python
from repositories import Repository

from ci_evals.registry import COMMANDS, EXECUTORS, IMPORTERS, missing_clause

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ELSEWHERE = {"start.md", "comment.md", "label.md"}
"""Pages whose commands need a job of a pull request, which tests/behaviour/actions has, or labels,
which test_page_marks.py has.
"""
ENDLESS = ("view --serve", "run --watch")
"""Go on until they are interrupted: test_view.py and test_watch.py have them."""

BLOCKS = [
    (page.name, block)
    for page in sorted((ROOT / "docs").glob("**/*.md"))
    if page.name not in ELSEWHERE
    for block in FENCE.findall(page.read_text(encoding="utf-8"))
    if "ci-evals " in block and not any(command in block for command in ENDLESS)
]
PLUGINS = {
    **COMMANDS.missing,
    **EXECUTORS.missing,
    **{entry.help: entry for entry in IMPORTERS.missing.values()},
}
"""What a core alone lacks: commands, executors, and files of other tools."""
SUITE: dict[str, Any] = {
    "providers": [
        {"name": "gpt", "type": "mock", "answers": {"refund": "store credit"}},
        {"name": "claude", "type": "mock"},
    ],
    "cases": [
        {"id": name, "input": name, "tags": ["smoke"], "expect": [{"contains": name}]}
        for name in ("refund", "refund-late", "lost-package", "cancel-order")
    ],
}
PROMPTFOO = {
    "prompts": ["{{question}}"],
    "providers": ["echo"],
    "tests": [{"vars": {"question": "Hello?"}, "assert": [{"type": "contains", "value": "Hello"}]}],
}
SUITES = (
    "evals.yaml",
    "evals/support.yaml",
    "evals/refunds.yaml",
    "services/support/evals.yaml",
    "services/search/evals.yaml",
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with suites, results of earlier runs, another tool's config, and traces."""
    folder = tmp_path_factory.mktemp("project")
    for name in SUITES:
        write(
            folder / name, SUITE | {"name": Path(name).with_suffix("").as_posix().replace("/", " ")}
        )
    write(folder / "promptfooconfig.yaml", PROMPTFOO)
    Repository.new(folder).commit()  # main, which lacks the traces
    example = ROOT / "examples/exported_traces/traces.jsonl"
    trace, with_question = example.read_text(encoding="utf-8").splitlines()
    traces = [
        trace.replace('"book"', json.dumps(case["id"])).replace(
            "d269b633813fc60c", f"{number:016x}"
        )
        for number, case in enumerate(SUITE["cases"], 1)
    ]
    asked = with_question.replace("How is the weather in Rome?", SUITE["cases"][0]["input"])
    text = "\n".join([*traces, asked])
    (folder / "traces.jsonl").write_text(text, encoding="utf-8")
    for name, providers in (("main", "gpt"), ("ci-evals-results", "gpt,claude")):
        made = python(folder, "-m", "ci_evals", "run", "--out", name, "--providers", providers)
        assert made.code == 1, made.err
    for name in ("reports-of-main/1", "earlier-results", "downloads"):
        shutil.copytree(folder / "main", folder / name)
    return folder


def write(path: Path, data: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")


@pytest.mark.parametrize(
    ("page", "block"), BLOCKS, ids=[f"{page}: {block.splitlines()[0]}" for page, block in BLOCKS]
)
async def test_the_commands_of_the_docs_run(
    page: str, block: str, project: Path, tmp_path: Path
) -> None:
    for name, entry in PLUGINS.items():
        if name in shlex.split(block, comments=True):
            pytest.skip(f"{name!r} {missing_clause(entry.target)}")
    shutil.copytree(project, tmp_path, dirs_exist_ok=True)
    for line in block.splitlines():
        words = shlex.split(line, comments=True)
        assert words[0] == "ci-evals", line
        if words[1] == "import":
            (tmp_path / words[-1]).unlink()  # which an import does not overwrite
        arguments = [name for word in words[1:] for name in expanded(word, tmp_path)]
        done = await ci_evals(tmp_path, *arguments, environ={"BROWSER": "true"})
        assert done.code in (0, 1), f"{line}\n{done.out}{done.err}"
        assert not re.search(r"^(warning|error)\b", done.err, re.MULTILINE), done.err


def expanded(word: str, folder: Path) -> list[str]:
    """What a shell makes of a word with an asterisk, where files have such names."""
    found = (
        [path.relative_to(folder).as_posix() for path in folder.glob(word)] if "*" in word else []
    )
    return sorted(found) or [word]
