"""`is_json`: the answer is JSON."""

from ci_evals.graders.base import AlwaysTrue
from ci_evals.graders.findings import holds
from ci_evals.graders.json_text import judge_json
from ci_evals.model import Answer, Finding


class IsJson(AlwaysTrue, frozen=True):
    """The whole answer is JSON, bare or in one code fence. `value` is always true."""

    instead = "write `not_is_json: true`, or leave it out"

    def grade(self, answer: Answer) -> Finding:
        return judge_json(answer.response.output, lambda _: holds("is JSON"))
