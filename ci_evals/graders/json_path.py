"""`json_path`: a value inside the answer's JSON."""

from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import UNSET, Meta

from ci_evals.graders.base import GraderOptions
from ci_evals.graders.difference import first_difference
from ci_evals.graders.findings import fails, holds
from ci_evals.graders.json_text import judge_json
from ci_evals.graders.quoting import clip, quote, show
from ci_evals.model import Answer, Finding

if TYPE_CHECKING:
    from jsonpath import CompoundJSONPath, JSONPath


class JsonPath(GraderOptions, frozen=True):
    """The answer is JSON with a value at `path`.

    Args:
        path: JSONPath (RFC 9535), such as `$.flights[0].to`.
        value: what must be there, at one place at least if the path finds several; left out, anything will do.
    """

    short: ClassVar[str] = "path"

    path: Annotated[str, Meta(min_length=1)]
    value: Any = UNSET

    def problems(self) -> list[str]:
        from jsonpath import JSONPathError

        try:
            _compiled(self.path)
        except (JSONPathError, RecursionError) as error:
            what = clip(str(error).partition("\n")[0])
            return [f"bad JSONPath {quote(self.path)}: {what}{_position(error)}"]
        return []

    def grade(self, answer: Answer) -> Finding:
        return judge_json(answer.response.output, self._judge)

    def _judge(self, data: Any) -> Finding:
        found = find_all(self.path, data)
        where = clip(self.path)
        if not found:
            return fails(f"nothing at {where}: got {show(data)}")
        if self.value is UNSET:
            return holds(f"there is a value at {where}: {show(found[0])}")
        differences = [first_difference(self.value, value, where) for value in found]
        if None in differences:
            return holds(f"{where} is {show(self.value)}")
        if len(found) == 1:
            return fails(str(differences[0]))
        return fails(f"none of {len(found)} values at {where} is {show(self.value)}: got {show(found)}")


def find_all(path: str, data: Any) -> list[Any]:
    """Every value at a valid JSONPath."""
    compiled = _compiled(path)
    if isinstance(data, str):
        # The library would parse a text as JSON once more; a number has no children either, so it can stand in.
        return [data for _ in compiled.findall(0)]
    return compiled.findall(data)


@lru_cache(maxsize=1024)
def _compiled(path: str) -> "JSONPath | CompoundJSONPath":
    import jsonpath

    return jsonpath.compile(path)


def _position(error: Exception) -> str:
    """Where in the path; the library has -1 for its end."""
    index = getattr(getattr(error, "token", None), "index", -1)
    return f" at position {index}" if index >= 0 else ""
