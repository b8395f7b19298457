"""Assertions of promptfoo as graders, and the models that they ask as judges."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ci_evals.graders import GRADERS
from ci_evals.importers.draft import Draft, UntranslatableError, locate, seconds
from ci_evals.importers.promptfoo.agents import import_of
from ci_evals.importers.promptfoo.providers import provider_of
from ci_evals.importers.promptfoo.templates import TemplateTranslator
from ci_evals.importers.source import Source
from ci_evals.suite.nodes import Node
from ci_evals.templating import is_template

_DEFAULT_JUDGE = {"type": "openai", "model": "gpt-4.1"}
_DEFAULT_EMBEDDINGS = {"type": "embeddings", "model": "text-embedding-3-large"}
_KEYS = frozenset(
    {"type", "value", "threshold", "weight", "metric", "provider", "assert", "config", "transform"}
)
_NAMES = ("name", "description")
_LONGEST_NAME = 100
_CODE = re.compile(r"\.([cm]?js|ts|py|rb)(:\w+)?$")


class _Rubric(NamedTuple):
    """A ready rubric, or none; the option that takes the assertion's value; the threshold unless it
    has one.

    Those `of_context` have shares as scores, and need no scale.
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
    "icontains": "icontains",
    "starts-with": "starts_with",
    "regex": "regex",
}
_TEXTS = {
    "contains-all": "contains_all",
    "contains-any": "contains_any",
    "icontains-all": "contains_all",
    "icontains-any": "contains_any",
}
_WORDS = "overlap of words is no measure here: `similar` compares texts, a `judge` their meaning"
_REASONS = {
    "bleu": _WORDS,
    "gleu": _WORDS,
    "meteor": _WORDS,
    "rouge-n": _WORDS,
    "levenshtein": "`similar: {value, threshold}` compares texts, by the share that is alike",
    "select-best": "`ci-evals pairwise` compares two reports",
    "max-score": "`ci-evals pairwise` compares two reports",
    "perplexity": "models do not tell it",
    "moderation": "let a `judge` look for it, or a `python` grader ask the service",
    "guardrails": "let a `judge` look for it, or a `python` grader ask the service",
    "classifier": "let a `python` grader ask the model, or see `classify`",
    "webhook": "let a `python` grader call it",
    "ruby": "write it as a `python` grader",
    "tool-call-f1": "`tool_call` has the share of the expected calls as its score",
    "is-valid-openai-tools-call": "`tool_call` and `tool_arguments` say which tools are to be called, and with what",
    "is-valid-openai-function-call": "`tool_call` and `tool_arguments` say which tools are to be called, and with what",
    "is-sql": "let a `python` grader parse it",
    "is-html": "let a `python` grader parse it",
    "is-xml": "let a `python` grader parse it",
    "contains-sql": "let a `python` grader parse it",
    "contains-xml": "let a `python` grader parse it",
    "pi": "it is a service: use a `judge`",
    "trace-span-count": "`max_steps`, `max_tool_calls` and `trajectory` look at the steps of an answer",
    "human": "see `ci-evals judge check` for people's labels",
}


