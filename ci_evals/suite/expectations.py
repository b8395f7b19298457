"""Reads entries of `expect`: `contains: Paris`, `not_contains: {value: Paris}`, Python objects."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ci_evals import graders
from ci_evals.errors import PluginError
from ci_evals.format import closest
from ci_evals.graders.base import GRADERS, Composite, GraderOptions, ModelGrader
from ci_evals.model.grading import Expectation
from ci_evals.suite.file_values import FileValues, file_url
from ci_evals.suite.keys import keys_of
from ci_evals.suite.nodes import Node, Reading, collect
from ci_evals.suite.problems import check, is_object, try_check, unknown
from ci_evals.suite.yaml import Lines

NEGATION = "not_"
_LONGEST_BRIEF = 60


def read_expect(node: Node, folder: Path) -> Reading[tuple[Expectation, ...]]:
    """Read a list of expectations, leaving out invalid ones.

    Args:
        node: the list.
        folder: the suite's folder, where the team's own modules are looked for.
    """
    entries = yield from entries_of(node)
    expectations = []
    for entry in entries:
        expectation = yield from read_expectation(entry, folder)
        if expectation is not None:
            expectations.append(expectation)
    return tuple(expectations)


def entries_of(node: Node) -> Reading[Sequence[Node]]:
    """Return the entries of a list of graders; in Python, a single grader is a list of one."""
    value = node.value
    if value is None:
        return ()
    if isinstance(value, list | tuple):
        return list(node.items())
    if is_object(value) or (node.in_code and isinstance(value, Mapping)):
        return [node]
    example = "`- contains: Paris`"
    if node.in_code:
        example = f'[Contains("Paris")], got {value!r:.80}'
    yield node.problem(f"expected a list of graders, as in {example}")
    return ()


def read_expectation(node: Node, folder: Path) -> Reading[Expectation | None]:
    """Read one entry; None if it is invalid."""
    entry = node.value
    if is_object(entry):
        return (yield from _read_object(node, folder))
    shape_problem = _check_shape(node)
    if shape_problem is not None:
        yield node.problem(shape_problem)
        return None
    (name,) = entry
    try:
        cls = _find_grader(name)
    except PluginError as error:
        yield node.problem(str(error))._replace(cause=str(error))
        return None
    if cls is None:
        yield node.problem(_unknown_grader(name))
        return None
    options = yield from _read_files(cls, node[name], folder)
    if options is None:
        return None
    grader = yield from _read_options(cls, options)
    if grader is None:
        return None
    yield from _check_options(grader, options, folder)
    yield from _check_transform(grader, options["transform"], folder)
    if isinstance(grader, Composite):
        parts = options
        if isinstance(options.value, Mapping):
            parts = options["of"]
        grader = yield from _read_parts(grader, parts, folder)
    _, negated = _split_negation(name)
    # Kept only for graders that are checked against other parts of the suite: expectations without
    # a place can be shared by cases.
    place = None
    if isinstance(grader, ModelGrader) and grader.provider is not None:
        place = options["provider"].place
    elif grader.has_dependency:
        place = options.place
    judge = grader
    if negated:
        judge = grader.for_negation()
    return Expectation(name, judge, negated, place=place, **_common_options(grader))


def _check_shape(node: Node) -> str | None:
    """Return the problem of an entry that is not one grader with its value."""
    entry = node.value
    if isinstance(entry, str):
        cls = _find_grader(entry)
        if cls is not None:
            value = "…"
            if cls.__dataclass_fields__[cls.short].default is True:
                value = "true"
            return f"{entry!r} needs a value, as in `{entry}: {value}`"
    if isinstance(entry, Mapping):
        if isinstance(entry.get("type"), str):
            return _as_key(entry)
        if len(entry) == 1 and "type" not in entry:
            return None
        misplacement = _describe_misplacement(entry)
        if misplacement is not None:
            return misplacement
    elif node.in_code:
        return f'expected a grader, as in Contains("Paris"), got {entry!r:.80}'
    return "expected one grader with its value, as in `contains: Paris`"


def _unknown_grader(name: str) -> str:
    negations = [NEGATION + grader for grader in GRADERS]
    if closest(name, [*GRADERS, *negations]):
        return unknown("grader", name, [*GRADERS, *negations])
    return unknown("grader", name, GRADERS)


def _read_parts(grader: Composite, node: Node, folder: Path) -> Reading[Composite]:
    """Return a composite grader with its parts."""
    parts, problems = collect(read_expect(node, folder))
    yield from problems
    if not problems and not any(part.weight for part in parts):
        yield node.problem("all of these have weight 0, so none of them would count")
    return dataclasses.replace(grader, of=parts)


def _common_options(grader: GraderOptions) -> dict[str, Any]:
    """Return the fields of an expectation that come from options which all graders have."""
    return {
        "weight": grader.weight,
        "title": grader.name,
        "metric": grader.metric,
        "transform": grader.transform,
    }


def _check_transform(grader: GraderOptions, node: Node, folder: Path) -> Reading[None]:
    if grader.transform is None:
        return
    if not grader.reads_text:
        text = "this grader does not read the text of the answer"
        yield node.problem(f"{text}: remove `transform`")
        return
    from ci_evals.graders.transform import transform_problem

    problem = transform_problem(grader.transform, folder)
    if problem:
        yield node.problem(problem)._replace(cause=problem)


def _check_options(grader: GraderOptions, node: Node, folder: Path) -> Reading[None]:
    """Yield the problems of a grader's options, or else the package or file that it lacks."""
    problems = grader.problems()
    if problems:
        yield from map(node.problem, problems)
        return
    missing = grader.missing(folder)
    if missing:
        yield node.problem(missing)._replace(cause=missing)
        return
    for name in keys_of(type(grader)):
        path = file_url(getattr(grader, name))
        if path is not None:
            remedy = f"name the file in `vars`, as in `text: {{file: {path}}}`"
            yield node.problem(f"this is text: {remedy}, and write `{{{{ text }}}}` here")


