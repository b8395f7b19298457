"""Case entries into cases: ids that are taken once, expectations of the case and of the suite."""

import marshal
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ci_evals.config.case_files import EntryReader
from ci_evals.config.case_overrides import CassetteReader
from ci_evals.config.decode import Decoder
from ci_evals.config.expectations import decode_expect, decode_expectation
from ci_evals.config.file_types import CaseEntry
from ci_evals.config.providers import ProviderReader
from ci_evals.config.rows import MAX_PROBLEMS, Found
from ci_evals.config.source import line_of, plain
from ci_evals.errors import Problem
from ci_evals.graders.turn import OfTurn
from ci_evals.model import Case, Expectation, SimulatedUser
from ci_evals.suite import Templates

_SHORT_BYTES = 64  # no more than a digest takes, with what Python adds to each
_WITHOUT_REFERENCES = 2  # as a version of marshal: the same bytes for all that is equal


class _Template(Struct, frozen=True):
    """An expectation of the suite that is filled in for each case."""

    entry: Any
    path: str
    line: int | None


class CaseReader:
    """Reads every case of a suite; problems go to the suite's list.

    Afterwards `tags` has the tags of all cases, and `knows_tags` is whether there can be no others.

    Args:
        folder: where relative paths start.
        defaults: the suite's own `expect`, as parsed.
        line: the line of `defaults`.
        suite: decodes values of the suite's file.
        players: reads the providers that play users.
    """

    def __init__(self, folder: Path, defaults: Any, line: int | None, suite: Decoder, players: ProviderReader) -> None:
        self.players = players
        self.folder = folder
        self.entries = EntryReader(folder, suite)
        self.suite = suite
        self.problems = suite.problems
        self.cassettes = CassetteReader(folder)
        self.templates = Templates()
        self.expects_nothing = not defaults
        self.defaults = self._defaults(defaults, line)
        self.shared = tuple(default for default in self.defaults if isinstance(default, Expectation))
        self.expected: dict[bytes, tuple[Expectation, ...]] = {}
        self.places: dict[str, str] = {}
        self.tags: set[str] = set()
        self.knows_tags = False

    def read(self, entries: Any, line: int | None, threshold: float | None) -> tuple[Case, ...]:
        """Every case that `cases` names, in the order of the file; `threshold` is for those without one."""
        before = told = len(self.problems)
        self.knows_tags = True
        cases: list[Case] = []
        for found in self.entries.read(entries, line):
            if found.entry is None:
                self._broken(found, found.raw)
            else:
                self.knows_tags &= len(self.problems) == told
                cases += self._case(found, found.entry, threshold)
            told = len(self.problems)
            if told >= MAX_PROBLEMS:
                self.knows_tags = False
                break
        self.knows_tags &= len(self.problems) == told  # else there are files or rows that nobody could read
        if not cases and len(self.problems) == before:
            self.suite.problem(line, "cases", "there are no cases")
        return tuple(cases)

    def _case(self, found: Found, entry: CaseEntry, threshold: float | None) -> Iterator[Case]:
        decoder = Decoder(found.file, self.problems)
        self._take(entry.id, found, decoder)
        self.tags.update(entry.tags)
        expect = self._expect(found, entry, decoder)
        user = self._user(found, entry, decoder)
        if entry.user and user is None:
            return
        if entry.input is None and not (entry.vars or entry.messages or entry.turns or user):
            text = "nothing is asked: give the case `input`, `vars`, `messages`, `turns` or a `user`"
            decoder.problem(found.line, found.path, text)
            return
        overrides = entry.overrides
        cassette = self.cassettes.read(overrides.recorded, found, decoder) if overrides.recorded else None
        yield Case(
            id=entry.id,
            vars=entry.vars,
            input=entry.input,
            messages=entry.messages,
            expect=expect,
            threshold=threshold if entry.threshold is None else entry.threshold,
            tags=entry.tags,
            runs=entry.runs,
            min_pass_rate=entry.min_pass_rate,
            critical=entry.critical,
            timeout_s=overrides.timeout_s or entry.timeout_s,
            overrides=overrides,
            cassette=cassette,
            task=found.task,
            turns=tuple(turn.user for turn in entry.turns),
            user=user,
            allowance=entry.budget,
            description=entry.description,
            metadata=entry.metadata,
            file=found.file,
            line=found.line,
        )

    def _broken(self, found: Found, raw: dict[str, Any]) -> None:
        """Check what can be read of a case that is wrong elsewhere, so that mending it brings up nothing new."""
        decoder = Decoder(found.file, self.problems)
        if raw.get("id") and isinstance(raw["id"], str):
            self._take(str(raw["id"]), found, decoder)
        if isinstance(raw.get("expect"), list):
            line = line_of(raw, "expect") or found.line
            decode_expect(raw["expect"], decoder, _under(found.path, "expect"), line, self.folder)
        if isinstance(raw.get("tags"), list):
            self.tags.update(tag for tag in raw["tags"] if isinstance(tag, str))
        else:
            self.knows_tags = False

    def _take(self, case_id: str, found: Found, decoder: Decoder) -> None:
        if case_id in self.places:
            text = f"the id {case_id!r} is taken by the case at {self.places[case_id]}"
            decoder.problem(line_of(found.raw, "id") or found.line, _under(found.path, "id"), text)
        else:
            self.places[case_id] = f"{found.file}:{found.line}" if found.line else found.file

    def _expect(self, found: Found, entry: CaseEntry, decoder: Decoder) -> tuple[Expectation, ...]:
        """What the suite expects of the case, then what the case itself does."""
        own = found.given("expect")
        turns = self._turns(found, decoder)
        if not (own or turns or found.task or entry.user) and self.expects_nothing:
            text = "nothing is expected of the answer, so any would pass: add `expect`, such as `- not_empty: true`"
            decoder.problem(found.line, found.path, text)
        own_line = line_of(found.raw, "expect") or found.line
        own_path = _under(found.path, "expect")
        filled = self._filled(found, entry, decoder)
        if found.task:
            filled = _rewarded(filled)
        filled += turns
        expected = filled + self._decoded(own, decoder, own_path, own_line)
        return _reaching_the_goal(expected) if entry.user else expected

    def _decoded(self, entries: Any, decoder: Decoder, path: str, line: int | None) -> tuple[Expectation, ...]:
        """The same object for all cases that expect the same, of which there may be thousands."""
        key = _key_of(entries)
        if key is not None and key in self.expected:
            return self.expected[key]
        before = len(self.problems)
        decoded = decode_expect(entries, decoder, path, line, self.folder)
        if key is not None and len(self.problems) == before and not any(each.place for each in decoded):
            self.expected[key] = decoded
        return decoded

    def _turns(self, found: Found, decoder: Decoder) -> tuple[Expectation, ...]:
        """What is expected after the turns of a conversation."""
        expected: list[Expectation] = []
        for number, turn in enumerate(found.given("turns") or (), 1):
            entries = turn.get("expect") if isinstance(turn, dict) else turn.expect
            path = _under(found.path, f"turns[{number - 1}].expect")
            line = line_of(turn, "expect") or found.line
            decoded = decode_expect(entries or [], decoder, path, line, self.folder)
            expected += [msgspec.structs.replace(each, grader=OfTurn(number, each.grader)) for each in decoded]
        return tuple(expected)

    def _user(self, found: Found, entry: CaseEntry, decoder: Decoder) -> SimulatedUser | None:
        if entry.user is None:
            return None
        raw = found.given("user")
        path, line = _under(found.path, "user.provider"), line_of(raw, "provider") or found.line
        if entry.turns:
            decoder.problem(found.line, found.path, "a conversation has `turns` or a simulated `user`, not both")
        given = raw.get("provider") if isinstance(raw, dict) else entry.user.provider
        options = self.players.player(given, path, line, decoder)
        if options is None:
            return None
        return SimulatedUser(
            provider=options, persona=entry.user.persona, goal=entry.user.goal, max_turns=entry.user.max_turns
        )

    # The suite's own expectations.

    def _defaults(self, entries: Any, line: int | None) -> list[Expectation | _Template]:
        if not isinstance(entries, list):
            return list(decode_expect(entries, self.suite, "expect", line, self.folder))
        defaults: list[Expectation | _Template] = []
        for index, entry in enumerate(entries):
            path = f"expect[{index}]"
            entry_line = line_of(entries, index) or line
            if _has_template(entry):
                defaults.append(_Template(plain(entry), path, entry_line))
                continue
            if expectation := decode_expectation(entry, self.suite, path, entry_line, self.folder):
                defaults.append(expectation)
        return defaults

    def _filled(self, found: Found, entry: CaseEntry, decoder: Decoder) -> tuple[Expectation, ...]:
        """The suite's expectations with their templates filled in for a case."""
        if len(self.shared) == len(self.defaults):
            return self.shared
        filled = [
            default if isinstance(default, Expectation) else self._fill(default, found, entry, decoder)
            for default in self.defaults
        ]
        return tuple(expectation for expectation in filled if expectation is not None)

    def _fill(self, template: _Template, found: Found, entry: CaseEntry, decoder: Decoder) -> Expectation | None:
        problems: list[Problem] = []
        expectation = None
        try:
            value = _fill(template.entry, {"input": entry.input, **entry.vars}, self.templates)
            scratch = Decoder(self.suite.file, problems)
            expectation = decode_expectation(value, scratch, template.path, template.line, self.folder)
        except Exception as error:  # noqa: BLE001  a user's template can raise anything
            problems.append(Problem(self.suite.file, None, template.path, str(error)))
        for problem in problems:
            text = f"the suite's {problem.path} does not fit this case: {problem.message}"
            decoder.problem(found.line, found.path, text)
        return expectation


