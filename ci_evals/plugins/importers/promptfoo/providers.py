"""Translates providers of promptfoo: `openai:gpt-4o-mini`, `{id, label, config}`, services."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from jinja2 import TemplateError
from jinja2.meta import find_undeclared_variables

from ci_evals.errors import ConfigError
from ci_evals.format import one_line
from ci_evals.plugins.importers.draft import NO_COUNTERPART, UntranslatableError, is_key
from ci_evals.plugins.importers.promptfoo.agents import Agents
from ci_evals.plugins.importers.promptfoo.templates import quote_dumped
from ci_evals.plugins.importers.source import Source
from ci_evals.suite.nodes import Node
from ci_evals.templating import template_sandbox

_COMPATIBLE: Mapping[str, tuple[str, str | None]] = {  # the base URL, and the key's variable
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


_NO_ID = "a provider is an id, or a mapping with `id`"
_NO_KEY = "a key does not belong in the file: put it into the variable"
_CALLBACKS = "the tools of the model are not run: use a `python` provider that runs them"
WEAKENING = frozenset({"transform", "config.functionToolCallbacks"})
"""The settings whose loss changes the graded answers."""
_REASONS_OF_KEYS = {
    "transform": "a stage can change its answers",
}


@dataclass(slots=True)
class ProviderDraft:
    """An entry of `providers`.

    Args:
        id: the id of the original.
        options: the options of the entry.
        embeds: True if it answers with embeddings.
        prompts: its prompts by their original names; None for all.
        lost: the settings that were lost, each with the reason.
    """

    id: str
    options: dict[str, Any]
    prompts: Any = None
    embeds: bool = False
    lost: list[tuple[str, str]] = field(default_factory=list)


def provider_of(
    written: Node, source: Source, agents: Agents | None = None, *, embeds: bool = False
) -> ProviderDraft:
    """Translate one provider.

    Args:
        written: its id, or a mapping with `id`.
        source: the file that has it.
        agents: calls Python functions and programs; None if code is not allowed, as for judges.
        embeds: True if it has to answer with embeddings.

    Raises:
        UntranslatableError: there is no counterpart.
    """
    given: Any = written.value
    if isinstance(given, str):
        given = {"id": given}
    if not isinstance(given, Mapping):
        raise UntranslatableError(_NO_ID)
    if "id" not in given and len(given) == 1:
        ((id_, settings),) = given.items()
        given = {"id": id_}
        if isinstance(settings, Mapping):
            given |= settings
    id_ = given.get("id")
    config = given.get("config") or {}
    if not isinstance(id_, str) or not isinstance(config, Mapping):
        raise UntranslatableError(_NO_ID)
    made = ProviderDraft(id_, {}, embeds=embeds)
    if given.get("label"):
        made.options["name"] = str(given["label"]).replace(",", ";")
    target = None
    if agents is not None:
        target = _code(id_, config, made, source, agents)
    if target is None:
        read = {key: _read_setting(value, source) for key, value in config.items()}
        target = _target(id_, read, made)
    made.options |= target
    for key, setting in given.items():
        if key == "delay" and isinstance(setting, int | float) and setting > 0:
            made.options["rpm"] = round(60_000 / setting, 2)
        elif key == "prompts":
            made.prompts = setting
        elif key not in ("id", "label", "config"):
            made.lost.append((key, _REASONS_OF_KEYS.get(key, NO_COUNTERPART)))
    return made


def _read_setting(value: Any, source: Source) -> Any:
    """Return the value of a setting or the content of its file: tools, a schema, a text."""
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"file://(.+\.(json|ya?ml|txt|md))", value)
    if match is None:
        return value
    name, suffix = match.groups()
    try:
        if suffix in ("txt", "md"):
            return source.read_text(name)
        return source.read(name).written.value
    except ConfigError:
        return value  # `_common` reports it as lost


def _without_key(config: Mapping[str, Any], made: ProviderDraft) -> dict[str, Any]:
    """Return the config of code or of a service without its API key."""
    if "apiKey" in config:
        reason = "a key does not belong in the file: let the code read a variable"
        made.lost.append(("config.apiKey", reason))
    return {key: value for key, value in config.items() if key != "apiKey"}


def _code(
    id_: str, config: Mapping[str, Any], made: ProviderDraft, source: Source, agents: Agents
) -> dict[str, Any] | None:
    """Return a provider for a function or a program; None for other ids."""
    if match := re.fullmatch(r"(?:file://|javascript:)(.+\.[cm]?[jt]s)(:\w+)?", id_):
        path, function = match.groups(default="")
        options: dict[str, Any] = {"type": "javascript", "file": source.relative(path) + function}
        if settings := _without_key(config, made):
            options["config"] = settings
        return options
    if match := re.fullmatch(r"(?:file://|python:)(.+\.py)(?::(\w+))?", id_):
        path, function = match.groups(default="call_api")
        return agents.call_function(source.relative(path), function, _without_key(config, made))
    if id_.startswith("exec:"):
        command = id_.removeprefix("exec:").strip()
        return agents.run_program(command, _without_key(config, made))
    return None


def _target(id_: str, config: Mapping[str, Any], made: ProviderDraft) -> dict[str, Any]:
    kind, _, rest = id_.partition(":")
    if "functionToolCallbacks" in config:
        made.lost.append(("config.functionToolCallbacks", _CALLBACKS))
    if kind in _COMPATIBLE:
        base_url, variable = _COMPATIBLE[kind]
        model = re.sub(r"^(chat|completion|embedding|embeddings):", "", rest)
        return _compatible(model, config, made, base_url, variable)
    if kind in ("http", "https"):
        for key in config:
            if key not in _OF_A_SERVICE:
                made.lost.append((f"config.{key}", NO_COUNTERPART))
        url = config.get("url")
        if not url and rest:
            url = id_
        return _service(str(url or ""), config, made)
    if kind in _APIS:
        return _APIS[kind](rest, config, made)
    raise UntranslatableError(_REASONS.get(kind, _reason_of(id_)))


def _openai(rest: str, config: Mapping[str, Any], made: ProviderDraft) -> dict[str, Any]:
    surface = "chat"
    model = rest
    first, _, name = rest.partition(":")
    if first in _KINDS_OF_OPENAI:
        surface = first
        model = name
    known = ["chat", "responses"]
    if made.embeds:
        known += ["embedding", "embeddings"]
    if surface not in known:
        reason = f"only chat models of openai are supported, not the kind {surface!r}"
        raise UntranslatableError(reason)
    options = _compatible(model or "gpt-4.1-mini", config, made, None, None)
    if surface == "responses":
        options["api"] = "responses"
        if "params" in options:
            options["params"] = _responses_params(options["params"])
    return options


def _responses_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with their names in the responses API."""
    renamed: dict[str, Any] = {}
    text: dict[str, Any] = {}
    for key, value in params.items():
        match key:
            case "max_tokens" | "max_completion_tokens":
                renamed["max_output_tokens"] = value
            case "reasoning_effort":
                renamed["reasoning"] = {"effort": value}
            case "verbosity":
                text["verbosity"] = value
            case "response_format" if isinstance(value, Mapping):
                json_schema = value.get("json_schema")
                if not isinstance(json_schema, Mapping):
                    json_schema = {}
                flat = {name: item for name, item in value.items() if name != "json_schema"}
                text["format"] = {**flat, **json_schema}
            case _:
                renamed[key] = value
    if text:
        renamed["text"] = {**renamed.get("text", {}), **text}
    return renamed


