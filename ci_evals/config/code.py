"""What is written in Python instead of YAML, checked by the rules of the file: cases, graders, providers."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from ci_evals.config.decode import Decoder, is_written_in_code
from ci_evals.config.file_types import CaseEntry
from ci_evals.config.source import Map, Seq
from ci_evals.errors import Place
from ci_evals.graders import GRADERS
from ci_evals.graders.base import GraderOptions
from ci_evals.graders.function import FunctionGrader, Not, ObjectGrader
from ci_evals.model import Expectation
from ci_evals.providers.base import ProviderOptions, Secret
from ci_evals.providers.function import Function
from ci_evals.response import Message
from ci_evals.rules import Allowance, Budget, Gate

T = TypeVar("T", bound=Struct)
_LONGEST_ID = 100

Expected: TypeAlias = GraderOptions | Not | Callable[..., Any] | Mapping[str, Any] | Any
"""A grader: one of `ci_evals.graders`, a function, an object with `grade(answer)`, or the spelling of the YAML."""

Answering: TypeAlias = ProviderOptions | Callable[..., Any] | Mapping[str, Any] | Any
"""A provider: one of `ci_evals.providers`, a function, an object with `answer(request)`, or the YAML's spelling."""


class Case(Struct, frozen=True, kw_only=True):
    """One input and what is expected of the answer; the fields are the keys of a case in the YAML.

    Args:
        input: what is sent: text, or any value that the provider takes.
        expect: graders, all of which must hold; those of the suite come on top.
        id: what results are compared by; made of the input when left out.
        vars: values for the prompts' templates.
        messages: a conversation to continue.
        turns: a conversation to lead: mappings with `user`, what is said, and `expect`, graders of the answer.
        user: a simulated user, as a mapping with `provider`, `persona`, `goal` and `max_turns`.
        threshold: pass on a weighted mean score instead of on every grader.
        tags: to select and to gate by.
        runs: runs of this case; wins over all other counts.
        min_pass_rate: a bar for this case alone.
        critical: a regression of this case, or its missed bar, is red whatever else the gate allows.
        timeout_s: seconds that a call may take.
        budget: what a run of this case may take, instead of the suite's `budget.per_run`.
        overrides: settings of the provider for this case.
        description: for a reader.
        metadata: anything else, kept with the case for graders and providers.

    `file` and `line` say where it is written; they are found out.
    """

    input: Any = None
    expect: Sequence[Expected] = ()
    id: str | None = None
    vars: Mapping[str, Any] = {}
    messages: Sequence[Message] = ()
    turns: Sequence[Mapping[str, Any]] = ()
    user: Mapping[str, Any] | None = None
    threshold: float | None = None
    tags: Sequence[str] = ()
    runs: int | None = None
    min_pass_rate: float | None = None
    critical: bool = False
    timeout_s: float | None = None
    budget: Allowance | Mapping[str, Any] | None = None
    overrides: Mapping[str, Any] = {}
    description: str | None = None
    metadata: Mapping[str, Any] = {}
    file: str = ""
    line: int | None = None

    def __post_init__(self) -> None:
        if not self.file:
            file, line = written_at(1)
            msgspec.structs.force_setattr(self, "file", file)
            msgspec.structs.force_setattr(self, "line", line)


def written_at(depth: int) -> tuple[str, int]:
    """The file and line from which the caller was called, `depth` calls further out; relative where it is below."""
    frame = sys._getframe(depth + 1)  # noqa: SLF001  the one way to know without walking the whole stack
    path = Path(frame.f_code.co_filename)
    try:
        return path.relative_to(Path.cwd()).as_posix(), frame.f_lineno
    except (OSError, ValueError):
        return path.as_posix(), frame.f_lineno


def located(value: Any, line: int | None) -> Any:
    """Plain mappings and lists as the parser would give them, all of one line; anything else as it is."""
    if isinstance(value, Gate | Budget | Message):
        value = msgspec.to_builtins(value)
    if isinstance(value, Mapping):
        mapping = Map(line or 0)
        mapping.update({key: located(item, line) for key, item in value.items()})
        return mapping
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        items = Seq(line or 0)
        items.extend(located(item, line) for item in value)
        items.lines = [line or 0] * len(items)
        return items
    return value


def with_ids(cases: Iterable[Any], place: tuple[str, int]) -> list[Any]:
    """Texts as cases of this place; every `Case` with an id: the first line of its input, numbered where taken."""
    file, line = place
    given = [Case(input=each, file=file, line=line) if isinstance(each, str) else each for each in cases]
    taken = {str(id) for each in given if (id := _id_of(each))}  # noqa: A001  the field's own name
    named = []
    for number, each in enumerate(given, 1):
        if isinstance(each, Case) and each.id is None:
            each = msgspec.structs.replace(each, id=_new_id(each, number, taken))  # noqa: PLW2901
            taken.add(str(each.id))
        named.append(each)
    return named


def _id_of(case: Any) -> Any:
    return case.id if isinstance(case, Case) else case.get("id") if isinstance(case, Mapping) else None


def _new_id(case: Case, number: int, taken: set[str]) -> str:
    lines = case.input.strip().splitlines() if isinstance(case.input, str) else []
    wanted = lines[0][:_LONGEST_ID].strip() if lines else f"case {number}"
    name, count = wanted, 1
    while name in taken:
        count += 1
        name = f"{wanted} ({count})"
    return name


