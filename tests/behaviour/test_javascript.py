"""`javascript`: what suites of other tools have in it works, and what goes wrong in it is told."""

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from leftovers import report_in
from processes import ci_evals, finished, start, until
from suites import results_of, write_suite
from written_answers import ANSWERS, JSON, TEXT

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")

CORPUS = yaml.safe_load((Path(__file__).parents[1] / "data" / "javascript.yaml").read_text("utf-8"))


def judge(grader: Any, answer: str = TEXT, **more: Any) -> dict[str, Any]:
    values = {"city": "Paris", "words": ["Paris", "Seine"]}
    return {"id": "a", "input": answer, "vars": values, "expect": [{"javascript": grader}], **more}


async def judged(folder: Path, *cases: dict[str, Any], **settings: Any) -> list[dict[str, Any]]:
    numbered = [{**case, "id": f"{number}"} for number, case in enumerate(cases)]
    return await results_of(folder, numbered, **settings)


async def test_expressions_and_bodies_as_people_write_them(tmp_path: Path) -> None:
    assert len(CORPUS) >= 60
    cases = [
        judge({"code": each["code"], "threshold": 0.05}, ANSWERS[each["answer"]]) for each in CORPUS
    ]
    for each, result in zip(CORPUS, await judged(tmp_path, *cases), strict=True):
        score = each["score"]
        if score > 1:
            assert "must return a score from 0 to 1" in result["grades"][0]["reason"]
            continue
        assert result["status"] != "errored", (each, result["error"])
        (grade,) = result["grades"]
        assert (grade["score"], grade["passed"]) == (pytest.approx(score, abs=0.001), score > 0), (
            each,
            grade,
        )


LAST_EXPRESSIONS = {
    "const n = output.length; n > 2": True,
    "const n = output.length; n > 20;": False,
    "const data = JSON.parse(output);\ndata.a !== undefined &&\n  data.a > 0;": True,
    "const data = JSON.parse(output);\ndata.b !== undefined\n  && data.b > 0\n": False,
    "const check = (text) => { return text.length > 2; };\ncheck(output)": True,
    "const parts = output\n  .split(';');\nparts.length === 1": True,
    "let found = false;\nfor (const c of output) { found = found || c === 'a'; }\nfound": True,
    "const s = 'a;b'; s === 'a;b'": True,
}


async def test_the_last_expression_of_lines_counts(tmp_path: Path) -> None:
    found = await judged(tmp_path, *(judge(code, '{"a": 1}') for code in LAST_EXPRESSIONS))
    passed = [result["status"] == "passed" for result in found]
    assert dict(zip(LAST_EXPRESSIONS, passed, strict=True)) == LAST_EXPRESSIONS, found


def node_version() -> tuple[int, ...]:
    version = subprocess.check_output(["node", "--version"], text=True)
    return tuple(map(int, version.strip().removeprefix("v").split(".")[:2]))


async def test_typescript_needs_a_node_that_reads_it(tmp_path: Path) -> None:
    (tmp_path / "check.ts").write_text(
        "export default (output: string): boolean => output.length < 5;\n", "utf-8"
    )
    case = judge({"file": "check.ts"}, "hi")
    write_suite(tmp_path, [case])
    ended = await ci_evals(tmp_path, "run")
    if node_version() >= (22, 10):
        assert ended.code == 0, ended.err
    else:
        assert ended.code == 2
        assert "TypeScript needs Node.js 22.10 or newer, and this is v" in ended.err


@pytest.mark.skipif(node_version() < (22, 15), reason="this Node.js has no hooks for imports")
@pytest.mark.parametrize("kind", ["ts", "mts"])
async def test_typescript_finds_its_own_files(tmp_path: Path, kind: str) -> None:
    """Without an extension or with that of their compiled form, as its compilers do."""
    for name, value in {"least.ts": 1, "most.ts": 5, "signs/index.ts": 3, "odd.mts": 2}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"export const limit: number = {value};\n", "utf-8")
    (tmp_path / f"check.{kind}").write_text(
        "import { limit as least } from './least';\n"
        "import { limit as most } from './most.js';\n"
        "import { limit as other } from './signs';\n"
        "import { limit as odd } from './odd.mjs';\n"
        "export default (output: string) => output.length > least && other + odd <= most;\n",
        "utf-8",
    )
    (found,) = await judged(tmp_path, judge({"file": f"check.{kind}"}, "hi"))
    assert found["status"] == "passed", found


