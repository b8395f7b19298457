"""Parts that several formats share: texts or chats as inputs, and settings of all cases."""

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import Any

from ci_evals.graders import GRADERS
from ci_evals.model.response import Message, ToolCall
from ci_evals.plugins.importers.draft import SuiteDraft, UntranslatableError
from ci_evals.plugins.importers.writing import YamlComment
from ci_evals.templating import is_template

NO_PROVIDERS = "The file names no providers: add them under `providers`."
JUDGE = {"name": "judge", "type": "openai", "model": "gpt-4.1"}
_QUARANTINE = timedelta(days=30)
_ROLES = {"system": "system", "user": "user", "assistant": "assistant", "developer": "system"}
_NAMED_ROLES = {"example_user": "user", "example_assistant": "assistant"}


def input_or_messages(value: Any) -> dict[str, Any]:
    """Return the `input` of a case, or its `messages` if the value is a chat.

    Raises:
        UntranslatableError: a message is not a text.
    """
    if not isinstance(value, list) or not value:
        return {"input": value}
    if not all(isinstance(message, dict) and "role" in message for message in value):
        return {"input": value}
    messages = []
    for message in value:
        role = _ROLES.get(message["role"])
        content = message.get("content")
        if role is None or not isinstance(content, str):
            reason = "a message has parts other than text, or an unknown role"
            raise UntranslatableError(reason)
        role = _NAMED_ROLES.get(message.get("name", ""), role)
        messages.append({"role": role, "content": content})
    return {"messages": messages}


