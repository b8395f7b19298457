"""Providers of promptfoo: `openai:gpt-4o-mini`, `{id, label, config}`, HTTP services."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from jinja2 import TemplateError
from jinja2.meta import find_undeclared_variables

from ci_evals.errors import ConfigError
from ci_evals.importers.draft import UntranslatableError, is_key
from ci_evals.importers.promptfoo.agents import Agents
from ci_evals.importers.promptfoo.templates import quote_dumped
from ci_evals.importers.source import Source
from ci_evals.suite.nodes import Node
from ci_evals.templating import template_sandbox

_COMPATIBLE: Mapping[str, tuple[str, str | None]] = {  # where it is, and the variable of its key
    "openrouter": ("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "groq": ("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "mistral": ("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "deepseek": ("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "togetherai": ("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "together": ("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "xai": ("https://api.x.ai/v1", "XAI_API_KEY"),
    "perplexity": ("https://api.perplexity.ai", "PERPLEXITY_API_KEY"),
    "fireworks": ("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    "huggingface": ("https://router.huggingface.co/v1", "HF_TOKEN"),
    "github": ("https://models.github.ai/inference", "GITHUB_TOKEN"),
    "hyperbolic": ("https://api.hyperbolic.xyz/v1", "HYPERBOLIC_API_KEY"),
    "nscale": ("https://inference.api.nscale.com/v1", "NSCALE_SERVICE_TOKEN"),
    "aimlapi": ("https://api.aimlapi.com/v1", "AIML_API_KEY"),
    "docker": ("http://localhost:12434/engines/v1", None),
    "cerebras": ("https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    "litellm": ("http://localhost:4000/v1", "LITELLM_API_KEY"),
    "localai": ("http://localhost:8080/v1", None),
    "ollama": ("http://localhost:11434/v1", None),
}
_OF_THE_CLIENT = frozenset(
    [
        "apiKey",
        "apiKeyEnvar",
        "apiKeyRequired",
        "apiHost",
        "apiBaseUrl",
        "organization",
        "cost",
        "inputCost",
        "outputCost",
        "headers",
        "passthrough",
        "basePath",
        "showThinking",
        "functionToolCallbacks",
        "maxRetries",
        "omitDefaults",
        "projectId",
        "region",
        "deployment",
        "apiVersion",
        "stream",
    ]
)
_KINDS_OF_OPENAI = frozenset(
    [
        "chat",
        "responses",
        "embedding",
        "embeddings",
        "completion",
        "assistant",
        "realtime",
        "moderation",
        "image",
        "video",
        "tts",
        "transcription",
        "agents",
        "chatkit",
        "codex-sdk",
    ]
)


@dataclass(slots=True)
class Made:
    """An entry of `providers`, and which settings of the original it lacks, each with the
    reason.
    """

    id: str
    options: dict[str, Any]
    embeds: bool = False
    lost: list[tuple[str, str]] = field(default_factory=list)


def provider_of(
    written: Node, source: Source, agents: Agents | None = None, *, embeds: bool = False
) -> Made:
    """Translate one provider.

    Args:
        written: its id, or a mapping with `id`.
        source: where it stands.
        agents: calls those in Python, and programs; None where there may be no code, as among
            judges.
        embeds: it is to answer with embeddings.

    Raises:
        UntranslatableError: there is no such provider here.
    """
    given: Any = {"id": written.value} if isinstance(written.value, str) else written.value
    if not isinstance(given, Mapping):
        raise UntranslatableError("a provider is an id, or a mapping with `id`")
    if "id" not in given and len(given) == 1:
        ((id_, rest),) = given.items()
        given = {"id": id_, **(rest if isinstance(rest, Mapping) else {})}
    id_, config = given.get("id"), given.get("config") or {}
    if not isinstance(id_, str) or not isinstance(config, Mapping):
        raise UntranslatableError("a provider is an id, or a mapping with `id`")
    made = Made(id_, {}, embeds=embeds)
    target = _code(id_, config, made, source, agents)
    target = target or _target(
        id_, {key: _from_file(value, source) for key, value in config.items()}, made
    )
    label = given.get("label")
    made.options = {**({"name": str(label).replace(",", ";")} if label else {}), **target}
    for key, setting in given.items():
        if key == "delay" and isinstance(setting, int | float) and setting > 0:
            made.options["rpm"] = round(60_000 / setting, 2)
        elif key not in ("id", "label", "config"):
            reasons = {
                "prompts": "every prompt runs on every provider",
                "transform": "a stage can change its answers",
            }
            made.lost.append((key, reasons.get(key, "there is nothing like it")))
    return made


def _from_file(value: Any, source: Source) -> Any:
    """Return what a setting says, or what its file holds: tools, a schema, a text."""
    found = (
        re.fullmatch(r"file://(.+\.(json|ya?ml|txt|md))", value) if isinstance(value, str) else None
    )
    if found is None:
        return value
    try:
        return (
            source.read_text(found[1])
            if found[2] in ("txt", "md")
            else source.read(found[1]).written.value
        )
    except ConfigError:
        return value  # which is listed then


def _without_key(config: Mapping[str, Any], made: Made) -> dict[str, Any]:
    """Return the config of code or of a service without an API key that stands in it."""
    if "apiKey" in config:
        made.lost.append(
            ("config.apiKey", "a key does not belong in the file: let the code read a variable")
        )
    return {key: value for key, value in config.items() if key != "apiKey"}


def _code(
    id_: str, config: Mapping[str, Any], made: Made, source: Source, agents: Agents | None
) -> dict[str, Any] | None:
    """Return a provider of the team's own, a function or a program; None if it is none."""
    if agents is None:
        return None
    if found := re.fullmatch(r"(?:file://|javascript:)(.+\.[cm]?js)(:\w+)?", id_):
        kept = _without_key(config, made)
        file = source.relative(found[1]) + (found[2] or "")
        return {"type": "javascript", "file": file, **({"config": kept} if kept else {})}
    if found := re.fullmatch(r"(?:file://|python:)(.+\.py)(?::(\w+))?", id_):
        return agents.call_function(
            source.relative(found[1]), found[2] or "call_api", _without_key(config, made)
        )
    if id_.startswith("exec:"):
        return agents.run_program(id_.removeprefix("exec:").strip(), _without_key(config, made))
    return None


