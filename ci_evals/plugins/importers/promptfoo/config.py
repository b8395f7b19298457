"""Translates a config of promptfoo: its prompts, providers, tests and common settings."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

import yaml

from ci_evals.errors import ConfigError
from ci_evals.format import one_line
from ci_evals.graders import GRADERS
from ci_evals.plugins.importers.draft import (
    NO_COUNTERPART,
    SuiteDraft,
    UntranslatableError,
    check_shape,
    locate,
    original,
    seconds,
)
from ci_evals.plugins.importers.promptfoo.agents import Agents, Transforms, module_for
from ci_evals.plugins.importers.promptfoo.assertions import Assertions
from ci_evals.plugins.importers.promptfoo.providers import WEAKENING, provider_of
from ci_evals.plugins.importers.promptfoo.rows import plain_columns, test_of_row
from ci_evals.plugins.importers.promptfoo.templates import (
    TemplateTranslator,
    escape_in_json,
    quote_dumped,
)
from ci_evals.plugins.importers.promptfoo.vars import (
    as_literal,
    fill_vars,
    refers_to_environment,
    with_references,
)
from ci_evals.plugins.importers.source import Source
from ci_evals.plugins.importers.writing import YamlComment
from ci_evals.suite.nodes import Node
from ci_evals.suite.prompt_functions import call_function, function_problem
from ci_evals.templating import is_template, json_text
from ci_evals.user_code.folders import code_in, find_code_folders

_SETTINGS: Mapping[str, str] = {
    "redteam": "attacks are not generated: write those that matter as cases",
    "outputPath": "`report.out` and `--out` set the results folder",
    "sharing": "results stay in your CI system",
    "env": "export the variables, or write them into .env next to the suite",
    "commandLineOptions": "use options of `ci-evals run`",
    "derivedMetrics": "`metric` of graders gives mean scores",
    "nunjucksFilters": "templates are Jinja2, with its filters",
    "tags": "`label` is kept in reports",
    "tracing": "the extra `otel` reads the spans of Python agents",
    "extensions": "use `setup`, whose function is called before and after a run",
    "metadata": "only cases have `metadata`",
    "writeLatestResults": "results are always written to a folder",
}
_CHOICES: Mapping[str, str] = {
    "providers": "no provider of the suite has such a name",
    "prompts": "no prompt of the suite has such a name",
    "provider": "it is not one of `providers`: add it, and set `providers` in the other cases",
}
"""The keys of a test that choose its providers and prompts, with the reason if none fits."""
_OF_A_TEST: Mapping[str, str] = {
    "assertScoringFunction": "the score of a run is the weighted mean of its graders",
    "providerOutput": "use `overrides: {recorded: …}` for an existing answer",
}
_TRANSFORM = "`transform` belongs to the suite or a grader: add it to the graders that need it"
_OF_A_MODEL = "it is a setting of a provider: add it to its `params`"
_OPTIONS: Mapping[str, str] = {
    "transform": _TRANSFORM,
    "postprocess": _TRANSFORM,
    "rubricPrompt": "`prompt` of a judge is a template with other names",
    "prefix": "put it into the prompt",
    "suffix": "put it into the prompt",
    "storeOutputAs": "cases are independent: write a conversation, with `turns`",
    "transformVars": "it changes the vars before the prompt is made: write them as they are then",
}
_EVALUATE_OPTIONS: Mapping[str, str] = {
    "maxConcurrency": "max_concurrency",
    "repeat": "runs",
    "timeoutMs": "timeout_s",
    "maxEvalTimeMs": "budget",
}
_NO_OPTIONS = ("cache", "showProgressBar", "generateSuggestions", "interactiveProviders")
_PROGRAM = "it is a program: name a function in it, as in `file://prompt.py:make`"
_ONLY_FILES = "only CSV, YAML, JSON, JSONL, Python and JavaScript files are supported"
_ORDER = (
    "name",
    "description",
    "settings",
    "runs",
    "max_concurrency",
    "timeout_s",
    "budget",
    "providers",
    "judges",
    "prompts",
    "vars",
    "transform",
    "expect",
    "threshold",
)
_AGENTV = frozenset(
    {"target", "execution", "workspace", "evalcases", "assertions", "evaluators", "experiment"}
)
_TEST_OF_AGENTV = frozenset(
    {
        "assertions",
        "conversation_id",
        "criteria",
        "evaluators",
        "execution",
        "expected_messages",
        "expected_output",
        "input_files",
        "input_messages",
        "rubrics",
    }
)
_TESTS = ("tests", "scenarios")
_DEFAULT_TEST = ("vars", "assert", "threshold", "options", "metadata", "description")
_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_LONGEST_ID = 150
_CODE = r"\.([cm]?js|ts|py)(:[\w.]+)?$"
_NO_TEXT = r"(?i)\.([cm]?js|ts|py|pdf|docx|png|jpe?g|gif|bmp|webp|svg|mp[34]|wav|ogg|webm|m4a)$"
_PATH = r"[\w./*-]+\.(txt|md|json|ya?ml|j2|csv|[cm]?js|ts|py)(:[\w.]+)?"


class _Entry(NamedTuple):
    """A provider or prompt.

    Args:
        made: the entry of the suite.
        names: its names in promptfoo.
    """

    made: Any
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Choice:
    """A choice of providers or prompts by a test or a provider.

    Args:
        what: the key, for messages.
        written: promptfoo's names.
        reason: the reason for losing it if no such name exists.
    """

    what: str
    written: Node
    reason: str


def recognize(source: Source) -> bool:
    """Return True for a config of promptfoo."""
    value = source.written.value
    if not isinstance(value, dict) or "cases" in value:
        return False
    if _has_typed_provider(value.get("providers")) or _is_of_agentv(value):
        return False
    asks = {"providers", "targets", "prompts"} & value.keys()
    tests = {"tests", "scenarios", "defaultTest", "redteam"} & value.keys()
    return len(asks) > 1 or (len(asks) == 1 and bool(tests))


def _has_typed_provider(providers: object) -> bool:
    """Return True if a provider has a `type`, as in our own suites: promptfoo's have an `id`."""
    if not isinstance(providers, list):
        return False
    return any(isinstance(provider, dict) and "type" in provider for provider in providers)


