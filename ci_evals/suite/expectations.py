"""Entries of `expect` into graders: `contains: Paris`, `not_contains: {value: Paris}`, or Python
objects.
"""

import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ci_evals.errors import Place, PluginError, Problem
from ci_evals.format import closest
from ci_evals.graders.base import GraderOptions, ModelGrader
from ci_evals.graders.composite import Composite
from ci_evals.graders.functions import FunctionGrader, Not, ObjectGrader
from ci_evals.graders.transform import transform_problem
from ci_evals.model.case import Expectation
from ci_evals.registry import GRADERS
from ci_evals.suite.file_values import FileValues, file_url
from ci_evals.suite.keys import keys_of
from ci_evals.suite.problems import Written, check, is_object, try_check, unknown
from ci_evals.suite.yaml import Lines

NEGATION = "not_"
_LONGEST_BRIEF = 60


def read_expect(written: Written, problems: list[Problem], folder: Path) -> tuple[Expectation, ...]:
    """Check a list of expectations; what is wrong goes to `problems` and is left out.

    Args:
        written: the list.
        problems: gets every problem.
        folder: the config's, where the team's own modules are looked for.
    """
    read = (read_expectation(entry, problems, folder) for entry in entries_of(written, problems))
    return tuple(expectation for expectation in read if expectation is not None)


def entries_of(written: Written, problems: list[Problem]) -> list[Written]:
    """Return the entries of a list of graders; in Python, a grader that stands alone is the only
    one.
    """
    value = written.value
    if isinstance(value, list | tuple):
        return list(written.items())
    if is_object(value) or (written.in_code and isinstance(value, Mapping)):
        return [written]
    if value is not None:
        listed = (
            f'[Contains("Paris")], got {value!r:.80}' if written.in_code else "`- contains: Paris`"
        )
        problems.append(written.problem(f"expected a list of graders, as in {listed}"))
    return []


def read_expectation(written: Written, problems: list[Problem], folder: Path) -> Expectation | None:
    """Check one entry; None if it is wrong."""
    entry = written.value
    if is_object(entry):
        return _read_object(written, problems, folder)
    if isinstance(entry, str) and (cls := _find_grader(entry)):
        value = "true" if cls.__dataclass_fields__[cls.short].default is True else "…"
        problems.append(written.problem(f"{entry!r} needs a value, as in `{entry}: {value}`"))
        return None
    if not isinstance(entry, Mapping) or len(entry) != 1 or "type" in entry:
        usual = "expected one grader with its value, as in `contains: Paris`"
        if written.in_code and not isinstance(entry, Mapping):
            usual = f'expected a grader, as in Contains("Paris"), got {entry!r:.80}'
        hint = _misplacement(entry) or usual
        problems.append(written.problem(hint))
        return None
    (name,) = entry
    try:
        cls = _find_grader(name)
    except PluginError as error:
        problems.append(written.problem(str(error)))
        return None
    if cls is None:
        known = [*GRADERS, *(NEGATION + grader for grader in GRADERS)]
        problems.append(
            written.problem(unknown("grader", name, known if closest(name, known) else GRADERS))
        )
        return None
    options = _with_files(cls, written[name], problems, folder)
    grader = _read_options(cls, options, problems) if options else None
    if options is None or grader is None:
        return None
    problems += map(options.problem, _problems_of(grader, folder))
    problems += _transform_problems(grader, options["transform"], folder)
    if isinstance(grader, Composite):
        grader = _read_parts(
            grader,
            options["of"] if isinstance(options.value, Mapping) else options,
            problems,
            folder,
        )
    negated = name.startswith(NEGATION) and name not in GRADERS
    place = options.place if grader.has_dependency else None
    if isinstance(grader, ModelGrader) and grader.provider is not None:
        place = options["provider"].place
    judge = grader.for_negation() if negated else grader
    return Expectation(name, judge, negated, place=place, **_common(grader))


def _read_parts(
    grader: Composite, written: Written, problems: list[Problem], folder: Path
) -> Composite:
    """Return the grader with the expectations that it is made of."""
    before = len(problems)
    of = read_expect(written, problems, folder)
    if len(problems) == before and not any(each.weight for each in of):
        problems.append(written.problem("all of these have weight 0, so nothing would decide"))
    return dataclasses.replace(grader, of=of)


