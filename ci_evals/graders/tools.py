"""Graders of what an agent did: `tool_call`, `tool_arguments`, `trajectory`, and limits on its calls and steps."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, ClassVar, Literal, Self

from ci_evals.errors import GradingError
from ci_evals.format import one_line, quote
from ci_evals.graders.base import AlwaysTrue, GraderOptions, failed, passed
from ci_evals.graders.json import ABSENT, Mismatch, first_difference, schema_mistake, schema_problems
from ci_evals.graders.text import pattern_problems, search
from ci_evals.model.case import Answer, Finding
from ci_evals.model.fields import UNSET, Bool, Count, Float, Many, NonNegative, OneOrMore, Options
from ci_evals.model.response import Step, ToolCall

_MAX_SHOWN = 3  # differing arguments that a reason lists
_MAX_NAMED = 10  # calls that a reason names
_MAX_CLOSE = 100  # calls among which the closest one is looked for
_MAX_ARGUMENTS = 1_000  # calls whose arguments are looked at
_MAX_TRAJECTORY = 2_000  # calls that are paired, which takes quadratic time


@dataclass(frozen=True, slots=True)
class ExpectedCall(Options):
    """A call that is asked for. `arguments` left out means any arguments."""

    name: str
    arguments: Mapping[str, Any] | None = None

    def differences(self, actual: ToolCall, *, ignore_extra_args: bool) -> Iterator[Mismatch]:
        """Find where the arguments of a call are not as expected."""
        if self.arguments is None:
            return
        if isinstance(actual.arguments, str):
            yield Mismatch("arguments", self.arguments, actual.arguments)
            return
        for key, value in self.arguments.items():
            path = f"argument {one_line(key, 60)}"
            if difference := first_difference(value, actual.arguments.get(key, ABSENT), path):
                yield difference
        if not ignore_extra_args:
            for key, value in actual.arguments.items():
                if key not in self.arguments:
                    yield Mismatch(f"argument {one_line(key, 60)}", ABSENT, value)

    def fits(self, actual: ToolCall, *, ignore_extra_args: bool) -> bool:
        """Return True if a call is of the expected tool and has its arguments."""
        differences = self.differences(actual, ignore_extra_args=ignore_extra_args)
        return self.name == actual.name and next(differences, None) is None


@dataclass(frozen=True, slots=True)
class ToolCallMatch(GraderOptions):
    """The answer calls a tool, or several.

    Under `not_`, more arguments or more calls than expected are no excuse: the call must not be there at all.

    Args:
        name: the tool, if one call is expected.
        arguments: the arguments of that call, compared as JSON; left out, any will do.
        calls: all the calls that are expected, instead of `name`; an empty list means that none may be made.
        ignore_extra_args: a call may have more arguments than expected.
        ignore_extra_calls: the answer may have more calls than expected.
        match_order: the calls must come in the order of `calls`.
    """

    short: ClassVar[str] = "name"

    name: str | None = None
    arguments: Mapping[str, Any] | None = None
    calls: Many[ExpectedCall] | None = None
    ignore_extra_args: Bool = False
    ignore_extra_calls: Bool = False
    match_order: Bool = False

    def problems(self) -> list[str]:
        if (self.name is None) == (self.calls is None):
            return ["give either `name`, for one call, or `calls`, a list of them"]
        if self.name is None and self.arguments is not None:
            return ["`arguments` belongs to `name`: inside `calls`, each call has its own"]
        if self._expects_none and self.ignore_extra_calls:
            return ["no calls are expected and all are allowed: this would always pass"]
        return []

    def opposed(self) -> Self:
        """Ignore extras under `not_`: they must not make a forbidden call look absent."""
        return replace(self, ignore_extra_args=True, ignore_extra_calls=not self._expects_none)

    @property
    def _expects_none(self) -> bool:
        return self.calls is not None and not self.calls

    def grade(self, answer: Answer) -> Finding:
        expected = [ExpectedCall(self.name or "", self.arguments)] if self.calls is None else self.calls
        # What the answer asks for; where it lists nothing, what was called on the way to it.
        actual = answer.response.tool_calls or answer.response.calls_made
        fitting = _fitting(expected, actual, ignore_extra_args=self.ignore_extra_args)
        pairs = _pair_in_order(fitting) if self.match_order else _pair_in_any_order(fitting)
        missing = [want for index, want in enumerate(expected) if index not in pairs]
        used = frozenset(pairs.values())
        extra = [call for index, call in enumerate(actual) if index not in used]
        if missing and self.match_order and len(_pair_in_any_order(fitting)) == len(expected):
            return failed(f"called in another order: expected {_listed(expected)}, got {_listed(actual)}")
        if missing:
            return failed(self._explain_missing(missing[0], actual, extra, answer.response.output))
        if extra and not self.ignore_extra_calls:
            if not expected:
                return failed(f"called {_describe(extra[0])}, but no tool was to be called")
            hint = "`ignore_extra_calls: true` would accept it"
            return failed(f"also called {_describe(extra[0])}, which was not expected; {hint}")
        return passed(f"called {_listed(expected)}" if expected else "called no tool")

    def _explain_missing(
        self, expected: ExpectedCall, actual: Sequence[ToolCall], extra: Sequence[ToolCall], output: str
    ) -> str:
        if not actual:
            return f"did not call {_describe(expected)}: no tool was called, got {quote(output)}"
        namesakes = [call for call in extra if call.name == expected.name][:_MAX_CLOSE]
        if not namesakes:
            return f"did not call {_describe(expected)}: got {_listed(actual)}"

        def differences(call: ToolCall) -> Iterator[Mismatch]:
            return expected.differences(call, ignore_extra_args=self.ignore_extra_args)

        closest = min(namesakes, key=lambda call: sum(1 for _ in differences(call)))
        told = "; ".join(map(str, islice(differences(closest), _MAX_SHOWN)))
        among = f" (the closest of {len(namesakes)} such calls)" if len(namesakes) > 1 else ""
        return f"called {one_line(expected.name)} with other arguments{among}: {told}"


@dataclass(frozen=True, slots=True)
class Trajectory(GraderOptions):
    """The agent called these tools.

    Args:
        calls: names of tools, or mappings of `name` and `arguments`.
        match: `exact`: these calls in this order and no other; `in_order`: these in this order, others may stand
            between them; `any_order`: these and no other, in any order; `subset`: none but these; `superset`: these at
            least, in any order.
        ignore_extra_args: a call may have more arguments than expected.
    """

    short: ClassVar[str] = "calls"

    calls: Many[str | ExpectedCall]
    match: Literal["exact", "in_order", "any_order", "subset", "superset"] = "in_order"
    ignore_extra_args: Bool = False

    def problems(self) -> list[str]:
        if not self.calls and self.match in ("in_order", "superset"):
            return [f"no calls are expected and all are allowed by `match: {self.match}`: this would always pass"]
        return []

    def grade(self, answer: Answer) -> Finding:
        actual = answer.response.calls_made
        if len(actual) > _MAX_TRAJECTORY:
            return failed(f"made {len(actual):,} tool calls, more than the {_MAX_TRAJECTORY:,} that are compared")
        expected = [ExpectedCall(call) if isinstance(call, str) else call for call in self.calls]
        pairs = self._pair(expected, actual)
        compared = _Trajectories(expected, actual, pairs, self.ignore_extra_args)
        share = len(pairs) / max(1, len(expected))
        if self.match == "subset":
            reason, share = compared.unexpected(), len(pairs) / max(1, len(actual))
        elif self.match in ("in_order", "superset"):
            reason = compared.missing(in_order=self.match == "in_order")
        else:
            share = len(pairs) / max(1, len(expected), len(actual))
            any_order = self.match == "any_order"
            reason = compared.missing() or compared.unexpected() if any_order else compared.parting()
        return failed(reason, share) if reason else passed(f"called {_path(actual)}")

    def _pair(self, expected: Sequence[ExpectedCall], actual: Sequence[ToolCall]) -> Mapping[int, int]:
        """Pair expected with actual calls, by index."""
        if self.match == "exact":
            both = enumerate(zip(expected, actual, strict=False))
            return {at: at for at, (want, call) in both if want.fits(call, ignore_extra_args=self.ignore_extra_args)}
        fitting = _fitting(expected, actual, ignore_extra_args=self.ignore_extra_args)
        return _pair_in_order(fitting) if self.match == "in_order" else _pair_in_any_order(fitting)


@dataclass(frozen=True, slots=True)
class _Trajectories:
    """Both trajectories, and which expected call is which actual one."""

    expected: Sequence[ExpectedCall]
    actual: Sequence[ToolCall]
    pairs: Mapping[int, int]
    ignore_extra_args: bool

    def __str__(self) -> str:
        return f"expected {_path(self.expected)}, got {_path(self.actual)}"

    @property
    def _extra(self) -> list[int]:
        used = set(self.pairs.values())
        return [at for at in range(len(self.actual)) if at not in used]

    def parting(self) -> str | None:
        """Describe the first place where one trajectory is not the other."""
        expected, actual = self.expected, self.actual
        for at, (want, call) in enumerate(zip(expected, actual, strict=False)):
            if at not in self.pairs:
                if want.name == call.name:
                    return f"parts at call {at + 1}: {self._difference(want, call)}"
                return f"parts at call {at + 1}: expected {_describe(want)}, got {_describe(call)}; {self}"
        if len(actual) < len(expected):
            last = f"call {len(actual)}" if actual else "no call"
            return f"stops after {last}: expected {_describe(expected[len(actual)])} next; {self}"
        if len(actual) > len(expected):
            last = f"call {len(expected)}" if expected else "no call"
            return f"goes on after {last} with {_describe(actual[len(expected)])}; {self}"
        return None

    def missing(self, *, in_order: bool = False) -> str | None:
        """Describe the first expected call that was not made."""
        index = next((at for at in range(len(self.expected)) if at not in self.pairs), None)
        if index is None:
            return None
        want, after = self.expected[index], ""
        before = max((at for at in self.pairs if at < index), default=None)
        if in_order and before is not None:
            after = f" after call {self.pairs[before] + 1}, {one_line(self.expected[before].name, 80)}"
        namesakes = [at for at in self._extra if self.actual[at].name == want.name]
        if in_order:
            for at in namesakes:
                if want.fits(self.actual[at], ignore_extra_args=self.ignore_extra_args):
                    return f"{_describe(want)} was call {at + 1}, but is expected{after}; {self}"
        if namesakes:
            return f"parts at call {namesakes[0] + 1}: {self._difference(want, self.actual[namesakes[0]])}"
        return f"{_describe(want)} is missing{after}; {self}"

    def unexpected(self) -> str | None:
        """Describe the first call that was not expected."""
        if not (extra := self._extra):
            return None
        return f"call {extra[0] + 1}, {_describe(self.actual[extra[0]])}, was not expected; {self}"

    def _difference(self, want: ExpectedCall, call: ToolCall) -> str:
        difference = next(want.differences(call, ignore_extra_args=self.ignore_extra_args), None)
        return f"{one_line(want.name, 80)} with other arguments: {difference}" if difference else "called once more"


@dataclass(frozen=True, slots=True)
class Matcher(Options):
    """Conditions on a value; all that are given must hold.

    Args:
        equals: it is this, compared as JSON.
        one_of: it is one of these.
        contains: it is text with this in it, or a list with this item.
        icontains: it is text with this in it, in upper or lower case.
        regex: it is text in which this expression is found.
        approx: it is a number, at most `tolerance` away from this one.
        tolerance: how far away from `approx` it may be.
        min: it is a number and at least this.
        max: it is a number and at most this.
    """

    equals: Any = UNSET
    one_of: OneOrMore[Any] | None = None
    contains: Any = UNSET
    icontains: str | None = None
    regex: str | None = None
    approx: Float | None = None
    tolerance: NonNegative = 1e-9
    min: Float | None = None
    max: Float | None = None

    def problems(self) -> list[str]:
        """List what can be seen to be wrong before any call."""
        if self == Matcher(tolerance=self.tolerance):
            return ["no condition is given: `equals`, `contains`, `regex`, `approx`, …"]
        return pattern_problems(self.regex or "")

    def mistake(self, value: Any) -> str | None:
        """Say why a value is not like this, `is 5, less than 10`; None if it is."""
        return next(self._mistakes(value), None)

    def _mistakes(self, value: Any) -> Iterator[str]:
        got, text = quote(value), value if isinstance(value, str) else None
        if self.equals is not UNSET and first_difference(self.equals, value):
            yield f"is {got}, expected {quote(self.equals)}"
        if self.one_of is not None and all(first_difference(each, value) for each in self.one_of):
            yield f"is {got}, expected one of {quote(list(self.one_of))}"
        if self.contains is not UNSET and not _contains(value, self.contains):
            yield f"does not contain {quote(self.contains)}: got {got}"
        if self.icontains is not None and (text is None or self.icontains.casefold() not in text.casefold()):
            yield f"does not contain {quote(self.icontains)} in upper or lower case: got {got}"
        if self.regex is not None and (text is None or not search(self.regex, text)):
            yield f"does not match {quote(self.regex)}: got {got}"
        if self.approx is not None or self.min is not None or self.max is not None:
            yield from self._numeric_mistakes(value, got)

    def _numeric_mistakes(self, value: Any, got: str) -> Iterator[str]:
        if isinstance(value, bool) or not isinstance(value, int | float):
            yield f"is not a number: got {got}"
            return
        if self.approx is not None and not self.approx - self.tolerance <= value <= self.approx + self.tolerance:
            yield f"is {got}, not within {self.tolerance:g} of {self.approx:g}"
        if self.min is not None and not value >= self.min:
            yield f"is {got}, less than {self.min:g}"
        if self.max is not None and not value <= self.max:
            yield f"is {got}, more than {self.max:g}"


def _contains(value: Any, part: Any) -> bool:
    if isinstance(value, str):
        return isinstance(part, str) and part in value
    return isinstance(value, list | tuple) and any(first_difference(part, item) is None for item in value)


@dataclass(frozen=True, slots=True)
class ToolArguments(GraderOptions):
    """A tool was called with the right arguments.

    Args:
        name: the tool.
        arguments: what it must be given, compared as JSON.
        match: `exact`: no other arguments; `subset`: others are allowed.
        schema: JSON Schema that the arguments must fit.
        where: for single arguments by name (`passenger.name` for an inner one) what they must be like.
        calls: which of the tool's calls must be right: `every`, `any`, the `first` or the `last`.
    """

    short: ClassVar[str] = "name"

    name: str
    arguments: Mapping[str, Any] | None = None
    match: Literal["exact", "subset"] = "exact"
    schema: Mapping[str, Any] | None = None
    where: Mapping[str, Matcher] = field(default_factory=dict)
    calls: Literal["every", "any", "first", "last"] = "every"

    def problems(self) -> list[str]:
        return [
            *(schema_problems(self.schema) if self.schema is not None else []),
            *(f"where.{one_line(name)}: {text}" for name, matcher in self.where.items() for text in matcher.problems()),
        ]

    def grade(self, answer: Answer) -> Finding:
        made = answer.response.calls_made
        found = [(at, call) for at, call in enumerate(made, 1) if call.name == self.name][:_MAX_ARGUMENTS]
        name = one_line(self.name)
        if not found:
            others = ", ".join(dict.fromkeys(one_line(call.name, 80) for call in made[:_MAX_NAMED])) or "no tool"
            return failed(f"{name} was not called: got {others}")
        chosen = {"first": found[:1], "last": found[-1:]}.get(self.calls, found)
        mistakes = [(at, mistake) for at, call in chosen if (mistake := next(self._mistakes(call), None))]
        if not mistakes or (self.calls == "any" and len(mistakes) < len(chosen)):
            return passed(f"{name} was called with the right arguments")
        at, mistake = mistakes[0]
        more = f" (and {len(mistakes) - 1} more of {len(chosen)} calls)" if len(mistakes) > 1 else ""
        score = 0.0 if self.calls == "any" else 1 - len(mistakes) / len(chosen)
        return failed(f"call {at}, {name}: {mistake}{more}", score)

    def _mistakes(self, call: ToolCall) -> Iterator[str]:
        expected = ExpectedCall(self.name, self.arguments)
        yield from map(str, expected.differences(call, ignore_extra_args=self.match == "subset"))
        if self.schema is not None and (mistake := schema_mistake(self.schema, call.arguments)):
            yield f"the arguments do not fit the schema {mistake}"
        for name, matcher in self.where.items():
            value = _argument(call, name)
            if value is ABSENT:
                yield f"argument {one_line(name, 60)} is missing"
            elif mistake := matcher.mistake(value):
                yield f"argument {one_line(name, 60)} {mistake}"


def _argument(call: ToolCall, name: str) -> Any:
    """Return the argument of this very name, or the inner one that its parts between dots lead to."""
    value: Any = call.arguments
    if isinstance(value, Mapping) and name in value:
        return value[name]
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return ABSENT
        value = value[part]
    return value


@dataclass(frozen=True, slots=True)
class NoToolErrors(AlwaysTrue):
    """No tool call failed; the score is the share of calls that did not. `value` is always true."""

    instead = "write `not_no_tool_errors: true`, or leave it out"

    def grade(self, answer: Answer) -> Finding:
        calls = [(at, step) for at, step in enumerate(_steps(answer), 1) if step.kind == "tool_call"]
        errors = [(at, step) for at, step in calls if step.error is not None]
        if not errors:
            return passed(f"none of {len(calls)} tool calls failed")
        at, first = errors[0]
        more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
        reason = f"{one_line(first.name, 80)} failed at step {at}: {quote(first.error or '')}{more}"
        return failed(reason, 1 - len(errors) / len(calls))


@dataclass(frozen=True, slots=True)
class MaxToolCalls(GraderOptions):
    """At most `value` tool calls were made.

    Args:
        value: the most that may be made.
        tool: count the calls of this tool only.
    """

    value: Count
    tool: str | None = None

    def grade(self, answer: Answer) -> Finding:
        made = [call.name for call in answer.response.calls_made if self.tool in (None, call.name)]
        return _at_most(self.value, made, "tool calls" if self.tool is None else f"calls of {one_line(self.tool, 80)}")


@dataclass(frozen=True, slots=True)
class MaxSteps(GraderOptions):
    """At most `value` steps were taken: model requests, tool calls and sub-agents. Messages do not count."""

    value: Count

    def grade(self, answer: Answer) -> Finding:
        return _at_most(self.value, [step.name for step in _steps(answer) if step.kind != "message"], "steps")


@dataclass(frozen=True, slots=True)
class MaxModelRequests(GraderOptions):
    """A model was asked at most `value` times."""

    value: Count

    def grade(self, answer: Answer) -> Finding:
        requests = ["" for step in _steps(answer) if step.kind == "model_request"]
        if not requests:
            raise GradingError("the steps tell of no request to a model: add steps of kind `model_request`")
        return _at_most(self.value, requests, "model requests")


def _at_most(limit: int, names: Sequence[str], what: str) -> Finding:
    if len(names) <= limit:
        return passed(f"{len(names)} {what}, within the {limit} allowed")
    beyond = f"; beyond them from {one_line(names[limit], 80)} on" if names[limit] else ""
    return failed(f"{len(names)} {what}, more than the {limit} allowed{beyond}")


def _steps(answer: Answer) -> tuple[Step, ...]:
    steps = answer.response.steps_taken
    if steps is None:
        which = "one of the conversation's answers" if answer.response.turns else "the answer"
        raise GradingError(f"{which} tells no steps: have the provider return `steps`")
    return steps


def _fitting(
    expected: Sequence[ExpectedCall], actual: Sequence[ToolCall], *, ignore_extra_args: bool
) -> list[list[int]]:
    """For each expected call, the indices of the actual calls that fit it."""
    return [
        [at for at, call in enumerate(actual) if want.fits(call, ignore_extra_args=ignore_extra_args)]
        for want in expected
    ]


def _pair_in_order(fitting: Sequence[Sequence[int]]) -> Mapping[int, int]:
    """Pair each expected call with the earliest fitting one after the pair before."""
    pairs: dict[int, int] = {}
    after = -1
    for index, candidates in enumerate(fitting):
        at = next((at for at in candidates if at > after), None)
        if at is not None:
            pairs[index] = after = at
    return pairs


def _pair_in_any_order(fitting: Sequence[Sequence[int]]) -> Mapping[int, int]:
    """Pair as many expected calls as can be paired (Kuhn's algorithm for bipartite matching)."""
    owners: dict[int, int] = {}

    def place(index: int, tried: set[int]) -> bool:
        for at in fitting[index]:
            if at not in tried:
                tried.add(at)
                if at not in owners or place(owners[at], tried):
                    owners[at] = index
                    return True
        return False

    for index in range(len(fitting)):
        place(index, set())
    return {index: at for at, index in owners.items()}


def _describe(call: ToolCall | ExpectedCall) -> str:
    name = one_line(call.name, 80)
    return name if call.arguments is None else f"{name}({quote(call.arguments)})"


def _listed(calls: Sequence[ToolCall] | Sequence[ExpectedCall]) -> str:
    shown = ", ".join(one_line(call.name, 80) for call in calls[:_MAX_NAMED])
    more = len(calls) - _MAX_NAMED
    return f"{shown} and {more} more" if more > 0 else shown


def _path(calls: Sequence[ToolCall] | Sequence[ExpectedCall]) -> str:
    if not calls:
        return "no tool"
    shown = " → ".join(one_line(call.name, 80) for call in calls[:_MAX_NAMED])
    return shown if len(calls) <= _MAX_NAMED else f"{shown} → … ({len(calls)} calls)"