def _is_of_agentv(value: Mapping[str, Any]) -> bool:
    """Return True for a suite of AgentV, which has `prompts` and `tests`, too."""
    if value.keys() & _AGENTV or "agentv" in str(value.get("$schema")):
        return True
    tests = value.get("tests")
    if not isinstance(tests, list):
        return False
    return any(isinstance(test, dict) and test.keys() & _TEST_OF_AGENTV for test in tests)


def convert(source: Source) -> SuiteDraft:
    """Make a draft of a config."""
    return _Converter(source).convert()


class _Converter:
    """One pass over a config.

    Args:
        source: the config.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.config = source.written
        self.default_test = self.find_default_test()
        self.draft = SuiteDraft("promptfoo", folder=source.folder)
        self.templates = TemplateTranslator()
        self.agents = Agents(module_for(source.path, "agents"), self.draft)
        transforms = Transforms(module_for(source.path, "transforms"), self.draft)
        self.assertions = Assertions(self.draft, self.templates, transforms)
        self.judge: Node | None = None
        self.entries: dict[str, list[_Entry]] = {"providers": [], "prompts": []}
        self.own_providers: dict[str, Node] = {}
        """The providers of single tests, which the config does not list."""
        self.sections: dict[str, dict[Any, Any]] = {}
        """The keys of the suite, each with its comments."""
        self.matrix: dict[str, list[Any]] = {}
        self.vars: dict[Any, Any] = {}
        self.default_vars: dict[str, Any] = {}
        """The vars of `defaultTest` before templates in them are filled in."""
        self.metadata: dict[str, Any] = {}
        self.ids: set[str] = set()
        self.prompt_config: dict[str, Any] = {}
        self.has_defaults = False
        """True if `defaultTest` has assertions."""
        self.named: list[frozenset[str]] = []
        """The names of the vars of each case."""

    def convert(self) -> SuiteDraft:
        root = self.source.written
        default_test = self.default_test
        self.has_defaults = bool(default_test["assert"].value)
        self.read_default_vars(default_test)
        # Tests come first: templates depend on the vars that all of them have.
        for key in root.value:
            if key in _TESTS:
                self.read_key(key, root[key])
        if not self.named:
            self.named.append(frozenset({*self.default_vars, *self.matrix}))
        self.templates.names = frozenset.intersection(*self.named)
        self.read_default_test(default_test)
        comments = dict.fromkeys(self.source.take_comments(root["defaultTest"]))
        self.sections["expect"] = comments | self.section("expect")
        for key in root.value:
            if key not in _TESTS:
                self.read_key(key, root[key])
        if not root.value.get("prompts"):
            self.section("prompts")["prompts"] = [self.templates.text("{{ prompt }}")]
        if "cases" not in self.sections:
            self.add_case_of_the_prompt()
        listed = len(self.entries["providers"])
        self.add_own_providers()
        if self.prompt_config:
            self.add_prompt_config()
        self.add_judges()
        self.add_vars()
        if self.draft.code_folders:
            self.section("settings")["settings"] = {"pythonpath": self.draft.code_folders}
        self.put_in_order()
        for key in ("providers", "prompts"):
            _tell_apart(self.draft.suite.get(key, ()))
        for key in ("providers", "cases"):
            self.make_choices(self.draft.suite.get(key, ()))
        if len(self.entries["providers"]) > listed:
            self.keep_to_providers(listed)
        self.draft.suite |= dict.fromkeys(self.source.take_other_comments())
        if text := self.agents.text:
            self.draft.files[f"{self.agents.module}.py"] = text
        self.draft.files |= self.assertions.transforms.files
        return self.draft

    def section(self, name: str) -> dict[Any, Any]:
        return self.sections.setdefault(name, {})

    def comments_before(self, written: Node) -> dict[YamlComment, None]:
        """Return the comments before and on the first line of a value, as keys."""
        return dict.fromkeys(self.source.take_comments_before(written))

    def read_key(self, key: str, written: Node) -> None:
        """Translate one key of the config, and add it to its section."""
        comments = self.source.take_comments_before(written)
        match key:
            case "defaultTest" | "$schema":
                return
            case "description":
                made = self.read_description(written)
            case "prompts":
                made = {key: self.convert_each(written, self.read_prompt, "prompt", key)}
            case "providers" | "targets":
                what = key.removesuffix("s")
                made = {
                    "providers": self.convert_each(written, self.read_provider, what, "providers")
                }
            case "tests":
                made = {"cases": self.read_tests(written)}
            case "scenarios":
                made = {"cases": self.read_scenarios(written)}
            case "evaluateOptions":
                made = self.read_evaluate_options(written)
            case "threshold" if isinstance(written.value, int | float):
                made = {"gate": {"min_pass_rate": written.value}}
            case _:
                if key in _SETTINGS:
                    reason = _SETTINGS[key]
                    comments.append(self.draft.lose(written, key, reason, weakens=False))
                elif not key.startswith(("x-", ".", "_")):  # by custom, these hold shared anchors
                    comments.append(self.draft.ignore(written))
                self.section(key).update(dict.fromkeys(comments))
                return
        comments += self.source.take_comments(written)
        self.add_to_sections(made, comments, key)

    def add_to_sections(
        self, made: Mapping[Any, Any], comments: list[YamlComment], last: str
    ) -> None:
        """Add each key to its section, with the comments before it; final comments go to `last`."""
        for name, value in made.items():
            if isinstance(name, YamlComment):
                comments.append(name)
                continue
            section = self.section(name)
            section |= dict.fromkeys(comments)
            comments = []
            if isinstance(value, list):
                section[name] = [*section.get(name, ()), *value]
            else:
                section[name] = value
        if comments:
            self.section(last).update(dict.fromkeys(comments))

    def add_case_of_the_prompt(self) -> None:
        """Add the case that promptfoo runs if there are default assertions but no tests."""
        if "expect" not in self.section("expect"):
            return
        case: dict[Any, Any] = {"id": "the prompt as it is"}
        vars_, matrix = self.fill_vars({}, {})
        if vars_:
            case["vars"] = vars_
        if matrix:
            case["matrix"] = matrix
        case |= self.read_choices(self.config["tests"])
        self.section("cases")["cases"] = [case]

    def add_judges(self) -> None:
        judges = [{"name": name, **model} for name, model in self.assertions.judges.items()]
        if judges:
            self.section("judges")["judges"] = judges

    def add_vars(self) -> None:
        """Add the vars of the suite."""
        if self.templates.environment:
            names = sorted(self.templates.environment)
            self.vars["env"] = {name: f"${{{name}:-}}" for name in names}
        if self.vars:
            self.section("vars")["vars"] = self.vars

    def put_in_order(self) -> None:
        """Build the suite from its sections: known ones in order, then others, then cases."""
        others = [name for name in self.sections if name not in _ORDER and name != "cases"]
        for name in (*_ORDER, *others, "cases"):
            self.draft.suite |= self.sections.get(name, {})

    def convert_each(
        self, written: Node, read: Callable[[Node], list[_Entry]], what: str, section: str
    ) -> list[Any]:
        """Convert each entry of a list, or the only one; failed ones become comments."""
        made: list[Any] = []
        for entry in _entries(written):
            made += self.source.take_comments_before(entry)
            parts: list[Any] = []
            try:
                with check_shape():
                    entries = read(entry)
                for part, names in entries:
                    parts.append(locate(part, entry.line))
                    self.entries[section].append(_Entry(parts[-1], names))
            except (UntranslatableError, ConfigError) as error:
                parts = [self.draft.lose(entry, what, str(error), weakens=True)]
            made += self.source.take_comments(entry)
            made += parts
        return made

    # Choices of providers and prompts.

    def make_choices(self, parts: Iterable[Any]) -> None:
        """Replace choices by our names; remove choices of all providers or prompts."""
        for part in parts:
            if not isinstance(part, dict):
                continue
            for key, choice in list(part.items()):
                if not isinstance(choice, _Choice):
                    continue
                names = self.choose(key, choice.written)
                if names and len(names) < len(self.entries[key]):
                    part[key] = names
                    continue
                del part[key]
                if not names:
                    written, what, reason = choice.written, choice.what, choice.reason
                    part[self.draft.lose(written, what, reason, weakens=True)] = None

    def add_own_providers(self) -> None:
        """Add the providers of single tests, unless a file has cases, which cannot avoid them."""
        cases = self.section("cases").get("cases", ())
        if any(isinstance(case, dict) and "file" in case for case in cases):
            return
        for reference, written in self.own_providers.items():
            try:
                entries = self.read_provider(written)
            except (UntranslatableError, ConfigError):
                continue  # the choice of the test is listed as lost
            for made, names in entries:
                name = f"{min(names)} of a test".replace(",", ";")
                provider = {"name": name, **made}
                self.section("providers").setdefault("providers", []).append(provider)
                self.entries["providers"].append(_Entry(provider, names | {reference}))

    def keep_to_providers(self, count: int) -> None:
        """Let cases without a choice run on the first providers alone."""
        names = []
        for number, entry in enumerate(self.entries["providers"][:count], 1):
            names.append(_name_of("providers", entry, number))
        for case in self.draft.suite["cases"]:
            if isinstance(case, dict):
                case.setdefault("providers", names)

    def choose(self, key: str, written: Node) -> list[str]:
        """Return our names of the providers or prompts that promptfoo's references choose."""
        references = [str(entry.value) for entry in _entries(written)]
        chosen = []
        for number, entry in enumerate(self.entries[key], 1):
            if any(_refers(reference, entry.names) for reference in references):
                chosen.append(_name_of(key, entry, number))
        return chosen

    # Settings.

    def read_description(self, written: Node) -> dict[Any, Any]:
        text = str(written.value or "").strip()
        if not text:
            return {}
        if _is_short(text):
            return {"name": text}
        return {"description": text}

    def read_evaluate_options(self, written: Node) -> dict[Any, Any]:
        settings: dict[Any, Any] = {}
        for key, value in (written.value or {}).items():
            name = _EVALUATE_OPTIONS.get(key)
            if name is not None and isinstance(value, int | float) and value > 0:
                setting: Any = value
                if key == "timeoutMs":
                    setting = seconds(value)
                elif key == "maxEvalTimeMs":
                    setting = {"max_duration_s": seconds(value)}
                elif setting == 1 and key == "repeat":
                    continue
                settings |= self.comments_before(written[key])
                settings[name] = setting
            elif key == "delay":
                reason = "use `rpm` of a provider to space its calls"
                what = f"evaluateOptions.{key}"
                comment = self.draft.lose(written[key], what, reason, weakens=False)
                settings[comment] = None
            elif key not in _NO_OPTIONS:
                settings[self.draft.ignore(written[key])] = None
        return settings

    def read_provider(self, entry: Node) -> list[_Entry]:
        return self.read_provider_of(entry, self.source)

    def read_provider_of(self, entry: Node, source: Source) -> list[_Entry]:
        """Return the providers of an entry: several if it names another file."""
        value = entry.value
        if isinstance(value, str) and re.fullmatch(r"file://.*\.(ya?ml|json)", value):
            other = source.read(value.removeprefix("file://"))
            providers = []
            for inner in _entries(other.written):
                providers += self.read_provider_of(inner, other)
            return providers
        made = provider_of(entry, source, self.agents)
        config = entry["config"]
        options = made.options
        if "params" in options:
            options["params"] = source.with_comments(options["params"], config)
        if "headers" in options:
            options["headers"] = source.with_comments(options["headers"], config["headers"])
        provider: dict[Any, Any] = {}
        for name, reason in made.lost:
            what = f"provider {made.id}: {name}"
            weakens = name in WEAKENING
            lost = self.draft.record_loss(entry.file, entry.line, what, reason, weakens=weakens)
            provider[YamlComment(f"{lost.heading}: {name}: {lost.reason}")] = None
        provider |= options
        if made.prompts is not None:
            what = f"provider {made.id}: prompts"
            provider["prompts"] = _Choice(what, entry["prompts"], _CHOICES["prompts"])
        return [_Entry(provider, _names_of(value) | {made.id})]

    # Prompts.

    def read_prompt(self, entry: Node) -> list[_Entry]:
        names = _names_of(entry.value)
        return [_Entry(prompt, names) for prompt in self.read_prompts(entry)]

    def read_prompts(self, entry: Node) -> list[Any]:
        """Return the prompts of an entry: several if it names files, or a file has several."""
        value = entry.value
        label = None
        if isinstance(value, dict):
            label = value.get("label")
            if config := value.get("config"):
                self.read_prompt_config(config)
            value = value.get("raw") or value.get("id")
        if not isinstance(value, str):
            raise UntranslatableError("a prompt is a text, a file, or has `raw`")
        if re.match(r"(https?|langfuse|portkey|helicone)://|exec:", value):
            reason = "it is stored elsewhere: write its text here or to a file"
            raise UntranslatableError(reason)
        if not value.startswith("file://") and not re.fullmatch(_PATH, value):
            return [self.prompt(value, label)]
        prompts = []
        for name in self.source.find(value.removeprefix("file://")):
            prompts += self.read_prompt_file(name, label)
        return prompts

    def read_prompt_config(self, config: Any) -> None:
        """Keep the model settings of the only prompt, which belong to the providers here.

        Raises:
            UntranslatableError: there are other prompts, or the config is not a mapping.
        """
        written = self.config["prompts"].value
        is_only = not isinstance(written, list) or len(written) == 1
        if not is_only or not isinstance(config, dict):
            keys = ", ".join(config)
            reason = f"`config` of a prompt, {keys}: add it to `params` of a provider"
            raise UntranslatableError(reason)
        self.prompt_config = config

    def add_prompt_config(self) -> None:
        """Add the settings of the only prompt to each model, where they take precedence."""
        for provider in self.section("providers").get("providers", ()):
            if not isinstance(provider, dict):
                continue
            if provider["type"] in ("openai", "anthropic"):
                provider["params"] = {**provider.get("params", {}), **self.prompt_config}
            else:
                prompts = self.config["prompts"]
                reason = "`config` of a prompt: these settings are for `openai` and `anthropic`"
                comment = self.draft.lose(prompts, "prompt", reason, weakens=True)
                self.section("prompts")[comment] = None

    def read_prompt_file(self, name: str, label: str | None) -> list[Any]:
        if re.search(_CODE, name):
            reference = self.function_of(name, None)
            if label:
                return [{"name": label, "function": reference}]
            return [{"function": reference}]
        text = self.source.read_text(name)
        if name.endswith((".yaml", ".yml")):
            # Templates may make it YAML only when they are filled in.
            with suppress(yaml.YAMLError):
                text = json_text(yaml.safe_load(text))
        if name.endswith((".yaml", ".yml", ".json")):
            return [self.prompt(text.strip(), label)]
        parts = re.split(r"^---\s*$", text, flags=re.MULTILINE)
        prompts = [self.prompt(part.strip(), label) for part in parts if part.strip()]
        as_it_is: Any = text.strip()
        by_file = {"file": self.source.relative(name)}
        if label:
            as_it_is = {"name": label, "user": as_it_is}
            by_file = {"name": label, **by_file}
        if prompts == [as_it_is] and text.removesuffix("\n") == text.strip():
            return [by_file]
        return prompts

    def function_of(self, name: str, default: str | None) -> str:
        """Return a function of a code file in the notation of ci-evals.

        Args:
            name: the file, perhaps with `:function`.
            default: the function of a Python file that names none.

        Raises:
            UntranslatableError: the function can't be called from the suite's folder.
        """
        file, colon, function = name.partition(":")
        path = self.source.relative(file)
        reference = path + colon + function
        if file.endswith(".py"):
            function = function or default or ""
            if not function:
                raise UntranslatableError(_PROGRAM)
            reference = f"{self.draft.module_of(path)}:{function}"
        with self.code_in_reach():
            problem = function_problem(reference, self.source.folder)
        if problem is not None:
            raise UntranslatableError(f"there is no {reference} to call in the suite's folder")
        return reference

    def code_in_reach(self) -> AbstractContextManager[None]:
        """Within the context, Python files above the suite can be imported, too."""
        return code_in(find_code_folders(self.source.folder, self.draft.code_folders))

    def prompt(self, text: str, label: str | None) -> Any:
        messages = []
        for role, content in _chat(text):
            messages.append({"role": role, "content": as_literal(self.templates.text(content))})
        prompt: dict[str, Any] = {}
        if label:
            prompt["name"] = label
        if [message["role"] for message in messages] == ["system", "user"]:
            prompt["system"] = messages[0]["content"]
            prompt["user"] = messages[1]["content"]
        elif len(messages) > 1:
            prompt["messages"] = messages
        elif not label:
            return messages[0]["content"]
        else:
            prompt["user"] = messages[0]["content"]
        return prompt

    # Tests.

    def find_default_test(self) -> Node:
        """Return `defaultTest`, which may be in a file."""
        written = self.source.written["defaultTest"]
        if isinstance(written.value, str):
            return self.source.read(written.value.removeprefix("file://")).written
        return written

    def read_default_vars(self, written: Node) -> None:
        """Read the default vars and the default judge, which tests depend on."""
        if not isinstance(written.value, dict):
            return
        self.judge = self.judge_of(written)
        if self.judge is not None:
            of_the_judge = self.source.take_comments(written["options"])
            self.section("judges").update(dict.fromkeys(of_the_judge))
        fixed: dict[str, Any] = {}
        try:
            self.default_vars, self.matrix = self.read_vars(written)
            fixed = fill_vars(self.without_templates(self.default_vars))
        except (UntranslatableError, ConfigError) as error:
            what = "defaultTest.vars"
            self.vars[self.draft.lose(written["vars"], what, str(error), weakens=True)] = None
        self.vars |= self.comments_before(written["vars"])
        self.vars |= self.source.with_comments(as_literal(fixed), written["vars"])
        metadata = written["metadata"].value
        if isinstance(metadata, dict):
            self.metadata = metadata

    def read_default_test(self, written: Node) -> None:
        """Read the other defaults of tests."""
        if not isinstance(written.value, dict):
            return
        comments = self.source.take_comments_before(written)
        comments += self.source.take_comments_before(written["assert"])
        self.section("expect").update(dict.fromkeys(comments))
        if expect := self.read_expect(written):
            self.section("expect")["expect"] = expect
        threshold = written["threshold"].value
        if isinstance(threshold, int | float):
            self.section("threshold").update(self.comments_before(written["threshold"]))
            self.section("threshold")["threshold"] = threshold
        lost: list[YamlComment] = []
        for key in written.value:
            if key in _OF_A_TEST:
                what = f"defaultTest.{key}"
                lost.append(self.draft.lose(written[key], what, _OF_A_TEST[key], weakens=True))
            elif key not in _DEFAULT_TEST and key not in _CHOICES:
                lost.append(self.draft.ignore(written[key]))
        options = written["options"].value or {}
        known = []
        if code := options.get("transform"):
            with suppress(UntranslatableError):
                transform = self.assertions.transforms.translate(code, self.source)
                self.section("transform")["transform"] = transform
                known.append("transform")
        if "runSerially" in options:
            if options["runSerially"]:
                self.section("max_concurrency")["max_concurrency"] = 1
            known.append("runSerially")
        lost += self.lose_options(written, "defaultTest", known)
        if lost:
            self.section("expect").update(dict.fromkeys(lost))

    def judge_of(self, written: Node) -> Node | None:
        provider = written["options"]["provider"]
        if provider.value:
            return provider
        return self.judge

    def lose_options(self, written: Node, where: str, known: Iterable[str]) -> list[YamlComment]:
        """Record the options of a test that are not `known`, and return their comments."""
        options = written["options"]
        comments: list[YamlComment] = []
        if not isinstance(options.value, dict):
            return comments
        for key in options.value:
            if key not in ("provider", "disableVarExpansion", "repeat", *known):
                reason = _OPTIONS.get(key, _OF_A_MODEL)
                what = f"{where}.options.{key}"
                weakens = key in _OPTIONS
                comments.append(self.draft.lose(options[key], what, reason, weakens=weakens))
        return comments

    def read_tests(self, written: Node) -> list[Any]:
        made: list[Any] = []
        for entry in _entries(written):
            try:
                if isinstance(entry.value, str):
                    made += self.read_test_files(entry)
                elif isinstance(entry.value, dict) and isinstance(entry.value.get("path"), str):
                    path = entry.value["path"].removeprefix("file://")
                    made += self.call_tests(entry, path, entry.value.get("config"))
                else:
                    with check_shape():
                        made.append(self.read_test(entry))
            except (UntranslatableError, ConfigError) as error:
                made += self.source.take_comments(entry)
                made.append(self.draft.lose(entry, "tests", str(error), weakens=True))
        return made

    def read_test_files(self, entry: Node) -> list[Any]:
        pattern = entry.value.removeprefix("file://")
        if re.search(_CODE, pattern):
            return self.call_tests(entry, pattern, {})
        if not re.search(r"\.(csv|ya?ml|json|jsonl)$", pattern):
            raise UntranslatableError(_ONLY_FILES)
        made: list[Any] = [*self.source.take_comments_before(entry)]
        for name in self.source.find(pattern):
            made += self.read_test_file(name)
        return made

    def call_tests(self, entry: Node, name: str, config: Any) -> list[Any]:
        """Return the cases that code makes at the time of the import."""
        function = self.function_of(name, "generate_tests")
        arguments = []
        if config:
            arguments = [config]
        try:
            with self.code_in_reach():
                (tests,) = call_function(function, [arguments], self.source.folder)
        except ConfigError as error:
            raise UntranslatableError(error.problems[0].message) from error
        if not isinstance(tests, list):
            raise UntranslatableError(f"{function} did not return a list of tests")
        comments = [YamlComment(f"made by {function} during the import")]
        return comments + self.read_tests(entry.with_value(tests))

    def read_test_file(self, name: str) -> list[Any]:
        """Return the cases of a file; a CSV file that ci-evals can read is only referred to."""
        other = self.source.read(name)
        rows = other.written
        is_csv = name.endswith(".csv")
        has_choices = any(self.default_test[key].value is not None for key in _CHOICES)
        if is_csv and not self.matrix and not has_choices:
            columns = plain_columns(rows.value)
            if (
                columns is not None
                and self.without_templates(self.default_vars) == self.default_vars
            ):
                self.named.append(frozenset({*columns, *self.vars_by_name()}))
                return [{"file": self.source.relative(name)}]
        outer = self.source
        self.source = other
        try:
            if not is_csv:
                return self.read_tests(rows)
            return [self.read_row(row) for row in rows.items()]
        finally:
            self.source = outer

    def read_row(self, row: Node) -> Any:
        try:
            with check_shape():
                return self.read_test(row.with_value(test_of_row(row.value)))
        except (UntranslatableError, ConfigError) as error:
            return self.draft.lose(row, "tests", str(error), weakens=True)

    def read_scenarios(self, written: Node) -> list[Any]:
        """Return a case for each pair of a configuration and a test."""
        made: list[Any] = []
        if not isinstance(written.value, list):
            return made
        for scenario in written.items():
            configs = scenario["config"]
            tests = scenario["tests"]
            if not _has_mappings(configs) or not _has_mappings(tests):
                reason = "only lists of mappings are supported"
                made.append(self.draft.lose(scenario, "scenarios", reason, weakens=True))
                continue
            for config in configs.items():
                for test in tests.items():
                    try:
                        with check_shape():
                            made.append(self.read_test(_merge_tests(config, test)))
                    except (UntranslatableError, ConfigError) as error:
                        made.append(self.draft.lose(test, "scenarios", str(error), weakens=True))
        return made

    def read_test(self, written: Node) -> Any:
        test = written.value
        if not isinstance(test, dict):
            raise UntranslatableError("a test is a mapping, or the path of a file")
        # This may fail, so no comment is taken before.
        own_vars, own_matrix = self.read_vars(written)
        vars_, matrix = self.fill_vars(own_vars, own_matrix)
        comments = self.comments_before(written)
        case: dict[Any, Any] = {}
        title = "description"
        if not str(test.get(title) or "").strip() and str(test.get("name") or "").strip():
            title = "name"
        description = str(test.get(title) or "").strip()
        if description:
            case |= self.comments_before(written[title])
            if _is_short(description) and description not in self.ids:
                case["id"] = description
            else:
                case["description"] = description
            self.ids.add(description)
        case |= self.comments_before(written["vars"])
        if vars_:
            case["vars"] = self.source.with_comments(vars_, written["vars"])
        if matrix:
            case["matrix"] = self.source.with_comments(matrix, written["vars"])
        names = frozenset({*vars_, *matrix, *self.vars_by_name()})
        self.named.append(names)
        case |= self.comments_before(written["assert"])
        known: list[str] = []
        if expect := self.read_own_expect(written, names):
            code = (test.get("options") or {}).get("transform")
            if code and self.can_transform_alone(expect):
                with suppress(UntranslatableError):
                    _add_transform(expect, self.assertions.transforms.translate(code, self.source))
                    known.append("transform")
            case["expect"] = expect
        if test.get("threshold") is not None:
            case |= self.comments_before(written["threshold"])
            case["threshold"] = test["threshold"]
        metadata = {**self.metadata, **(test.get("metadata") or {})}
        if metadata:
            case |= self.comments_before(written["metadata"])
            case["metadata"] = self.source.with_comments(metadata, written["metadata"])
        options = written["options"]
        if options["repeat"].value is not None:
            case |= dict.fromkeys(self.source.take_comments(options))
            case["runs"] = options["repeat"].value
        case |= self.read_choices(written)
        case |= self.lose_keys_of_a_test(written, (*_DEFAULT_TEST, *_CHOICES, title))
        case |= dict.fromkeys(self.lose_options(written, "tests", known))
        comments |= dict.fromkeys(self.source.take_comments(written))
        return locate({**comments, **case}, written.line)

    def read_choices(self, written: Node) -> dict[Any, Any]:
        """Return the choice of providers and prompts of a test, or else of `defaultTest`."""
        chosen: dict[str, Node] = {}
        for key in _CHOICES:
            for test in (written, self.default_test):
                if key in test and test[key].value is not None:
                    chosen.setdefault(key, test[key])
        made: dict[Any, Any] = {}
        for key in ("providers", "prompts"):
            if key in chosen:
                made[key] = _Choice(f"tests.{key}", chosen[key], _CHOICES[key])
        if "provider" in chosen:
            made.pop("providers", None)  # `provider` takes precedence
            made |= self.read_own_provider(chosen["provider"])
        return made

    def read_own_provider(self, written: Node) -> dict[Any, Any]:
        """Return the choice of a test's own provider, if the config has it.

        A different model of the only provider becomes an override.
        """
        key = "targets"
        if "providers" in self.config:
            key = "providers"
        entries = list(_entries(self.config[key]))
        reference = str(written.value)
        is_listed = any(_refers(reference, _names_of(entry.value)) for entry in entries)
        if len(entries) == 1 and not is_listed:
            with suppress(UntranslatableError):
                overrides = _overrides(
                    provider_of(entries[0], self.source).options,
                    provider_of(written, self.source).options,
                )
                if overrides:
                    return {"overrides": overrides}
        if not is_listed:
            self.own_providers.setdefault(reference, written)
        return {"providers": _Choice("tests.provider", written, _CHOICES["provider"])}

    def can_transform_alone(self, expect: list[Any]) -> bool:
        """Return True if a test's transform can move to its graders: none has one already."""
        if self.has_defaults:
            return False
        return not any(_transforms(entry) for entry in expect)

    def lose_keys_of_a_test(self, written: Node, known: Iterable[str]) -> dict[YamlComment, None]:
        """Record the keys of a test that are not `known`, unless promptfoo ignores them, too."""
        comments = []
        for key in written.value:
            if key in known:
                continue
            what, place = f"tests.{key}", written[key]
            if key in _OF_A_TEST:
                comments.append(self.draft.lose(place, what, _OF_A_TEST[key], weakens=True))
            elif key.startswith("__"):  # a special column of a CSV file
                comments.append(self.draft.lose(place, what, NO_COUNTERPART, weakens=False))
            else:
                comments.append(self.draft.ignore(place))
        return dict.fromkeys(comments)

    def read_own_expect(self, written: Node, names: frozenset[str]) -> list[Any]:
        """Return the graders of a test, whose templates may use its vars."""
        self.templates.names = names
        return self.read_expect(written)

    def vars_by_name(self) -> dict[str, Any]:
        """Return the vars of the suite without comments."""
        return {name: value for name, value in self.vars.items() if isinstance(name, str)}

    def read_vars(self, written: Node) -> tuple[dict[str, Any], dict[str, list[Any]]]:
        """Return the vars of a test with one value, and those with several, as they are written."""
        given = written["vars"].value
        if isinstance(given, str):
            given = self.source.read(given.removeprefix("file://")).written.value
        vars_: dict[str, Any] = {}
        matrix: dict[str, list[Any]] = {}
        if not isinstance(given, dict):
            return vars_, matrix
        keeps_lists = (written["options"].value or {}).get("disableVarExpansion")
        for name, value in given.items():
            if _is_matrix(value) and not keeps_lists:
                matrix[name] = []
                for item in value:
                    matrix[name] += self.values(item)
                continue
            values = self.values(value)
            if len(values) > 1:
                matrix[name] = values
            else:
                vars_[name] = values[0]
        return vars_, matrix

    def fill_vars(
        self, own: Mapping[str, Any], own_matrix: Mapping[str, list[Any]]
    ) -> tuple[dict[str, Any], dict[str, list[Any]]]:
        """Return the vars and the matrix of a test with templates filled in.

        Vars of `defaultTest` that are templates are filled in for each test, whose vars they may
        refer to. Vars that refer to the environment move to the suite, where this is possible.
        """
        default_matrix = {key: self.matrix[key] for key in self.matrix if key not in own}
        matrix = {**default_matrix, **own_matrix}
        default_vars = {
            key: self.default_vars[key] for key in self.default_vars if key not in matrix
        }
        filled = fill_vars({**default_vars, **own}, matrix)
        fixed = self.without_templates(default_vars)
        vars_: dict[str, Any] = {}
        for name in {**own, **filled}:
            if name in fixed and name not in own:
                continue
            value = filled[name]
            if not refers_to_environment(value):
                vars_[name] = value
            elif self.vars.setdefault(name, with_references(value)) != with_references(value):
                reason = f"the var {name!r} differs between tests, and refers to the environment"
                raise UntranslatableError(f"{reason}, which only vars of the suite can")
        filled_matrix = {}
        for name, values in matrix.items():
            filled_matrix[name] = [
                fill_vars({**filled, name: item}, matrix)[name] for item in values
            ]
            if any(map(refers_to_environment, filled_matrix[name])):
                reason = f"the var {name!r} has several values, and refers to the environment"
                raise UntranslatableError(f"{reason}, which only vars of the suite can")
        return vars_, filled_matrix

    def without_templates(self, vars_: Mapping[str, Any]) -> dict[str, Any]:
        """Return the vars that are the same for every test."""
        return {name: vars_[name] for name in vars_ if not _is_text_with_template(vars_[name])}

    def values(self, value: Any) -> list[Any]:
        """Return the values of a var: several if it is a glob."""
        if not isinstance(value, str) or not value.startswith("file://"):
            return [value]
        if re.search(_NO_TEXT, value):
            raise UntranslatableError(f"the var {value}: only files of text and data are supported")
        names = self.source.find(value.removeprefix("file://"))
        return [self.read_value(name) for name in names]

    def read_value(self, name: str) -> Any:
        """Return a reference to a file, or its text if ci-evals would read it in another way.

        Promptfoo trims the text, fills in its templates, and turns YAML into the text of JSON.
        """
        by_file = {"file": self.source.relative(name)}
        if not self.source.locate(name).is_file():
            return by_file
        if name.endswith((".yaml", ".yml")):
            return json_text(self.source.read(name).written.value)
        text = self.source.read_text(name)
        is_same = text.removesuffix("\n") == text.strip() and not is_template(text)
        if is_same and not name.endswith(".json"):
            return by_file
        return text.strip()

    def read_expect(self, written: Node) -> list[Any]:
        given = written["assert"]
        if given.value is None:
            return []
        if not isinstance(given.value, list):
            return [self.draft.lose(given, "assert", "assertions are a list", weakens=True)]
        judge = self.judge_of(written)
        transforms = [each["options"]["transform"].value for each in (written, self.default_test)]
        self.assertions.test_transform = transforms[0] or transforms[1]
        made: list[Any] = []
        for entry in given.items():
            made += self.source.take_comments(entry)
            try:
                with check_shape():
                    made += self.assertions.convert(entry, judge, self.source)
            except (UntranslatableError, ConfigError) as error:
                if isinstance(entry.value, dict) and "type" in entry.value:
                    kind = entry.value["type"]
                else:
                    kind = one_line(original(entry.value), 40)
                made.append(self.draft.lose(entry, f"assert: {kind}", str(error), weakens=True))
        return made


