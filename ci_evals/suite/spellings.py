"""Names of other tools for keys, graders and providers, and our names for them."""

import re
from collections.abc import Collection, Mapping

from ci_evals.suite.nodes import Hint

_RUBRIC = 'judge: "what a good answer does"'
_EXPECTED = "expect: [{equals: …}]"

# Names are in snake case, without a `Metric` at the end. Of several spellings, the first one is
# suggested whose key is allowed in that place.

GRADER_SPELLINGS: Mapping[str, str] = {
    **dict.fromkeys(
        ("answer_relevance", "answer_relevancy", "relevance", "relevancy"), "judge: relevant"
    ),
    **dict.fromkeys(
        (
            "context_faithfulness",
            "faithfulness",
            "groundedness",
            "hallucination",
            "rag_groundedness",
        ),
        "judge: faithful",
    ),
    **dict.fromkeys(
        ("context_recall", "contextual_recall"), "judge: {rubric: context_recall, reference: …}"
    ),
    **dict.fromkeys(
        ("context_relevance", "context_precision", "contextual_precision", "contextual_relevancy"),
        "judge: context_precision",
    ),
    **dict.fromkeys(
        ("factuality", "correctness", "model_graded_factuality", "model_graded_fact"),
        "judge: {rubric: factual, reference: …}",
    ),
    "is_refusal": "judge: refusal",
    **dict.fromkeys(
        ("llm_rubric", "llm_judge", "llm_as_judge", "llm_as_a_judge", "llmjudge", "rubric"), "judge"
    ),
    **dict.fromkeys(
        ("g_eval", "geval", "model_graded_closedqa", "model_graded_qa", "search_rubric", "dag"),
        "judge",
    ),
    **dict.fromkeys(
        (
            "bias",
            "coherence",
            "conciseness",
            "conversation_relevance",
            "fluency",
            "guardrails",
            "moderation",
            "pi",
        ),
        _RUBRIC,
    ),
    **dict.fromkeys(
        ("summarization", "task_completion", "toxicity", "trajectory:goal_success"), _RUBRIC
    ),
    **dict.fromkeys(
        ("answer", "choice", "equals_expected", "exact", "exact_match", "match"), "equals"
    ),
    **dict.fromkeys(("includes", "contain", "must_contain"), "contains"),
    "icontains": "contains: {value: …, ignore_case: true}",
    "icontains_all": "contains_all: {value: […], ignore_case: true}",
    "icontains_any": "contains_any: {value: […], ignore_case: true}",
    "assert_set": "all_of",
    **dict.fromkeys(("pattern", "matches", "regexp"), "regex"),
    **dict.fromkeys(("json_correctness", "json_match"), "json_schema"),
    **dict.fromkeys(
        ("levenshtein", "levenshtein_distance", "string_distance", "edit_distance"), "similar"
    ),
    **dict.fromkeys(
        ("semantic_similarity", "embedding_similarity", "cosine_similarity"), "embedding_similar"
    ),
    **dict.fromkeys(("max_duration", "duration"), "latency"),
    **dict.fromkeys(("min_words", "max_words"), "word_count"),
    **dict.fromkeys(
        (
            "is_valid_function_call",
            "is_valid_openai_function_call",
            "is_valid_openai_tools_call",
            "tool_call_f1",
        ),
        "tool_call",
    ),
    **dict.fromkeys(
        (
            "expected_tools",
            "function_call",
            "tool_correctness",
            "tools_called",
            "trajectory:tool_used",
        ),
        "tool_call",
    ),
    "trajectory:tool_args_match": "tool_arguments",
    **dict.fromkeys(
        ("trajectory:tool_sequence", "trajectory:step_count", "has_matching_span"), "trajectory"
    ),
    "is_instance": "json_schema",
}

KEY_SPELLINGS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("data", "dataset", "examples", "samples", "scenarios"), ("cases",)),
    **dict.fromkeys(("test", "tests", "test_case", "test_cases"), ("cases",)),
    **dict.fromkeys(("assert", "asserts", "assertions", "checks", "graders"), ("expect",)),
    **dict.fromkeys(("default_test", "evaluator", "evaluators", "scorer", "scorers"), ("expect",)),
    **dict.fromkeys(("agent", "solver", "targets", "task"), ("providers",)),
    **dict.fromkeys(("model", "models"), ("providers", "provider", "overrides: {model: …}")),
    "target": ("providers", _EXPECTED),
    **dict.fromkeys(
        ("answer", "expected", "expected_output", "gold", "ground_truth", "ideal"), (_EXPECTED,)
    ),
    **dict.fromkeys(("reference", "reference_output", "reference_outputs"), (_EXPECTED,)),
    **dict.fromkeys(("expected_tools", "tools_called"), ("expect: [{tool_call: …}]",)),
    **dict.fromkeys(("context", "retrieval_context"), ("vars: {context: …}",)),
    **dict.fromkeys(("inputs", "query", "question"), ("input",)),
    "prompt": ("prompts", "input"),
    **dict.fromkeys(("epochs", "num_repetitions", "repeat", "repetitions"), ("runs",)),
    "max_connections": ("max_concurrency",),
    "evaluate_options": ("max_concurrency",),
    "output_path": ("report: {out: …}",),
    "derived_metrics": ("gate: {metrics: {…}}",),
    "options": ("overrides: {params: {…}}",),
    **dict.fromkeys(("raw", "content", "template", "text"), ("user",)),
    **dict.fromkeys(
        ("developer", "instructions", "system_prompt"),
        ("system", "prompts: [{system: …, user: …}]"),
    ),
    "role": ("messages",),
    "label": ("name",),
    "name": ("id",),
    **dict.fromkeys(("criteria", "evaluation_steps"), ("rubric",)),
    "rubric_prompt": ("prompt",),
    "show_thinking": ("thoughts: keep",),
}