async def test_files_are_modules_of_either_kind(tmp_path: Path) -> None:
    (tmp_path / "module.mjs").write_text(
        "import { sep } from 'node:path';\n"
        "export default async (output, { config }) =>\n"
        "  ({ pass: output.length > config.least, score: 1, reason: sep });\n"
        "export const short = (output) => output.length < 5;\n",
        "utf-8",
    )
    (tmp_path / "common.cjs").write_text(
        "module.exports = (output, context) => output.includes(context.vars.city);\n"
        "module.exports.strict = () => false;\n",
        "utf-8",
    )
    (tmp_path / "plain.js").write_text(
        "module.exports = { check: (o) => require('./common.cjs')(o, { vars: { city: 'S' } }) };",
        "utf-8",
    )
    found = await judged(
        tmp_path,
        judge({"file": "module.mjs", "config": {"least": 3}}),
        judge({"file": "module.mjs", "config": {"least": 300}}),
        judge({"file": "module.mjs:short"}),
        judge({"file": "common.cjs"}),
        judge({"file": "./common.cjs:strict"}),
        judge({"file": "plain.js:check"}),
    )
    assert [result["status"] for result in found] == [
        "passed",
        "failed",
        "failed",
        "passed",
        "failed",
        "passed",
    ]
    assert found[0]["grades"][0]["reason"] == "/"


async def test_a_transform_gives_the_value_itself(tmp_path: Path) -> None:
    found = await judged(
        tmp_path, judge({"code": "output.flight.to === 'Paris'", "transform": "$"}, JSON)
    )
    assert found[0]["status"] == "passed"


async def test_an_exception_in_a_transform_is_a_failed_check_with_its_line_and_stack(
    tmp_path: Path,
) -> None:
    (tmp_path / "change.mjs").write_text(
        "export const city = (output) =>\n  JSON.parse(output).stops[0].city;\n"
        "export const write = () => process.binding('fs');\n",
        "utf-8",
    )
    cases = [
        {"input": JSON, "expect": [{"not_contains": {"value": "a", "transform": transform}}]}
        for transform in ("change.mjs:city", "change.mjs:write")
    ]
    thrown, denied = await judged(tmp_path, *cases)
    [grade] = thrown["grades"]
    assert (thrown["status"], grade["passed"]) == ("failed", False)
    text = "threw TypeError: Cannot read properties of undefined (reading '0') (change.mjs:2)"
    assert grade["reason"] == f"transform change.mjs:city: {text}"
    assert "at city" in grade["detail"]
    assert denied["status"] == "errored"
    assert "could not judge: it threw Error" in denied["error"]["message"]


async def test_an_exception_is_a_failed_check_with_its_line_and_stack(tmp_path: Path) -> None:
    (tmp_path / "crash.mjs").write_text(
        "function inner(o) {\n  return o.a.b;\n}\nexport default (o) => inner(o);\n", "utf-8"
    )
    found = await judged(
        tmp_path,
        judge({"file": "crash.mjs"}),
        judge("context.nothing.here"),
        judge("const o = context.nothing;\nreturn o.here;"),
        judge("JSON.parse(output).city"),
        judge("if (output === 1) { return true; }"),
        judge("process.exit(3)"),
    )
    assert {each["status"] for each in found} == {"failed"}
    by_file, expression, lines, parsed, returned, exited = [each["grades"][0] for each in found]
    assert by_file["reason"] == (
        "threw TypeError: Cannot read properties of undefined (reading 'b') (crash.mjs:2)"
    )
    assert "crash.mjs:2" in by_file["detail"]
    assert "at inner" in by_file["detail"]
    text = "threw TypeError: Cannot read properties of undefined (reading 'here')"
    assert expression["reason"] == f"{text} (line 1)"
    assert lines["reason"] == f"{text} (line 2)"
    assert parsed["reason"].startswith("threw SyntaxError: ")
    assert "returned nothing: `return` a boolean, a score from 0 to 1, or" in returned["reason"]
    assert "process.exit(3) would end" in exited["reason"]