def _anthropic(rest: str, config: Mapping[str, Any], made: ProviderDraft) -> dict[str, Any]:
    model = rest.removeprefix("messages:").removeprefix("completion:")
    if model in ("claude-agent-sdk", "claude-code"):
        reason = "it is an agent: call it with a `python` or `command` provider"
        raise UntranslatableError(reason)
    return {"type": "anthropic", "model": model, **_common(config, made, "ANTHROPIC_API_KEY")}


def _gemini(rest: str, config: Mapping[str, Any], made: ProviderDraft) -> dict[str, Any]:
    settings = _common(config, made, "GEMINI_API_KEY")
    return {"type": "gemini", "model": rest, **_in_generation_config(settings)}


def _vertex(rest: str, config: Mapping[str, Any], made: ProviderDraft) -> dict[str, Any]:
    options: dict[str, Any] = {"type": "vertex", "model": rest}
    if "projectId" in config:
        options["project"] = _reference(str(config["projectId"]))
    options["location"] = _reference(str(config.get("region") or "us-central1"))
    settings = {}
    for key, value in config.items():
        if key in _CREDENTIALS_OF_GOOGLE:
            made.lost.append((f"config.{key}", _DEFAULT_CREDENTIALS))
        else:
            settings[key] = value
    common = _common(settings, made, None)
    if rest.startswith("claude"):
        return {**options, **common}
    return {**options, **_in_generation_config(common)}


