"""Agent skills: skill-creator's `evals/evals.json`, lists of queries that should trigger a skill or
not, and a SKILL.md without either.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from mimetypes import MimeTypes
from pathlib import Path
from typing import Any

from ci_evals.errors import ConfigError, Problem
from ci_evals.format import one_line
from ci_evals.plugins.importers.draft import SuiteDraft, locate
from ci_evals.plugins.importers.parts import JUDGE, raw
from ci_evals.plugins.importers.source import Source, read_source
from ci_evals.plugins.importers.writing import YamlComment
from ci_evals.suite.nodes import Node

_FILE = "SKILL.md"
_WITH = "with skill"
_WITHOUT = "without skill"
_COMMAND = (
    *("claude", "-p", "--permission-mode", "acceptEdits"),
    *("--output-format", "stream-json", "--verbose"),
)
_STATEMENTS = ("expectations", "assertions")
"""The keys of statements on the result; skill-creator's own text uses both names."""
_EVAL = ("id", "prompt", "expected_output", "files", *_STATEMENTS)
_BARS = {"recall.true": 0.8, "precision.true": 0.8}
_STARTER = """\
No evals were found next to {names}. Write requests that should trigger the skill, and similar ones
that should not."""


def recognize(source: Source) -> bool:
    """Return True for evals, for a list of queries, and for a SKILL.md."""
    if source.path.name == _FILE:
        return True
    value = source.written.value
    if isinstance(value, dict):
        return "skill_name" in value and isinstance(value.get("evals"), list)
    return _is_trigger_list(value)


def convert(source: Source) -> SuiteDraft:
    """Make a draft of evals or queries; of a SKILL.md, one of all skills in the folder around."""
    draft = SuiteDraft("agent skills")
    if source.path.name == _FILE:
        cases, skills = _cases_of_skills(source, draft)
    else:
        skill = _skill_around(source.path)
        skills = [skill]
        cases = _cases(source, skill, draft)
    suite = draft.suite
    suite["providers"] = _providers(source, skills)
    if any("judge" in expectation for case in cases for expectation in case["expect"]):
        suite["judges"] = [dict(JUDGE)]
    suite["cases"] = cases
    metrics = _metrics(cases)
    if metrics:
        suite["gate"] = {"metrics": metrics}
    return draft