def written_message(message: Message) -> dict[str, Any]:
    """Return a message in the YAML form of a case."""
    written: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.tool_calls:
        written["tool_calls"] = [_written_call(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        written["tool_call_id"] = message.tool_call_id
    return written


def _written_call(call: ToolCall) -> dict[str, Any]:
    written: dict[str, Any] = {"name": call.name, "arguments": call.arguments}
    if call.id is not None:
        written["id"] = call.id
    return written


def unconfirmed(answer: str | None, today: date, judge: Mapping[str, Any] = {}) -> dict[str, Any]:
    """Return the expectations of a case whose answer is not confirmed, and its quarantine.

    Args:
        answer: the recorded answer, right or wrong; None without one.
        today: the first day of the quarantine.
        judge: further options of the judge.
    """
    expect: list[Any] = [{"not_empty": True}]
    reason = "no answer was recorded: say what is expected"
    if answer is not None:
        expect = [{"judge": {"rubric": "factual", "reference": raw(answer), **judge}}]
        reason = "the recorded answer is not confirmed"
    until = str(today + _QUARANTINE)
    return {"expect": expect, "quarantine": {"reason": reason, "until": until}}


def raw(value: Any) -> Any:
    """Return a value in which no text is a template: other tools and recorded answers have none."""
    if isinstance(value, str) and is_template(value):
        if "endraw" in value:  # which would end the block
            return f"{{{{ {json.dumps(value, ensure_ascii=False)} }}}}"
        return f"{{% raw %}}{value}{{% endraw %}}"
    if isinstance(value, dict):
        return {key: raw(item) for key, item in value.items()}
    if isinstance(value, list):
        return [raw(item) for item in value]
    return value


def one_of(grader: str, values: Sequence[Any]) -> dict[str, Any]:
    """Return a grader for one value, or `any_of` the same grader for several values."""
    entries = [{grader: {"value": value}} for value in values]
    if len(entries) == 1:
        return entries[0]
    return {"any_of": {"of": entries}}


def as_data(cell: Any) -> Any:
    """Parse a cell of a CSV file that is JSON; return any other value unchanged."""
    if isinstance(cell, str) and cell.strip().startswith(("[", "{")):
        try:
            return json.loads(cell)
        except ValueError:
            return cell
    return cell


def tidy(draft: SuiteDraft) -> None:
    """Make a draft look hand-written: short forms, no redundant names, common parts once."""
    suite = draft.suite
    default_judges = _only_judges(_without_comments(suite.get("judges", ())))
    cases = _without_comments(suite.get("cases", ()))
    for holder in (suite, *cases):
        _shorten(holder.get("expect", ()), default_judges)
    if len(cases) < 2 or any("file" in case for case in cases):
        return
    _share_expectations(suite, cases)
    if suite.get("prompts") or all("input" in case for case in cases):
        _share_vars(suite, cases)


def _without_comments(items: Iterable[Any]) -> list[Any]:
    return [item for item in items if not isinstance(item, YamlComment)]


def _only_judges(judges: Iterable[dict[str, Any]]) -> set[str]:
    """Return the names of judges that are the only one of their kind, which graders can omit."""
    chats = set()
    embeddings = set()
    for judge in judges:
        if judge["type"] == "embeddings":
            embeddings.add(judge["name"])
        else:
            chats.add(judge["name"])
    only = set()
    for names in (chats, embeddings):
        if len(names) == 1:
            only |= names
    return only


def _shorten(expect: Iterable[Any], default_judges: Container[str]) -> None:
    """Remove the names of default judges, and use short forms, also in compositions."""
    for entry in expect:
        if not isinstance(entry, dict):
            continue
        for name, options in entry.items():
            if not isinstance(options, dict):
                continue
            if name in ("all_of", "any_of"):
                _shorten(options["of"], default_judges)
            if options.get("provider") in default_judges:
                del options["provider"]
            grader = GRADERS.get(name) or GRADERS[name.removeprefix("not_")]
            if set(options) == {grader.short}:
                entry[name] = options[grader.short]


def _share_expectations(suite: dict[Any, Any], cases: list[dict[Any, Any]]) -> None:
    """Move the expectations that all cases share to the suite.

    A grader that has a comment in a case stays there.
    """
    common = _without_comments(cases[0].get("expect", ()))
    for case in cases:
        expect = case.get("expect", ())
        commented = _after_comments(expect)
        common = [grader for grader in common if grader in expect and grader not in commented]
    if not common:
        return
    _insert(suite, "expect", [*suite.get("expect", ()), *common])
    for case in cases:
        case["expect"] = [grader for grader in case["expect"] if grader not in common]
        if not _without_comments(case["expect"]):
            case.update(dict.fromkeys(case.pop("expect")))


def _share_vars(suite: dict[Any, Any], cases: list[dict[Any, Any]]) -> None:
    """Move the vars that all cases share, with the same value, to the suite.

    A var that has a comment in a case stays there.
    """
    suite_vars = suite.get("vars", {})
    commented: set[str] = set()
    for case in cases:
        commented.update(_after_comments(case.get("vars", ())))
    first_vars = cases[0].get("vars", {})
    shared = {}
    for name, value in first_vars.items():
        if "${" in str(value):
            continue  # it is literal in a case, but refers to the environment in the suite
        is_same = all(case.get("vars", {}).get(name, ...) == value for case in cases[1:])
        if is_same and name not in suite_vars and name not in commented:
            shared[name] = value
    if not shared:
        return
    _insert(suite, "vars", {**suite_vars, **shared})
    for case in cases:
        case["vars"] = {name: case["vars"][name] for name in case["vars"] if name not in shared}
        if not case["vars"]:
            del case["vars"]


def _after_comments(parts: Iterable[Any]) -> list[Any]:
    """Return the items or keys directly after a comment."""
    commented = []
    after_comment = False
    for part in parts:
        if isinstance(part, YamlComment):
            after_comment = True
        elif after_comment:
            commented.append(part)
            after_comment = False
    return commented


def _insert(suite: dict[Any, Any], key: str, value: Any) -> None:
    """Set a key of the suite; a new key is inserted before the cases."""
    if key in suite:
        suite[key] = value
        return
    cases = suite.pop("cases")
    suite[key] = value
    suite["cases"] = cases