async def test_what_is_thrown_or_returned_is_named_as_it_is(tmp_path: Path) -> None:
    reasons = {
        "throw 'boo'": "threw 'boo'",
        "throw {a: 1}": "threw { a: 1 }",
        "throw null": "threw null",
        "parseFloat('many')": "parseFloat('many') must return a score from 0 to 1",
        "return () => true": "return () => true returned nothing: `return` a boolean, a score",
        "require('node:vm').runInNewContext('a b')": "threw SyntaxError: Unexpected identifier",
        "require('node:vm').runInNewContext('a')": "threw ReferenceError: a is not defined",
    }
    results = await judged(tmp_path, *map(judge, reasons))
    for result, reason in zip(results, reasons.values(), strict=True):
        assert result["status"] == "failed"
        assert result["grades"][0]["reason"].startswith(reason)


async def test_an_answer_that_requires_a_missing_module_has_failed(tmp_path: Path) -> None:
    codes = [
        "eval(output)",
        "new Function('require', output)(require)",
        "require('node:vm').runInNewContext(output, {require})",
    ]
    for result in await judged(tmp_path, *(judge(code, "require('nope')") for code in codes)):
        assert result["status"] == "failed"
        assert result["grades"][0]["reason"].startswith("threw Error: Cannot find module 'nope'")


async def test_an_exception_fails_even_under_not(tmp_path: Path) -> None:
    codes = ["JSON.parse(output).city", "context.nothing.here", "throw 'text'"]
    cases = [{"id": "", "input": TEXT, "expect": [{"not_javascript": code}]} for code in codes]
    for result in await judged(tmp_path, *cases):
        assert (result["status"], result["grades"][0]["passed"]) == ("failed", False)


async def test_what_says_nothing_about_the_answer_is_no_verdict(tmp_path: Path) -> None:
    (tmp_path / "broken.mjs").write_text("export default (output => ;\n", "utf-8")
    (tmp_path / "broken.cjs").write_text("module.exports = (output => ;\n", "utf-8")
    found = await judged(
        tmp_path,
        judge("require('nope')"),
        judge("await import(`${process.cwd()}/broken.mjs`)"),
        judge("require('./broken.cjs')"),
        judge("throw Object.assign(new Error('down'), { cause: { code: 'ECONNREFUSED' } })"),
        judge(
            "throw new Error('down', { cause: Object.assign(new Error(), { code: 'ENOTFOUND' }) })"
        ),
    )
    assert [each["status"] for each in found] == [
        "errored",
        "errored",
        "errored",
        "failed",
        "errored",
    ]
    message = found[0]["error"]["message"]
    assert "could not judge: it threw Error: Cannot find module 'nope'" in message


async def test_one_answer_on_which_the_check_throws_is_not_green(tmp_path: Path) -> None:
    check = "JSON.parse(output).items.length > 0"
    cases = [{**judge(check, '{"items": [1]}'), "id": f"case {number}"} for number in range(24)]
    write_suite(tmp_path, [*cases, {**judge(check, '{"error": "x"}'), "id": "odd"}])
    ended = await ci_evals(tmp_path, "run", "--out", "out")
    assert ended.code == 1
    assert report_in(tmp_path / "out")["totals"]["failed"] == 1


TEXTS = {
    "output === 'b' ? true : 'expected b'": "expected b",
    "if (output !== 'b') return 'expected b';\nreturn true;": "expected b",
    "'true'": "'true' returned a text: return the boolean without quotes",
    "return String(output === 'b')": "return String(output === 'b') returned a text: return",
}


