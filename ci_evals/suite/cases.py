"""Completes the cases of a suite: what is expected of each, who its user is, which recording
answers it.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from hashlib import blake2b, file_digest
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from ci_evals.errors import Place, Problem
from ci_evals.graders.classify import Classify
from ci_evals.graders.limits import GoalReached, Reward
from ci_evals.graders.scoring import leaves, nested, with_transform
from ci_evals.model.case import Case, Cassette, Expectation, SimulatedUser
from ci_evals.model.response import Message
from ci_evals.providers.parts import find_parts, identify
from ci_evals.suite.case_ids import content_id, matrix_id, name_cases
from ci_evals.suite.datasets import MAX_PROBLEMS, CaseEntry, find_cases
from ci_evals.suite.expectations import entries_of, own_templates, read_expect, read_expectation
from ci_evals.suite.file_values import FileValues, file_named, file_url
from ci_evals.suite.problems import Written, and_more
from ci_evals.suite.providers import ProviderReader
from ci_evals.suite.rendering import Templates, variables
from ci_evals.templating import describe_error

MAX_COMBINATIONS = 1000
_MAX_ALIKE = 5  # lines of a file that are told one by one of the same mistake
_NOTHING_DECIDES = "all graders have weight 0, so any answer would pass: give one a weight, or a `metric` to count for"


class CaseReader:
    """Reads every case of a suite.

    Afterwards `tags` has the tags of all cases, and `knows_tags` is True if there can be no others;
    `knows_expect` is True if the suite's own expectations are right, and `knows_graders` if those
    of all cases are, too.

    Args:
        folder: where relative paths start.
        defaults: the suite's own `expect`.
        shared: the suite's own `vars`.
        prompted: the suite has prompts, which ask something even of a case that says nothing.
        problems: gets every problem.
        providers: reads those that play users.
    """

    def __init__(
        self,
        folder: Path,
        defaults: Written,
        shared: Written,
        problems: list[Problem],
        providers: ProviderReader,
        *,
        prompted: bool,
    ) -> None:
        self._prompted = prompted
        self.folder = folder
        self.problems = problems
        self.providers = providers
        self.tags: set[str] = set()
        self.knows_tags = False
        self.files = FileValues(folder)
        names = shared.value if isinstance(shared.value, Mapping) else ()
        self._vars = {
            name: shared.value[name] if shared.in_code else self.files.fill(shared[name], problems)
            for name in names
        }
        self._templates = Templates(folder)
        self._transform: str | None = None
        self._expects_nothing = not defaults.value
        before = len(problems)
        self._defaults = self._read_defaults(defaults)
        self._defaults_at = defaults
        self.knows_expect = self.knows_graders = len(problems) == before
        self._expected: dict[str, tuple[Expectation, ...]] = {}
        self._recordings: dict[Path, str] = {}
        self._places: dict[str, str] = {}
        self._misfits: dict[tuple[str, str], list[Written]] = {}
        self._lacks: dict[
            tuple[Place, str], str
        ] = {}  # the first words for each, whatever else other cases have

    def read(
        self, written: Written, threshold: float | None, transform: str | None = None
    ) -> tuple[Case, ...]:
        """Return every case, in the order of the file; `threshold` is for those without one.

        `transform` is for graders without one.
        """
        self._transform = transform
        before = seen = len(self.problems)
        self.knows_tags = True
        cases: list[Case] = []
        asked: list[str] = []
        for found in find_cases(written, self.files, self.problems):
            if found.case is None:
                self._check_broken(found.written)
            else:
                unread = len(self.problems) > seen  # a file or row before this one
                self.knows_tags &= not unread
                for each in self._expand(found.case, found):
                    whole = replace(each, vars={**self._vars, **each.vars})
                    if case := self._complete(whole, found, threshold):
                        cases.append(case)
                        asked.append(content_id(each))
            seen = len(self.problems)
            if seen >= MAX_PROBLEMS:
                self.knows_tags = False
                break
        self.knows_tags &= len(self.problems) == seen
        self.problems[before:] = _merge_lines(self.problems[before:])
        for (path, message), (first, *others) in self._misfits.items():
            text = f"the suite's {path} does not fit this case{and_more(len(others))}: {message}"
            self.problems.append(first.problem(text))
        if not cases and len(self.problems) == before:
            self.problems.append(written.problem("there are no cases"))
        return name_cases(cases, asked)

    def _expand(self, case: Case, found: CaseEntry) -> Iterator[Case]:
        """Yield the case with the content of files among its vars, or one for each combination of
        its matrix.
        """
        written = found.written
        if not found.is_data and any(
            file_named(each) or file_url(each) for each in case.vars.values()
        ):
            case = replace(
                case,
                vars={
                    name: self.files.fill(written["vars"][name], self.problems)
                    for name in case.vars
                },
            )
        if not case.matrix:
            yield case
            return
        matrix = written["matrix"]
        for name in case.matrix.keys() & case.vars.keys():
            self.problems.append(
                matrix[name].problem("is one of the case's `vars`, too: leave it out there")
            )
        if (combinations := prod(map(len, case.matrix.values()))) > MAX_COMBINATIONS:
            text = f"makes {combinations:,} cases, and at most {MAX_COMBINATIONS:,} may come of one: leave out some values"
            self.problems.append(matrix.problem(text))
            return
        filled = dict(case.matrix)
        if not found.is_data:
            filled = {
                name: [self.files.fill(each, self.problems) for each in matrix[name].items()]
                for name in filled
            }
        base = case.id or content_id(case)
        for indices in product(*(range(len(values)) for values in case.matrix.values())):
            chosen = {
                name: case.matrix[name][index]
                for name, index in zip(case.matrix, indices, strict=True)
            }
            values = {
                name: filled[name][index] for name, index in zip(case.matrix, indices, strict=True)
            }
            yield replace(
                case, id=base and matrix_id(base, chosen), vars={**case.vars, **values}, matrix={}
            )

    def _complete(self, case: Case, found: CaseEntry, threshold: float | None) -> Case | None:
        """Return the case with all that is expected of it, and with its recording and simulated
        user.
        """
        written = found.written
        if case.id:
            self._take_id(case.id, written)
        self.tags.update(case.tags)
        threshold = threshold if case.threshold is None else case.threshold
        before = len(self.problems)
        expect = self._expectations(case, found)
        self.knows_graders &= len(self.problems) == before
        if (
            threshold is None
            and expect
            and self.knows_expect
            and len(self.problems) == before
            and not _decide(expect)
        ):
            own = case.expect or any(turn.expect for turn in case.turns)
            weightless = (written if own else self._defaults_at).problem(_NOTHING_DECIDES)
            self.problems += [weightless] if weightless not in self.problems else []
        user = self._read_user(case, written)
        if case.user and user is None:
            return None
        if case.input is None and not (
            case.vars or case.messages or case.turns or user or self._prompted
        ):
            text = (
                "nothing is asked: give the case `input`, `vars`, `messages`, `turns` or a `user`"
            )
            self.problems.append(written.problem(text))
            return None
        overrides = case.overrides
        return replace(
            self._identify_parts(case, written),
            expect=expect,
            threshold=threshold,
            timeout_s=overrides.timeout_s or case.timeout_s,
            cassette=self._read_recording(written["overrides"]["recorded"])
            if overrides.recorded
            else None,
            user=user,
        )

    def _identify_parts(self, case: Case, written: Written) -> Case:
        """Find the images and files of a case; an input that has some becomes a message of its
        user.
        """

        def find(message: Message, place: Written) -> Message:
            try:
                return identify(message, self.folder)
            except ValueError as error:
                self.problems.append(place.problem(str(error)))
                return message

        messages = [
            find(message, written["messages"][index]) for index, message in enumerate(case.messages)
        ]
        parts = find_parts(case.input)
        input_ = find(Message("user", parts), written["input"]) if parts else case.input
        return replace(case, messages=tuple(messages), input=input_)

    def _check_broken(self, written: Written) -> None:
        """Check what can be read of a case that is wrong elsewhere, so that mending it brings up
        nothing new.
        """
        if isinstance(id_ := written["id"].value, str) and id_:
            self._take_id(id_, written)
        if isinstance(written["expect"].value, list):
            read_expect(written["expect"], self.problems, self.folder)
        tags = written["tags"].value
        if isinstance(tags, list):
            self.tags.update(tag for tag in tags if isinstance(tag, str))
        else:
            self.knows_tags = False

    def _take_id(self, id_: str, written: Written) -> None:
        if id_ in self._places:
            text = f"the id {id_!r} is taken by the case at {self._places[id_]}"
            self.problems.append(written["id"].problem(text))
        else:
            self._places[id_] = f"{written.file}:{written.line}" if written.line else written.file

    def _read_recording(self, written: Written) -> Cassette | None:
        """Return the file that answers a case, with its digest, which is taken once."""
        path = self.folder / str(written.value)
        path = path / "results.jsonl" if path.is_dir() else path
        try:
            if path not in self._recordings:
                with path.open("rb") as file:
                    self._recordings[path] = file_digest(
                        file, lambda: blake2b(digest_size=16)
                    ).hexdigest()
        except (OSError, ValueError) as error:  # a NUL in the name is a ValueError
            reason = getattr(error, "strerror", None) or str(error)
            text = f"the recording {written.value!r} cannot be read: {reason} (looked in {self.folder})"
            self.problems.append(written.problem(text))
            return None
        return Cassette(path, self._recordings[path])

    def _read_user(self, case: Case, written: Written) -> SimulatedUser | None:
        if case.user is None:
            return None
        if case.turns:
            text = "a conversation has `turns` or a simulated `user`, not both"
            self.problems.append(written.problem(text))
        options = self.providers.read_user(written["user"]["provider"])
        return None if options is None else replace(case.user, provider=options)

    # What is expected.

    def _expectations(self, case: Case, found: CaseEntry) -> tuple[Expectation, ...]:
        """Return what the suite expects of the case, then what the case itself does."""
        written = found.written
        turns: list[Expectation] = []
        for number, turn in enumerate(case.turns, 1):
            entries = written["turns"][number - 1]["expect"] if turn.expect else None
            expected = self._read_own(entries, case, found) if entries else ()
            turns += [replace(each, turn=number) for each in expected]
        expects = case.expect or any(turn.expect for turn in case.turns) or case.task or case.user
        if not expects and self._expects_nothing:
            example = "expect=[NotEmpty()]" if written.in_code else "`- not_empty: true`"
            text = f"nothing is expected of the answer, so any would pass: add `expect`, such as {example}"
            self.problems.append(written.problem(text))
        misfits: list[Problem] = []
        defaults = [
            each if isinstance(each, Expectation) else self._fill(each, case, misfits)
            for each in self._defaults
        ]
        for problem in misfits:
            self._misfits.setdefault((problem.path, problem.message), []).append(written)
        whole = [
            *(each for each in defaults if each),
            *turns,
            *self._read_own(written["expect"], case, found),
        ]
        if case.task and not any(isinstance(each.grader, Reward) for each in leaves(whole)):
            whole.insert(0, Expectation("reward", Reward()))
        if case.user and not any(isinstance(each.grader, GoalReached) for each in leaves(whole)):
            whole.insert(0, Expectation("goal_reached", GoalReached()))
        return tuple(
            with_transform(each, self._transform) if self._transform else each for each in whole
        )

    def _read_own(self, written: Written, case: Case, found: CaseEntry) -> tuple[Expectation, ...]:
        """Return what a case itself expects: the same objects for all cases that expect the
        same.
        """
        if not found.is_data and _has_template(written.value):
            filled = (
                self._fill(entry, case, self.problems)
                for entry in entries_of(written, self.problems)
            )
            return tuple(expectation for expectation in filled if expectation)
        try:
            key = json.dumps(written.value)
        except TypeError:  # it has Python objects
            return read_expect(written, self.problems, self.folder)
        if (expected := self._expected.get(key)) is None:
            before = len(self.problems)
            expected = read_expect(written, self.problems, self.folder)
            if len(self.problems) == before and not any(each.place for each in leaves(expected)):
                self._expected[key] = expected
        return expected

    def _read_defaults(self, written: Written) -> list[Expectation | Written]:
        """Return the suite's own expectations; those with templates as they are written, to be
        filled in later.
        """
        defaults: list[Expectation | Written] = []
        for entry in entries_of(written, self.problems):
            if _has_template(entry.value):
                defaults.append(entry)
            elif expectation := read_expectation(entry, self.problems, self.folder):
                defaults.append(expectation)
        return defaults

    def _fill(self, template: Written, case: Case, problems: list[Problem]) -> Expectation | None:
        """Return an expectation that has templates, filled in for a case."""
        try:
            value = _fill_texts(template.value, variables(case), self._templates)
        except Exception as error:  # noqa: BLE001  a user's template can raise anything
            lack = describe_error(error, variables(case))
            if "'output'" in str(error):
                lack = f"{error}; of the answer, `transform` takes an expression without braces"
            problems.append(
                template.problem(self._lacks.setdefault((template.place, str(error)), lack))
            )
            return None
        return read_expectation(template.having(value), problems, self.folder)


def _merge_lines(problems: list[Problem]) -> list[Problem]:
    """Return problems with one for those that many lines of a file have in common, as by a mistake
    in a `map`.
    """
    alike = Counter(problem._replace(line=None) for problem in problems)
    merged: dict[Problem, Problem] = {}
    for problem in problems:
        mistake = problem._replace(line=None)
        if (lines := alike[mistake]) <= _MAX_ALIKE:
            merged[problem] = problem
        else:
            text = f"{problem.message} (and {lines - 1:,} more lines)"
            merged.setdefault(mistake, problem._replace(message=text))
    return list(merged.values())


def _decide(expectations: Collection[Expectation]) -> bool:
    """Return True if what one of the graders finds counts: for the verdict on a run, or in a
    metric.
    """
    in_metric = (each.metric or isinstance(each.grader, Classify) for each in nested(expectations))
    return any(each.weight for each in expectations) or any(in_metric)


def _has_template(value: Any) -> bool:
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    if isinstance(value, dict):
        return any(map(_has_template, value.values()))
    return isinstance(value, list | tuple) and any(map(_has_template, value))


def _fill_texts(
    value: Any, values: dict[str, Any], templates: Templates, but: Collection[str] = ()
) -> Any:
    """Fill values into the templates in a grader as it is written; keys that are in `but` stay as
    they are.
    """
    if isinstance(value, str):
        return templates.value(value, values) if _has_template(value) else value
    if isinstance(value, dict):
        return {
            key: item if key in but else _fill_texts(item, values, templates, own_templates(key))
            for key, item in value.items()
        }
    return (
        [_fill_texts(item, values, templates) for item in value]
        if isinstance(value, list | tuple)
        else value
    )
