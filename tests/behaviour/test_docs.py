"""The docs match the code: all keys, options and names are there, no others, and examples load."""

import ast
import dataclasses
import itertools
import json
import os
import re
import shlex
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import click
import pytest
import yaml
from click.testing import CliRunner
from processes import python
from projects import schema
from without_plugins import skip_without_plugins

from ci_evals import errors
from ci_evals.cli.main import group
from ci_evals.faults import FAULTS, ErrorKind
from ci_evals.graders import GRADERS
from ci_evals.graders.base import GraderOptions
from ci_evals.graders.rubrics import MATERIAL, PROMPT, RUBRICS, VARIABLES
from ci_evals.providers import PROVIDERS
from ci_evals.providers.base import ProviderOptions
from ci_evals.providers.model_api import ModelOptions
from ci_evals.registry import COMMANDS, EXECUTORS, TRANSCRIPTS, Registry, is_installed
from ci_evals.release import ACTION
from ci_evals.suite.load import load_suite
from ci_evals.suite.yaml import parse

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("examples/**/*.md"),
        *ROOT.glob("benchmarks/*.md"),
    ]
)
CODE = re.compile(r"`([^`]+)`")
IMAGE = re.compile(r'!\[[^\]]*\]\(([^)\s]+)\)|\bsrc(?:set)?="([^"]+)"')
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
MOST_OF_A_LINE = 125
MOST_LINES_OF_THE_CHANGELOG = 100
MADE_WITH_THE_SITE = "demo/report.html"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
VARIABLE = re.compile(r"CI_EVALS_[A-Z_]*[A-Z]")

SECTIONS = {
    "Top level": "",
    "Cases": "Case",
    "Overrides": "CaseOverrides",
    "Turns": "UserTurn",
    "Simulated users": "SimulatedUser",
    "Messages": "Message",
    "Parts": "Part",
    "Case files": "CaseFiles",
    "Case functions": "CaseFunction",
    "Task folders": "TaskFolders",
    "Prompts": "PromptTemplate",
    "Fixtures": "Fixture",
    "Gate": "Gate",
    "Tag rules": "TagRule",
    "Budget": "Budget",
    "Per run": "RunBudget",
    "Report": "ReportOptions",
    "Main alongside": "Against",
    "Reuse": "Reuse",
    "Settings": "Settings",
    "Quarantine": "Quarantine",
}
"""The sections that have the keys of each definition of the schema."""
if "ray" in EXECUTORS:
    SECTIONS["Executor"] = "executor.Ray"


class Block(NamedTuple):
    page: str
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}: {self.text.strip().splitlines()[0][:40]}"


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def without_blocks(text: str) -> str:
    return FENCE.sub("", text)


def section(page: str, title: str) -> str:
    """The text below a heading, up to the next heading of any level."""
    found = re.search(
        rf"^#+ {re.escape(title)}\n(.*?)(?=^#|\Z)",
        without_blocks(read(page)),
        re.MULTILINE | re.DOTALL,
    )
    assert found, f"{page} has no section {title!r}"
    return found[1]


def configuration(title: str) -> str:
    """The section on a part of the suite, on the one page that has it."""
    heading = re.compile(rf"^#+ {re.escape(title)}$", re.MULTILINE)
    pages = [f"docs/{name}.md" for name in ("configuration", "cases", "gate")]
    (page,) = (page for page in pages if heading.search(without_blocks(read(page))))
    return section(page, title)