async def test_a_text_is_the_reason_of_a_failure(tmp_path: Path) -> None:
    found = await judged(tmp_path, *map(judge, TEXTS))
    for result, reason in zip(found, TEXTS.values(), strict=True):
        assert result["status"] == "failed"
        assert result["grades"][0]["reason"].startswith(reason)


NO_JUDGEMENTS = {
    "({pass: true, score: NaN})": "{'pass': True, 'score': math.nan}",
    "({pass: true, score: Infinity})": "{'pass': True, 'score': math.inf}",
    "({pass: true, score: 1.5})": "{'pass': True, 'score': 1.5}",
    "({pass: true, score: -1})": "{'pass': True, 'score': -1}",
    "({pass: true, score: '1'})": "{'pass': True, 'score': '1'}",
    "({pass: true, score: () => 1})": "{'pass': True, 'score': lambda: 1}",
    "({pass: 'yes', score: 1})": "{'pass': 'yes', 'score': 1}",
    "({pass: 1})": "{'pass': 1}",
    "({pass: () => false, score: 1})": "{'pass': lambda: False, 'score': 1}",
    "({passed: Symbol('no'), score: 1})": "{'passed': object(), 'score': 1}",
    "NaN": "math.nan",
    "Infinity": "math.inf",
    "({reason: 'fine'})": "{'reason': 'fine'}",
}


async def test_what_is_no_judgement_fails_as_in_python(tmp_path: Path) -> None:
    cases = [judge(code) for code in NO_JUDGEMENTS]
    cases += [{"input": TEXT, "expect": [{"python": code}]} for code in NO_JUDGEMENTS.values()]
    for result in await judged(tmp_path, *cases):
        assert result["status"] == "failed", result
        assert re.search(" must return | returned a mapping ", result["grades"][0]["reason"])


STRAY = """
const { writeSync } = require("node:fs");
const later = () => new Promise((done) => setTimeout(done, 50));
exports.line = () => writeSync(1, '{"id": 1}\\n') > 0;
exports.half = () => writeSync(1, "50 %...") > 0;
exports.answers = async () => {
  for (let id = 0; id < 50; id += 1) writeSync(1, JSON.stringify({ id, value: true }) + "\\n");
  await later();
  return false;
};
"""


async def test_code_may_write_to_stdout(tmp_path: Path) -> None:
    (tmp_path / "stray.cjs").write_text(STRAY, "utf-8")
    names = ("line", "half", "answers", "line")
    found = await judged(tmp_path, *(judge({"file": f"stray.cjs:{name}"}) for name in names))
    assert [each["status"] for each in found] == ["passed", "passed", "failed", "passed"]


async def test_packages_and_files_are_found_from_the_folder_of_the_suite(tmp_path: Path) -> None:
    package = tmp_path / "node_modules" / "pkg"
    package.mkdir(parents=True)
    (package / "index.js").write_text("exports.long = (text) => text.length > 2;\n", "utf-8")
    (tmp_path / "local.mjs").write_text("export const long = (text) => text.length > 2;\n", "utf-8")
    (tmp_path / "package.json").write_text('{"type": "module"}', "utf-8")
    codes = [
        "require('pkg').long(output)",
        "(await import('pkg')).long(output)",
        "const { long } = await import('./local.mjs');\nreturn long(output);",
        "(await import('node:path')).sep.length === 1",
    ]
    for result in await judged(tmp_path, *map(judge, codes)):
        assert result["status"] == "passed", result


async def test_a_loop_without_end_is_ended_and_costs_nothing_but_its_own_run(
    tmp_path: Path,
) -> None:
    slow = judge({"code": "while (true) {} return 1", "timeout_s": 0.3})
    found = await judged(
        tmp_path, judge("true"), slow, *[judge("await null;\nreturn output.length > 3")] * 8
    )
    assert [result["status"] for result in found] == ["passed", "errored", *["passed"] * 8]
    assert "no verdict within 0.3 s" in found[1]["error"]["message"]
    assert processes_in(tmp_path, "javascript_worker") == []