class Assertions:
    """Translates assertions. Afterwards `judges` has the models that their graders ask, by name.

    Args:
        draft: remembers the lines.
        templates: translates the templates in values.
    """

    def __init__(self, draft: Draft, templates: TemplateTranslator) -> None:
        self.judges: dict[str, dict[str, Any]] = {}
        self._draft = draft
        self._templates = templates

    def convert(self, entry: Node, judge: Node | None, source: Source) -> list[Any]:
        """Return the graders that an assertion is: one, but for a file of several. Comments stand
        before them.

        Args:
            entry: the assertion.
            judge: the provider that judges where the assertion names none.
            source: where it stands.

        Raises:
            UntranslatableError: nothing here is like it.
            ConfigError: a file that it names cannot be read.
        """
        if isinstance(entry.value, str) and entry.value.startswith("file://"):
            other = source.read(entry.value.removeprefix("file://"))
            return [
                each for one in other.written.items() for each in self.convert(one, judge, other)
            ]
        given = entry.value
        kind = given.get("type") if isinstance(given, dict) else None
        if not isinstance(kind, str):
            raise UntranslatableError("an assertion is a mapping with a `type`")
        if changing := sorted(given.keys() & _OPTIONS.keys()):
            raise UntranslatableError(f"`{changing[0]}` of an assertion: {_OPTIONS[changing[0]]}")
        name, options = self._grader(kind.removeprefix("not-"), entry, judge, source)
        if isinstance(weight := given.get("weight"), int | float) and weight != 1:
            options["weight"] = weight
        if given.get("metric"):
            options["metric"] = str(given["metric"])
        label = next(
            (key for key in _NAMES if isinstance(given.get(key), str) and _is_name(given[key])), ""
        )
        if label:
            options["name"] = given[label].strip()
        if given.get("transform"):
            options["transform"] = transform_of(given["transform"])
        entry_name = f"not_{name}" if kind.startswith("not-") else name
        lost = [
            self._draft.lose(
                entry[key], f"assert: {kind}: {key}", "promptfoo ignores it", weakens=False
            )
            for key in given
            if key not in _KEYS and key != label
        ]
        return [*lost, locate({entry_name: options}, entry.line)]

    def _grader(
        self, kind: str, entry: Node, judge: Node | None, source: Source
    ) -> tuple[str, dict[str, Any]]:
        """Return the name of a grader, and its options."""
        threshold = entry.value.get("threshold")
        if kind in ("assert-set", "javascript", "python"):
            is_set = kind == "assert-set"
            return (
                self._set(entry, judge, source)
                if is_set
                else (kind, self._code(kind, entry.value, source))
            )
        value = self._value(kind, entry.value.get("value"), source)
        if kind in _TEXT:
            return _TEXT[kind], {GRADERS[_TEXT[kind]].short: _text(value)}
        if kind in _TEXTS:
            return _TEXTS[kind], {"value": _texts(value)} | (
                {"ignore_case": True} if kind.startswith("i") else {}
            )
        if kind in _RUBRICS:
            return "judge", self._ask(
                self._rubric(_RUBRICS[kind], value, threshold), entry, judge, source
            )
        if kind == "similar":
            return "embedding_similar", self._ask(
                _similar(value, threshold), entry, judge, source, embeds=True
            )
        if convert := _PLAIN.get(kind):
            name, options = convert(value, threshold)
            return name, dict(options)
        raise UntranslatableError(_REASONS.get(kind, "there is no grader like it"))

    def _set(self, entry: Node, judge: Node | None, source: Source) -> tuple[str, dict[str, Any]]:
        parts = entry["assert"]
        of = [each for part in parts.items() for each in self.convert(part, judge, source)]
        threshold = entry.value.get("threshold")
        return "all_of", {
            "of": of,
            **({"threshold": threshold} if isinstance(threshold, int | float) else {}),
        }

    def _code(self, kind: str, given: Mapping[str, Any], source: Source) -> dict[str, Any]:
        value, is_script = _text(given.get("value")), kind == "javascript"
        options: dict[str, Any]
        if not value.startswith("file://"):
            options = {"code" if is_script else "target": self._templates.text(value)}
        elif is_script:
            path, colon, name = value.removeprefix("file://").partition(":")
            options = {"file": source.relative(path) + colon + name}
        else:
            path, _, name = value.removeprefix("file://").partition(":")
            statement, function = import_of(source.relative(path), name or "get_assert")
            config = given.get("config")
            context = f'{{**context, "config": {config!r}}}' if config else "context"
            options = {"target": f"{statement}\nreturn {function}(output, {context})\n"}
        if isinstance(threshold := given.get("threshold"), int | float):
            options["threshold"] = threshold
        if given.get("config") and is_script:
            options["config"] = given["config"]
        return options

    def _rubric(self, rubric: _Rubric, value: Any, threshold: Any) -> dict[str, Any]:
        options: dict[str, Any] = {"rubric": rubric.name}
        if rubric.option == "rubric":
            texts = value if isinstance(value, list) else [value]
            options["rubric"] = (
                "\n".join(f"- {text}" for text in texts) if len(texts) > 1 else _text(texts[0])
            )
        elif rubric.option:
            options[rubric.option] = _text(value)
        if rubric.of_context:
            options["context"] = self._templates.text("{{ context }}")
            return options | (
                {"threshold": threshold} if isinstance(threshold, int | float) else {}
            )
        least = threshold if isinstance(threshold, int | float) else rubric.threshold
        if least is not None and 0 < least < 1 and least != 0.5:
            options |= {"scale": 11, "threshold": least}
        return options

    def _ask(
        self,
        options: dict[str, Any],
        entry: Node,
        judge: Node | None,
        source: Source,
        *,
        embeds: bool = False,
    ) -> dict[str, Any]:
        """Return the options of a grader with the name of the judge that it asks."""
        spec = _judge_among((entry["provider"], judge), embeds=embeds)
        model = dict(_DEFAULT_EMBEDDINGS if embeds else _DEFAULT_JUDGE)
        if spec is not None:
            model = provider_of(spec, source, embeds=embeds).options
        model.pop("name", None)
        name = next((name for name, each in self.judges.items() if each == model), None)
        if name is None:
            kind = "embeddings" if embeds else "judge"
            number = sum(_embeds(each) is embeds for each in self.judges.values()) + 1
            name = kind if number == 1 else f"{kind} {number}"
            self.judges[name] = model
        options["provider"] = name
        return options

    def _value(self, kind: str, value: Any, source: Source) -> Any:
        """Return the value of an assertion, with its templates, or from its file."""
        if not isinstance(value, str) or not value.startswith("file://"):
            return self._templates.inside(value)
        name = value.removeprefix("file://")
        if kind in ("is-json", "contains-json"):
            return {"file": source.relative(name)}
        if _CODE.search(name):
            raise UntranslatableError(_REASONS.get(kind, "its value is made by code"))
        return self._templates.text(source.read_text(name).strip())