def _read_files(cls: type[GraderOptions], node: Node, folder: Path) -> Reading[Node | None]:
    """Return a grader's options with the content of files in place of `{file: …}`.

    None if a file cannot be read.
    """
    if not cls.from_file:
        return node
    files = FileValues(folder)
    value = node.value
    problems = []
    if _is_long_form(cls, value):
        value = dict(value)
        for key in cls.from_file:
            if key in value:
                value[key], new_problems = collect(files.fill(node[key]))
                problems += new_problems
    elif cls.short in cls.from_file:
        value, problems = collect(files.fill(node))
    yield from problems
    if problems:
        return None
    return node.with_value(value)


def _read_options(cls: type[GraderOptions], node: Node) -> Reading[GraderOptions | None]:
    value = node.value
    if isinstance(value, Mapping):
        if issubclass(cls, Composite) and "of" not in value:
            inside = [name for name in value if _find_grader(name)]
            if inside:
                names = " and ".join(inside)
                yield node.problem(f"expected a list of graders: write `- ` before {names}")
                return None
        if _is_long_form(cls, value):
            return (yield from check(cls, node))
    # The short form is checked as `{value: …}`; paths of problems must not show a key that nobody
    # wrote.
    grader, problems = collect(check(cls, node.with_value({cls.short: value})))
    for problem in problems:
        path = problem.path.removeprefix(f"{node.path}.{cls.short}")
        if path != problem.path:
            problem = problem._replace(path=node.path + path)  # noqa: PLW2901
        yield problem
    return grader


def _is_long_form(cls: Any, value: Any) -> bool:
    """Return True if a mapping has the options of a grader instead of being its value.

    The value of `json_schema: {type: object}` is the mapping.
    """
    if not isinstance(value, Mapping):
        return False
    if not _takes_mapping(cls):
        return True
    return cls.short in value and all(key in keys_of(cls) for key in value)


@cache
def _takes_mapping(cls: Any) -> bool:
    """Return True if the value that the short form sets may itself be a mapping."""
    return try_check(cls, Node({cls.short: {"": None}}, Lines(None), "")) is not None


def _describe_misplacement(entry: Mapping[str, Any]) -> str | None:
    """Return the problem of an entry with several graders, or with options next to its grader."""
    names = [name for name in entry if _find_grader(name)]
    if len(names) > 1:
        return _describe_graders(entry, names)
    if len(names) != 1:
        return None
    (name,) = names
    cls = _find_grader(name)
    assert cls is not None
    keys = keys_of(cls)
    extra = {key: value for key, value in entry.items() if key != name}
    strangers = extra.keys() - set(keys)
    if strangers:
        stranger = min(strangers)
        known = keys
        if closest(stranger, (*keys, *GRADERS)):
            known = (*keys, *GRADERS)
        return f"next to `{name}`: {unknown('key', stranger, known)}"
    options = {cls.short: entry[name]}
    if _is_long_form(cls, entry[name]):
        options = entry[name]
    inside = _brief_mapping({**options, **extra})
    return f"move {' and '.join(map(str, extra))} inside: `{name}: {inside}`"


