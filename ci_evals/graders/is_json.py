"""`is_json`: the answer is JSON."""

from ci_evals.graders.base import GraderOptions
from ci_evals.graders.findings import holds
from ci_evals.graders.json_text import judge_json
from ci_evals.model import Answer, Finding


class IsJson(GraderOptions, frozen=True):
    """The whole answer is JSON, bare or in one code fence. `value` is always true."""

    value: bool = True

    def problems(self) -> list[str]:
        return [] if self.value else ["`false` says nothing: write `not_is_json: true`, or leave it out"]

    def grade(self, answer: Answer) -> Finding:
        return judge_json(answer.response.output, lambda _: holds("is JSON"))