def _is_name(text: str) -> bool:
    return bool(text.strip()) and len(text.strip()) <= _LONGEST_NAME and "\n" not in text.strip()


_OPTIONS = {
    "contextTransform": "the provider tells the retrieved texts, as `context` of its answer",
    "rubricPrompt": "`prompt` of a judge is a template over other names",
}


_TRANSFORMS = (
    (r"output\.trim\(\)", "output | trim"),
    (r"output\.toLowerCase\(\)", "output | lower"),
    (r"output\.toUpperCase\(\)", "output | upper"),
    (r"JSON\.parse\(output\)", "$"),
    (r"(?:JSON\.parse\(output\)|output)((?:\??\.\w+|\??\.?\[\d+\])+)", r"$\1"),
)


def transform_of(code: Any) -> str:
    """Return a transform in JavaScript as one of ours, if it is one of the usual ones.

    Raises:
        UntranslatableError: it is another one.
    """
    for pattern, ours in _TRANSFORMS:
        if isinstance(code, str) and (
            found := re.fullmatch(pattern, code.strip().removesuffix(";"))
        ):
            return found.expand(ours).replace("?.[", "[").replace("?.", ".")
    reason = "`transform` here is a JSONPath, a Jinja2 expression or a Python function; `javascript` graders run code"
    raise UntranslatableError(reason)


def _judge_among(specs: tuple[Node | None, ...], *, embeds: bool) -> Node | None:
    """Return the first provider that fits; a mapping may have one for texts and one for
    embeddings.
    """
    for spec in specs:
        if spec is None or not spec.value:
            continue
        if isinstance(spec.value, dict) and {"text", "embedding"} & spec.value.keys():
            inner = spec["embedding" if embeds else "text"]
            if inner.value:
                return inner
        else:
            id_ = spec.value if isinstance(spec.value, str) else str(spec.value.get("id"))
            if (":embedding" in id_) is embeds:
                return spec
    return None


def _embeds(model: Mapping[str, Any]) -> bool:
    return bool(model["type"] == "embeddings")


def _similar(value: Any, threshold: Any) -> dict[str, Any]:
    if isinstance(value, list) and len(value) != 1:
        raise UntranslatableError(
            "several texts: write `any_of` with an `embedding_similar` for each"
        )
    text = _text(value[0] if isinstance(value, list) else value)
    return {"value": text, "threshold": threshold if isinstance(threshold, int | float) else 0.75}


