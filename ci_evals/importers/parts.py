"""Parts that several formats have in common: inputs that are texts or chats, and settings that all
cases share.
"""

import json
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from ci_evals.graders import GRADERS
from ci_evals.importers.draft import Draft, UntranslatableError
from ci_evals.importers.writing import YamlComment

NO_PROVIDERS = "The file does not say what answers: name it under `providers`."
JUDGE = {"name": "judge", "type": "openai", "model": "gpt-4.1"}
_ROLES = {name: name for name in ("system", "user", "assistant")} | {"developer": "system"}
_NAMED_ROLES = {"example_user": "user", "example_assistant": "assistant"}


def asked(value: Any) -> dict[str, Any]:
    """Return what a case is asked: `input`, or `messages` for a chat.

    Raises:
        UntranslatableError: a message of it is no text.
    """
    if (
        not isinstance(value, list)
        or not value
        or not all(isinstance(each, dict) and "role" in each for each in value)
    ):
        return {"input": value}
    if any(
        each["role"] not in _ROLES or not isinstance(each.get("content"), str) for each in value
    ):
        raise UntranslatableError("a message of it has parts other than text, or a role of its own")
    return {
        "messages": [
            {
                "role": _NAMED_ROLES.get(each.get("name", ""), _ROLES[each["role"]]),
                "content": each["content"],
            }
            for each in value
        ]
    }


def one_of(grader: str, values: Sequence[Any], **options: Any) -> dict[str, Any]:
    """Return a grader of one value, or `any_of` the same grader with each of several."""
    entries = [{grader: {"value": value, **options}} for value in values]
    return entries[0] if len(entries) == 1 else {"any_of": {"of": entries}}


def as_data(cell: Any) -> Any:
    """Return the data that a cell of a CSV file has as JSON; any other value as it is."""
    if isinstance(cell, str) and cell.strip()[:1] in ("[", "{"):
        try:
            return json.loads(cell)
        except ValueError:
            return cell
    return cell


def tidy(draft: Draft) -> None:
    """Write a draft as a person would: in short forms, without names that go without saying, common
    parts once.
    """
    suite = draft.suite
    judges = [judge for judge in suite.get("judges", ()) if not isinstance(judge, YamlComment)]
    kinds = Counter(judge["type"] == "embeddings" for judge in judges)
    understood = {judge["name"] for judge in judges if kinds[judge["type"] == "embeddings"] == 1}
    cases = [case for case in suite.get("cases", ()) if not isinstance(case, YamlComment)]
    for holder in (suite, *cases):
        _shorten(holder.get("expect", ()), understood)
    _pull_up(suite, cases)


def _shorten(expect: Iterable[Any], understood: Container[str]) -> None:
    """Leave out of graders, in compositions, too, the judges that are `understood`, and use their
    short forms.
    """
    for entry in expect:
        for name, options in entry.items() if isinstance(entry, dict) else ():
            if not isinstance(options, dict):
                continue
            if name in ("all_of", "any_of"):
                _shorten(options["of"], understood)
            if options.get("provider") in understood:
                del options["provider"]
            if set(options) == {(GRADERS.get(name) or GRADERS[name.removeprefix("not_")]).short}:
                (entry[name],) = options.values()


def _pull_up(suite: dict[Any, Any], cases: list[dict[Any, Any]]) -> None:
    """Write what every case expects, and vars that every case has, once for the suite."""
    if len(cases) < 2 or any("file" in case for case in cases):
        return
    expects = [
        [each for each in case.get("expect", ()) if not isinstance(each, YamlComment)]
        for case in cases
    ]
    common = [each for each in expects[0] if all(each in others for others in expects[1:])]
    if common:
        _insert(suite, "expect", [*suite.get("expect", ()), *common])
        for case in cases:
            case["expect"] = [
                each
                for each in case["expect"]
                if isinstance(each, YamlComment) or each not in common
            ]
            if not case["expect"]:
                del case["expect"]
    first: Mapping[str, Any] = cases[0].get("vars", {})
    shared = {
        name: value
        for name, value in first.items()
        if name not in suite.get("vars", {})
        and all(case.get("vars", {}).get(name, ...) == value for case in cases[1:])
    }
    if shared and (suite.get("prompts") or all("input" in case for case in cases)):
        _insert(suite, "vars", {**suite.get("vars", {}), **shared})
        for case in cases:
            case["vars"] = {
                name: value for name, value in case["vars"].items() if name not in shared
            }
            if not case["vars"]:
                del case["vars"]


def _insert(suite: dict[Any, Any], key: str, value: Any) -> None:
    """Set a key of the suite; a new one stands before the cases."""
    rest = {} if key in suite else {"cases": suite.pop("cases")}
    suite[key] = value
    suite |= rest