def _common(grader: GraderOptions) -> dict[str, Any]:
    """Return what an expectation takes over from the options that all graders have."""
    return {
        "weight": grader.weight,
        "title": grader.name,
        "metric": grader.metric,
        "transform": grader.transform,
    }


def _transform_problems(grader: GraderOptions, written: Written, folder: Path) -> Iterator[Problem]:
    if grader.transform is None:
        return
    if not grader.reads_text:
        yield written.problem(
            "this grader reads no text of the answer, so there is nothing to transform: leave it out"
        )
    elif problem := transform_problem(grader.transform, folder):
        yield written.problem(problem)


def _problems_of(grader: GraderOptions, folder: Path) -> list[str]:
    """Return what is wrong with a grader's options, or else what it needs and cannot find."""
    if found := grader.problems():
        return found
    if missing := grader.missing(folder):
        return [missing]
    paths = [
        path
        for each in dataclasses.fields(grader)
        if (path := file_url(getattr(grader, each.name)))
    ]
    return [
        f"this is text: name the file in `vars`, as in `text: {{file: {path}}}`, and write `{{{{ text }}}}` here"
        for path in paths
    ]


def _with_files(
    cls: type[GraderOptions], written: Written, problems: list[Problem], folder: Path
) -> Written | None:
    """Return a grader's options with what files hold that they name; None if one cannot be read."""
    files, before = FileValues(folder), len(problems)
    value = written.value
    if cls.from_file and _is_long_form(cls, value):
        value = {
            key: files.fill(written[key], problems) if key in cls.from_file else value[key]
            for key in value
        }
    elif cls.short in cls.from_file:
        value = files.fill(written, problems)
    return written.having(value) if len(problems) == before else None


def _read_options(
    cls: type[GraderOptions], written: Written, problems: list[Problem]
) -> GraderOptions | None:
    if (
        issubclass(cls, Composite)
        and isinstance(written.value, Mapping)
        and "of" not in written.value
    ):
        graders = [name for name in written.value if _find_grader(name)]
        if graders:
            problems.append(
                written.problem(
                    f"expected a list of graders: write `- ` before {' and '.join(graders)}"
                )
            )
            return None
    if _is_long_form(cls, written.value) or (
        isinstance(written.value, Mapping) and not _takes_mapping(cls)
    ):
        return check(cls, written, problems)
    found: list[Problem] = []
    grader = check(cls, written.having({cls.short: written.value}), found)
    inner = f"{written.path}.{cls.short}"  # which nobody wrote
    problems += [each._replace(path=written.path + each.path.removeprefix(inner)) for each in found]
    return grader


def _is_long_form(cls: type[GraderOptions], options: Any) -> bool:
    """Return True if a mapping has the grader's options rather than being its value (`json_schema:
    {type: object}`).
    """
    if not isinstance(options, Mapping) or not options:
        return False
    if not _takes_mapping(cls):
        return True
    return cls.short in options and all(key in keys_of(cls) for key in options)


def _misplacement(entry: Any) -> str | None:
    """Say what is amiss where several keys stand side by side: several graders, or options beside
    their grader.
    """
    if isinstance(entry, Mapping) and isinstance(entry.get("type"), str):
        return _as_key(entry)
    graders = (
        [(key, cls) for key in entry if (cls := _find_grader(key))]
        if isinstance(entry, Mapping)
        else []
    )
    if len(graders) > 1:
        names = ", ".join(name for name, _ in graders)
        options = [key for key in entry if any(key in keys_of(cls) for _, cls in graders)]
        verb = "belongs" if len(options) == 1 else "belong"
        inside = f"; {' and '.join(options)} {verb} inside one of them" if options else ""
        return f"{len(graders)} graders in one entry: write `- ` before each of {names}{inside}"
    if len(graders) != 1:
        return None
    ((name, cls),) = graders
    beside = {key: value for key, value in entry.items() if key != name}
    if strangers := beside.keys() - set(keys_of(cls)):
        stranger, known = min(strangers), (*keys_of(cls), *GRADERS)
        return f"beside `{name}`: {unknown('key', stranger, known if closest(stranger, known) else keys_of(cls))}"
    value = entry[name]
    right = {**(value if _is_long_form(cls, value) else {cls.short: value}), **beside}
    inside = ", ".join(f"{key}: {_brief(item)}" for key, item in right.items())
    verb = "stands" if len(beside) == 1 else "stand"
    return f"{' and '.join(map(str, beside))} {verb} inside: `{name}: {{{inside}}}`"