def _target(id_: str, config: Mapping[str, Any], made: Made) -> dict[str, Any]:
    kind, _, rest = id_.partition(":")
    if kind in _COMPATIBLE:
        base_url, variable = _COMPATIBLE[kind]
        model = re.sub(r"^(chat|completion|embedding|embeddings):", "", rest)
        return _compatible(model, config, made, base_url, variable)
    if kind in ("http", "https"):
        made.lost += [
            (f"config.{key}", _NOTHING_LIKE_IT) for key in config if key not in _OF_A_SERVICE
        ]
        return _service(id_ if rest else "", config, made)
    if kind in _APIS:
        return _APIS[kind](rest, config, made)
    raise UntranslatableError(_REASONS.get(kind, _reason_of(id_)))


def _openai(rest: str, config: Mapping[str, Any], made: Made) -> dict[str, Any]:
    first, _, name = rest.partition(":")
    surface, model = (first, name) if first in _KINDS_OF_OPENAI else ("chat", rest)
    if surface not in ("chat", "responses", *(("embedding", "embeddings") if made.embeds else ())):
        raise UntranslatableError(
            f"of openai only chat models are called, and this is of the kind {surface!r}"
        )
    return _compatible(model or "gpt-4.1-mini", config, made, None, None)


def _anthropic(rest: str, config: Mapping[str, Any], made: Made) -> dict[str, Any]:
    model = rest.removeprefix("messages:").removeprefix("completion:")
    if model in ("claude-agent-sdk", "claude-code"):
        raise UntranslatableError(
            "an agent of its own: call it by a `python` or `command` provider"
        )
    return {"type": "anthropic", "model": model, **_common(config, made, "ANTHROPIC_API_KEY")}


def _gemini(rest: str, config: Mapping[str, Any], made: Made) -> dict[str, Any]:
    settings = _common(config, made, "GEMINI_API_KEY")
    given = settings.pop("params", {})
    params = {key: value for key, value in given.items() if key in _OF_GEMINI}
    generation = {
        _CAMEL.get(key, key): value for key, value in given.items() if key not in _OF_GEMINI
    }
    if generation := {**generation.pop("generationConfig", {}), **generation}:
        params["generationConfig"] = generation
    return {"type": "gemini", "model": rest, **settings, **({"params": params} if params else {})}


def _vertex(rest: str, config: Mapping[str, Any], made: Made) -> dict[str, Any]:
    region, project = (
        config.get("region", "us-central1"),
        config.get("projectId", "${VERTEX_PROJECT_ID}"),
    )
    host = f"https://{region}-aiplatform.googleapis.com"
    return {
        "type": "openai",
        "model": f"google/{rest}",
        "base_url": f"{host}/v1/projects/{project}/locations/{region}/endpoints/openapi",
        "token": {"command": "gcloud auth print-access-token"},
        **_common(config, made, None),
    }


def _azure(rest: str, config: Mapping[str, Any], made: Made) -> dict[str, Any]:
    host = _reference(str(config.get("apiHost") or "${AZURE_API_HOST}")).removeprefix("https://")
    settings = _common(config, made, None)
    return {
        "type": "embeddings" if made.embeds else "openai",
        "model": rest.rpartition(":")[2],
        "base_url": f"https://{host}/openai/v1",
        **settings,
        "headers": {"api-key": _key(config, "AZURE_API_KEY", made), **settings.get("headers", {})},
    }


