"""`ci-evals init` in a folder with the config of another tool."""

from pathlib import Path

from processes import ci_evals
from workflows import job_of

PROMPTFOO = """\
prompts: ['Answer: {{ question }}']
providers: [openai:gpt-4o-mini]
tests:
  - vars: {question: Capital of France?}
    assert: [{type: icontains, value: paris}, {type: bleu, value: Paris}]
"""


async def test_a_promptfoo_config_is_imported(tmp_path: Path) -> None:
    (tmp_path / "promptfooconfig.yaml").write_text(PROMPTFOO)
    written = await ci_evals(tmp_path, "init", environ={"OPENAI_API_KEY": ""})
    assert written.code == 0
    assert "written: evals.yaml (from promptfooconfig.yaml)" in written.out
    assert "not imported: promptfooconfig.yaml:5: assert: bleu" in written.out
    assert "still to do before it runs:\n  evals.yaml:3: providers[0].api_key" in written.out
    assert job_of(tmp_path)[1][-1]["env"].keys() == {"OPENAI_API_KEY"}
    assert (await ci_evals(tmp_path, "validate", environ={"OPENAI_API_KEY": "sk-1"})).code == 0