def rows(text: str) -> list[list[str]]:
    """The cells of every table row but the headings."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    rules = [
        index for index, row in enumerate(cells) if all(set(cell) <= set("-:") for cell in row)
    ]
    return [row for index, row in enumerate(cells) if index not in rules and index + 1 not in rules]


def keys(text: str) -> list[str]:
    """What the first cells of the rows name."""
    return [name for row in rows(text) for name in CODE.findall(row[0])]


def blocks(*languages: str) -> list[Block]:
    return [
        Block(page.relative_to(ROOT).as_posix(), language, text)
        for page in PAGES
        for language, text in FENCE.findall(page.read_text(encoding="utf-8"))
        if language in languages
    ]


def fields(cls: type[Any], *, beyond: type[Any]) -> list[str]:
    known = names(beyond)
    return [name for name in names(cls) if name not in known]


def names(cls: type[Any]) -> list[str]:
    return (
        [each.name for each in dataclasses.fields(cls)]
        if dataclasses.is_dataclass(cls)
        else cls.__struct_fields__
    )


def options(command: click.Command) -> list[click.Option]:
    return [each for each in command.params if isinstance(each, click.Option)]


# Keys of the suite.


@pytest.mark.parametrize(("title", "definition"), SECTIONS.items())
def test_every_key_of_the_schema_is_documented_and_no_other(title: str, definition: str) -> None:
    made = schema()["$defs"][definition] if definition else schema()
    properties = made["properties"]
    assert sorted(keys(configuration(title))) == sorted(properties)


def test_every_definition_of_the_schema_has_a_section() -> None:
    elsewhere = {"Provider", "Prompt", "Expectation", "ToolCall", "Executor", "executor.Local"}
    own = {name for name in schema()["$defs"] if not name.startswith(("provider.", "grader."))}
    assert own - elsewhere == set(SECTIONS.values()) - {""}


def test_the_parts_of_a_tool_call_are_documented() -> None:
    (row,) = (row for row in rows(configuration("Messages")) if "`tool_calls`" in row[0])
    assert set(schema()["$defs"]["ToolCall"]["properties"]) <= set(CODE.findall(row[-1]))


# Providers and graders.


def test_the_settings_of_every_provider_are_documented_and_no_other() -> None:
    assert sorted(keys(section("docs/providers.md", "Every provider"))) == sorted(
        names(ProviderOptions)
    )
    price = schema()["$defs"]["provider.Price"]["properties"]
    assert sorted(keys(section("docs/providers.md", "Price"))) == sorted(price)
    service = schema()["$defs"]["provider.Serve"]["properties"]
    assert sorted(keys(section("docs/providers.md", "Services"))) == sorted(service)
    stream = schema()["$defs"]["provider.Stream"]["properties"]
    assert sorted(keys(section("docs/providers.md", "Streamed answers"))) == sorted(stream)
    token = schema()["$defs"]["provider.TokenCommand"]["properties"]
    assert sorted(keys(section("docs/providers.md", "Tokens"))) == sorted(token)


@pytest.mark.parametrize("kind", PROVIDERS)
def test_the_fields_of_each_provider_type_are_documented_and_no_other(kind: str) -> None:
    cls = PROVIDERS[kind]
    if issubclass(cls, ModelOptions):
        found = keys(section("docs/providers.md", "Model APIs"))
        assert kind in found
        documented = [name for name in found if name not in {*PROVIDERS, *PROVIDERS.missing}]
        if fields(cls, beyond=ModelOptions):
            documented += keys(section("docs/providers.md", cls.__name__))
    else:
        documented = keys(section("docs/providers.md", kind))
    assert sorted(documented) == sorted(fields(cls, beyond=ProviderOptions))


@pytest.mark.parametrize(
    "kind", [kind for kind, cls in PROVIDERS.items() if issubclass(cls, ModelOptions)]
)
def test_the_address_and_key_variable_of_each_model_api_are_documented(kind: str) -> None:
    cls = PROVIDERS[kind]
    assert issubclass(cls, ModelOptions)
    (row,) = (
        row for row in rows(section("docs/providers.md", "Model APIs")) if row[0] == f"`{kind}`"
    )
    assert f"`{cls(model='m').address}`" in row[1]
    assert f"`{cls.default_key_variable}`" in row[2] or cls.default_key_variable is None


def test_every_grader_is_documented_with_its_options_the_short_one_first() -> None:
    documented = {
        row[0].strip("`"): CODE.findall(row[2])
        for row in rows(section("docs/graders.md", "Graders"))
    }
    assert list(documented) == list(GRADERS)
    for name, cls in GRADERS.items():
        assert documented[name][0] == cls.short, name
        assert sorted(documented[name]) == sorted(fields(cls, beyond=GraderOptions)), name


def test_the_prompt_of_a_judge_is_documented_with_its_variables_and_every_ready_rubric() -> None:
    shown_prompts = [block.text for block in blocks("text") if block.page == "docs/graders.md"]
    assert PROMPT.split() in [text.split() for text in shown_prompts]
    assert keys(section("docs/graders.md", "The prompt of a judge")) == [*VARIABLES, *MATERIAL]
    documented = [name for name in keys(section("docs/graders.md", "Judges")) if name in RUBRICS]
    assert sorted(documented) == sorted(RUBRICS)


def test_what_every_grader_may_set_is_documented() -> None:
    assert all(
        f"`{name}`" in section("docs/graders.md", "Graders") for name in names(GraderOptions)
    )


def test_every_field_of_a_report_is_documented_and_no_other() -> None:
    made = json.loads(read("docs/report.schema.json"))
    documented = keys(section("docs/report-format.md", "report.json"))
    assert sorted(documented) == sorted(made["properties"])


# The command line.


def variable(command: click.Command, option: click.Option) -> str | None:
    """The environment variable that sets an option."""
    if (
        option.envvar
        or not option.allow_from_autoenv
        or "auto_envvar_prefix" not in command.context_settings
    ):
        return str(option.envvar) if option.envvar else None
    return f"CI_EVALS_{option.name}".upper()


class DocumentedOption(NamedTuple):
    names: list[str]
    variable: str
    commands: set[str]


def documented_options() -> Iterator[DocumentedOption]:
    """The table of all options, of commands whose plug-in is missing, too."""
    for names, variable, commands, *_ in rows(section("docs/running.md", "Every option")):
        yield DocumentedOption(
            CODE.findall(names), variable.strip("`"), {each.strip() for each in commands.split(",")}
        )


def test_every_option_is_documented_with_its_variable_and_its_commands_and_no_other() -> None:
    expected: dict[str, tuple[list[str], str, list[str]]] = {}
    for name, command in sorted(COMMANDS.items()):
        for option in options(command):
            long = max(option.opts, key=len)
            _, known, names_of_commands = expected.get(long, ([], "–", []))
            if known == "–":
                known = variable(command, option) or "–"
            expected[long] = (sorted(option.opts), known, [*names_of_commands, name])
    documented = {
        max(option.names, key=len): (sorted(option.names), option.variable, sorted(installed))
        for option in documented_options()
        if (installed := option.commands - COMMANDS.missing.keys())
    }
    assert documented == expected


def test_no_page_names_a_variable_that_does_not_exist() -> None:
    every = (
        variable(command, option) for command in COMMANDS.values() for option in options(command)
    )
    known = set(filter(None, every))
    for option in documented_options():
        if option.commands & COMMANDS.missing.keys():
            known |= {option.variable} - {"–"}
    named = {
        name: page.name
        for page in PAGES
        for name in VARIABLE.findall(page.read_text(encoding="utf-8"))
    }
    assert set(named) == known


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_each_command_mentions_and_explains_each_option(name: str) -> None:
    show_help = "--help"
    if any(option.name == "help_all" for option in options(COMMANDS[name])):
        show_help = "--help-all"
    shown = CliRunner().invoke(group, [name, show_help], catch_exceptions=False).output
    assert "options." not in shown
    for option in options(COMMANDS[name]):
        assert option.help, option.name
        assert all(each in shown for each in option.opts), option.name


def test_every_command_and_every_exit_code_is_documented_and_no_other() -> None:
    documented = keys(section("docs/running.md", "Commands"))
    assert sorted(documented) == sorted(
        f"ci-evals {name}" for name in (*COMMANDS, *COMMANDS.missing)
    )
    codes = {
        int(code)
        for row in rows(section("docs/running.md", "Exit codes"))
        for code in row[0].split(",")
    }
    # 129 by number: Windows has no SIGHUP.
    assert codes == {0, 1, 2, 3, 129, 141, *errors.EXIT_CODES.values()}


def test_every_kind_of_error_is_documented_and_no_other() -> None:
    page = read("docs/failed-or-errored.md")
    documented = {row[0].strip("`"): row[1:] for row in rows(page.partition("\n## ")[0])}
    known = {
        kind: [
            fault.happened,
            f"the {fault.of_api}'s",
            f"the {fault.of_own_code}'s",
            "within the run" if fault.is_retried else "no",
        ]
        for kind, fault in FAULTS.items()
    }
    assert documented == known
    assert list(known) == list(get_args(ErrorKind))


INVOCATION = re.compile(
    r"(?:^[\s#$-]*(?:run: )?|[`;&|(\[] *|exec )(?:[\w./]+/)?ci-evals +([a-z][^`\n]*)", re.MULTILINE
)
"""A command line where one may stand: at a line's start, in a step, after `exec`, in backticks."""