def _entries(written: Node) -> Iterable[Node]:
    """Return the entries of a list; a single value is one entry."""
    if isinstance(written.value, list):
        return written.items()
    return [written]


def _is_matrix(value: object) -> TypeGuard[list[Any]]:
    """Return True for a list of texts, for each of which promptfoo makes a test."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], str)


def _is_text_with_template(value: object) -> bool:
    return isinstance(value, str) and is_template(value)


def _is_short(text: str) -> bool:
    return len(text) <= _LONGEST_ID and "\n" not in text


def _has_mappings(written: Node) -> bool:
    if not isinstance(written.value, list):
        return False
    return all(isinstance(item, dict) for item in written.value)


def _merge_tests(config: Node, test: Node) -> Node:
    """Merge a test of a scenario with one of its configurations."""
    merged = {**config.value, **test.value}
    for key in ("vars", "options"):
        merged[key] = {**(config.value.get(key) or {}), **(test.value.get(key) or {})}
    merged["assert"] = [*(config.value.get("assert") or ()), *(test.value.get("assert") or ())]
    return test.with_value(merged)


def _tell_apart(entries: Iterable[Any]) -> None:
    """Give unique names to providers or prompts whose names would collide."""
    taken: Counter[str] = Counter()
    for entry in entries:
        if not isinstance(entry, dict):
            continue
        name = entry.get("name")
        if not name and "file" in entry:
            name = Path(entry["file"]).stem
        elif not name and "model" in entry:
            name = f"{entry.get('type')}:{entry['model']}"
        if not name:
            continue
        taken[name] += 1
        if taken[name] > 1:
            rest = {key: value for key, value in entry.items() if key != "name"}
            entry.clear()
            entry["name"] = f"{name} {taken[name]}"
            entry.update(rest)


_CHAT_IN_JSON = r"""\s*\[\s*(\{%.*?%\}\s*)*\{\s*['"]?(role|content)\b"""
_CHAT_IN_YAML = r"""(\s*(\#[^\n]*|\{%.*?%\})?\n)*\s*-\s+['"]?(role|content)['"]?\s*:"""
_MADE_CHAT = (
    "a template makes the messages of this chat: write each message,"
    " or use a `function` of the prompt"
)


def _chat(text: str) -> list[tuple[str, str]]:
    """Return the roles and texts of a prompt in JSON or YAML; plain text is the user's.

    Comments of Jinja are removed, as in rendering.
    """
    messages = None
    text = re.sub(r"\{#.*?#\}", "", text, flags=re.DOTALL)
    try:
        if re.match(_CHAT_IN_JSON, text, re.DOTALL):
            messages = json.loads(quote_dumped(text))
        elif re.match(_CHAT_IN_YAML, text, re.DOTALL):
            messages = _load_yaml(text)
    except (ValueError, yaml.YAMLError):
        raise UntranslatableError(_MADE_CHAT) from None
    if not isinstance(messages, list):
        return [("user", escape_in_json(text))]
    for message in messages:
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            return [("user", escape_in_json(text))]
    if not all(isinstance(message.get("content"), str) for message in messages):
        raise UntranslatableError("a message has parts other than text")
    return [(_ROLES[message["role"]], message["content"]) for message in messages]


def _load_yaml(text: str) -> Any:
    """Return the value of YAML with templates, which YAML itself would read as mappings.

    Raises:
        yaml.YAMLError: it is not YAML.
    """
    templates: dict[str, str] = {}

    def hide(match: re.Match[str]) -> str:
        name = f"template_{len(templates)}_"
        templates[name] = match[0]
        return name

    def show(value: Any) -> Any:
        if isinstance(value, str):
            return re.sub(r"template_\d+_", lambda name: templates.get(name[0], name[0]), value)
        if isinstance(value, list):
            return [show(item) for item in value]
        if isinstance(value, dict):
            return {key: show(item) for key, item in value.items()}
        return value

    return show(yaml.safe_load(re.sub(r"\{\{.*?\}\}", hide, text)))


def _transforms(entry: Any) -> bool:
    """Return True if a grader or a part of it has a transform."""
    if not isinstance(entry, dict):
        return False
    for options in entry.values():
        if "transform" in options or any(_transforms(part) for part in options.get("of", ())):
            return True
    return False


def _add_transform(expect: Iterable[Any], transform: str) -> None:
    """Add a transform to graders that read the answer's text."""
    for entry in expect:
        if not isinstance(entry, dict):
            continue
        for name, options in entry.items():
            grader = GRADERS[name.removeprefix("not_")]
            if "of" in options:
                _add_transform(options["of"], transform)
            elif grader.reads_text:
                options["transform"] = transform


def _names_of(entry: Any) -> frozenset[str]:
    """Return promptfoo's names of a provider or prompt: its id, label and text."""
    if not isinstance(entry, dict):
        return frozenset([str(entry)])
    return frozenset(str(entry[key]) for key in ("id", "label", "raw") if key in entry)


def _refers(reference: str, names: Iterable[str]) -> bool:
    """Return True if a reference of promptfoo, such as `openai:*`, fits one of `names`."""
    reference = reference.removeprefix("file://")
    for full_name in names:
        name = full_name.removeprefix("file://")
        if name == reference or name.startswith(f"{reference}:"):
            return True
        if reference.endswith("*") and name.startswith(reference.removesuffix("*")):
            return True
    return False


def _name_of(key: str, entry: _Entry, number: int) -> str:
    """Return the name of a provider or prompt in the suite; a provider without one gets its id."""
    made = entry.made
    if key == "prompts" and not isinstance(made, dict):
        return f"prompt {number}"
    if "name" in made:
        return str(made["name"])
    if key == "providers":
        rest = dict(made)
        made.clear()
        made["name"] = min(entry.names).replace(",", ";")
        made.update(rest)
        return str(made["name"])
    if "file" in made:
        return Path(made["file"]).stem
    return str(made.get("function", f"prompt {number}"))


def _overrides(usual: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the overrides that turn one provider into another; none if they cannot."""
    overridden = ("name", "model", "params")
    for key in {*usual, *other}.difference(overridden):
        if usual.get(key) != other.get(key):
            return {}
    if "model" not in other or not set(usual.get("params", {})) <= set(other.get("params", {})):
        return {}
    overrides = {"model": other["model"]}
    if other.get("params"):
        overrides["params"] = other["params"]
    return overrides
