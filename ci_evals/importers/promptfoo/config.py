"""The config of promptfoo: its prompts, providers and tests, and what holds for all of these."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from jinja2 import TemplateError

from ci_evals.errors import ConfigError
from ci_evals.importers.draft import Draft, Lost, UntranslatableError, locate, original, seconds
from ci_evals.importers.promptfoo.agents import MODULE, Agents
from ci_evals.importers.promptfoo.assertions import Assertions, transform_of
from ci_evals.importers.promptfoo.providers import provider_of
from ci_evals.importers.promptfoo.rows import plain_columns, test_of_row
from ci_evals.importers.promptfoo.templates import TemplateTranslator, quote_dumped
from ci_evals.importers.source import Source
from ci_evals.importers.writing import YamlComment
from ci_evals.suite.nodes import Node
from ci_evals.templating import is_template, template_sandbox

_NOTHING_LIKE_IT = "there is nothing like it"
_SETTINGS: Mapping[str, str] = {
    "redteam": "attacks are not generated here: write those that matter as cases",
    "outputPath": "`report.out` and `--out` name the folder of the results",
    "sharing": "results stay in your CI system",
    "env": "export the variables, or write them into .env beside the suite",
    "commandLineOptions": "they are options of `ci-evals run`",
    "derivedMetrics": "`metric` of graders has mean scores",
    "nunjucksFilters": "templates are Jinja2's, and have its filters",
    "tags": "`label` is kept in reports",
    "tracing": "the extra `otel` reads the spans of Python agents",
}
_OF_A_TEST: Mapping[str, str] = {
    "provider": "every case runs on every provider",
    "providers": "every case runs on every provider",
    "prompts": "every case runs with every prompt",
    "assertScoringFunction": "the score of a run is the weighted mean of its graders",
    "providerOutput": "an answer that is there is named by `overrides: {recorded: …}`",
}
_OPTIONS: Mapping[str, str] = {
    "transform": "`transform` is one of the suite, or of a grader; code is run by `javascript` graders",
    "postprocess": "`transform` is one of the suite, or of a grader; code is run by `javascript` graders",
    "rubricPrompt": "`prompt` of a judge is a template over other names",
    "prefix": "put it into the prompt",
    "suffix": "put it into the prompt",
    "storeOutputAs": "cases do not follow one another: write a conversation, with `turns`",
    "runSerially": "`max_concurrency: 1` of the suite does that for all cases",
}
_ONLY_FILES = "only files of CSV, YAML, JSON and JSONL are read: `cases: {python: …}` takes cases from a function"
_LONGEST_ID = 150
_NO_TEXT = re.compile(
    r"\.([cm]?js|ts|py|pdf|docx|png|jpe?g|gif|bmp|webp|svg|mp[34]|wav|ogg|webm|m4a)$", re.IGNORECASE
)
_PATH = re.compile(r"[\w./*-]+\.(txt|md|json|ya?ml|j2|csv|[cm]?js|ts|py)(:[\w.]+)?")


def recognize(source: Source) -> bool:
    """Return True for a config of promptfoo."""
    value = source.written.value
    if (
        not isinstance(value, dict)
        or "cases" in value
        or _has_typed_provider(value.get("providers"))
    ):
        return False
    asks = {"providers", "targets", "prompts"} & value.keys()
    return bool(asks) and (
        len(asks) > 1 or bool({"tests", "scenarios", "defaultTest", "redteam"} & value.keys())
    )


def _has_typed_provider(providers: object) -> bool:
    """Return True if a provider has a `type`, as in our own suites: promptfoo's have an `id`."""
    return isinstance(providers, list) and any(
        isinstance(each, dict) and "type" in each for each in providers
    )


def convert(source: Source) -> Draft:
    """Make a draft of a config."""
    return _Converter(source).convert()


