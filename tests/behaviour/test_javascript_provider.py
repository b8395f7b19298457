"""JavaScript providers: functions and classes, what they get and return, and how they fail."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from processes import ci_evals
from suites import results_of, write_suite

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")

AGENT = """
class Agent {
  constructor(options) {
    this.options = options;
    this.calls = 0;
  }
  id() { return this.options.id; }
  async callApi(prompt, context) {
    this.calls += 1;
    await new Promise((resolve) => setTimeout(resolve, 1));
    return {
      output: `${this.options.config.greeting} ${context.vars.who}: ${prompt}`,
      tokenUsage: { total: 12, prompt: 5, completion: 7 },
      cost: 0.25,
      cached: false,
      metadata: { calls: this.calls },
    };
  }
}
module.exports = Agent;
module.exports.made = { callApi: (prompt) => ({ output: prompt.toUpperCase() }) };
module.exports.echo = (prompt, { config, run }) => `${prompt}${config.mark}${run}`;
module.exports.data = async () => ({
  output: { city: "Paris" }, tool_calls: [{ name: "look", arguments: { at: 1 } }],
});
module.exports.plain = () => ["a", 1];
module.exports.asked = (prompt) => prompt;
module.exports.crash = (prompt) => prompt.nothing.here;
module.exports.refuse = () => ({ error: "no such model" });
module.exports.nothing = () => {};
module.exports.typo = () => ({ output: "x", steps: 5 });
module.exports.hang = () => new Promise(() => {});
module.exports.spin = () => { while (true); };
"""


async def answered(
    folder: Path, *names: str, settings: Mapping[str, Any] = {}, **options: Any
) -> list[dict[str, Any]]:
    """Return the results of a case on the exports of the agent."""
    (folder / "agent.cjs").write_text(AGENT, "utf-8")
    providers = [
        {"name": f"agent{name}", "type": "javascript", "file": f"agent.cjs{name}", **options}
        for name in names
    ]
    case = {"id": "a", "input": "hi", "vars": {"who": "Ada"}, "expect": [{"not_empty": True}]}
    return await results_of(folder, [case], providers=providers, **settings)


async def test_a_class_answers_with_its_usage_cost_and_metadata(tmp_path: Path) -> None:
    (result,) = await answered(tmp_path, "", config={"greeting": "Dear"})
    response = result["response"]
    assert response["output"] == "Dear Ada: hi"
    assert response["usage"] == {"input_tokens": 5, "output_tokens": 7}
    assert (response["cost_usd"], response["metadata"]) == (0.25, {"calls": 1})


async def test_functions_answer_with_text_or_data(tmp_path: Path) -> None:
    found = await answered(tmp_path, ":echo", ":made", ":data", ":plain", config={"mark": "!"})
    responses = [result["response"] for result in found]
    outputs = [response["output"] for response in responses]
    assert outputs == ["hi!1", "HI", '{"city":"Paris"}', '["a",1]']
    assert responses[2]["tool_calls"] == [{"name": "look", "arguments": {"at": 1}}]


async def test_a_prompt_of_several_turns_is_json(tmp_path: Path) -> None:
    messages = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "{{ input }}"},
    ]
    (result,) = await answered(tmp_path, ":asked", settings={"prompts": [{"messages": messages}]})
    assert result["response"]["output"] == (
        '[{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hi"}]'
    )


FAILURES = {
    ":crash": ("crash", "TypeError: Cannot read properties of undefined (reading 'here')"),
    ":refuse": ("crash", "no such model"),
    ":nothing": (
        "bad_answer",
        "`agent.cjs` returned nothing. Return text, or an object with `output`",
    ),
    ":typo": ("bad_answer", "`agent.cjs` returned an invalid answer: steps: expected a list"),
}
TIMEOUTS = {
    ":hang": ("timeout", "no answer within 0.3 s"),
    ":spin": ("timeout", "no answer within 0.3 s"),
}


@pytest.mark.parametrize(
    ("failures", "options"), [(FAILURES, {}), (TIMEOUTS, {"timeout_s": 0.3})], ids=["told", "late"]
)
async def test_a_failure_is_that_of_the_change_under_test(
    tmp_path: Path, failures: Mapping[str, tuple[str, str]], options: Mapping[str, Any]
) -> None:
    found = await answered(tmp_path, *failures, **options)
    for result, (kind, message) in zip(found, failures.values(), strict=True):
        assert (result["status"], result["error"]["kind"]) == ("failed", kind)
        assert result["error"]["message"].startswith(message), result["error"]
        assert "agent.cjs:" in result["error"].get("detail", "agent.cjs:")


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        (
            "agent.py",
            (
                "file: expected a file of JavaScript (.js, .mjs or .cjs)"
                " or TypeScript (.ts, .mts or .cts), got 'agent.py'"
            ),
        ),
        ("agnt.cjs", "file: there is no file "),
        ("agent.cjs:nope", "agent.cjs does not export a function nope"),
        ("broken.mjs", "SyntaxError: "),
    ],
)
async def test_what_cannot_be_called_is_found_before_any_call(
    tmp_path: Path, file: str, problem: str
) -> None:
    (tmp_path / "agent.cjs").write_text(AGENT, "utf-8")
    (tmp_path / "broken.mjs").write_text("export default (;\n", "utf-8")
    write_suite(tmp_path, providers=[{"type": "javascript", "file": file}])
    ended = await ci_evals(tmp_path, "run", "--out", "out")
    assert (ended.code, problem in ended.err) == (2, True), ended.err
    assert not (tmp_path / "out/results.jsonl").exists()
