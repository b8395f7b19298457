"""Translates assertions of promptfoo into graders, and their models into judges."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ci_evals.errors import ConfigError
from ci_evals.graders import GRADERS
from ci_evals.plugins.importers.draft import SuiteDraft, UntranslatableError, locate, seconds
from ci_evals.plugins.importers.promptfoo.agents import Transforms, import_of
from ci_evals.plugins.importers.promptfoo.providers import provider_of
from ci_evals.plugins.importers.promptfoo.templates import TemplateTranslator
from ci_evals.plugins.importers.source import Source
from ci_evals.suite.nodes import Node
from ci_evals.templating import is_template

_DEFAULT_JUDGE = {"type": "openai", "model": "gpt-4.1"}
_DEFAULT_EMBEDDINGS = {"type": "embeddings", "model": "text-embedding-3-large"}
_KEYS = frozenset(
    {"type", "value", "threshold", "weight", "metric", "provider", "assert", "config", "transform"}
)
_NAMES = ("name", "description")
_LONGEST_NAME = 100
_CODE = r"\.([cm]?js|ts|py|rb)(:\w+)?$"


class _Rubric(NamedTuple):
    """The judge of a model-graded assertion.

    Args:
        name: a built-in rubric, or None.
        option: the option for the assertion's value.
        threshold: the threshold, unless the assertion has one.
        of_context: True if the score is a share, which needs no scale.
    """

    name: str | None
    option: str | None
    threshold: float | None = None
    of_context: bool = False


_RUBRICS: Mapping[str, _Rubric] = {
    "llm-rubric": _Rubric(None, "rubric"),
    "g-eval": _Rubric(None, "rubric", 0.7),
    "model-graded-closedqa": _Rubric(None, "rubric"),
    "factuality": _Rubric("factual", "reference"),
    "answer-relevance": _Rubric("relevant", None),
    "context-faithfulness": _Rubric("faithful", None, of_context=True),
    "context-recall": _Rubric("context_recall", "reference", of_context=True),
    "context-relevance": _Rubric("context_precision", None, of_context=True),
    "trajectory:goal-success": _Rubric(None, "rubric"),
    "is-refusal": _Rubric("refusal", None),
}
_TEXT = {
    "contains": "contains",
    "icontains": "contains",
    "starts-with": "starts_with",
}
_TEXTS = {
    "contains-all": "contains_all",
    "contains-any": "contains_any",
    "icontains-all": "contains_all",
    "icontains-any": "contains_any",
}
_WORDS = "word overlap is not measured here: `similar` compares texts, a `judge` their meaning"
_CALLS = "use `tool_call` and `tool_arguments` for the expected tools and their arguments"
_PARSER = "use a `python` grader to parse it"
_NO_LIST_OF_TOOLS = "only names of tools are imported: see `trajectory`"
_REASONS = {
    "bleu": _WORDS,
    "gleu": _WORDS,
    "meteor": _WORDS,
    "rouge-n": _WORDS,
    "levenshtein": "use `similar: {value, threshold}`, whose score is a share, not a distance",
    "select-best": "`ci-evals pairwise` compares two reports",
    "max-score": "`ci-evals pairwise` compares two reports",
    "perplexity": "models do not report it",
    "moderation": "use a `judge`, or a `python` grader that calls the service",
    "guardrails": "use a `judge`, or a `python` grader that calls the service",
    "classifier": "use a `python` grader that calls the model, or see `classify`",
    "webhook": "use a `python` grader that calls it",
    "ruby": "write it as a `python` grader",
    "is-valid-openai-tools-call": _CALLS,
    "is-valid-openai-function-call": _CALLS,
    "is-sql": _PARSER,
    "is-html": _PARSER,
    "is-xml": _PARSER,
    "contains-sql": _PARSER,
    "contains-xml": _PARSER,
    "pi": "it is a service: use a `judge`",
    "trace-span-count": (
        "`max_steps`, `max_tool_calls` and `trajectory` check the steps of an answer"
    ),
    "human": "see `ci-evals judge check` for people's labels",
}

_FLAGS = "promptfoo cannot read these flags and fails every answer; here they work"


_OPTIONS = {
    "contextTransform": "the provider returns the retrieved texts as `context` of its answer",
    "rubricPrompt": "`prompt` of a judge is a template with other names",
}


class Assertions:
    """Translates assertions, and collects the models of their graders in `judges`, by name.

    Args:
        draft: records lost parts.
        templates: translates the templates in values.
        transforms: translates transforms.
    """

    def __init__(
        self, draft: SuiteDraft, templates: TemplateTranslator, transforms: Transforms
    ) -> None:
        self.judges: dict[str, dict[str, Any]] = {}
        self.transforms = transforms
        self.test_transform: Any = None
        """The transform of the test, which applies before those of its assertions."""
        self._draft = draft
        self._templates = templates

    def convert(self, entry: Node, judge: Node | None, source: Source) -> list[Any]:
        """Return the graders of an assertion, with comments before them.

        There is one grader, unless the assertion is a file of several.

        Args:
            entry: the assertion.
            judge: the provider that judges if the assertion names none.
            source: the file of the assertion.

        Raises:
            UntranslatableError: there is no counterpart.
            ConfigError: a file that the assertion names cannot be read.
        """
        given = entry.value
        if isinstance(given, str) and given.startswith("file://"):
            other = source.read(given.removeprefix("file://"))
            graders = []
            for inner in other.written.items():
                graders += self.convert(inner, judge, other)
            return graders
        kind = given.get("type") if isinstance(given, dict) else None
        if not isinstance(kind, str):
            raise UntranslatableError("an assertion is a mapping with a `type`")
        for key, reason in _OPTIONS.items():
            if key in given:
                raise UntranslatableError(f"`{key}` of an assertion: {reason}")
        name, options = self._grader(kind.removeprefix("not-"), entry, judge, source)
        if kind.startswith("not-"):
            name = f"not_{name}"
        weight = given.get("weight")
        if isinstance(weight, int | float) and weight != 1:
            options["weight"] = weight
        if given.get("metric"):
            options["metric"] = str(given["metric"])
        label = _label(given)
        if label is not None:
            options["name"] = given[label].strip()
        if given.get("transform"):
            codes = [self.test_transform, given["transform"]]
            options["transform"] = self.transforms.chain(codes, source)
        made: list[Any] = []
        ignored = [key for key in given if key not in _KEYS and key != label]
        made += [self._draft.ignore(entry[key]) for key in ignored]
        if name.endswith("regex") and "flags" in options:
            what = f"assert: {kind}: (?{options['flags']})"
            made.append(self._draft.lose(entry["value"], what, _FLAGS, weakens=False))
        made.append(locate({name: options}, entry.line))
        return made

    def _grader(
        self, kind: str, entry: Node, judge: Node | None, source: Source
    ) -> tuple[str, dict[str, Any]]:
        """Return the name of a grader, and its options."""
        if kind == "assert-set":
            return "all_of", self._set(entry, judge, source)
        if kind == "javascript":
            return kind, self._javascript(entry.value, source)
        if kind == "python":
            return kind, self._python(entry.value, source)
        threshold = entry.value.get("threshold")
        value = self._value(kind, entry.value.get("value"), source)
        if kind == "regex":
            return kind, _regex(_text(value))
        if kind in _TEXT:
            name = _TEXT[kind]
            options: dict[str, Any] = {GRADERS[name].short: _text(value)}
            if kind.startswith("i"):
                options["ignore_case"] = True
            return name, options
        if kind in _TEXTS:
            options = {"value": _texts(value)}
            if kind.startswith("i"):
                options["ignore_case"] = True
            return _TEXTS[kind], options
        if kind in _RUBRICS:
            options = self._rubric(_RUBRICS[kind], value, threshold)
            options["provider"] = self._judge_name((entry["provider"], judge), source)
            return "judge", options
        if kind == "similar":
            options = _similar(value, threshold)
            specs = (entry["provider"], judge)
            options["provider"] = self._judge_name(specs, source, embeds=True)
            return "embedding_similar", options
        if kind in _PLAIN:
            return _PLAIN[kind](value, threshold)
        raise UntranslatableError(_REASONS.get(kind, "there is no grader like it"))

    def _set(self, entry: Node, judge: Node | None, source: Source) -> dict[str, Any]:
        graders = []
        for inner in entry["assert"].items():
            graders += self.convert(inner, judge, source)
        return {"of": graders, **_threshold(entry.value)}

    def _javascript(self, given: Mapping[str, Any], source: Source) -> dict[str, Any]:
        value = _text(given.get("value"))
        options: dict[str, Any] = {}
        value, threshold = _with_threshold(given, value, source)
        takes_object = self._takes_object(given, value, source)
        path, colon, name = value.removeprefix("file://").partition(":")
        if not value.startswith("file://"):
            options["code"] = self._templates.text(value)
        elif takes_object:
            options["code"] = _CALL_FILE.format(path=source.relative(path), name=name or "default")
        else:
            options["file"] = source.relative(path) + colon + name
        if takes_object:
            options["code"] = _PARSE_IN_JAVASCRIPT + options["code"]
        options |= threshold
        if given.get("config"):
            options["config"] = given["config"]
        if _reaches_machine(value, source):
            options["sandbox"] = False
        return options

    def _python(self, given: Mapping[str, Any], source: Source) -> dict[str, Any]:
        value = _text(given.get("value"))
        value, options = _with_threshold(given, value, source)
        start = ""
        if self._takes_object(given, value, source):
            start = _PARSE_IN_PYTHON
        if not value.startswith("file://"):
            return {"target": start + self._templates.text(value), **options}
        path, _, name = value.removeprefix("file://").partition(":")
        module = self._draft.module_of(source.relative(path))
        statement, function = import_of(module, name or "get_assert")
        self._draft.targets.append(f"{module}:{name or 'get_assert'}")
        context = "context"
        if config := given.get("config"):
            context = f'{{**context, "config": {config!r}}}'
        target = f"{start}{statement}\nreturn {function}(output, {context})\n"
        return {"target": target, **options}

    def _takes_object(self, given: Mapping[str, Any], value: str, source: Source) -> bool:
        """Return True for code that expects an object where the answer is one; here it is text."""
        if self.test_transform or given.get("transform"):
            return False
        return _takes_object(_code_of(value, source))

    def _rubric(self, rubric: _Rubric, value: Any, threshold: Any) -> dict[str, Any]:
        options: dict[str, Any] = {"rubric": rubric.name}
        if rubric.option == "rubric" and isinstance(value, list) and len(value) > 1:
            options["rubric"] = "\n".join(f"- {text}" for text in value)
        elif rubric.option == "rubric" and isinstance(value, list):
            options["rubric"] = _text(value[0])
        elif rubric.option:
            options[rubric.option] = _text(value)
        if not isinstance(threshold, int | float):
            threshold = rubric.threshold
        if rubric.of_context:
            if self._templates.has("context"):
                options["context"] = "{{ context }}"
            if threshold is not None:
                options["threshold"] = threshold
        elif threshold is not None and 0 < threshold < 1 and threshold != 0.5:
            options["scale"] = 11
            options["threshold"] = threshold
        return options

    def _judge_name(
        self, specs: tuple[Node | None, ...], source: Source, *, embeds: bool = False
    ) -> str:
        """Return the name of a grader's judge: the first of `specs` that fits."""
        kind = "judge"
        model = dict(_DEFAULT_JUDGE)
        if embeds:
            kind = "embeddings"
            model = dict(_DEFAULT_EMBEDDINGS)
        spec = _judge_among(specs, embeds=embeds)
        if spec is not None:
            model = provider_of(spec, source, embeds=embeds).options
        model.pop("name", None)
        number = 1
        for name, known in self.judges.items():
            if known == model:
                return name
            if (known["type"] == "embeddings") is embeds:
                number += 1
        new = kind
        if number > 1:
            new = f"{kind} {number}"
        self.judges[new] = model
        return new

    def _value(self, kind: str, value: Any, source: Source) -> Any:
        """Return the value of an assertion with translated templates, or from its file."""
        if not isinstance(value, str) or not value.startswith("file://"):
            return self._templates.inside(value)
        name = value.removeprefix("file://")
        if kind in ("is-json", "contains-json"):
            return {"file": source.relative(name)}
        if re.search(_CODE, name):
            raise UntranslatableError(_REASONS.get(kind, "code makes its value"))
        return self._templates.text(source.read_text(name).strip())