class _Converter:
    """One pass over a config.

    Args:
        source: the config.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.draft = Draft("promptfoo")
        self.templates = TemplateTranslator()
        self.agents = Agents()
        self.assertions = Assertions(self.draft, self.templates)
        self.judge: Node | None = None
        self.matrix: dict[str, list[Any]] = {}
        self.vars: dict[Any, Any] = {}
        self.metadata: dict[str, Any] = {}
        self.ids: set[str] = set()
        self.named: list[frozenset[str]] = []
        """For each case, the vars that it has."""
        self.lacking: set[str] = set()
        """What cases ask for in their own assertions, and don't have."""

    def convert(self) -> Draft:
        root, found = self.source.written, dict[str, dict[Any, Any]]()
        self.read_default_test(root["defaultTest"], found)
        if "defaultTest" in root:
            rest = self.source.take_comments(root["defaultTest"])
            if rest:
                found.setdefault("judges", {}).update(dict.fromkeys(rest))
        readers: dict[str, Callable[[Node], dict[Any, Any]]] = {
            "description": self.read_description,
            "prompts": lambda written: {"prompts": self.each(written, self.read_prompt, "prompt")},
            "providers": lambda written: {
                "providers": self.each(written, self.read_provider, "provider")
            },
            "targets": lambda written: {
                "providers": self.each(written, self.read_provider, "target")
            },
            "tests": lambda written: {"cases": self.read_tests(written)},
            "scenarios": lambda written: {"cases": self.read_scenarios(written)},
            "evaluateOptions": self.read_evaluate_options,
        }
        for key in root.value:
            comments = self.source.take_comments_before(root[key])
            if key in readers:
                made = readers[key](root[key])
                comments += self.source.take_comments(root[key])
                for name, value in made.items():
                    section = found.setdefault(str(name), {})
                    inside = section.get(name)
                    section |= {
                        **dict.fromkeys(comments),
                        name: [*inside, *value] if isinstance(inside, list) else value,
                    }
            elif key.startswith(("x-", ".", "_")):  # by custom they hold what anchors share
                found[key] = dict.fromkeys(comments)
            elif key not in ("defaultTest", "$schema"):
                lost = self.draft.lose(
                    root[key], key, _SETTINGS.get(key, _NOTHING_LIKE_IT), weakens=False
                )
                found[key] = dict.fromkeys((*comments, lost))
        if "cases" not in found and self.judges_something(found):
            self.named.append(frozenset(self.vars))
            found["cases"] = {
                "cases": [
                    {"id": "the prompt as it is", "matrix": self.matrix}
                    if self.matrix
                    else {"id": "the prompt as it is"}
                ]
            }
        self.finish(found)
        return self.draft

    def judges_something(self, found: Mapping[str, Any]) -> bool:
        return bool(found.get("prompts") and found.get("expect"))

    def finish(self, found: dict[str, dict[Any, Any]]) -> None:
        """Put the sections in order, with what only shows at the end: judges, and names that not
        all cases have.
        """
        if judges := [
            {"name": name, **options} for name, options in self.assertions.judges.items()
        ]:
            found.setdefault("judges", {})["judges"] = judges
        used = self.templates.used
        lacking = self.lacking | {
            name for name in used if any(name not in names for names in self.named)
        }
        if lacking := lacking - self.vars.keys():
            self.vars[
                YamlComment(
                    "promptfoo leaves empty what a test has no value for: here that is an error."
                )
            ] = None
            self.vars |= dict.fromkeys(sorted(lacking), "")
        if self.templates.environment:
            self.vars["env"] = {
                name: f"${{{name}:-}}" for name in sorted(self.templates.environment)
            }
        if self.vars:
            found.setdefault("vars", {})["vars"] = self.vars
        order = (
            *(
                "name",
                "description",
                "runs",
                "max_concurrency",
                "timeout_s",
                "budget",
                "providers",
                "judges",
            ),
            *("prompts", "vars", "transform", "expect", "threshold"),
        )
        last = {"cases": found.pop("cases")} if "cases" in found else {}
        for section in (
            {name: found.pop(name) for name in order if name in found} | found | last
        ).values():
            self.draft.suite |= section
        for key in ("providers", "prompts"):
            _tell_apart(self.draft.suite.get(key, ()))
        self.draft.suite |= dict.fromkeys(self.source.take_other_comments())
        if text := self.agents.text:
            self.draft.files[f"{MODULE}.py"] = text

    def each(self, written: Node, read: Callable[[Node], list[Any]], what: str) -> list[Any]:
        """Convert each entry of a list, or the only one; what can't be becomes a comment."""
        made: list[Any] = []
        for entry in written.items() if isinstance(written.value, list) else [written]:
            comments = self.source.take_comments(entry)
            try:
                made += [*comments, *(locate(each, entry.line) for each in read(entry))]
            except (UntranslatableError, ConfigError) as error:
                made += [*comments, self.draft.lose(entry, what, str(error), weakens=True)]
        return made

    # Settings.

    def read_description(self, written: Node) -> dict[Any, Any]:
        text = str(written.value or "").strip()
        return (
            {"name" if len(text) <= _LONGEST_ID and "\n" not in text else "description": text}
            if text
            else {}
        )

    def read_evaluate_options(self, written: Node) -> dict[Any, Any]:
        settings: dict[Any, Any] = {}
        for key, value in (written.value or {}).items():
            is_number = isinstance(value, int | float) and value > 0
            if key in ("maxConcurrency", "repeat") and is_number:
                settings |= (
                    {"max_concurrency": value}
                    if key == "maxConcurrency"
                    else {"runs": value}
                    if value > 1
                    else {}
                )
            elif key == "timeoutMs" and is_number:
                settings["timeout_s"] = seconds(value)
            elif key == "maxEvalTimeMs" and is_number:
                settings["budget"] = {"max_duration_s": seconds(value)}
            elif key not in ("cache", "showProgressBar"):
                reason = (
                    "`rpm` of a provider spaces its calls" if key == "delay" else _NOTHING_LIKE_IT
                )
                settings[
                    self.draft.lose(written[key], f"evaluateOptions.{key}", reason, weakens=False)
                ] = None
        return settings

    def read_provider(self, entry: Node, source: Source | None = None) -> list[Any]:
        value, source = entry.value, source or self.source
        if isinstance(value, str) and re.fullmatch(r"file://.*\.(ya?ml|json)", value):
            other = source.read(value.removeprefix("file://"))
            entries = (
                other.written.items() if isinstance(other.written.value, list) else [other.written]
            )
            return [each for one in entries for each in self.read_provider(one, other)]
        made = provider_of(entry, source, self.agents)
        lost = [
            Lost(
                entry.file,
                entry.line,
                f"provider {made.id}: {name}",
                reason,
                weakens=name == "transform",
            )
            for name, reason in made.lost
        ]
        self.draft.lost += lost
        notes = {YamlComment(f"not imported: {name}: {reason}"): None for name, reason in made.lost}
        return [{**notes, **made.options}]

    # Prompts.

    def read_prompt(self, entry: Node) -> list[Any]:
        value, label = entry.value, None
        if isinstance(value, dict):
            label = value.get("label")
            if config := value.get("config"):
                raise UntranslatableError(
                    f"`config` of a prompt, {', '.join(config)}: give it to a provider as `params`"
                )
            value = value.get("raw") or value.get("id")
        if not isinstance(value, str):
            raise UntranslatableError("a prompt is a text, a file, or has `raw`")
        if re.match(r"(https?|langfuse|portkey|helicone)://|exec:", value):
            raise UntranslatableError(
                "it comes from elsewhere: write its text, or keep it in a file"
            )
        if value.startswith("file://") or _PATH.fullmatch(value):
            return [
                each
                for name in self.source.find(value.removeprefix("file://"))
                for each in self.read_prompt_file(name, label)
            ]
        return [self.prompt(value, label)]

    def read_prompt_file(self, name: str, label: str | None) -> list[Any]:
        if re.search(r"\.([cm]?js|ts|py)(:[\w.]+)?$", name):
            raise UntranslatableError(
                "a function makes it: write it as a template, or let a `python` provider call it"
            )
        text = self.source.read_text(name)
        parts = [
            part.strip() for part in re.split(r"^---\s*$", text, flags=re.MULTILINE) if part.strip()
        ]
        prompts = [self.prompt(part, label) for part in parts]
        if prompts == [text.strip()] or (
            len(parts) == 1 and prompts == [{"name": label, "user": text.strip()}]
        ):
            return [{**({"name": label} if label else {}), "file": self.source.relative(name)}]
        return prompts

    def prompt(self, text: str, label: str | None) -> Any:
        named = {"name": label} if label else {}
        turns = [
            {"role": role, "content": self.templates.text(content)} for role, content in _chat(text)
        ]
        roles = [turn["role"] for turn in turns]
        if roles == ["system", "user"]:
            return {**named, "system": turns[0]["content"], "user": turns[1]["content"]}
        if len(turns) > 1:
            return {**named, "messages": turns}
        user = turns[0]["content"]
        return {**named, "user": user} if named else user

    # Tests.

    def read_default_test(self, written: Node, found: dict[str, dict[Any, Any]]) -> None:
        if isinstance(written.value, str):
            written = self.source.read(written.value.removeprefix("file://")).written
        if not isinstance(written.value, dict):
            return
        comments = self.source.take_comments_before(written)
        self.judge = self.judge_of(written)
        try:
            vars_, self.matrix = self.read_vars(written)
        except (UntranslatableError, ConfigError) as error:
            vars_ = {}
            self.vars[
                self.draft.lose(written["vars"], "defaultTest.vars", str(error), weakens=True)
            ] = None
        beside = self.source.take_comments(written["vars"])
        self.vars |= dict.fromkeys(beside)
        self.vars |= vars_
        if expect := self.read_expect(written):
            found["expect"] = {**dict.fromkeys(comments), "expect": expect}
        if isinstance(metadata := written["metadata"].value, dict):
            self.metadata = metadata
        if isinstance(threshold := written["threshold"].value, int | float):
            found["threshold"] = {"threshold": threshold}
        lost: list[YamlComment] = [
            self.draft.lose(
                written[key], f"defaultTest.{key}", "give it to each case", weakens=False
            )
            for key in written.value
            if key not in ("vars", "assert", "threshold", "options", "metadata", "description")
        ]
        with suppress(UntranslatableError):
            if code := (written["options"].value or {}).get("transform"):
                found["transform"] = {"transform": transform_of(code)}
        without = "transform" if "transform" in found else ""
        if lost := [*lost, *self.lost_options(written, "defaultTest", without)]:
            section: dict[Any, Any] = found.setdefault("expect", {})
            section |= dict.fromkeys(lost)

    def judge_of(self, written: Node) -> Node | None:
        provider = written["options"]["provider"]
        return provider if provider.value else self.judge

    def lost_options(self, written: Node, where: str, without: str = "") -> Iterator[YamlComment]:
        options = written["options"]
        for key in options.value if isinstance(options.value, dict) else ():
            if key not in ("provider", "disableVarExpansion", "repeat", without):
                reason = _OPTIONS.get(key, _NOTHING_LIKE_IT)
                yield self.draft.lose(
                    options[key], f"{where}.options.{key}", reason, weakens=key in _OPTIONS
                )

    def read_tests(self, written: Node) -> list[Any]:
        made: list[Any] = []
        for entry in written.items() if isinstance(written.value, list) else [written]:
            try:
                made += (
                    self.read_test_files(entry)
                    if isinstance(entry.value, str)
                    else [self.read_test(entry)]
                )
            except (UntranslatableError, ConfigError) as error:
                comments = self.source.take_comments(entry)
                made += [*comments, self.draft.lose(entry, "tests", str(error), weakens=True)]
        return made

    def read_test_files(self, entry: Node) -> list[Any]:
        pattern = entry.value.removeprefix("file://")
        if not re.search(r"\.(csv|ya?ml|json|jsonl)$", pattern):
            raise UntranslatableError(_ONLY_FILES)
        made: list[Any] = [*self.source.take_comments_before(entry)]
        for name in self.source.find(pattern):
            other, outer = self.source.read(name), self.source
            rows = other.written
            columns = plain_columns(rows.value) if name.endswith(".csv") else None
            if columns is not None and not self.matrix:
                self.named.append(frozenset({*columns, *self.vars}))
                made.append({"file": self.source.relative(name)})
                continue
            self.source = other
            try:
                if name.endswith(".csv"):
                    made += [
                        self.read_test(row.with_value(test_of_row(row.value)))
                        for row in rows.items()
                    ]
                else:
                    made += self.read_tests(rows)
            finally:
                self.source = outer
        return made

    def read_scenarios(self, written: Node) -> list[Any]:
        """Return a case for each pair of a configuration and a test."""
        made: list[Any] = []
        for scenario in written.items() if isinstance(written.value, list) else ():
            parts = scenario["config"], scenario["tests"]
            if not all(
                isinstance(part.value, list) and all(isinstance(each, dict) for each in part.value)
                for part in parts
            ):
                made.append(
                    self.draft.lose(
                        scenario, "scenarios", "only lists of mappings are read", weakens=True
                    )
                )
                continue
            for config in parts[0].items():
                for test in parts[1].items():
                    both = {
                        key: {**(config.value.get(key) or {}), **(test.value.get(key) or {})}
                        for key in ("vars", "options")
                    }
                    whole = {**config.value, **test.value, **both}
                    whole["assert"] = [
                        *(config.value.get("assert") or ()),
                        *(test.value.get("assert") or ()),
                    ]
                    try:
                        made.append(self.read_test(test.with_value(whole)))
                    except (UntranslatableError, ConfigError) as error:
                        made.append(self.draft.lose(test, "scenarios", str(error), weakens=True))
        return made

    def read_test(self, written: Node) -> Any:
        if not isinstance(written.value, dict):
            raise UntranslatableError("a test is a mapping, or the path of a file")
        test, case = written.value, dict[Any, Any]()
        if "path" in test and "vars" not in test:
            raise UntranslatableError(_ONLY_FILES)
        titled = next(
            (key for key in ("description", "name") if str(test.get(key) or "").strip()),
            "description",
        )
        if description := str(test.get(titled) or "").strip():
            is_id = (
                len(description) <= _LONGEST_ID
                and "\n" not in description
                and description not in self.ids
            )
            case["id" if is_id else "description"] = description
            self.ids.add(description)
        vars_, matrix = self.read_vars(written)
        matrix = {
            name: values for name, values in self.matrix.items() if name not in vars_
        } | matrix
        case |= {key: value for key, value in (("vars", vars_), ("matrix", matrix)) if value}
        self.named.append(
            frozenset({*vars_, *matrix, *(name for name in self.vars if isinstance(name, str))})
        )
        everywhere, self.templates.used = self.templates.used, set()
        if expect := self.read_expect(written):
            case["expect"] = expect
        self.lacking |= self.templates.used - self.named[-1]
        self.templates.used = everywhere
        options = test.get("options") or {}
        metadata = {**self.metadata, **(test.get("metadata") or {})} or None
        settings = {
            "threshold": test.get("threshold"),
            "metadata": metadata,
            "runs": options.get("repeat"),
        }
        case |= {key: value for key, value in settings.items() if value is not None}
        read = {"vars", "assert", "threshold", "metadata", "options", "description", titled}
        for key in (key for key in test if key not in read):
            reason = _OF_A_TEST.get(key, _NOTHING_LIKE_IT)
            case[
                self.draft.lose(written[key], f"tests.{key}", reason, weakens=key in _OF_A_TEST)
            ] = None
        case |= dict.fromkeys(self.lost_options(written, "tests"))
        return locate(
            {**dict.fromkeys(self.source.take_comments(written)), **case},
            written.line,
        )

    def read_vars(self, written: Node) -> tuple[dict[str, Any], dict[str, list[Any]]]:
        """Return the vars of a test, and those that have several values."""
        given = written["vars"].value
        if isinstance(given, str):
            given = self.source.read(given.removeprefix("file://")).written.value
        vars_: dict[str, Any] = {}
        matrix: dict[str, list[Any]] = {}
        expands = not (written["options"].value or {}).get("disableVarExpansion")
        for name, value in given.items() if isinstance(given, dict) else ():
            values = [
                each
                for item in (value if isinstance(value, list) and expands else [value])
                for each in self.values(item)
            ]
            if (isinstance(value, list) and expands and values) or len(values) > 1:
                matrix[name] = values
            else:
                vars_[name] = values[0] if len(values) == 1 else value
        return self.fill_vars(vars_), matrix

    def fill_vars(self, vars_: Mapping[str, Any]) -> dict[str, Any]:
        """Fill in the vars that are templates over others."""
        filled = {}
        for name, value in vars_.items():
            filled[name] = value
            if isinstance(value, str) and is_template(value):
                source = TemplateTranslator().text(value)
                try:
                    filled[name] = (
                        template_sandbox().from_string(source).render({**self.vars, **vars_})
                    )
                except TemplateError as error:
                    raise UntranslatableError(
                        f"the var {name!r} is a template over others: {error}"
                    ) from None
        return filled

    def values(self, value: Any) -> list[Any]:
        """Return the values that one of the vars stands for: several if it is a pattern of
        files.
        """
        if not isinstance(value, str) or not value.startswith("file://"):
            return [value]
        if _NO_TEXT.search(value):
            raise UntranslatableError(f"the var {value}: only texts and data are read from files")
        return [
            {"file": self.source.relative(name)}
            for name in self.source.find(value.removeprefix("file://"))
        ]

    def read_expect(self, written: Node) -> list[Any]:
        given = written["assert"]
        made: list[Any] = []
        if given.value is not None and not isinstance(given.value, list):
            made.append(self.draft.lose(given, "assert", "assertions are a list", weakens=True))
        for entry in given.items() if isinstance(given.value, list) else ():
            comments = self.source.take_comments(entry)
            try:
                made += [
                    *comments,
                    *self.assertions.convert(entry, self.judge_of(written), self.source),
                ]
            except (UntranslatableError, ConfigError) as error:
                kind = (
                    entry.value.get("type")
                    if isinstance(entry.value, dict)
                    else original(entry.value)[:40]
                )
                made += [
                    *comments,
                    self.draft.lose(entry, f"assert: {kind}", str(error), weakens=True),
                ]
        return made