def words_of(line: str) -> list[str]:
    """The words of a command as a shell reads them, up to a pipe or a redirection."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    return list(itertools.takewhile(lambda word: not set(word) & set("|&;<>"), lexer))


def command_lines() -> Iterator[tuple[str, list[str], bool]]:
    """Every command line to copy: its place, its words, and whether it is more than a mention."""
    for path, text in shown():
        spans = CODE.findall(without_blocks(text)) if path.endswith(".md") else []
        code = "\n".join(each for _, each in FENCE.findall(text)) if path.endswith(".md") else text
        for found in INVOCATION.finditer(code.replace("\\\n", " ")):
            yield path, words_of(found[1]), not found[0].startswith("`")
        for span in spans:
            if found_in_span := INVOCATION.match(" ".join(span.split())):
                yield path, words_of(found_in_span[1]), False


def test_every_command_line_that_is_shown_is_one_that_exists() -> None:
    # `ci-evals cases` is added by the page's own example.
    added = ("docs/contributing.md", ["cases"])
    lines = [line for line in command_lines() if line[:2] != added]
    assert len(lines) > 150
    assert [
        f"{path}: ci-evals {shlex.join(words)}: {wrong}"
        for path, words, whole in lines
        if words[0] not in COMMANDS.missing and (wrong := mistake(words, whole=whole))
    ] == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rum", "no such command"),
        ("run --chase lost-package", "no such option"),
        ("run --baseline", "requires an argument"),
        ("explain", "missing argument"),
        ("run --format yml", "'yml' is not one of"),
        ("judge chek labels.jsonl", "no such command"),
        ("run --shard 1/3 --out shard-1 > log.txt  # in one job", ""),
    ],
)
def test_a_mistyped_command_line_would_be_found(line: str, expected: str) -> None:
    found = mistake(words_of(line), whole=True)
    assert expected in found.casefold() if expected else not found


def mistake(words: Sequence[str], *, whole: bool) -> str:
    """Why the command line refuses these words; files may be missing, and a mention's arguments."""
    command: click.Command = group
    while isinstance(command, click.Group) and words:
        inner = command.get_command(click.Context(command), words[0])
        if inner is None:
            return f"no such command: {words[0]}"
        command, words = inner, words[1:]
    context = click.Context(command)
    try:
        values, _, _ = command.make_parser(context).parse_args([*words] if whole else [*words, "…"])
        for parameter in command.params:
            value = values.get(parameter.name)
            if isinstance(parameter.type, click.Choice) and isinstance(value, str) and value != "…":
                parameter.type_cast_value(context, value)
            if whole and parameter.required and parameter.value_is_missing(value):
                raise click.MissingParameter(param=parameter)
    except click.UsageError as error:
        return error.format_message()
    return ""