def _metrics(cases: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return the bars for each skill that has queries of both kinds: without one of them, precision
    or recall would be undefined.
    """
    labels: dict[str, set[str]] = {}
    for case in cases:
        for expectation in case["expect"]:
            if "classify" in expectation:
                classify = expectation["classify"]
                labels.setdefault(classify["task"], set()).add(classify["label"])
    bars: dict[str, float] = {}
    for task, used in labels.items():
        if len(used) > 1:
            bars |= {f"{task}/{metric}": bar for metric, bar in _BARS.items()}
    return bars


def _is_trigger_list(value: Any) -> bool:
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(row, dict) and {"query", "should_trigger"} <= set(row) for row in value)


def _skill_around(path: Path) -> Path:
    """Return the nearest folder around a file that has a SKILL.md, else the file's own folder."""
    folder = path.resolve().parent
    for around in (folder, *folder.parents[:2]):
        if (around / _FILE).is_file():
            return around
    return folder


def _name_of(skill: Path) -> str:
    """Return the name in the front matter of a skill, else that of its folder."""
    file = skill / _FILE
    if file.is_file():
        text = file.read_text("utf-8", errors="replace")
        match = re.match(r"\ufeff?---\r?\n(?:.*\r?\n)*?name:[ \t]*['\"]?([\w.-]+)", text)
        if match is not None:
            return match[1]
    return skill.name


def _providers(source: Source, skills: Sequence[Path]) -> list[dict[str, Any]]:
    paths = [Path(os.path.relpath(skill, source.folder)).as_posix() for skill in skills]
    with_skill: dict[str, Any] = {
        "name": _WITH,
        "type": "task",
        "command": list(_COMMAND),
        "transcript": "claude-code",
        "timeout_s": 600,
        "skills": paths,
    }
    return [with_skill, with_skill | {"name": _WITHOUT, "without_skills": True}]


def _cases_of_skills(source: Source, draft: SuiteDraft) -> tuple[list[dict[str, Any]], list[Path]]:
    """Return the cases of a skill, and of those next to it if the new suite is around them."""
    own = source.path.resolve().parent
    skills = [own]
    if own != source.folder and own.is_relative_to(source.folder):
        skills = [file.parent for file in sorted(own.parent.glob(f"*/{_FILE}"))]
    cases = []
    bare = []
    for skill in skills:
        found = []
        for file in (*sorted(skill.glob("evals/*.json")), *sorted(skill.glob("*.json"))):
            shown = Path(os.path.relpath(file, source.folder)).as_posix()
            evals = read_source(file, shown, source.folder)
            if recognize(evals):
                found += _cases(evals, skill, draft)
        if not found:
            bare.append(_name_of(skill))
            found = _starter(_name_of(skill))
        cases += found
    if bare:
        draft.suite[YamlComment(_STARTER.format(names=", ".join(bare)))] = None
    return cases, skills


def _starter(name: str) -> list[dict[str, Any]]:
    return [
        _trigger_case(f"{name} should trigger", f"A request that needs {name}", name, used=True),
        _trigger_case(f"{name} should not trigger", "What is 2 + 2?", name, used=False),
    ]


def _cases(source: Source, skill: Path, draft: SuiteDraft) -> list[dict[str, Any]]:
    """Return the cases of a file of evals or of a list of queries."""
    written = source.written
    if not isinstance(written.value, dict):
        name = _name_of(skill)
        cases = []
        for number, row in enumerate(written.items(), 1):
            used = row.value["should_trigger"] is True
            case_id = f"{name} query {number}"
            case = _trigger_case(case_id, row.value["query"], name, used=used)
            cases.append(locate(case, row.line))
        return cases
    rows = list(written["evals"].items())
    problems = []
    for row in rows:
        if not isinstance(row.value, dict) or not isinstance(row.value.get("prompt"), str):
            problems.append(row.problem("expected an eval with a `prompt`"))
            continue
        problems += _file_problems(row["files"], skill)
    if problems:
        raise ConfigError(problems)
    name = str(written.value["skill_name"])
    cases = []
    for number, row in enumerate(rows, 1):
        case_id = f"{name} {row.value.get('id', number)}"
        cases.append(_case(row, case_id, skill, source, draft))
    return cases


def _file_problems(files: Node, skill: Path) -> Iterator[Problem]:
    """Yield a problem for each file of an eval that is not in its skill."""
    if files.value is None:
        return
    if not isinstance(files.value, list):
        yield files.problem("expected a list of paths in the skill's folder")
        return
    for file in files.items():
        name = file.value
        if not isinstance(name, str) or "\0" in name:
            yield file.problem("expected a path in the skill's folder")
            continue
        path = (skill / name).resolve()
        shown = one_line(name)
        if not path.is_relative_to(skill.resolve()):
            yield file.problem(f"{shown} is outside the skill's folder {skill}: copy it there")
        elif path.is_dir():
            yield file.problem(f"{shown} is a folder: list its files")
        elif not path.is_file():
            yield file.problem(f"there is no {shown} in the skill's folder {skill}")


def _trigger_case(case_id: str, query: str, skill: str, *, used: bool) -> dict[str, Any]:
    classify = {"label": str(used).lower(), "skill": skill, "task": skill.replace(".", "-")}
    return {
        "id": case_id,
        "input": query,
        "providers": [_WITH],
        "expect": [{"classify": classify}],
    }


def _case(
    row: Node, case_id: str, skill: Path, source: Source, draft: SuiteDraft
) -> dict[Any, Any]:
    rubrics = []
    if expected := row.value.get("expected_output"):
        rubrics.append(f"The result is as described: {expected}")
    for key in _STATEMENTS:
        rubrics += [_statement(each) for each in row.value.get(key) or ()]
    if not rubrics:
        reason = "it says nothing of the result: add expectations"
        draft.record_loss(source.shown, row.line, case_id, reason, weakens=True)
    case: dict[Any, Any] = {
        "id": case_id,
        "input": _input(row, skill, source),
        "expect": [{"judge": {"rubric": raw(rubric)}} for rubric in rubrics],
    }
    case |= draft.lose_other_keys(row, _EVAL)
    located: dict[Any, Any] = locate(case, row.line)
    return located


def _statement(expectation: Any) -> str:
    """Return the text of an expectation, which some files have in a mapping."""
    if isinstance(expectation, Mapping) and "text" in expectation:
        return str(expectation["text"])
    return str(expectation)


def _input(row: Node, skill: Path, source: Source) -> Any:
    """Return the prompt of an eval, with its files as parts."""
    prompt, files = row.value["prompt"], row.value.get("files")
    if not files:
        return prompt
    parts: list[dict[str, str]] = [{"text": prompt}]
    # Types that only some machines know from their own lists are not taken for known.
    types = MimeTypes()
    for file in files:
        part = {"file": Path(os.path.relpath(skill / file, source.folder)).as_posix()}
        if types.guess_type(file)[0] is None:
            part["media_type"] = "application/octet-stream"
        parts.append(part)
    return parts