def _as_key(entry: Mapping[str, Any]) -> str:
    """Say how an assertion of another tool, `{type: contains, value: Paris}`, is written."""
    name = entry["type"].replace("-", "_")
    cls = _find_grader(name)
    if cls is None:
        return unknown("grader", entry["type"], GRADERS)
    options = {
        cls.short if key == "value" else key: item for key, item in entry.items() if key != "type"
    }
    inside = ", ".join(f"{key}: {_brief(item)}" for key, item in options.items())
    right = _brief(options[cls.short]) if set(options) == {cls.short} else f"{{{inside}}}"
    return f"the grader is the key: write `{name}: {right}`"


def _brief(value: Any) -> str:
    """Return a value as YAML would have it on one line, or dots for a long one."""
    text = (
        value
        if isinstance(value, str) and value.isalpha()
        else json.dumps(value, ensure_ascii=False)
    )
    return text if len(text) <= _LONGEST_BRIEF else "…"


def _find_grader(name: str) -> type[GraderOptions] | None:
    """Return the grader of a name, negated or not.

    Raises:
        PluginError: an installed package provides it and cannot be used.
    """
    bare = name.removeprefix(NEGATION)
    if bare in GRADERS.own and name not in GRADERS.own:
        return GRADERS[bare]
    if name in GRADERS:
        return GRADERS[name]
    return GRADERS.get(bare)


def own_templates(name: Any) -> tuple[str, ...]:
    """Return the options of the grader of a name that are templates of its own; none if there is no
    such grader.
    """
    cls = _find_grader(name) if isinstance(name, str) else None
    return cls.own_templates if cls else ()


def _takes_mapping(cls: type[GraderOptions]) -> bool:
    """Return True if the value that the short form sets may itself be a mapping."""
    return try_check(cls, Written({cls.short: {"": None}}, Lines(None), "")) is not None


# Graders that are written in Python.


def _read_object(written: Written, problems: list[Problem], folder: Path) -> Expectation | None:
    entry = written.value
    if isinstance(entry, Not):
        of = read_expectation(written.having(entry.grader), problems, folder)
        if of is None:
            return None
        grader = of.grader.for_negation() if isinstance(of.grader, GraderOptions) else of.grader
        return dataclasses.replace(
            of, name=NEGATION + of.name, grader=grader, negated=not of.negated
        )
    if isinstance(entry, GraderOptions):
        return _read_grader(entry, written, problems, folder)
    if isinstance(entry, FunctionGrader):
        judge = entry
    elif not isinstance(entry, type) and callable(getattr(entry, "grade", None)):
        judge = ObjectGrader(entry)
    elif callable(entry) and not isinstance(entry, type):
        judge = FunctionGrader(entry)
    else:
        what = (
            f"the class {entry.__name__}"
            if isinstance(entry, type)
            else f"a {type(entry).__name__}"
        )
        text = f"expected a grader, a function, or an object with a method `grade`, got {what}"
        problems.append(written.problem(text))
        return None
    if judge.threshold is not None and not 0 <= judge.threshold <= 1:
        text = f"the threshold of {judge.name} is {judge.threshold}, and a score is from 0 to 1"
        problems.append(written.problem(text))
    if judge.weight < 0:
        problems.append(
            written.problem(f"the weight of {judge.name} is {judge.weight}: expected a number >= 0")
        )
    return Expectation(judge.name, judge, weight=judge.weight, metric=judge.metric)


def _read_grader(
    entry: GraderOptions, written: Written, problems: list[Problem], folder: Path
) -> Expectation | None:
    if isinstance(entry, ModelGrader) and is_object(entry.provider):
        text = "expected the name of a judge: give the suite what answers, as in judges=[my_judge], and name it here"
        problems.append(
            written["provider"].problem(f"{text}, or leave `provider` out if it is the only one")
        )
        return None
    options = check(type(entry), written, problems)
    if options is None:
        return None
    problems += map(written.problem, _problems_of(options, folder))
    problems += _transform_problems(options, written["transform"], folder)
    if isinstance(options, Composite):
        options = _read_parts(options, written["of"], problems, folder)
    name = GRADERS.name_of(type(entry)) or type(entry).__name__
    place = Place(*written.place) if options.has_dependency else None
    return Expectation(name, options, place=place, **_common(options))