# Examples.


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the examples of the docs live in, on a machine that has their agent."""
    agent = tmp_path / "bin" / "claude"
    agent.parent.mkdir()
    agent.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(agent.parent), prepend=os.pathsep)
    for name, text in {
        "agent.py": "def answer(asked):\n    return 'Paris'\n",
        "shop.py": "def find_order(number: int): ...\n\n\ndef cancel_order(number: int): ...\n",
        "../src/support/bot.py": "",
        "fixtures.py": "def shop(request): yield {}\ndef is_cancelled(output): return True\n",
        "agent.mjs": "export default () => 'Paris';\n",
        "prompts/long.txt": "Think hard: {{ question }}",
        "contracts/acme.pdf": "%PDF-1.7",
        "tasks/fix-total/task.toml": '[environment]\nsetup_commands = ["npm ci"]\n',
        "tasks/fix-total/instruction.md": "Fix total.",
        "tasks/fix-total/tests/test.sh": "",
        "skills/release-notes/SKILL.md": "",
        "questions.csv": "ID,Question,Answer,Topic\nfrance,Capital of France?,Paris,capitals\n",
        "cases/more.jsonl": '{"id": "more", "vars": {"question": "And of Italy?"}, '
        '"expect": [{"contains": "Rome"}]}\n',
    }.items():
        path = tmp_path / "evals" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "evals"


@pytest.mark.parametrize(
    "block",
    [
        block
        for block in blocks("yaml")
        if "providers:" in block.text and "coming-from" not in block.page
    ],  # run as files
    ids=str,
)
def test_every_suite_in_the_docs_loads(block: Block, project: Path) -> None:
    written = parse(block.text, block.page)[0]
    skip_without_plugins(written)
    config = project / "evals.yaml"
    config.write_text(block.text, encoding="utf-8")
    keys = {"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"}
    suite = load_suite(config, dict.fromkeys(keys, "sk-not-a-real-one"))
    assert len(suite.providers) >= len(written["providers"]), "a grid makes several of one"
    assert len(suite.judges) == len(written.get("judges", ()))


def parts(*, of_a_suite: bool) -> list[Block]:
    """Blocks of YAML without `providers`: parts of a suite, or others, such as a workflow."""
    known = schema()["properties"]
    return [
        block
        for block in blocks("yaml")
        if "providers:" not in block.text
        if of_a_suite
        == (isinstance(data := yaml.safe_load(block.text), dict) and data.keys() <= known.keys())
    ]


def calls_a_function(block: Block) -> bool:
    """Whether a function returns its cases, as in docs/data.md, which test_data.py runs."""
    cases = yaml.safe_load(block.text).get("cases")
    return isinstance(cases, dict) and "python" in cases


@pytest.mark.parametrize(
    "block", [each for each in parts(of_a_suite=True) if not calls_a_function(each)], ids=str
)
def test_every_part_of_a_suite_in_the_docs_loads_in_a_suite(block: Block, project: Path) -> None:
    data = yaml.safe_load(block.text)
    skip_without_plugins(data)
    if "executor" in data.get("settings", {}):
        pytest.importorskip("ray")
    gate = data.get("gate", {})
    named = [
        *gate.get("providers", ()),
        *(each["provider"] for each in data.get("variants", ())),
    ] or ["some"]
    model = {"type": "mock", "price": {"input_per_mtok": 1, "output_per_mtok": 1}}
    if "variants" in data:
        model = {"type": "openai", "model": "gpt-4o-mini", "api_key": "${OPENAI_API_KEY}"}
    case = {
        "id": "some",
        "input": "hi",
        "vars": {"expected": "hi"},
        "expect": [{"not_empty": True}],
    }
    rest = {
        "providers": [{"name": name, **model} for name in dict.fromkeys(named)],
        "judges": [{"name": "some judge", **model}],
        "cases": [case | {"tags": [*gate.get("tags", ())]}],
    }
    config = project / "evals.yaml"
    missing = {key: value for key, value in rest.items() if key not in data}
    config.write_text(f"{block.text}\n{yaml.safe_dump(missing)}", encoding="utf-8")
    load_suite(
        config,
        dict.fromkeys(re.findall(r"\$\{(\w+)\}", config.read_text("utf-8")), "sk-not-a-real-one"),
    )


@pytest.mark.parametrize("block", parts(of_a_suite=False), ids=str)
def test_every_other_yaml_in_the_docs_is_valid(block: Block) -> None:
    data, _, problems = parse(block.text, block.page)
    assert data
    assert not problems


def test_the_examples_of_tool_calls_load(project: Path) -> None:
    (example,) = (
        block for block in blocks("yaml") if block.text.startswith("expect:\n  - tool_call: book")
    )
    case = "cases:\n  - {id: a, input: hi}\nproviders: [{type: mock}]\n"
    config = project / "evals.yaml"
    config.write_text(example.text + case, encoding="utf-8")
    assert len(load_suite(config, {}).cases[0].expect) == 6


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_every_python_in_the_docs_compiles(block: Block) -> None:
    compile(block.text, block.page, "exec")


def test_the_output_in_the_docs_is_what_the_example_prints(tmp_path: Path) -> None:
    (block,) = (block for block in blocks("console") if block.page == "docs/running.md")
    command, *lines = block.text.splitlines()
    words = command.removeprefix("$ ").replace("ci-evals", "ci_evals", 1).split()
    done = python(ROOT, "-m", *words, "--out", str(tmp_path), environ={"COLUMNS": "120"})
    printed = without_times(done.out).splitlines()
    assert [line for line in map(without_times, lines) if line not in printed] == []


def test_the_explanation_in_the_docs_is_one_that_was_printed() -> None:
    _, block = (block for block in blocks("text") if block.page == "docs/comparing.md")
    printed = iter(read("tests/golden/explain.txt").splitlines())
    assert [line for line in block.text.splitlines() if line != "…" and line not in printed] == []


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_first_pages_show_the_output_of_the_start_page(page: str) -> None:
    (block,) = (block for block in blocks("text") if block.page == page)
    (started,) = (
        block.text
        for block in blocks("console")
        if block.page == "docs/start.md" and "--against main" in block.text
    )
    assert block.text in started


def without_times(text: str) -> str:
    """Replace times by a word and runs of blanks by one: times change the width of columns."""
    return re.sub(" +", " ", re.sub(r" +[\d.]+ m?s\b", " TIME", text))


# Installs. Whoever registers a name that we show runs code with our users' secrets.

INSTALL = re.compile(
    r"\b(?:pip3? install|pipx (?:run|install)|uvx|uv (?:pip install|add|tool (?:run|install)))"
    r" +([^\n`;&#]+)"
)
PINNED = re.compile(
    rf"git\+https://github\.com/{re.escape(ACTION)}|-\S+|\.(?:/.*)?|requirements\.txt|agents|dev"
)
USES = re.compile(r"\buses: +(\S+)")


def shown() -> Iterator[tuple[str, str]]:
    """Every text that a user may copy from, by its path."""
    for folder in ("docs", "examples", "templates", "."):
        for path in sorted((ROOT / folder).glob("*" if folder == "." else "**/*")):
            if (
                path.suffix in {".md", ".yml", ".yaml", ".py", ".toml", ".txt", ".ini"}
                or path.name == "Dockerfile"
            ):
                yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def test_nothing_that_is_shown_installs_from_a_name_that_anybody_may_register() -> None:
    found = [(path, shlex.split(line)) for path, text in shown() for line in INSTALL.findall(text)]
    assert len(found) > 5
    assert [
        (path, word) for path, words in found for word in words if not PINNED.fullmatch(word)
    ] == []


def test_every_action_that_is_shown_is_pinned_and_ours_is_the_one_that_a_release_would_be() -> None:
    uses = [(path, used) for path, text in shown() for used in USES.findall(text)]
    assert {used for _, used in uses if "ci-evals" in used} == {ACTION}
    assert [
        each for each in uses if not re.fullmatch(r"[\w.-]+(/[\w.-]+)+@[0-9a-f]{40}", each[1])
    ] == []


# Lines.


def prose_lines() -> Iterator[tuple[str, str]]:
    """Each line of text outside of code, tables, quotes, pictures and HTML, with its page."""
    for page in PAGES:
        for line in without_blocks(page.read_text(encoding="utf-8")).splitlines():
            if not line.lstrip().startswith(("|", ">", "![", "<")):
                yield page.name, line


def test_prose_is_wrapped() -> None:
    assert [each for each in prose_lines() if len(each[1]) > MOST_OF_A_LINE] == []


# Links.


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(without_blocks(page.read_text(encoding="utf-8"))):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


def test_every_image_exists() -> None:
    missing = []
    for page in PAGES:
        for in_markdown, in_html in IMAGE.findall(page.read_text(encoding="utf-8")):
            path = in_markdown or in_html
            if path != MADE_WITH_THE_SITE and not (page.parent / path).exists():
                missing.append(path)
    assert missing == []


def test_every_recipe_is_listed_once() -> None:
    listed = re.findall(
        r"^- \[[^\]]+\]\(([\w-]+\.md)\)", read("docs/recipes/index.md"), re.MULTILINE
    )
    recipes = [path.name for path in ROOT.glob("docs/recipes/*.md")]
    assert sorted([*listed, "index.md"]) == sorted(recipes)


def anchors(page: Path) -> Iterator[str]:
    """What GitHub makes of the headings of a page."""
    for heading in re.findall(
        r"^#+ (.+)$", without_blocks(page.read_text(encoding="utf-8")), re.MULTILINE
    ):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


# The house.


def test_the_layers_in_the_docs_are_those_that_are_enforced() -> None:
    contracts = tomllib.loads(read("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    named = {contract["name"]: contract for contract in contracts}
    layers = named["Imports run downward only"]["layers"]
    (shown,) = (block.text for block in blocks("") if "\ncli | pytest_plugin\n" in block.text)
    assert shown.splitlines() == [layer.replace("ci_evals.", "") for layer in layers]


FILE_AND_NAMES = re.compile(r"`([\w/]+\.py)`: ((?:`[\w.]+`(?:, )?)+)")
NAME_IN_FILE = re.compile(r"`([\w.]+)`\s+in\s+`([\w/]+\.py)`")


def places_on_the_page() -> set[tuple[str, str]]:
    """The functions and classes that the page on errored runs names, each with its file."""
    page = read("docs/failed-or-errored.md")
    places = {(file, name) for name, file in NAME_IN_FILE.findall(page)}
    for file, names in FILE_AND_NAMES.findall(page):
        places |= {(file, name) for name in CODE.findall(names)}
    return places


def nodes_by_definition(inside: ast.AST, name: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Yield the nodes of a module, each with the name of the function or class that it is in."""
    for node in ast.iter_child_nodes(inside):
        own = name
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            own = f"{name}.{node.name}".lstrip(".")
        yield own, node
        yield from nodes_by_definition(node, own)


