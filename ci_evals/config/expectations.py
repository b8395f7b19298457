"""Entries of `expect` into graders: `contains: Paris`, `not_contains: {value: Paris, ignore_case: true}`."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from sys import intern
from typing import Any

import msgspec

from ci_evals.config.decode import Decoder, is_written_in_code, unknown
from ci_evals.config.source import line_of, plain
from ci_evals.errors import Place
from ci_evals.graders import GRADERS
from ci_evals.graders.asking import AskingOptions
from ci_evals.graders.base import GraderOptions
from ci_evals.model import USUAL_WEIGHT, Expectation

NEGATION = "not_"
_LONGEST_BRIEF = 60


def decode_expect(entries: Any, decoder: Decoder, path: str, line: int | None, folder: Path) -> tuple[Expectation, ...]:
    """Decode a list of expectations; what is wrong is told to `decoder` and left out.

    Args:
        entries: the list as parsed.
        decoder: of the file that it is in.
        path: where it is in there.
        line: its line.
        folder: the config's, where the team's own modules are looked for.
    """
    if entries is None:
        return ()
    if not isinstance(entries, list):
        decoder.problem(line, path, "expected a list of graders, as in `- contains: Paris`")
        return ()
    decoded = (
        decode_expectation(entry, decoder, f"{path}[{index}]", line_of(entries, index) or line, folder)
        for index, entry in enumerate(entries)
    )
    return tuple(expectation for expectation in decoded if expectation is not None)


def decode_expectation(entry: Any, decoder: Decoder, path: str, line: int | None, folder: Path) -> Expectation | None:
    """Decode one entry; None if it is wrong, which `decoder` is told."""
    if isinstance(entry, str) and (cls := _class(entry)):
        value = "true" if _short_field(cls).type is bool else "…"
        decoder.problem(line, path, f"{entry!r} needs a value, as in `{entry}: {value}`")
        return None
    if is_written_in_code(entry):
        from ci_evals.config.code import expectation_of

        return expectation_of(entry, decoder, path, line)
    if not isinstance(entry, dict) or len(entry) != 1:
        hint = _slip(entry) or "expected one grader with its value, as in `contains: Paris`"
        decoder.problem(line, path, hint)
        return None
    ((name, options),) = entry.items()
    negated = name.startswith(NEGATION) and name not in GRADERS
    cls = _class(name)
    if cls is None:
        known = [*GRADERS, *(NEGATION + grader for grader in GRADERS)]
        decoder.problem(line, path, unknown("grader", name, known if _is_close(name, known) else GRADERS))
        return None
    line, path = line_of(entry, name) or line, f"{path}.{name}"
    grader = _grader(cls, options, decoder, path, line)
    if grader is None:
        return None
    problems = grader.problems()
    if not problems and (lack := grader.lacks(folder)):
        problems = [lack]
    for message in problems:
        decoder.problem(line, path, message)
    judging = grader.opposed() if negated else grader
    weight = USUAL_WEIGHT if grader.weight == USUAL_WEIGHT else grader.weight
    place = _place(grader, options, Place(decoder.file, line, path)) if grader.needs_more else None
    return Expectation(intern(name), judging, negated, weight, place)  # a row's name is a new text for every case


def _place(grader: GraderOptions, options: Any, entry: Place) -> Place:
    """Where the suite says what a grader needs beside an answer."""
    if isinstance(grader, AskingOptions) and grader.provider is not None:
        return Place(entry.file, line_of(options, "provider") or entry.line, f"{entry.path}.provider")
    return entry


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
    decoder.value(options, _short_field(cls).type, path, line)
    return None


def is_long_form(cls: type[GraderOptions], options: Any) -> bool:
    """Whether a mapping names the grader's options rather than being its value (`json_schema: {type: object}`)."""
    if not isinstance(options, Mapping) or not options:
        return False
    fields = cls.__struct_fields__
    if not _takes_mapping(cls):
        return True
    return cls.short in options and all(key in fields for key in options)


def _slip(entry: Any) -> str | None:
    """What is amiss where several keys stand side by side: graders in one entry, or options beside their grader."""
    graders = [(key, cls) for key in entry if (cls := _class(key))] if isinstance(entry, dict) else []
    if len(graders) > 1:
        names = ", ".join(name for name, _ in graders)
        options = [key for key in entry if any(key in cls.__struct_fields__ for _, cls in graders)]
        verb = "belongs" if len(options) == 1 else "belong"
        inside = f"; {' and '.join(options)} {verb} inside one of them" if options else ""
        return f"{len(graders)} graders in one entry: write `- ` before each of {names}{inside}"
    if len(graders) != 1:
        return None
    ((name, cls),) = graders
    beside = {key: value for key, value in entry.items() if key != name}
    if strangers := beside.keys() - set(cls.__struct_fields__):
        stranger, known = min(strangers), (*cls.__struct_fields__, *GRADERS)
        told = unknown("key", stranger, known if _is_close(stranger, known) else cls.__struct_fields__)
        return f"beside `{name}`: {told}"
    return _options_inside(name, cls, entry[name], beside)


def _options_inside(name: str, cls: type[GraderOptions], value: Any, beside: Mapping[str, Any]) -> str:
    """The right spelling for a grader whose options stand beside it: `contains: P` and `weight: 2`."""
    options = {**(value if is_long_form(cls, value) else {cls.short: value}), **beside}
    inside = ", ".join(f"{key}: {_brief(value)}" for key, value in options.items())
    verb = "stands" if len(beside) == 1 else "stand"
    return f"{' and '.join(map(str, beside))} {verb} inside: `{name}: {{{inside}}}`"


def _brief(value: Any) -> str:
    """A value as YAML would have it on one line, or dots for a long one."""
    import json

    text = value if isinstance(value, str) and value.isalpha() else json.dumps(plain(value), ensure_ascii=False)
    return text if len(text) <= _LONGEST_BRIEF else "…"


def _class(name: str) -> type[GraderOptions] | None:
    """The grader of a name, negated or not."""
    return GRADERS.get(name) or GRADERS.get(name.removeprefix(NEGATION))


def _takes_mapping(cls: type[GraderOptions]) -> bool:
    """Whether the value that the short form sets may itself be a mapping."""
    try:
        msgspec.convert({"": None}, _short_field(cls).type)
    except msgspec.ValidationError:
        return False
    return True


def _short_field(cls: type[GraderOptions]) -> msgspec.structs.FieldInfo:
    """The field that the short form sets."""
    return next(field for field in msgspec.structs.fields(cls) if field.name == cls.short)


def _is_close(name: str, known: Iterable[str]) -> bool:
    return "did you mean" in unknown("grader", name, known)