def _label(given: Mapping[str, Any]) -> str | None:
    """Return the key with a short name for a grader; None without one."""
    for key in _NAMES:
        text = given.get(key)
        if isinstance(text, str):
            text = text.strip()
            if text and len(text) <= _LONGEST_NAME and "\n" not in text:
                return key
    return None


def _threshold(given: Mapping[str, Any]) -> dict[str, Any]:
    threshold = given.get("threshold")
    if isinstance(threshold, int | float):
        return {"threshold": threshold}
    return {}


_ABOVE_ZERO = 0.001
_COUNT = re.compile(r"\.length$|^len\(.*\)$")
_HIGH_THRESHOLD = "a `threshold` above 1: a score is from 0 to 1, so let the code compare"
_INNER = re.compile(
    r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`(?:\\.|[^`\\])*`|/(?![/*\s])(?:\\.|[^/\\\n])+/[a-z]*"""
    r"""|\([^()]*\)|\[[^\[\]]*\]"""
)
"""A text, a regular expression of JavaScript, or innermost brackets with their content."""
_BOOLEAN = re.compile(
    r"""
    [=!]=|<|(?<![=-])>|&&|\|\||^\s*!               # comparisons and logic
    |\b(?:and|or|not|in|is)\b
    |\b(?:true|false|True|False)\b
    |\b(?:includes|test|every|some|has|isArray|startsWith|endsWith|startswith|endswith)\s*;?\s*$
    |^\s*(?:all|any|bool|isinstance|Boolean)\s*;?\s*$
    """,
    re.VERBOSE,
)
_MAY_EXCEED_1 = re.compile(
    r"""
    \w\s*[-+*/]\s*\w  # arithmetic
    |^(?:Number|parseInt|parseFloat|int|float|sum|max|abs|round)$
    |\.(?:indexOf|lastIndexOf|search|charCodeAt|count|find|index)$
    """,
    re.VERBOSE,
)
"""Code without its brackets that may be a number above 1."""
_LEAST = {"javascript": "Math.min", "python": "min"}
_CHOICE = re.compile(r"\s\?\s|\bif\b")


def _with_threshold(
    given: Mapping[str, Any], code: str, source: Source
) -> tuple[str, dict[str, Any]]:
    """Return code and its threshold. Without one, any number above 0 passes in promptfoo.

    In promptfoo, a score may be above 1. Here, the expression is changed to compare it itself, or
    to be 1 at most.

    Raises:
        UntranslatableError: the code is more than an expression, and has a threshold above 1.
    """
    threshold = given.get("threshold")
    expression = code.strip().removesuffix(";")
    has_lines = re.search(r"[\n;]|^(?:return|const|let)\b|^file://", expression) is not None
    if "threshold" not in given and _COUNT.search(expression) and not has_lines:
        return f"({expression}) > 0", {}
    may_be_number = _may_be_number(_code_of(code, source) or code)
    if not isinstance(threshold, int | float) or threshold <= 1:
        if may_be_number and not has_lines and _MAY_EXCEED_1.search(_outside(expression)):
            code = f"{_LEAST[given['type'].removeprefix('not-')]}(1, {expression})"
        if may_be_number and "threshold" not in given:
            return code, {"threshold": _ABOVE_ZERO}
        return code, _threshold(given)
    if has_lines:
        raise UntranslatableError(_HIGH_THRESHOLD)
    return f"({expression}) >= {threshold}", {}


def _may_be_number(code: str) -> bool:
    """Return False if every value that code returns is clearly a boolean or a judgement."""
    returned = re.findall(r"\breturn\b(.*)", code)
    if not returned:
        returned = code.strip().splitlines()[-1:]
    for expression in returned:
        if not expression.strip().startswith("{") and not _is_boolean(expression):
            return True
    return False


def _outside(expression: str) -> str:
    """Return an expression without its texts and what is in brackets."""
    outside = expression
    inside = ""
    while outside != inside:
        inside = outside
        outside = _INNER.sub("", inside)
    return outside


def _is_boolean(expression: str) -> bool:
    """Return True for an expression whose outermost operation is a comparison or logical."""
    outside = _outside(expression)
    if _CHOICE.search(outside):
        return re.search(r"(?i)\b(?:true|false)\b", outside) is not None
    return _BOOLEAN.search(outside) is not None


_PARSE_IN_JAVASCRIPT = """\
try {
  const data = JSON.parse(output);
  if (typeof data === "object") output = data ?? output;
} catch {}
"""
_PARSE_IN_PYTHON = """\
try:
    data = json.loads(output)
except ValueError:
    data = None
if isinstance(data, (dict, list)):
    output = data
"""
_CALL_FILE = """\
const file = await import("./{path}");
const check = file.{name} ?? file.default.{name} ?? file.default;
return check(output, context);
"""
_OF_THE_MACHINE = re.compile(
    r"""\bprocess\.(?!exit\b)\w|['"](?:node:)?(?:fs|fs/promises|child_process|worker_threads)['"]"""
)


_OF_A_FILE = re.compile(r"""(?:\bfrom|\brequire\(|\bimport\(?)\s*['"](\.{1,2}/[^'"]+)['"]""")


def _reaches_machine(value: str, source: Source) -> bool:
    """Return True for JavaScript that our sandbox would stop; promptfoo has no sandbox.

    Files that it imports count as well.
    """
    if not value.startswith("file://"):
        return _OF_THE_MACHINE.search(value) is not None
    waiting = [source.locate(value.removeprefix("file://").partition(":")[0])]
    seen: set[Path] = set()
    folder = source.folder.resolve()
    while waiting:
        path = waiting.pop().resolve()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        if not path.is_relative_to(folder):
            return True
        code = path.read_text(errors="replace")
        if _OF_THE_MACHINE.search(code):
            return True
        for name in _OF_A_FILE.findall(code):
            waiting += [path.parent / f"{name}{end}" for end in ("", ".js", ".cjs", ".mjs", ".ts")]
    return False


def _code_of(value: str, source: Source) -> str:
    """Return the code of an assertion or of its file; empty if the file cannot be read."""
    if not value.startswith("file://"):
        return value
    path = value.removeprefix("file://").partition(":")[0]
    try:
        return source.read_text(path)
    except ConfigError:
        return ""


_OF_TEXTS = (
    "at|char\\w+|codePointAt|concat|endsWith|includes|indexOf|lastIndexOf|length|localeCompare"
    "|match(?:All)?|normalize|pad\\w+|repeat|replace(?:All)?|search|slice|split|startsWith"
    "|substr(?:ing)?|to[A-Z]\\w+|trim\\w*|valueOf"
    "|capitalize|casefold|count|encode|endswith|find|index|is[a-z]+|join|lower|lstrip|partition"
    "|removeprefix|removesuffix|rfind|rpartition|rsplit|rstrip|splitlines|startswith|strip|title"
    "|upper"
)
"""The members of strings in JavaScript and Python."""
_MEMBER = re.compile(
    rf"""(?<![\w.'"])output(?:\??\.(?!(?:{_OF_TEXTS})\b)[A-Za-z_]|(?:\?\.)?\[\s*['"])"""
)
_LOOKS_AT_TYPE = re.compile(
    r"(?i)(?:parse\w*|loads|isinstance|type)\(\s*output\b|\btypeof\s+output\b"
)


def _takes_object(code: str) -> bool:
    """Return True for code that reads members of the answer without parsing it first."""
    return _MEMBER.search(code) is not None and _LOOKS_AT_TYPE.search(code) is None


_CLASS_OR_SIGN = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]|\\.|\$", re.DOTALL)


def _regex(pattern: str) -> dict[str, Any]:
    """Translate a regular expression of JavaScript to Python.

    In JavaScript, `\\w`, `\\d` and `\\b` are ASCII only, and `$` matches only at the very end.
    """

    def translate(match: re.Match[str]) -> str:
        return _SIGNS.get(match[0], match[0])

    flags = re.match(r"\(\?([ims]+)\)", pattern)
    options: dict[str, Any] = {}
    if flags is not None:
        pattern = pattern.removeprefix(flags[0])
        options["flags"] = flags[1]
    if re.search(r"\\[wWdDbB]", pattern):
        pattern = f"(?a){pattern}"
    options["pattern"] = _CLASS_OR_SIGN.sub(translate, pattern)
    return options


_SIGNS = {"$": r"\Z", r"\s": r"(?u:\s)", r"\S": r"(?u:\S)"}


def _judge_among(specs: tuple[Node | None, ...], *, embeds: bool) -> Node | None:
    """Return the first provider that fits.

    A mapping may have a provider for text and one for embeddings.
    """
    for spec in specs:
        if spec is None or not spec.value:
            continue
        id_ = spec.value
        if isinstance(spec.value, dict):
            if {"text", "embedding"} & spec.value.keys():
                inner = spec["embedding" if embeds else "text"]
                if inner.value:
                    return inner
                continue
            id_ = str(spec.value.get("id"))
        if (":embedding" in id_) is embeds:
            return spec
    return None


def _similar(value: Any, threshold: Any) -> dict[str, Any]:
    if isinstance(value, list):
        if len(value) != 1:
            reason = "several texts: write `any_of` with an `embedding_similar` for each"
            raise UntranslatableError(reason)
        value = value[0]
    if not isinstance(threshold, int | float):
        threshold = 0.75
    return {"value": _text(value), "threshold": threshold}


_Converted = tuple[str, dict[str, Any]]


def _equals(value: Any, _: Any) -> _Converted:
    return "equals", {"value": value}


def _is_json(value: Any, _: Any) -> _Converted:
    if value is None:
        return "is_json", {"value": True}
    return "json_schema", {"schema": _schema(value)}


def _contains_json(value: Any, _: Any) -> _Converted:
    options = {"value": True}
    if value is not None:
        options["schema"] = _schema(value)
    return "contains_json", options


def _latency(_: Any, threshold: Any) -> _Converted:
    return "latency", {"value": seconds(_number(threshold))}


def _cost(_: Any, threshold: Any) -> _Converted:
    return "cost", {"value": _number(threshold)}


def _word_count(value: Any, _: Any) -> _Converted:
    if isinstance(value, dict):
        return "word_count", {key: item for key, item in value.items() if key in ("max", "min")}
    number = value
    if isinstance(value, str) and value.strip().isdecimal():
        number = int(value)
    if not isinstance(number, int | float):
        raise UntranslatableError("it has no number of words")
    number = int(number)
    return "word_count", {"max": number, "min": number}


def _finish_reason(value: Any, _: Any) -> _Converted:
    return "finish_reason", {"value": value}


def _used_tools(value: Any, _: Any) -> _Converted:
    if not isinstance(value, list):
        value = [value]
    if not all(isinstance(name, str) for name in value):
        raise UntranslatableError(f"{_NO_LIST_OF_TOOLS} and `max_tool_calls`")
    return "trajectory", {"calls": value, "match": "superset"}


def _used_skill(value: Any, _: Any) -> _Converted:
    if not isinstance(value, str):
        raise UntranslatableError("only the name of one skill is imported: see `skill_used`")
    return "skill_used", {"value": value}


def _tool_sequence(value: Any, _: Any) -> _Converted:
    steps = value
    match = "in_order"
    if isinstance(value, dict):
        steps = value.get("steps")
        if value.get("mode") == "exact":
            match = "exact"
    if not isinstance(steps, list) or not all(isinstance(step, str) for step in steps):
        raise UntranslatableError(_NO_LIST_OF_TOOLS)
    return "trajectory", {"calls": steps, "match": match}


def _tool_arguments(value: Any, _: Any) -> _Converted:
    lacks = "it has no `name` or no `args`"
    if not isinstance(value, dict):
        raise UntranslatableError(lacks)
    name = value.get("name") or value.get("tool")
    arguments = value.get("args") or value.get("arguments")
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise UntranslatableError(lacks)
    match = "subset"
    if value.get("mode") == "exact":
        match = "exact"
    return "tool_arguments", {"tool": name, "arguments": arguments, "match": match, "calls": "any"}


def _steps(value: Any, _: Any) -> _Converted:
    if not isinstance(value, dict) or set(value) != {"max"} or not isinstance(value["max"], int):
        raise UntranslatableError(
            "only `max` is imported: see `max_steps`, `max_tool_calls` and `max_model_requests`"
        )
    return "max_steps", {"value": value["max"]}


def _tool_f1(value: Any, threshold: Any) -> _Converted:
    names = _texts(value)
    if not isinstance(names, list) or not names:
        raise UntranslatableError("its `value` names no tool")
    least: float = 1
    if isinstance(threshold, int | float):
        least = threshold
    return "python", {"target": _F1.format(names=set(names)), "threshold": least}


_F1 = """\
called = {{call.name for call in answer.response.tool_calls or answer.response.list_calls()}}
expected = {names!r}
return 2 * len(called & expected) / (len(called) + len(expected))
"""


_PLAIN: Mapping[str, Callable[[Any, Any], _Converted]] = {
    "equals": _equals,
    "is-json": _is_json,
    "contains-json": _contains_json,
    "latency": _latency,
    "cost": _cost,
    "word-count": _word_count,
    "finish-reason": _finish_reason,
    "tool-call-f1": _tool_f1,
    "trajectory:tool-used": _used_tools,
    "trajectory:tool-sequence": _tool_sequence,
    "trajectory:tool-args-match": _tool_arguments,
    "trajectory:step-count": _steps,
    "skill-used": _used_skill,
}
KINDS = frozenset(
    {*_PLAIN, *_TEXT, *_TEXTS, *_RUBRICS, *_REASONS, "regex", "similar", "javascript", "python"}
)
"""The known types of assertions, whether or not they can be translated."""


def _number(value: Any) -> float:
    if not isinstance(value, int | float):
        raise UntranslatableError("it has no `threshold`")
    return value


def _text(value: Any) -> str:
    if value is None:
        raise UntranslatableError("it has no `value`")
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _texts(value: Any) -> Any:
    if isinstance(value, list):
        return [_text(item) for item in value]
    if not isinstance(value, str):
        raise UntranslatableError("its `value` is not a list")
    if is_template(value) and "," not in value:
        return value
    return _split(value)


def _schema(value: Any) -> Any:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise UntranslatableError("its schema is not JSON") from None
    if not isinstance(value, dict):
        raise UntranslatableError("its schema is not a mapping")
    return value


def _split(text: str) -> list[str]:
    """Return the texts between commas; in quotes, a text may have commas."""
    texts = []
    for match in re.finditer(r'"((?:\\.|""|[^"])*)"|([^,\s][^,]*)', text):
        quoted, plain = match.groups()
        if quoted is None:
            texts.append(plain.strip())
        else:
            texts.append(re.sub(r'""|\\(["\\])', lambda sign: sign[1] or '"', quoted))
    return texts