def entry_of(case: Case, decoder: Decoder, path: str) -> CaseEntry | None:
    """A case as the file would have it; None if it is wrong, which `decoder` is told."""
    values = {name: getattr(case, name) for name in CaseEntry.__struct_fields__}
    free = {name: values.pop(name) for name in ("input", "expect", "vars", "metadata", "id")}
    graders_of_turns = [turn.get("expect", ()) if isinstance(turn, Mapping) else () for turn in values["turns"]]
    values["turns"] = [_without(turn, "expect") for turn in values["turns"]]
    player = values["user"].get("provider") if isinstance(values["user"], Mapping) else None
    if is_written_in_code(player):
        values["user"] = {**values["user"], "provider": ""}
    before = len(decoder.problems)
    written = {name: _as_written(value) for name, value in values.items()}
    checked = decoder.struct({"id": free["id"], **written}, CaseEntry, path, case.line)
    if not isinstance(free["expect"], list | tuple):
        decoder.problem(case.line, f"{path}.expect", "expected a list of graders, as in expect=[Contains('Paris')]")
    if checked is None or len(decoder.problems) > before:
        return None
    free["expect"] = list(free["expect"])
    free["turns"] = tuple(
        msgspec.structs.replace(turn, expect=list(graders))
        for turn, graders in zip(checked.turns, graders_of_turns, strict=True)
    )
    if checked.user is not None and is_written_in_code(player):
        free["user"] = msgspec.structs.replace(checked.user, provider=player)
    return msgspec.structs.replace(checked, **free)


def _without(value: Any, name: str) -> Any:
    return {key: item for key, item in value.items() if key != name} if isinstance(value, Mapping) else value


def expectation_of(entry: Any, decoder: Decoder, path: str, line: int | None) -> Expectation | None:
    """A grader object as an expectation; None if it is wrong, which `decoder` is told."""
    if isinstance(entry, Not):
        return _negated(expectation_of(entry.grader, decoder, path, line))
    if isinstance(entry, GraderOptions):
        grader = checked(entry, decoder, path, line)
        if grader is None:
            return None
        for message in grader.problems():
            decoder.problem(line, path, message)
        place = Place(decoder.file, line, path) if grader.needs_more else None
        return Expectation(_name_of(type(entry)), grader, weight=grader.weight, place=place)
    judge: FunctionGrader | ObjectGrader
    if isinstance(entry, FunctionGrader):
        judge = entry
    elif not isinstance(entry, type) and callable(getattr(entry, "grade", None)):
        judge = ObjectGrader(entry)
    elif callable(entry) and not isinstance(entry, type):
        judge = FunctionGrader(entry)
    else:
        what = f"the class {entry.__name__}" if isinstance(entry, type) else f"a {type(entry).__name__}"
        text = f"expected a grader, a function, or an object with a method `grade`, got {what}"
        decoder.problem(line, path, text)
        return None
    if isinstance(judge, FunctionGrader) and judge.threshold is not None and not 0 <= judge.threshold <= 1:
        decoder.problem(line, path, f"the threshold of {judge.name} is {judge.threshold}, and a score is from 0 to 1")
    if judge.weight < 0:
        decoder.problem(line, path, f"the weight of {judge.name} is {judge.weight}: expected a number >= 0")
    return Expectation(judge.name, judge, weight=judge.weight)


@cache
def _name_of(cls: type[GraderOptions]) -> str:
    """What a grader is called in the YAML; the class's own name where it is none of ours."""
    return next((name for name, grader in GRADERS.items() if grader is cls), cls.__name__)


def _negated(of: Expectation | None) -> Expectation | None:
    if of is None:
        return None
    grader = of.grader.opposed() if isinstance(of.grader, GraderOptions) else of.grader
    return msgspec.structs.replace(of, name=f"not_{of.name}", grader=grader, negated=not of.negated)


def provider_of(entry: Any, decoder: Decoder, path: str, line: int | None) -> ProviderOptions | None:
    """A provider object as options; None if it is wrong, which `decoder` is told."""
    if isinstance(entry, ProviderOptions):
        return checked(entry, decoder, path, line)
    if callable(entry) or callable(getattr(entry, "answer", None)):
        return checked(Function.of(entry), decoder, path, line)
    text = f"expected a provider, a function, or an object with a method `answer`, got a {type(entry).__name__}"
    decoder.problem(line, path, text)
    return None


def checked(options: T, decoder: Decoder, path: str, line: int | None) -> T | None:
    """The same options, their values checked as those of a file are; None if one is wrong."""
    before = len(decoder.problems)
    values = {}
    for field in msgspec.structs.fields(options):
        given = getattr(options, field.name)
        if given is not field.default and not isinstance(given, Secret | msgspec.UnsetType) and field.type is not Any:
            where = f"{path}.{field.encode_name}"
            values[field.name] = decoder.value(_as_written(given), field.type, where, line)
    return None if len(decoder.problems) > before else msgspec.structs.replace(options, **values)


def _as_written(value: Any) -> Any:
    """Tuples, mappings and structs as lists and dicts, as a parser gives them."""
    if isinstance(value, Struct):
        return {name: _as_written(item) for name, item in msgspec.structs.asdict(value).items() if item is not None}
    if isinstance(value, Mapping):
        return {key: _as_written(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_written(item) for item in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value