def _in_generation_config(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of Gemini with params moved into `generationConfig`."""
    settings = dict(settings)
    params = {}
    generation = {}
    for key, value in settings.pop("params", {}).items():
        if key in _OF_GEMINI:
            params[key] = value
        else:
            generation[_CAMEL.get(key, key)] = value
    generation = {**generation.pop("generationConfig", {}), **generation}
    if generation:
        params["generationConfig"] = generation
    if params:
        settings["params"] = params
    return settings


def _bedrock(rest: str, config: Mapping[str, Any], made: ProviderDraft) -> dict[str, Any]:
    model = rest
    for kind in ("converse", "completion"):
        model = model.removeprefix(f"{kind}:")
    options: dict[str, Any] = {"type": "bedrock", "model": model}
    settings = {key: value for key, value in config.items() if key not in _KEYS_OF_AWS}
    for key in _KEYS_OF_AWS:
        if key in config:
            made.lost.append((f"config.{key}", _NO_AWS_KEY))
    for key in ("region", "profile"):
        if key in config:
            options[key] = _reference(str(config[key]))
            settings.pop(key)
    common = _common(settings, made, None)
    inference = {}
    params = {}
    for key, value in common.pop("params", {}).items():
        if key in _OF_CONVERSE:
            params[key] = value
        elif key in _OF_INFERENCE:
            inference[_OF_INFERENCE[key]] = value
        else:
            extra = params.setdefault("additionalModelRequestFields", {})
            extra[key] = value
    if inference:
        params["inferenceConfig"] = {**params.get("inferenceConfig", {}), **inference}
    if params:
        common["params"] = params
    return {**options, **common}


def _azure(rest: str, config: Mapping[str, Any], made: ProviderDraft) -> dict[str, Any]:
    host = _reference(str(config.get("apiHost") or "${AZURE_API_HOST}")).removeprefix("https://")
    settings = _common(config, made, None)
    key = _key(config, "AZURE_API_KEY", made)
    settings["headers"] = {"api-key": key, **settings.get("headers", {})}
    return {
        "type": _type(made),
        "model": rest.rpartition(":")[2],
        "base_url": f"https://{host}/openai/v1",
        **settings,
    }


def _type(made: ProviderDraft) -> str:
    if made.embeds:
        return "embeddings"
    return "openai"


def _webhook(rest: str, config: Mapping[str, Any], made: ProviderDraft) -> dict[str, Any]:
    body: dict[str, Any] = {"prompt": "{{ input }}"}
    if settings := _without_key(config, made):
        body["config"] = settings
    return {"type": "http", "url": rest, "body": body, "output": "$.output"}


def _echo(_rest: str, _config: Mapping[str, Any], _made: ProviderDraft) -> dict[str, Any]:
    return {"type": "mock"}


_APIS: Mapping[str, Callable[[str, Mapping[str, Any], ProviderDraft], dict[str, Any]]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "google": _gemini,
    "gemini": _gemini,
    "vertex": _vertex,
    "bedrock": _bedrock,
    "azure": _azure,
    "azureopenai": _azure,
    "webhook": _webhook,
    "echo": _echo,
}
_OF_GEMINI = frozenset({"safetySettings", "tools", "toolConfig", "systemInstruction"})
_CAMEL = {"max_tokens": "maxOutputTokens", "top_p": "topP", "top_k": "topK"}
_CREDENTIALS_OF_GOOGLE = ("credentials", "keyFilename", "googleAuthOptions")
_DEFAULT_CREDENTIALS = "Google's application default credentials are used"
_KEYS_OF_AWS = ("accessKeyId", "secretAccessKey", "sessionToken")
_NO_AWS_KEY = "a key does not belong in the file: AWS's own variables and profiles are read"
_OF_CONVERSE = frozenset(
    {
        "additionalModelRequestFields",
        "guardrailConfig",
        "inferenceConfig",
        "performanceConfig",
        "serviceTier",
        "toolConfig",
    }
)
_OF_INFERENCE = {
    "max_tokens": "maxTokens",
    "maxTokens": "maxTokens",
    "stop": "stopSequences",
    "stopSequences": "stopSequences",
    "temperature": "temperature",
    "top_p": "topP",
    "topP": "topP",
}
_REASONS = {
    "exec": "a judge is a model: a `python` provider can run the program",
    "python": "a judge is a model: a `python` provider can call the function",
    "promptfoo": "red-teaming is not supported",
    "websocket": "only HTTP services are supported",
}


def _reason_of(id_: str) -> str:
    if re.match(r"file://.*\.py(:\w+)?$", id_):
        return _REASONS["python"]
    if re.match(r"(file://|javascript:).*\.([cm]?js|ts)(:\w+)?$", id_):
        return "a judge is a model: a `javascript` provider can call the function"
    return "there is no such provider: docs/providers.md lists the known ones"


def _compatible(
    model: str,
    config: Mapping[str, Any],
    made: ProviderDraft,
    base_url: str | None,
    variable: str | None,
) -> dict[str, Any]:
    options: dict[str, Any] = {"type": _type(made), "model": model}
    own_url = config.get("apiBaseUrl")
    if not own_url and config.get("apiHost"):
        own_url = f"https://{config['apiHost']}/v1"
    if own_url:
        base_url = _reference(str(own_url))
        if variable is None and not _is_local(base_url):
            variable = "OPENAI_API_KEY"
    if base_url is None:
        return {**options, **_common(config, made, "OPENAI_API_KEY")}
    # At other addresses than OpenAI's, ci-evals sends a key only if the config names it.
    options["base_url"] = base_url
    if variable or config.get("apiKey") or config.get("apiKeyEnvar"):
        options["api_key"] = _key(config, variable or "OPENAI_API_KEY", made)
    return {**options, **_common(config, made, None)}


def _is_local(url: str) -> bool:
    return bool(re.match(r"https?://(localhost|127\.0\.0\.1|\[::1\])\b", url))


def _common(config: Mapping[str, Any], made: ProviderDraft, variable: str | None) -> dict[str, Any]:
    """Return the settings of all model APIs: key, headers, price and params."""
    options: dict[str, Any] = {}
    if variable and (config.get("apiKeyEnvar") or config.get("apiKey")):
        key = _key(config, variable, made)
        if key != f"${{{variable}}}":
            options["api_key"] = key
    headers = {}
    if isinstance(config.get("headers"), Mapping):
        for name, value in config["headers"].items():
            headers[name] = _header(name, _reference(str(value)), made)
    if organization := config.get("organization"):
        headers["OpenAI-Organization"] = _reference(str(organization))
    if headers:
        options["headers"] = headers
    input_cost = config.get("inputCost", config.get("cost"))
    output_cost = config.get("outputCost", config.get("cost"))
    if isinstance(input_cost, int | float) and isinstance(output_cost, int | float):
        options["price"] = {
            "input_per_mtok": round(input_cost * 1e6, 9),
            "output_per_mtok": round(output_cost * 1e6, 9),
        }
    settings = {key: _references(item) for key, item in config.items()}
    for key in _OF_THE_CLIENT:
        settings.pop(key, None)
    if isinstance(config.get("passthrough"), Mapping):
        settings |= config["passthrough"]
    params = {}
    for key, value in settings.items():
        if isinstance(value, str) and value.startswith("file://"):
            made.lost.append((f"config.{key}", "write its content under `params`"))
        else:
            params[key] = value
    if config.get("stream") is True:
        options["stream"] = True
    if params:
        options["params"] = params
    return options


def _key(config: Mapping[str, Any], variable: str, made: ProviderDraft) -> str:
    """Return a reference to the variable of an API key, never the key itself."""
    if name := config.get("apiKeyEnvar"):
        return f"${{{name}}}"
    given = _reference(str(config.get("apiKey") or ""))
    if re.fullmatch(r"\$\{\w+\}", given):
        return given
    if given:
        made.lost.append(("config.apiKey", f"{_NO_KEY} {variable}"))
    return f"${{{variable}}}"


def _header(name: str, value: str, made: ProviderDraft) -> str:
    """Return the value of a header, or a reference to a variable in place of a key."""
    if not is_key(name, value):
        return value
    variable = re.sub(r"\W", "_", name).upper()
    made.lost.append((f"config.headers.{name}", f"{_NO_KEY} {variable}"))
    return f"${{{variable}}}"


def _reference(text: str) -> str:
    """Translate references to the environment: `{{ env.NAME }}` to `${NAME}`."""
    return re.sub(r"\{\{-?\s*env\.(\w+)\s*-?\}\}", r"${\1}", text)


def _references(value: Any) -> Any:
    return _map_texts(value, _reference)


def _map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Apply `change` to every text in a value."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _map_texts(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_map_texts(item, change) for item in value]
    return value


_UNTRANSLATABLE = ("request", "transformRequest", "sessionParser", "signatureAuth", "auth")
_TRANSFORMS = ("transformResponse", "responseParser", "transform")
_OF_A_SERVICE = frozenset(
    {*_UNTRANSLATABLE, *_TRANSFORMS, "url", "method", "headers", "body", "queryParams"}
)


def _service(url: str, config: Mapping[str, Any], made: ProviderDraft) -> dict[str, Any]:
    """Return an HTTP service."""
    for key in _UNTRANSLATABLE:
        if config.get(key):
            reason = f"`{key}` of an HTTP provider: write `url`, `headers` and `body` instead"
            raise UntranslatableError(reason)
    query = config.get("queryParams")
    if isinstance(query, Mapping):
        separator = "?"
        if "?" in url:
            separator = "&"
        url += separator + urlencode(query, safe="{} ")
    body = _body(config.get("body"))
    options: dict[str, Any] = {"type": "http", "url": _request_template(url)}
    default_method = "POST"
    if body is None:
        default_method = "GET"
    method = str(config.get("method") or default_method).upper()
    if method != "POST":
        options["method"] = method
    headers = {}
    for name, value in (config.get("headers") or {}).items():
        if name.lower() != "content-type":
            headers[name] = _header(name, _request_template(str(value)), made)
    if headers:
        options["headers"] = headers
    if body is not None:
        options["body"] = _map_texts(body, _request_template)
    for key in _TRANSFORMS:
        if config.get(key):
            options |= _output(str(config[key]), made)
            break
    return options


def _body(body: Any) -> Any:
    if not isinstance(body, str):
        return body
    try:
        return json.loads(quote_dumped(body))
    except ValueError:
        raise UntranslatableError("its `body` is not JSON, the only supported format") from None


_MEMBER = r"json(?:\??\.(?!length\b)\w+|\??\.?\[\d+\]|\[['\"][^'\"]+['\"]\])+"
_ONLY_OUTPUT = "only its `output` is read: write JSONPaths of the rest, as `usage` or `metadata`"


def _output(transform: str, made: ProviderDraft) -> dict[str, str]:
    """Return the JSONPath of the answer for JavaScript that only reads members."""
    code = re.sub(r"(?m)^\s*//.*$", "", transform).strip()
    code = re.sub(r"^\(?\s*json\s*(,\s*\w+\s*)*\)?\s*=>\s*", "", code)
    if block := re.fullmatch(r"\{\s*(return\b.*)\}", code, re.DOTALL):
        code = block[1].strip()
    code = re.sub(r"^return\b", "", code.removesuffix(";")).strip()
    if literal := re.fullmatch(r"\(?\s*\{\s*output:(.*)\}\s*\)?", code, re.DOTALL):
        output, _, others = literal[1].partition(",")
        code = output.strip()
        if others.strip():
            made.lost.append(("config.transformResponse", _ONLY_OUTPUT))
    if code in ("text", "json"):
        return {}
    if not re.fullmatch(_MEMBER, code):
        remedy = "write the JSONPath of the answer under `output`"
        raise UntranslatableError(f"`transformResponse: {one_line(transform, 80)}`: {remedy}")
    return {"output": "$" + code.removeprefix("json").replace("?.[", "[").replace("?.", ".")}


def _request_template(text: str) -> str:
    """Translate a template of a request, in which the prompt is `input`, and vars are in `vars`."""
    text = re.sub(r"\|\s*dump\b(\(\s*\))?", "| tojson", _reference(text))
    try:
        names = find_undeclared_variables(template_sandbox().parse(text))
    except TemplateError as error:
        raise UntranslatableError(f"not a template that Jinja2 can read: {error.message}") from None

    def rename(match: re.Match[str]) -> str:
        inside = match[0]
        for name in names:
            ours = f"vars.{name}"
            if name == "prompt":
                ours = "input"
            inside = re.sub(rf"(?<![\w.]){name}\b", ours, inside)
        return inside

    return re.sub(r"\{\{.*?\}\}|\{%.*?%\}", rename, text, flags=re.DOTALL)