PROVIDER_SPELLINGS: Mapping[str, str] = {
    **dict.fromkeys(("google", "googleai"), "gemini"),
    **dict.fromkeys(("vertex_ai", "vertexai"), "vertex"),
    **dict.fromkeys(("aws", "amazon", "converse"), "bedrock"),
    **dict.fromkeys(("claude", "messages"), "anthropic"),
    **dict.fromkeys(("chat", "gpt", "responses"), "openai"),
    **dict.fromkeys(("cli", "exec", "program", "script", "shell"), "command"),
    **dict.fromkeys(("agent", "file", "function", "langchain", "langgraph", "module"), "python"),
    **dict.fromkeys(("api", "https", "rest", "url", "webhook"), "http"),
    **dict.fromkeys(("js", "node", "typescript"), "javascript"),
    "echo": "mock",
    "embedding": "embeddings",
}

_WORDS = "word overlap is not measured here: `similar` compares texts, a `judge` their meaning"
_COMPATIBLE = "use `type: openai` with its `base_url`: docs/providers.md has recipes"

_LACKING: Mapping[str, Mapping[str, str]] = {
    "grader": {
        **dict.fromkeys(
            ("bert", "bleu", "f1", "f_score", "gleu", "meteor", "rouge", "rouge_l", "rouge_n"),
            _WORDS,
        ),
        **dict.fromkeys(
            ("contains_html", "contains_sql", "contains_xml", "is_html", "is_sql", "is_xml"),
            "a `python` grader can parse it",
        ),
        **dict.fromkeys(
            ("max_score", "select_best"), "`ci-evals pairwise` compares the answers of two variants"
        ),
        **dict.fromkeys(
            ("classifier", "perplexity", "webhook"),
            "write a function and use it as a `python` grader",
        ),
        "ruby": "write it in `python` or `javascript`",
    },
    "key": {
        "env": "variables come from the environment, or from `.env` next to the suite",
        "thoughts": "it is a setting of a provider",
        **dict.fromkeys(
            ("extensions", "nunjucks_filters", "redteam"), "ci-evals has no equivalent"
        ),
    },
    "provider type": {
        **dict.fromkeys(
            ("azure", "azure_openai", "azureopenai", "deepseek", "fireworks"),
            _COMPATIBLE,
        ),
        **dict.fromkeys(
            ("groq", "litellm", "lmstudio", "mistral", "ollama", "openrouter"), _COMPATIBLE
        ),
        **dict.fromkeys(("together", "vllm", "xai"), _COMPATIBLE),
    },
}


def translate_name(noun: str, name: str, known: Collection[str]) -> Hint | None:
    """Return our name for another tool's: `, which is called 'judge' here`.

    Args:
        noun: the kind of name: `key`, `grader` or `provider type`.
        name: the name.
        known: the names that are allowed in its place.

    Returns:
        None if no other tool has the name.
    """
    snake_case = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().replace("-", "_")
    plain = snake_case.removesuffix("_metric")
    negation = ""
    if noun == "grader" and plain.startswith("not_"):
        negation = "not_"
    positive = plain.removeprefix(negation)
    if plain in known or positive in known:
        return None
    lack = _LACKING.get(noun, {}).get(positive)
    if lack:
        return Hint(f": {lack}")
    for spelling in _spellings(noun, positive):
        key = spelling.partition(":")[0]
        if key not in known:
            continue
        suggestion = (negation + key,)
        if spelling == key:
            return Hint(f", which is called {negation + spelling!r} here", suggestion)
        return Hint(f", which is `{negation}{spelling}` here", suggestion)
    return None


def _spellings(noun: str, name: str) -> tuple[str, ...]:
    """Return spellings for another tool's name, the likeliest first."""
    if noun == "key":
        return KEY_SPELLINGS.get(name, ())
    if noun == "grader":
        spelling = GRADER_SPELLINGS.get(name)
    elif noun == "provider type":
        spelling = PROVIDER_SPELLINGS.get(name)
    else:
        spelling = None
    return (spelling,) if spelling else ()
