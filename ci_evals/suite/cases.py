"""Completes the cases of a suite: their vars, expectations, users, recordings and ids."""

import dataclasses
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b, file_digest
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from ci_evals.errors import Place, Problem
from ci_evals.graders.scoring import leaves, nested, with_transform
from ci_evals.model.case import Case, RecordingFile, SimulatedUser
from ci_evals.model.fingerprint import digest, encode
from ci_evals.model.grading import Expectation, Grader
from ci_evals.model.response import Message
from ci_evals.providers.parts import find_parts, identify
from ci_evals.suite.datasets import EXPECTED, CaseEntry, read_entries
from ci_evals.suite.expectations import entries_of, own_templates, read_expect, read_expectation
from ci_evals.suite.file_values import FileValues, file_named, file_url
from ci_evals.suite.nodes import Node, Reading, collect, read_each
from ci_evals.suite.problems import and_more, unknown
from ci_evals.suite.providers import ProviderList, ProviderReader
from ci_evals.suite.rendering import Templates, variables
from ci_evals.templating import describe_error, names_used, undefined_name

MAX_PROBLEMS = 1000  # a broken file of a million rows need not be reported row by row
MAX_COMBINATIONS = 1000
LONGEST_ID = 200
_LONGEST_TEXT = 60  # in an id
_MAX_ALIKE = 5  # lines of a file that are reported one by one for the same mistake
_NOTHING_DECIDES = (
    "all graders have weight 0, so any answer would pass:"
    " give one a weight, or a `metric` to count for"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseList:
    """The cases of a suite.

    Args:
        cases: the valid cases, in file order.
        tags: the tags of all cases, including invalid ones.
        users: names of the suite's providers that play users.
        places: the places of providers that are defined for a user alone.
        files: the files that values refer to with `{file: …}`.
    """

    cases: tuple[Case, ...] = ()
    tags: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    places: Mapping[str, Place] = field(default_factory=dict)
    files: tuple[str, ...] = ()


class CaseReader:
    """Reads the cases of one suite.

    Args:
        suite: the suite as it is written, with variables filled into its vars.
        folder: where relative paths start.
        providers: the suite's providers, which may also play users.
        provider_reader: reads providers that are defined for a user alone.
        threshold: the threshold of cases without one.
        transform: the transform of graders without one.
    """

    def __init__(
        self,
        suite: Node,
        folder: Path,
        providers: ProviderList,
        provider_reader: ProviderReader,
        *,
        threshold: float | None,
        transform: str | None,
    ) -> None:
        self.suite = suite
        self.folder = folder
        self.providers = providers
        self.provider_reader = provider_reader
        self.threshold = threshold
        self.transform = transform
        self.files = FileValues(folder)
        self._has_setup = bool(suite["setup"].value)
        for options in providers.by_name.values():
            if options.setup:
                self._has_setup = True
        self._templates = Templates(folder)
        self._vars: dict[str, Any] = {}
        self._defaults: list[Expectation | Node] = []
        self._defaults_are_right = True
        self._tags: set[str] = set()
        self._users: set[str] = set()
        self._user_places: dict[str, Place] = {}
        self._ids: dict[str, tuple[str, int | None]] = {}
        self._expected: dict[str, tuple[Expectation, ...]] = {}
        self._recordings: dict[Path, str] = {}
        self._misfits: dict[tuple[str, str], list[Node]] = {}

    def read(self) -> Reading[CaseList]:
        """Read every case of `cases`."""
        yield from self._read_vars(self.suite["vars"])
        yield from self._read_defaults(self.suite["expect"])
        if "cases" not in self.suite:
            return CaseList()
        cases: list[Case] = []
        names: list[str] = []
        problems: list[Problem] = []
        for entry in read_entries(self.suite["cases"], self.files):
            if isinstance(entry, Problem):
                problems.append(entry)
            elif entry.case is None:
                problems += entry.problems
                problems += self._check_broken(entry.node)
            else:
                if not entry.is_row:
                    problems += self._check_question(entry.case, entry.node)
                question = entry.case
                if self._right_answer(entry):
                    question = _without_right_answer(question)
                expanded, new_problems = collect(self._expand(entry, question))
                problems += new_problems
                for case in expanded:
                    # Before `_complete` adds the suite's vars: a new one must not rename cases,
                    # or a comparison with the baseline would lose them.
                    name = case.id or content_id(case)
                    complete, new_problems = collect(self._complete(case, entry))
                    problems += new_problems
                    if complete is not None:
                        cases.append(complete)
                        names.append(name)
            if len(problems) >= MAX_PROBLEMS:
                break
        yield from _merge_lines(problems)
        yield from self._describe_misfits()
        if not cases and not problems:
            yield self.suite["cases"].problem("there are no cases")
        return CaseList(
            cases=name_cases(cases, names),
            tags=frozenset(self._tags),
            users=frozenset(self._users),
            places=self._user_places,
            files=self.files.names,
        )

    def _read_vars(self, node: Node) -> Reading[None]:
        """Read the vars of the suite."""
        if not isinstance(node.value, Mapping):
            return
        for name, value in node.value.items():
            if node.in_code:
                self._vars[name] = value
            else:
                self._vars[name] = yield from self.files.fill(node[name])

    def _read_defaults(self, node: Node) -> Reading[None]:
        """Read the suite's own expectations; those with templates are filled in for each case."""
        entries, problems = collect(entries_of(node))
        for entry in entries:
            if _has_template(entry.value):
                self._defaults.append(entry)
                continue
            expectation, new_problems = collect(read_expectation(entry, self.folder))
            problems += new_problems
            if expectation is not None:
                self._defaults.append(expectation)
        self._defaults_are_right = not problems
        yield from problems

    def _describe_misfits(self) -> Reading[None]:
        """Yield the problems of the suite's templates, each once, at its first case."""
        for (path, message), (first, *others) in self._misfits.items():
            more = and_more(len(others))
            yield first.problem(f"the suite's {path} does not fit this case{more}: {message}")

    def _check_broken(self, node: Node) -> Reading[None]:
        """Check the readable parts of an invalid case."""
        id_ = node["id"].value
        if isinstance(id_, str) and id_:
            yield from self._take_id(id_, node)
        if isinstance(node["expect"].value, list):
            yield from read_expect(node["expect"], self.folder)
        # Tags of invalid cases are known, too, or the gate's bars for them would look misspelt.
        tags = node["tags"].value
        if isinstance(tags, list):
            self._tags.update(tag for tag in tags if isinstance(tag, str))

    def _check_question(self, case: Case, node: Node) -> Reading[None]:
        """Find templates in the question of a case, where nothing fills them in."""
        names = {*self._vars, *case.vars, *case.matrix}
        for text in _texts_in(node["input"]):
            yield from _check_literal(text, names, "move this text to `prompts`")
        if case.input is not None:
            names.add("input")
        for text in _texts_in(node["messages"]):
            yield from _check_literal(text, names, "move these messages to `prompts`")
        lines = [node["turns"][index]["user"] for index in range(len(case.turns))]
        if case.user is not None:
            lines += [node["user"]["persona"], node["user"]["goal"]]
        for line in lines:
            for text in _texts_in(line):
                yield from _check_literal(text, names, "write the value here")

    def _expand(self, entry: CaseEntry, case: Case) -> Reading[Sequence[Case]]:
        """Return the case, or one for each combination of its matrix, with the content of files."""
        node = entry.node
        if not entry.is_data and any(map(_may_name_file, case.vars.values())):
            values = {}
            for name in case.vars:
                values[name] = yield from self.files.fill(node["vars"][name])
            case = replace(case, vars=values)
        if not case.matrix:
            return [case]
        matrix = node["matrix"]
        for name in case.matrix.keys() & case.vars.keys():
            yield matrix[name].problem("is also in the case's `vars`: remove it there")
        combinations = prod(map(len, case.matrix.values()))
        if combinations > MAX_COMBINATIONS:
            yield matrix.problem(
                f"makes {combinations:,} cases of one; the limit is {MAX_COMBINATIONS:,}:"
                " leave out some values"
            )
            return []
        filled: dict[str, Sequence[Any]] = dict(case.matrix)
        if not entry.is_data:
            for name in case.matrix:
                filled[name] = yield from read_each(map(self.files.fill, matrix[name].items()))
        base = case.id or content_id(case)
        cases = []
        for indices in product(*(range(len(values)) for values in case.matrix.values())):
            # Ids show values as written: the path of a file, not its content.
            written, values = {}, dict(case.vars)
            for name, index in zip(case.matrix, indices, strict=True):
                written[name] = case.matrix[name][index]
                values[name] = filled[name][index]
            id_ = base and matrix_id(base, written)
            cases.append(replace(case, id=id_, vars=values, matrix={}))
        return cases

    def _complete(self, case: Case, entry: CaseEntry) -> Reading[Case | None]:
        """Return the case with its expectations, recording and user."""
        node = entry.node
        if case.id:
            yield from self._take_id(case.id, node)
        self._tags.update(case.tags)
        if self._vars:
            case = replace(case, vars={**self._vars, **case.vars})
        changes: dict[str, Any] = {}
        expect, problems = collect(self._read_expectations(case, entry))
        yield from problems
        changes["expect"] = expect
        if case.threshold is None:
            changes["threshold"] = self.threshold
        if changes.get("threshold", case.threshold) is None and not problems:
            yield from self._check_weights(case, expect, node)
        if case.user is not None:
            changes["user"] = yield from self._read_user(case, case.user, node["user"])
            if changes["user"] is None:
                return None
        if not _asks_something(case) and not self.suite["prompts"].value:
            yield node.problem(
                "nothing is asked: give the case `input`, `vars`, `messages`, `turns` or a `user`"
            )
            return None
        if case.overrides.timeout_s is not None:
            changes["timeout_s"] = case.overrides.timeout_s
        if case.overrides.recorded is not None:
            recorded = node["overrides"]["recorded"]
            changes["recording"] = yield from self._read_recording(recorded)
        changes |= yield from self._identify_parts(case, node)
        return replace(case, **changes)

    def _take_id(self, id_: str, node: Node) -> Reading[None]:
        if id_ not in self._ids:
            self._ids[id_] = (node.file, node.line)
            return
        file, line = self._ids[id_]
        where = file
        if line:
            where = f"{file}:{line}"
        yield node["id"].problem(f"the id {id_!r} is taken by the case at {where}")

    def _identify_parts(self, case: Case, node: Node) -> Reading[dict[str, Any]]:
        """Return the messages and input with the digests of their images and files.

        An input that has images or files becomes a user message.
        """
        changes: dict[str, Any] = {}
        if case.messages:
            places = node["messages"].items()
            messages = yield from read_each(map(self._identify, case.messages, places))
            changes["messages"] = tuple(messages)
        parts = find_parts(case.input)
        if parts:
            changes["input"] = yield from self._identify(Message("user", parts), node["input"])
        return changes

    def _identify(self, message: Message, place: Node) -> Reading[Message]:
        try:
            return identify(message, self.folder)
        except ValueError as error:
            yield place.problem(str(error))
            return message

    def _read_recording(self, node: Node) -> Reading[RecordingFile | None]:
        """Return the recording of a case with its digest, which is computed once per file."""
        path = self.folder / str(node.value)
        if path.is_dir():
            path /= "results.jsonl"
        if path not in self._recordings:
            try:
                with path.open("rb") as file:
                    content = file_digest(file, lambda: blake2b(digest_size=16))
            except (OSError, ValueError) as error:  # a NUL in the name is a ValueError
                reason = getattr(error, "strerror", None) or str(error)
                yield node.problem(
                    f"the recording {node.value!r} cannot be read: {reason}"
                    f" (looked in {self.folder})"
                )
                return None
            self._recordings[path] = content.hexdigest()
        return RecordingFile(path, self._recordings[path])

    def _read_user(
        self, case: Case, user: SimulatedUser, node: Node
    ) -> Reading[SimulatedUser | None]:
        """Return the user with its provider: one of the suite's, or one defined in the case."""
        if case.turns:
            yield node.problem("a conversation has `turns` or a simulated `user`, not both")
        place = node["provider"]
        name = place.value
        if not isinstance(name, str):
            entry = self.provider_reader.read_entry(place)
            yield from entry.problems
            self._user_places.update(entry.places)
        elif name in self.providers.names:
            entry = self.providers.find(name)
            self._users.add(name)
        else:
            yield place.problem(unknown("provider", name, self.providers.names))
            return None
        if entry.options is None:
            return None
        return replace(user, provider=entry.options)

    # What is expected.

    def _read_expectations(self, case: Case, entry: CaseEntry) -> Reading[tuple[Expectation, ...]]:
        """Return the expectations of the suite, then those of the case."""
        node = entry.node
        turns: list[Expectation] = []
        for index, turn in enumerate(case.turns):
            if turn.expect:
                place = node["turns"][index]["expect"]
                expected = yield from self._read_own(place, case, entry)
                turns += [replace(each, turn=index + 1) for each in expected]
        own = yield from self._read_own(node["expect"], case, entry)
        expects = self.suite["expect"].value or _expects_something(case)
        if not expects and case.task is None and case.user is None:
            right_answer = self._right_answer(entry)
            if right_answer:
                from ci_evals.graders.text import Contains

                own = (Expectation("contains", Contains(right_answer, ignore_case=True)),)
            else:
                yield node.problem(_describe_lack_of_checks(case, entry))
        expectations = [*self._fill_defaults(case, node), *turns, *own]
        # The verifier decides a task, unless the suite grades its reward somewhere itself.
        if case.task:
            from ci_evals.graders.limits import Reward

            if not _has(Reward, expectations):
                expectations.insert(0, Expectation("reward", Reward()))
        if case.user:
            from ci_evals.graders.limits import GoalReached

            if not _has(GoalReached, expectations):
                expectations.insert(0, Expectation("goal_reached", GoalReached()))
        if self.transform is not None:
            expectations = [with_transform(each, self.transform) for each in expectations]
        return tuple(expectations)

    def _right_answer(self, entry: CaseEntry) -> str:
        """Return the right answer in a row of a table; empty without one, or with other checks."""
        if entry.case is None or not entry.is_in_table:
            return ""
        if self.suite["expect"].value or _expects_something(entry.case):
            return ""
        return str(entry.case.vars.get(EXPECTED, "")).strip()

    def _fill_defaults(self, case: Case, node: Node) -> list[Expectation]:
        """Return the suite's expectations for a case; note templates that do not fit it."""
        defaults = []
        for default in self._defaults:
            if isinstance(default, Expectation):
                defaults.append(default)
                continue
            expectation, problems = collect(self._fill(default, case))
            for problem in problems:
                self._misfits.setdefault((problem.path, problem.message), []).append(node)
            if expectation is not None:
                defaults.append(expectation)
        return defaults

    def _read_own(
        self, node: Node, case: Case, entry: CaseEntry
    ) -> Reading[tuple[Expectation, ...]]:
        """Return a case's own expectations; cases with equal ones share the objects."""
        if not node.value:
            return (yield from read_expect(node, self.folder))
        if not entry.is_data and _has_template(node.value):
            filled = []
            templates = yield from entries_of(node)
            for template in templates:
                expectation = yield from self._fill(template, case)
                if expectation is not None:
                    filled.append(expectation)
            return tuple(filled)
        try:
            key = json.dumps(node.value)
        except TypeError:  # it has Python objects
            return (yield from read_expect(node, self.folder))
        known = self._expected.get(key)
        if known is not None:
            return known
        expected, problems = collect(read_expect(node, self.folder))
        yield from problems
        # A place is that of this case, so an expectation with one cannot be shared.
        if not problems and not any(each.place for each in leaves(expected)):
            self._expected[key] = expected
        return expected

    def _fill(self, template: Node, case: Case) -> Reading[Expectation | None]:
        """Return an expectation that has templates, filled in for a case.

        A template over names that the case lacks stays as it is: the setup of a run gives them.
        """
        values = variables(case)
        if (self._has_setup or case.setup) and not _names_in(template.value) <= values.keys():
            expectation = yield from read_expectation(template, self.folder)
            if expectation is None:
                return None
            return replace(expectation, template=template)
        try:
            value = _fill_texts(template.value, values, self._templates)
        except Exception as error:  # noqa: BLE001  a user's template can raise anything
            lack = describe_error(error, values)
            if undefined_name(error) == "output":
                lack = f"{error}; in `transform`, write an expression without braces"
            yield template.problem(lack)
            return None
        return (yield from read_expectation(template.with_value(value), self.folder))

    def _check_weights(
        self, case: Case, expect: Sequence[Expectation], node: Node
    ) -> Reading[None]:
        """Refuse expectations of which none decides the result."""
        # A default that could not be read might have been the one that decides.
        if not expect or not self._defaults_are_right or _decide(expect):
            return
        if _expects_something(case):
            yield node.problem(_NOTHING_DECIDES)
        else:
            yield self.suite["expect"].problem(_NOTHING_DECIDES)


def _texts_in(node: Node) -> Iterator[Node]:
    """Yield every text in a value."""
    if isinstance(node.value, str):
        yield node
    elif isinstance(node.value, Mapping):
        for key in node.value:
            yield from _texts_in(node[key])
    elif isinstance(node.value, list):
        for item in node.items():
            yield from _texts_in(item)


def _check_literal(text: Node, names: Collection[str], remedy: str) -> Reading[None]:
    """Refuse a template over a var in a text that is sent as it is."""
    for name in sorted(names_used(text.value).intersection(names)):
        yield text.problem(
            f"`{name}` is not filled in here, only in `prompts` and `expect`: {remedy}"
        )


def _may_name_file(value: Any) -> bool:
    return file_named(value) is not None or file_url(value) is not None


def _without_right_answer(case: Case) -> Case:
    """Return a case whose vars do not reveal the right answer to the provider."""
    question = {name: value for name, value in case.vars.items() if name != EXPECTED}
    return replace(case, vars=question)


def _describe_lack_of_checks(case: Case, entry: CaseEntry) -> str:
    if entry.is_in_table and EXPECTED in case.vars:
        return f"no checks, so any answer would pass: the cell `{EXPECTED}` is empty"
    if entry.is_in_table:
        # The last column is the likeliest one to have the right answer.
        *_, last = ("answer", *case.vars)
        example = f'- contains: "{{{{ {last} }}}}"'
        return (
            "no checks, so any answer would pass: call the column with the right answer"
            f" `{EXPECTED}`, or add `expect` to the suite, such as `{example}`"
        )
    example = "`- not_empty: true`"
    if entry.node.in_code:
        example = "expect=[NotEmpty()]"
    text = "nothing is expected of the answer, so any would pass"
    return f"{text}: add `expect`, such as {example}"


def _expects_something(case: Case) -> bool:
    return bool(case.expect) or any(turn.expect for turn in case.turns)


def _asks_something(case: Case) -> bool:
    return case.input is not None or bool(case.vars or case.messages or case.turns or case.user)


def _merge_lines(problems: Sequence[Problem]) -> list[Problem]:
    """Merge a problem that many lines of a file share into one."""
    alike = Counter(problem._replace(line=None) for problem in problems)
    merged: dict[Problem, Problem] = {}
    for problem in problems:
        mistake = problem._replace(line=None)
        lines = alike[mistake]
        if lines <= _MAX_ALIKE:
            merged[problem] = problem
        else:
            text = f"{problem.message} (and {lines - 1:,} more lines)"
            merged.setdefault(mistake, problem._replace(message=text))
    return list(merged.values())


def _decide(expectations: Collection[Expectation]) -> bool:
    """Return True if a grader decides something: the result of a run, or a metric."""
    if any(each.weight for each in expectations):
        return True
    if any(each.metric for each in nested(expectations)):
        return True
    from ci_evals.graders.classify import Classify

    return _has(Classify, expectations)


def _has(kind: type[Grader], expectations: Collection[Expectation]) -> bool:
    """Return True if one of the graders, at any depth, is of a kind."""
    return any(isinstance(each.grader, kind) for each in leaves(expectations))


def _has_template(value: Any) -> bool:
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    if isinstance(value, dict):
        return any(map(_has_template, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_has_template, value))
    return False


def _fill_texts(
    value: Any, values: dict[str, Any], templates: Templates, skipped: Collection[str] = ()
) -> Any:
    """Fill values into the templates of a grader as it is written, except under `skipped` keys."""
    if isinstance(value, str):
        if _has_template(value):
            return templates.value(value, values)
        return value
    if isinstance(value, dict):
        filled = {}
        for key, item in value.items():
            if key in skipped:
                filled[key] = item
            else:
                filled[key] = _fill_texts(item, values, templates, own_templates(key))
        return filled
    if isinstance(value, list | tuple):
        return [_fill_texts(item, values, templates) for item in value]
    return value


def _names_in(value: Any, skipped: Collection[str] = ()) -> set[str]:
    """Return the names that the templates of a grader use, except under `skipped` keys."""
    names: set[str] = set()
    if isinstance(value, str):
        names |= names_used(value)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in skipped:
                names |= _names_in(item, own_templates(key))
    elif isinstance(value, list | tuple):
        for item in value:
            names |= _names_in(item)
    return names


def fill_expectation(
    expectation: Expectation, case: Case, templates: Templates, transform: str | None
) -> Expectation:
    """Fill in an expectation for a case that has the vars of its setup.

    Args:
        expectation: one that may have a `template`.
        case: the case.
        templates: the suite's templates.
        transform: the suite's `transform`.

    Raises:
        jinja2.TemplateError: the template uses a name that the case does not have.
        ValueError: the filled-in options are not valid for the grader.
    """
    template = expectation.template
    if template is None:
        return expectation
    value = _fill_texts(template.value, variables(case), templates)
    reading = read_expectation(template.with_value(value), templates.folder)
    filled, problems = collect(reading)
    if filled is None or problems:
        raise ValueError("; ".join(problem.message for problem in problems))
    if transform is not None:
        filled = with_transform(filled, transform)
    return replace(filled, turn=expectation.turn)


# Ids of cases without one and of a matrix. They must not change between runs: comparisons with a
# baseline match cases by id.


def name_cases(cases: Sequence[Case], names: Sequence[str]) -> tuple[Case, ...]:
    """Use names as the ids of cases without one, with a number where one is taken."""
    taken = {case.id for case in cases}
    times: Counter[str] = Counter()
    named = []
    for number, (case, name) in enumerate(zip(cases, names, strict=True), 1):
        if case.id:
            named.append(case)
            continue
        base = id_ = name or f"case {number}"
        while id_ in taken:
            times[base] += 1
            id_ = f"{base} ({times[base] + 1})"
        taken.add(id_)
        named.append(replace(case, id=id_))
    return tuple(named)


def content_id(case: Case) -> str:
    """Return an id made of a case's question; empty if it has none.

    A long text is cut, and followed by a digest of all of it.
    """
    question = _question(case)
    parts = find_parts(question)
    if parts:
        question = Message("user", parts).text
    if isinstance(question, Mapping):
        return _cut(settings_label(question), question, LONGEST_ID)
    return _short(question)


def _question(case: Case) -> Any:
    """Return the input of a case, or else its vars, its first words or the goal of its user."""
    if case.input is not None:
        return case.input
    if len(case.vars) == 1:
        return next(iter(case.vars.values()))
    if case.vars:
        return case.vars
    if case.turns:
        return case.turns[0].user
    if case.messages:
        return case.messages[-1].text
    if case.user is not None:
        return case.user.goal
    return ""


def settings_label(settings: Mapping[str, Any]) -> str:
    """Return `lang=en tone=formal`."""
    return " ".join(f"{name}={_short(value)}" for name, value in settings.items())


def matrix_id(id_: str, settings: Mapping[str, Any]) -> str:
    """Return the id of one of the cases of a matrix."""
    return _cut(f"{id_} {settings_label(settings)}".strip(), settings, LONGEST_ID)


def _short(value: Any) -> str:
    path = file_named(value)
    if path is not None:
        return path
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str | int | float):
        return _cut(str(value), value, _LONGEST_TEXT)
    if isinstance(value, list | tuple | dict) or dataclasses.is_dataclass(value):
        return _cut(encode(value), value, _LONGEST_TEXT)
    return ""  # the text of an object may differ between processes


def _cut(text: str, value: Any, longest: int) -> str:
    """Return the first line of a text, up to a length; add a digest if that is not all."""
    whole = text.strip()
    line = whole.partition("\n")[0]
    if line == whole and len(line) <= longest:
        return line
    # 8 characters are left for the ellipsis, the space and the digest.
    return f"{line[: longest - 8].rstrip()}… {digest(value)[:6]}"