async def test_patterns_that_backtrack_cost_no_other_run_its_answer(tmp_path: Path) -> None:
    code: dict[str, Any] = {"code": "/^(a+)+$/.test(output)", "timeout_s": 1}
    cases = [judge(code, "aaa")] * 20
    cases[::10] = [judge(code, f"{'a' * 40}!")] * 2
    found = await judged(tmp_path, *cases, max_concurrency=8)
    assert [result["status"] for result in found] == (["errored", *["passed"] * 9] * 2)
    assert "no verdict within 1 s" in found[0]["error"]["message"]


async def test_code_in_a_grader_has_a_sandbox(tmp_path: Path) -> None:
    package = tmp_path / "node_modules" / "cities"
    package.mkdir(parents=True)
    (package / "index.js").write_text("module.exports = ['Paris'];\n", "utf-8")
    (tmp_path / "secret").write_text("of the repository", "utf-8")
    folder = tmp_path / "evals"
    folder.mkdir()
    (folder / "names.json").write_text('["Paris"]', "utf-8")
    allowed = [
        "require('./names.json').includes('Paris')",
        "require('cities').includes('Paris')",
        "process.env.HOME === undefined",
    ]
    refused = [
        "require('fs').readFileSync('../secret', 'utf-8').length > 0",
        "require('fs').writeFileSync('made', '') === undefined",
        "require('child_process').execSync('echo').length > 0",
    ]
    found = await judged(folder, *map(judge, allowed), *map(judge, refused))
    assert [each["status"] for each in found] == [*["passed"] * 3, *["errored"] * 3]
    hint = "the sandbox forbids it; `sandbox: false` gives the code all rights of the job"
    assert {hint in each["error"]["message"] for each in found[3:]} == {True}
    assert not (folder / "made").exists()
    free: list[dict[str, Any]] = [
        {"code": code, "sandbox": False} for code in (*allowed[:2], *refused)
    ]
    found = await judged(folder, *map(judge, free))
    assert {each["status"] for each in found} == {"passed"}
    assert (folder / "made").exists()


async def test_wrong_code_is_told_before_any_call(tmp_path: Path) -> None:
    (tmp_path / "broken.mjs").write_text("export default (output => ;\n", "utf-8")
    (tmp_path / "empty.mjs").write_text("export const other = 1;\n", "utf-8")
    expect = [
        {"any_of": [{"javascript": {"file": "broken.mjs"}}]},
        {"javascript": {"file": "empty.mjs"}},
    ]
    write_suite(tmp_path, [{"id": "a", "input": "x", "expect": expect}])
    ended = await ci_evals(tmp_path, "run", "--out", "out")
    assert ended.code == 2
    assert "expect[0].any_of[0].javascript: broken.mjs does not load: SyntaxError: " in ended.err
    assert (
        "empty.mjs does not export a function, by `module.exports` or `export default`" in ended.err
    )
    assert not (tmp_path / "out/results.jsonl").exists()


WRONG: list[tuple[Any, str]] = [
    ("file://check.js", "to run a file, write `javascript: {file: check.js}`"),
    ({"file": "nope.js"}, "there is no file "),
    (
        {"file": "check.py"},
        (
            "expected a file of JavaScript (.js, .mjs or .cjs)"
            " or TypeScript (.ts, .mts or .cts), got 'check.py'"
        ),
    ),
    (
        {"code": "true", "file": "check.js"},
        "give either code, as in `javascript: output.length < 200`, or a `file`",
    ),
    ({"fiel": "check.js"}, "unknown key 'fiel', did you mean 'file'?"),
    ("output.length <", "expected JavaScript, got 'output.length <': SyntaxError: "),
    (
        "const n = 1;\nreturn n +* 2;",
        "expected JavaScript, got 'const n = 1;\\nreturn n +* 2;': SyntaxError: ",
    ),
    (
        "const n = 1;",
        "expected JavaScript, got 'const n = 1;': SyntaxError: nothing is returned",
    ),
]