def _tell_apart(entries: Iterable[Any]) -> None:
    """Give a name to each provider or prompt that would have the same one as another before it."""
    taken: Counter[str] = Counter()
    for entry in entries:
        if not isinstance(entry, dict):
            continue
        usual = (
            Path(entry["file"]).stem
            if "file" in entry
            else f"{entry.get('type')}:{entry.get('model')}"
        )
        if not (name := entry.get("name") or usual * ("file" in entry or "model" in entry)):
            continue
        taken[name] += 1
        if taken[name] > 1:
            rest = dict(entry)
            entry.clear()
            entry |= {
                "name": f"{name} {taken[name]}",
                **{key: value for key, value in rest.items() if key != "name"},
            }


def _chat(text: str) -> list[tuple[str, str]]:
    """Return the messages that a prompt is, in JSON or YAML; of a text, that of the user."""
    messages = None
    if re.match(r"\s*(\[\s*\{|- role:)", text):
        with suppress(ValueError, yaml.YAMLError):
            messages = (
                json.loads(quote_dumped(text)) if text.lstrip()[0] == "[" else yaml.safe_load(text)
            )
    roles = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
    if not isinstance(messages, list) or not all(
        isinstance(each, dict) and each.get("role") in roles for each in messages
    ):
        return [("user", text)]
    if not all(isinstance(each.get("content"), str) for each in messages):
        raise UntranslatableError("a message of it has parts other than text")
    return [(roles[each["role"]], each["content"]) for each in messages]