def _describe_graders(entry: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return the problem of several graders in one entry."""
    keys: set[str] = set()
    for name in names:
        keys.update(keys_of(_find_grader(name)))
    text = f"{len(names)} graders in one entry: write `- ` before each of {', '.join(names)}"
    options = [key for key in entry if key in keys]
    if not options:
        return text
    return f"{text}; move {' and '.join(options)} inside one of them"


def _as_key(entry: Mapping[str, Any]) -> str:
    """Return the spelling here of another tool's assertion `{type: contains, value: Paris}`."""
    name = entry["type"].replace("-", "_")
    cls = _find_grader(name)
    if cls is None:
        return unknown("grader", entry["type"], GRADERS)
    options = {key: item for key, item in entry.items() if key != "type"}
    if "value" in options:
        options = {cls.short: options.pop("value"), **options}
    right = _brief_mapping(options)
    if options.keys() == {cls.short}:
        right = _brief(options[cls.short])
    return f"the grader is the key: write `{name}: {right}`"


def _brief_mapping(options: Mapping[str, Any]) -> str:
    inside = ", ".join(f"{key}: {_brief(value)}" for key, value in options.items())
    return f"{{{inside}}}"


def _brief(value: Any) -> str:
    """Return a value as YAML on one line, or dots for a long one."""
    if isinstance(value, str) and value.isalpha():
        text = value
    else:
        text = json.dumps(value, ensure_ascii=False)
    if len(text) > _LONGEST_BRIEF:
        return "…"
    return text


def _find_grader(name: str) -> type[GraderOptions] | None:
    """Return the grader of a name, negated or not.

    Raises:
        PluginError: an installed package provides it and cannot be used.
    """
    bare, _ = _split_negation(name)
    return GRADERS.get(bare)


def _split_negation(name: str) -> tuple[str, bool]:
    """Return a grader's name without its negation, and True if it has one."""
    bare = name.removeprefix(NEGATION)
    if bare == name or name in GRADERS.own:
        return name, False
    if bare not in GRADERS.own and name in GRADERS:  # another package's grader called `not_…`
        return name, False
    return bare, True


def own_templates(name: Any) -> tuple[str, ...]:
    """Return the options of a grader that hold its own templates; none for unknown names."""
    if not isinstance(name, str):
        return ()
    cls = _find_grader(name)
    if cls is None:
        return ()
    return cls.own_templates


# Graders that are written in Python.


def _read_object(node: Node, folder: Path) -> Reading[Expectation | None]:
    entry = node.value
    if isinstance(entry, GraderOptions):
        return (yield from _read_grader(entry, node, folder))
    from ci_evals.graders.functions import FunctionGrader, Not, ObjectGrader

    if isinstance(entry, Not):
        return (yield from _read_negation(entry, node, folder))
    if isinstance(entry, type):
        yield node.problem(_describe_grader(f"the class {entry.__name__}"))
        return None
    if isinstance(entry, FunctionGrader):
        grader = entry
    elif callable(getattr(entry, "grade", None)):
        grader = ObjectGrader(entry)
    elif callable(entry):
        grader = FunctionGrader(entry)
    else:
        yield node.problem(_describe_grader(f"a {type(entry).__name__}"))
        return None
    if grader.threshold is not None and not 0 <= grader.threshold <= 1:
        text = f"the threshold of {grader.name} is {grader.threshold}"
        yield node.problem(f"{text}, and a score is from 0 to 1")
    if grader.weight < 0:
        text = f"the weight of {grader.name} is {grader.weight}: expected a number >= 0"
        yield node.problem(text)
    return Expectation(grader.name, grader, weight=grader.weight, metric=grader.metric)


def _describe_grader(got: str) -> str:
    return f"expected a grader, a function, or an object with a method `grade`, got {got}"


def _read_negation(entry: "graders.Not", node: Node, folder: Path) -> Reading[Expectation | None]:
    negated = yield from read_expectation(node.with_value(entry.grader), folder)
    if negated is None:
        return None
    grader = negated.grader
    if isinstance(grader, GraderOptions):
        grader = grader.for_negation()
    name = NEGATION + negated.name
    return dataclasses.replace(negated, name=name, grader=grader, negated=not negated.negated)


def _read_grader(entry: GraderOptions, node: Node, folder: Path) -> Reading[Expectation | None]:
    if isinstance(entry, ModelGrader) and is_object(entry.provider):
        yield node["provider"].problem(
            "expected the name of a judge: add the object to the suite, as in judges=[my_judge],"
            " and name it here, or remove `provider` if it is the only judge"
        )
        return None
    grader = yield from check(type(entry), node)
    if grader is None:
        return None
    yield from _check_options(grader, node, folder)
    yield from _check_transform(grader, node["transform"], folder)
    if isinstance(grader, Composite):
        grader = yield from _read_parts(grader, node["of"], folder)
    place = None
    if grader.has_dependency:
        place = node.place
    name = GRADERS.name_of(type(grader)) or type(grader).__name__
    return Expectation(name, grader, place=place, **_common_options(grader))
