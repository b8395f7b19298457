"""Values with the places where they are written, and readers that yield problems."""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypeVar

from ci_evals.errors import Place, Problem
from ci_evals.suite.yaml import Lines

T = TypeVar("T")

Reading: TypeAlias = Generator[Problem, None, T]
"""The type of a reader: it yields every problem and returns the value it could read.

`case = yield from read_case(node)` passes the problems on; `collect` keeps them apart.
"""


class Hint(NamedTuple):
    """The text after `unknown key 'x'` in a message, and the keys that it suggests."""

    text: str
    keys: tuple[str, ...] = ()


def collect(reading: Reading[T]) -> tuple[T, list[Problem]]:
    """Run a reader; return its value and its problems."""
    problems = []
    while True:
        try:
            problems.append(next(reading))
        except StopIteration as end:
            return end.value, problems


def read_each(readings: Iterable[Reading[T]]) -> Reading[list[T]]:
    """Run readers one after the other; return their values."""
    values = []
    for reading in readings:
        value = yield from reading
        values.append(value)
    return values


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its place, in a file or, if it is `in_code`, in the Python code that made it."""

    value: Any
    lines: Lines
    file: str
    path: str = ""
    in_code: bool = False

    @property
    def line(self) -> int | None:
        return self.lines.line

    @property
    def place(self) -> Place:
        return Place(self.file, self.lines.line, self.path)

    def __getitem__(self, key: str | int) -> "Node":
        """Return the value under a key or at an index.

        Without such an entry, the value is None, at the line of the whole.
        """
        value = None
        if isinstance(self.value, dict | Mapping):
            value = self.value.get(key)
        elif isinstance(key, str):
            value = getattr(self.value, key, None)
        elif isinstance(self.value, Sequence):
            value = self.value[key]
        if isinstance(key, int):
            path = f"{self.path}[{key}]"
        elif self.path:
            path = f"{self.path}.{key}"
        else:
            path = key
        return Node(value, self.lines.at(key), self.file, path, self.in_code)

    def __contains__(self, key: str) -> bool:
        return isinstance(self.value, dict | Mapping) and key in self.value

    def items(self) -> Iterator["Node"]:
        """Yield the items of a list."""
        for index in range(len(self.value)):
            yield self[index]

    def with_value(self, value: Any) -> "Node":
        """Return another value in the same place."""
        return Node(value, self.lines, self.file, self.path, self.in_code)

    def problem(self, message: str) -> Problem:
        return Problem(self.file, self.lines.line, self.path, message)
