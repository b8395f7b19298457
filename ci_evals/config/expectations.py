"""Entries of `expect` into graders: `contains: Paris`, `not_contains: {value: Paris, ignore_case: true}`."""

from collections.abc import Mapping
from typing import Any

import msgspec

from ci_evals.config.decode import Decoder, unknown
from ci_evals.config.source import line_of, plain
from ci_evals.graders import GRADERS
from ci_evals.graders.base import GraderOptions
from ci_evals.model import USUAL_WEIGHT, Expectation

NEGATION = "not_"


def decode_expect(entries: Any, decoder: Decoder, path: str, line: int | None) -> tuple[Expectation, ...]:
    """Decode a list of expectations; what is wrong is told to `decoder` and left out."""
    if entries is None:
        return ()
    if not isinstance(entries, list):
        decoder.problem(line, path, "expected a list of graders, as in `- contains: Paris`")
        return ()
    decoded = (
        decode_expectation(entry, decoder, f"{path}[{index}]", line_of(entries, index) or line)
        for index, entry in enumerate(entries)
    )
    return tuple(expectation for expectation in decoded if expectation is not None)


def decode_expectation(entry: Any, decoder: Decoder, path: str, line: int | None) -> Expectation | None:
    """Decode one entry; None if it is wrong, which `decoder` is told."""
    if isinstance(entry, str) and (entry in GRADERS or entry.removeprefix(NEGATION) in GRADERS):
        decoder.problem(line, path, f"{entry!r} needs a value, as in `{entry}: …`")
        return None
    if not isinstance(entry, dict) or len(entry) != 1:
        decoder.problem(line, path, "expected one grader with its value, as in `contains: Paris`")
        return None
    ((name, options),) = entry.items()
    negated = name.startswith(NEGATION) and name not in GRADERS
    cls = GRADERS.get(name.removeprefix(NEGATION) if negated else name)
    if cls is None:
        known = [*GRADERS, *(NEGATION + grader for grader in GRADERS)]
        decoder.problem(line, path, unknown("grader", name, known if _is_close(name, known) else GRADERS))
        return None
    grader = _grader(cls, options, decoder, f"{path}.{name}", line_of(entry, name) or line)
    if grader is None:
        return None
    for message in grader.problems():
        decoder.problem(line, f"{path}.{name}", message)
    judging = grader.opposed() if negated else grader
    weight = USUAL_WEIGHT if grader.weight == USUAL_WEIGHT else grader.weight
    return Expectation(name, judging, negated, weight)


def _grader(
    cls: type[GraderOptions], options: Any, decoder: Decoder, path: str, line: int | None
) -> GraderOptions | None:
    long_form = is_long_form(cls, options)
    try:
        return msgspec.convert(plain(options) if long_form else {cls.short: plain(options)}, cls)
    except msgspec.ValidationError:
        pass  # the slow way finds every problem and its line
    if long_form or (isinstance(options, dict) and not _takes_mapping(cls)):
        return decoder.struct(options, cls, path, line)
    field = next(field for field in msgspec.structs.fields(cls) if field.name == cls.short)
    decoder.value(options, field.type, path, line)
    return None


def is_long_form(cls: type[GraderOptions], options: Any) -> bool:
    """Whether a mapping names the grader's options rather than being its value (`json_schema: {type: object}`)."""
    if not isinstance(options, Mapping) or not options:
        return False
    fields = cls.__struct_fields__
    if not _takes_mapping(cls):
        return True
    return cls.short in options and all(key in fields for key in options)


def _takes_mapping(cls: type[GraderOptions]) -> bool:
    """Whether the value that the short form sets may itself be a mapping."""
    field = next(field for field in msgspec.structs.fields(cls) if field.name == cls.short)
    try:
        msgspec.convert({"": None}, field.type)
    except msgspec.ValidationError:
        return False
    return True


def _is_close(name: str, known: list[str]) -> bool:
    return "did you mean" in unknown("grader", name, known)