async def test_what_validate_says(tmp_path: Path) -> None:
    cases = [{**judge(grader), "id": f"{number}"} for number, (grader, _) in enumerate(WRONG)]
    write_suite(tmp_path, cases)
    ended = await ci_evals(tmp_path, "validate")
    assert ended.code == 2
    problems = ended.err.splitlines()[:-2]
    for number, (problem, (_, text)) in enumerate(zip(problems, WRONG, strict=True)):
        assert f"cases[{number}].expect[0].javascript: {text}" in problem


async def test_a_machine_without_node_is_told_once_and_before_any_call(tmp_path: Path) -> None:
    write_suite(tmp_path, [judge("true"), {**judge("false"), "id": "b"}])
    ended = await ci_evals(
        tmp_path, "run", "--out", "out", environ={"PATH": str(Path(sys.executable).parent)}
    )
    assert ended.code == 2
    assert ended.err.count("JavaScript needs Node.js: there is no `node` on the PATH") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize(
    ("which", "code"),
    [(signal.SIGTERM, 143), (signal.SIGKILL, -9)] if sys.platform != "win32" else [],
)
async def test_node_ends_with_whoever_started_it_even_in_a_loop(
    tmp_path: Path, which: signal.Signals, code: int
) -> None:
    writing = "require('fs').writeFileSync('looping', '');\nwhile (true) {} return 1"
    write_suite(tmp_path, [judge({"code": writing, "sandbox": False})])
    process = await start(tmp_path, "run", "--out", "out")
    await until((tmp_path / "looping").exists)
    (node,) = processes_in(tmp_path, "javascript_worker")
    process.send_signal(which)
    assert (await finished(process)).code == code
    await until(lambda: not node.is_running())


def processes_in(folder: Path, word: str) -> list[psutil.Process]:
    """The processes in a folder whose command line has a word in it."""
    found = psutil.process_iter(["cmdline", "cwd"])
    return [
        each
        for each in found
        if each.info["cwd"] == str(folder) and word in " ".join(each.info["cmdline"] or ())
    ]


async def test_validate_loads_files_in_the_sandbox(tmp_path: Path) -> None:
    """A file that reads above the suite, and a transform that is not JavaScript, end no run."""
    folder = tmp_path / "suite"
    (tmp_path / "least.mjs").write_text("export const least = 1;\n")
    transform = {"value": "hi", "transform": "change.mjs:shout"}
    expect = [{"javascript": {"file": "check.mjs"}}, {"equals": transform}]
    write_suite(folder, [{"id": "a", "input": "hi", "expect": expect}])
    (folder / "check.mjs").write_text(
        "import { least } from '../least.mjs';\nexport default (output) => output.length > least;\n"
    )
    (folder / "change.mjs").write_text("export const shout = (text) => { return return text; };\n")
    ended = await ci_evals(folder, "validate")
    assert ended.code == 2
    assert "expect[0].javascript: check.mjs does not load: " in ended.err
    assert "the sandbox denies it; a `javascript` grader can set `sandbox: false`" in ended.err
    assert "equals.transform: change.mjs does not load: SyntaxError: " in ended.err


async def test_a_file_that_does_not_load_is_one_problem(tmp_path: Path) -> None:
    functions = (
        "export const one = (text) => text;\nexport const two = (text) => { return return };\n"
    )
    expect = [
        {"javascript": {"file": "broken.mjs:one"}},
        {"equals": {"value": "hi", "transform": "broken.mjs:one"}},
        {"equals": {"value": "hi", "transform": "broken.mjs:two"}},
    ]
    cases = [{"id": name, "input": name, "expect": expect} for name in ("a", "b")]
    write_suite(tmp_path, cases)
    (tmp_path / "broken.mjs").write_text(functions)
    ended = await ci_evals(tmp_path, "validate")
    assert ended.code == 2
    assert ended.err.count("broken.mjs does not load: SyntaxError: ") == 1
    assert "cases[0].expect[0].javascript and 5 more: " in ended.err