def _rewarded(expected: tuple[Expectation, ...]) -> tuple[Expectation, ...]:
    """With the reward of a task's verifier, unless it is expected already."""
    from ci_evals.config.tasks import REWARD

    asked = any(isinstance(each.grader, type(REWARD.grader)) for each in expected)
    return expected if asked else (REWARD, *expected)


def _reaching_the_goal(expected: tuple[Expectation, ...]) -> tuple[Expectation, ...]:
    """With the goal of a simulated user, unless it is expected already."""
    from ci_evals.graders.goal_reached import GoalReached

    asked = any(isinstance(each.grader, GoalReached) for each in expected)
    return expected if asked else (Expectation("goal_reached", GoalReached()), *expected)


def _key_of(entries: Any) -> bytes | None:
    """What is the same for all that is written the same; None if not all of it is text and numbers."""
    try:
        # which tells 1 from true, as == does not
        written = marshal.dumps(entries if type(entries) is list else plain(entries), _WITHOUT_REFERENCES)
    except ValueError:
        return None
    if len(written) <= _SHORT_BYTES:
        return written
    from hashlib import blake2b

    return blake2b(written, digest_size=16).digest()


def _under(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _has_template(value: Any) -> bool:
    return any("{{" in text or "{%" in text for text in _texts(value))


def _fill(value: Any, values: dict[str, Any], templates: Templates) -> Any:
    if isinstance(value, str):
        return templates.text(value, values) if _has_template(value) else value
    if isinstance(value, dict):
        return {key: _fill(item, values, templates) for key, item in value.items()}
    return [_fill(item, values, templates) for item in value] if isinstance(value, list) else value