_Converted = tuple[str, Mapping[str, Any]]


def _is_json(value: Any, _: Any) -> _Converted:
    return (
        ("is_json", {"value": True})
        if value is None
        else ("json_schema", {"schema": _schema(value)})
    )


def _contains_json(value: Any, _: Any) -> _Converted:
    return "contains_json", {"value": True} if value is None else {
        "value": True,
        "schema": _schema(value),
    }


def _latency(_: Any, threshold: Any) -> _Converted:
    return "latency", {"value": seconds(_number(threshold))}


def _cost(_: Any, threshold: Any) -> _Converted:
    return "cost", {"value": _number(threshold)}


def _word_count(value: Any, _: Any) -> _Converted:
    if isinstance(value, dict):
        return "word_count", {key: item for key, item in value.items() if key in ("max", "min")}
    number = int(_number(float(value) if isinstance(value, str) else value))
    return "word_count", {"max": number, "min": number}


def _used_tools(value: Any, _: Any) -> _Converted:
    names = value if isinstance(value, list) else [value]
    if not all(isinstance(name, str) for name in names):
        raise UntranslatableError(
            "only names of tools are taken over: see `trajectory` and `max_tool_calls`"
        )
    return "trajectory", {"calls": names, "match": "superset"}


def _tool_sequence(value: Any, _: Any) -> _Converted:
    steps = value.get("steps") if isinstance(value, dict) else value
    exact = isinstance(value, dict) and value.get("mode") == "exact"
    if not isinstance(steps, list) or not all(isinstance(step, str) for step in steps):
        raise UntranslatableError("only names of tools are taken over: see `trajectory`")
    return "trajectory", {"calls": steps, "match": "exact" if exact else "in_order"}


def _tool_arguments(value: Any, _: Any) -> _Converted:
    name = value.get("name") or value.get("tool") if isinstance(value, dict) else None
    arguments = value.get("args") or value.get("arguments") if isinstance(value, dict) else None
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise UntranslatableError("it has no `name` or no `args`")
    match = "exact" if value.get("mode") == "exact" else "subset"
    return "tool_arguments", {"tool": name, "arguments": arguments, "match": match, "calls": "any"}


def _steps(value: Any, _: Any) -> _Converted:
    if (
        not isinstance(value, dict)
        or not isinstance(value.get("max"), int)
        or value.keys() - {"max"}
    ):
        raise UntranslatableError(
            "only `max` is taken over: see `max_steps`, `max_tool_calls` and `max_model_requests`"
        )
    return "max_steps", {"value": value["max"]}


_PLAIN: Mapping[str, Callable[[Any, Any], _Converted]] = {
    "equals": lambda value, _: ("equals", {"value": value}),
    "is-json": _is_json,
    "contains-json": _contains_json,
    "latency": _latency,
    "cost": _cost,
    "word-count": _word_count,
    "finish-reason": lambda value, _: ("finish_reason", {"value": value}),
    "trajectory:tool-used": _used_tools,
    "trajectory:tool-sequence": _tool_sequence,
    "trajectory:tool-args-match": _tool_arguments,
    "trajectory:step-count": _steps,
}
KINDS = frozenset(
    {*_PLAIN, *_TEXT, *_TEXTS, *_RUBRICS, *_REASONS, "similar", "javascript", "python"}
)
"""The types of assertions that are known here, translated or not."""


def _number(value: Any) -> float:
    if not isinstance(value, int | float):
        raise UntranslatableError("it has no `threshold`")
    return value


def _text(value: Any) -> str:
    if value is None:
        raise UntranslatableError("it has no `value`")
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _texts(value: Any) -> Any:
    if isinstance(value, str):
        return (
            value
            if is_template(value) and "," not in value
            else [part.strip() for part in value.split(",")]
        )
    if not isinstance(value, list):
        raise UntranslatableError("its `value` is no list")
    return [_text(item) for item in value]


def _schema(value: Any) -> Any:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise UntranslatableError("its schema is no JSON") from None
    if not isinstance(value, dict):
        raise UntranslatableError("its schema is no mapping")
    return value