def makes_an_errored_run(node: ast.AST) -> bool:
    """Whether a call makes the error of a run, or a result without a verdict."""
    if not isinstance(node, ast.Call):
        return False
    match node:
        case ast.Call(func=ast.Name("ProviderError" | "GradingError" | "SimulatedUserError")):
            return True
        case ast.Call(func=ast.Name("RunOutcome"), args=[ast.Constant("errored"), *_]):
            return True
    return any(
        keyword.arg == "status" and ast.unparse(keyword.value) == "'errored'"
        for keyword in node.keywords
    )


def test_the_page_on_errored_runs_names_every_place_that_makes_one_and_no_other() -> None:
    named = {
        (file, name)
        for file, name in places_on_the_page()
        if is_installed(f"ci_evals.{file.replace('/', '.')}")
    }
    defined, deciding = set(), set()
    for path in (ROOT / "ci_evals").rglob("*.py"):
        file = path.relative_to(ROOT / "ci_evals").as_posix()
        for name, node in nodes_by_definition(ast.parse(path.read_text("utf-8"))):
            defined.add((file, name))
            if makes_an_errored_run(node):
                deciding.add((file, name))
    assert len(deciding) > 60
    assert named - defined == set()
    not_runs = {place for place in deciding if place[0] == "plugins/pairwise/judge.py"}
    assert deciding - named == not_runs


def test_the_page_on_errored_runs_has_every_kind_of_error() -> None:
    kinds = set(CODE.findall(without_blocks(read("docs/failed-or-errored.md"))))
    assert set(get_args(ErrorKind)) - kinds == set()


def test_the_changelog_lists_what_the_first_release_will_have_and_no_history() -> None:
    changelog = read("CHANGELOG.md")
    assert re.findall(r"^##+ \[?(\w+)", changelog, re.MULTILINE)[:2] == ["Unreleased", "Added"]
    assert len(re.findall(r"^###? ", changelog, re.MULTILINE)) == 2
    assert re.findall(r"\b(?:now|no longer|instead of|formerly|used to)\b", changelog) == []
    assert len(changelog.splitlines()) <= MOST_LINES_OF_THE_CHANGELOG


@pytest.mark.parametrize(
    "names", [PROVIDERS, GRADERS, TRANSCRIPTS, COMMANDS], ids=lambda names: names.noun
)
def test_the_changelog_names_everything_that_has_a_name(names: Registry[Any]) -> None:
    told = {span.split()[0] for span in CODE.findall(read("CHANGELOG.md"))}
    assert set(names) - told == set()