def _webhook(rest: str, config: Mapping[str, Any], made: Made) -> dict[str, Any]:
    body = {
        "prompt": "{{ input }}",
        **({"config": kept} if (kept := _without_key(config, made)) else {}),
    }
    return {"type": "http", "url": rest, "body": body, "output": "$.output"}


_APIS: Mapping[str, Callable[[str, Mapping[str, Any], Made], dict[str, Any]]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "google": _gemini,
    "gemini": _gemini,
    "vertex": _vertex,
    "azure": _azure,
    "azureopenai": _azure,
    "webhook": _webhook,
    "echo": lambda *_: {"type": "mock"},
}
_OF_GEMINI = frozenset({"safetySettings", "tools", "toolConfig", "systemInstruction"})
_CAMEL = {"max_tokens": "maxOutputTokens", "top_p": "topP", "top_k": "topK"}
_REASONS = {
    "exec": "a judge is a model: a `python` provider can run the program",
    "python": "a judge is a model: a `python` provider can call the function",
    "bedrock": "docs/providers.md has a recipe for Bedrock's OpenAI-compatible endpoint",
    "promptfoo": "red-teaming is not done here",
    "websocket": "only HTTP services are called",
}


def _reason_of(id_: str) -> str:
    if re.match(r"file://.*\.py(:\w+)?$", id_):
        return _REASONS["python"]
    if re.match(r"(file://|javascript:).*\.([cm]?js|ts)(:\w+)?$", id_):
        return "a provider in TypeScript, or one that judges: a `javascript` provider takes .js, .mjs and .cjs"
    return "there is no such provider: docs/providers.md lists what there is"


def _compatible(
    model: str, config: Mapping[str, Any], made: Made, base_url: str | None, variable: str | None
) -> dict[str, Any]:
    options: dict[str, Any] = {"type": "embeddings" if made.embeds else "openai", "model": model}
    own = config.get("apiBaseUrl") or (
        f"https://{config['apiHost']}/v1" if config.get("apiHost") else None
    )
    if url := (_reference(str(own)) if own else base_url):
        options["base_url"] = url
    if own or base_url:  # elsewhere than at OpenAI no key is sent unless it is named
        variable = variable or ("OPENAI_API_KEY" if own and not _is_local(str(own)) else None)
        if variable or config.get("apiKey") or config.get("apiKeyEnvar"):
            options["api_key"] = _key(config, variable or "OPENAI_API_KEY", made)
    settings = _common(config, made, None if own or base_url else "OPENAI_API_KEY")
    return {**options, **settings}


def _is_local(url: str) -> bool:
    return bool(re.match(r"https?://(localhost|127\.0\.0\.1|\[::1\])\b", url))


def _common(config: Mapping[str, Any], made: Made, variable: str | None) -> dict[str, Any]:
    """Return what all model APIs have: key, headers, price and params."""
    options: dict[str, Any] = {}
    if variable and (config.get("apiKeyEnvar") or config.get("apiKey")):
        key = _key(config, variable, made)
        if key != f"${{{variable}}}":
            options["api_key"] = key
    if isinstance(headers := config.get("headers"), Mapping):
        options["headers"] = {
            name: _header(name, _reference(str(value)), made) for name, value in headers.items()
        }
    if organization := config.get("organization"):
        options.setdefault("headers", {})["OpenAI-Organization"] = _reference(str(organization))
    costs = [
        config.get("inputCost", config.get("cost")),
        config.get("outputCost", config.get("cost")),
    ]
    if all(isinstance(each, int | float) for each in costs):
        options["price"] = {
            "input_per_mtok": round(float(costs[0] or 0) * 1e6, 9),
            "output_per_mtok": round(float(costs[1] or 0) * 1e6, 9),
        }
    params = {key: _references(item) for key, item in config.items() if key not in _OF_THE_CLIENT}
    if isinstance(through := config.get("passthrough"), Mapping):
        params |= through
    for key in [
        key for key, item in params.items() if isinstance(item, str) and item.startswith("file://")
    ]:
        made.lost.append((f"config.{key}", "write under `params` what it gives"))
        del params[key]
    if config.get("stream") is True:
        options["stream"] = True
    if params:
        options["params"] = params
    return options


def _key(config: Mapping[str, Any], variable: str, made: Made) -> str:
    """Return a reference to the variable of an API key; a key that stands in the file stays
    there.
    """
    if name := config.get("apiKeyEnvar"):
        return f"${{{name}}}"
    given = _reference(str(config.get("apiKey") or ""))
    if re.fullmatch(r"\$\{\w+\}", given):
        return given
    if given:
        made.lost.append(
            (
                "config.apiKey",
                f"a key does not belong in the file: put it into the variable {variable}",
            )
        )
    return f"${{{variable}}}"


