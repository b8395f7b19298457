"""Ids of cases that are written without one, and of those that a matrix makes: the same in every
run.
"""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ci_evals.model.case import Case
from ci_evals.model.fingerprint import digest, encode
from ci_evals.model.response import Message
from ci_evals.providers.parts import find_parts
from ci_evals.suite.file_values import file_named

LONGEST_ID = 200
_LONGEST_TEXT = 60


def name_cases(cases: Sequence[Case], wanted: Sequence[str]) -> tuple[Case, ...]:
    """Give each case without an id the one that is wanted for it, with a number where that is
    taken.
    """
    taken = {case.id for case in cases}
    times: Counter[str] = Counter()
    named = []
    for number, (case, base) in enumerate(zip(cases, wanted, strict=True), 1):
        if not case.id:
            base = name = base or f"case {number}"  # noqa: PLW2901
            while name in taken:
                times[base] += 1
                name = f"{base} ({times[base] + 1})"
            taken.add(name)
            case = dataclasses.replace(case, id=name)  # noqa: PLW2901
        named.append(case)
    return tuple(named)


def content_id(case: Case) -> str:
    """Return what a case asks as an id; of a long text its beginning and a digest. Empty if it says
    nothing.
    """
    asked = case.input
    if asked is None and case.vars:
        asked = next(iter(case.vars.values())) if len(case.vars) == 1 else case.vars
    elif asked is None:
        said = [
            *(turn.user for turn in case.turns),
            *(message.text for message in reversed(case.messages)),
        ]
        asked = next(iter(said), case.user.goal if case.user else "")
    if parts := find_parts(asked):
        asked = Message("user", parts).text
    if not isinstance(asked, Mapping):
        return _short(asked)
    return _cut(settings_label(asked), asked, LONGEST_ID)


def settings_label(settings: Mapping[str, Any]) -> str:
    """Return `lang=en tone=formal`."""
    return " ".join(f"{name}={_short(value)}" for name, value in settings.items())


def matrix_id(id_: str, settings: Mapping[str, Any]) -> str:
    """Return the id of one of the cases that the matrix of a case makes."""
    return _cut(f"{id_} {settings_label(settings)}".strip(), settings, LONGEST_ID)


def _short(value: Any) -> str:
    if path := file_named(value):
        return path
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str | int | float):
        return _cut(str(value), value, _LONGEST_TEXT)
    if isinstance(value, list | tuple | dict) or dataclasses.is_dataclass(value):
        return _cut(encode(value), value, _LONGEST_TEXT)
    return ""  # the text of an object may be another one in every process


def _cut(text: str, value: Any, longest: int) -> str:
    """Return the first line of a text, up to a length; with a digest if that is not all."""
    whole = text.strip()
    line = whole.partition("\n")[0]
    if line == whole and len(line) <= longest:
        return line
    return f"{line[: longest - 8].rstrip()}… {digest(value)[:6]}"