def _header(name: str, value: str, made: Made) -> str:
    """Return the value of a header, or a reference to a variable in place of a key that stands in
    the file.
    """
    if not is_key(name, value):
        return value
    variable = re.sub(r"\W", "_", name).upper()
    made.lost.append(
        (
            f"config.headers.{name}",
            f"a key does not belong in the file: put it into the variable {variable}",
        )
    )
    return f"${{{variable}}}"


def _reference(text: str) -> str:
    """Return a text with references to the environment as ours: `{{ env.NAME }}` as `${NAME}`."""
    return re.sub(r"\{\{-?\s*env\.(\w+)\s*-?\}\}", r"${\1}", text)


def _references(value: Any) -> Any:
    if isinstance(value, str):
        return _reference(value)
    if isinstance(value, Mapping):
        return {key: _references(item) for key, item in value.items()}
    return [_references(item) for item in value] if isinstance(value, list) else value


_OF_A_SERVICE = frozenset(
    [
        "url",
        "method",
        "headers",
        "body",
        "queryParams",
        "transformResponse",
        "responseParser",
        "transform",
        "request",
        "transformRequest",
        "sessionParser",
        "signatureAuth",
        "auth",
    ]
)
_NOTHING_LIKE_IT = "there is nothing like it"


def _service(url: str, config: Mapping[str, Any], made: Made) -> dict[str, Any]:
    """Return an HTTP service."""
    for key in ("request", "transformRequest", "sessionParser", "signatureAuth", "auth"):
        if config.get(key):
            raise UntranslatableError(
                f"`{key}` of an HTTP provider: say what is sent by `url`, `headers` and `body`"
            )
    url = str(config.get("url") or url)
    if isinstance(query := config.get("queryParams"), Mapping):
        url += ("&" if "?" in url else "?") + urlencode(query, safe="{} ")
    body = _body(config.get("body"))
    options: dict[str, Any] = {"type": "http", "url": _request_template(url)}
    method = str(config.get("method") or ("GET" if body is None else "POST")).upper()
    if method != "POST":
        options["method"] = method
    given = config.get("headers") or {}
    headers = {
        name: _request_template(str(value))
        for name, value in given.items()
        if name.lower() != "content-type"
    }
    if headers:
        options["headers"] = {name: _header(name, value, made) for name, value in headers.items()}
    if body is not None:
        options["body"] = _request_templates(body)
    transform = (
        config.get("transformResponse") or config.get("responseParser") or config.get("transform")
    )
    return options | (_output(str(transform).strip()) if transform else {})


def _body(body: Any) -> Any:
    if not isinstance(body, str):
        return body
    try:
        return json.loads(quote_dumped(body))
    except ValueError:
        raise UntranslatableError("its `body` is no JSON, and nothing else is sent") from None


def _output(transform: str) -> dict[str, str]:
    """Return where the answer is, of a JavaScript expression that walks to it."""
    code = re.sub(r"^\(?\s*json\s*(,\s*\w+\s*)*\)?\s*=>\s*", "", transform)
    if code in ("text", "json"):
        return {}
    if not re.fullmatch(r"json(\??\.\w+|\??\.?\[\d+\]|\[['\"][^'\"]+['\"]\])+", code):
        raise UntranslatableError(
            f"`transformResponse: {transform[:80]}`: say by a JSONPath under `output` where the answer is"
        )
    return {"output": "$" + code.removeprefix("json").replace("?.[", "[").replace("?.", ".")}


def _request_templates(value: Any) -> Any:
    if isinstance(value, str):
        return _request_template(value)
    if isinstance(value, Mapping):
        return {key: _request_templates(item) for key, item in value.items()}
    return [_request_templates(item) for item in value] if isinstance(value, list) else value


def _request_template(text: str) -> str:
    """Return a template of a request: there the prompt is `input`, and vars are below `vars`."""
    text = re.sub(r"\|\s*dump\b(\(\s*\))?", "| tojson", _reference(text))
    try:
        names = find_undeclared_variables(template_sandbox().parse(text))
    except TemplateError as error:
        raise UntranslatableError(f"not a template that Jinja2 can read: {error}") from None

    def rename(match: re.Match[str]) -> str:
        inside = match[0]
        for name in names:
            inside = re.sub(
                rf"(?<![\w.]){name}\b", "input" if name == "prompt" else f"vars.{name}", inside
            )
        return inside

    return re.sub(r"\{\{.*?\}\}|\{%.*?%\}", rename, text, flags=re.DOTALL)
