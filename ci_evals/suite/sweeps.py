"""Sweeps: one entry of `providers` under every combination of some settings."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from ci_evals.errors import Problem
from ci_evals.registry import PROVIDERS
from ci_evals.suite.keys import keys_of
from ci_evals.suite.problems import Written, unknown
from ci_evals.suite.types import Sweep
from ci_evals.suite.yaml import Lines

MAX_POINTS = 1000


class Sweeps:
    """The sweeps of a suite, `variants` in the file: each makes several providers of one.

    Args:
        sweeps: as checked.
        written: the same as they are written.
        problems: gets every problem.
    """

    def __init__(self, sweeps: Sequence[Sweep], written: Written, problems: list[Problem]) -> None:
        self.sweeps = sweeps
        self.written = written
        self.problems = problems
        self._names: dict[str, list[str]] = {}

    def expand(self, entries: Sequence[Written], names: Sequence[str]) -> list[Written]:
        """Return the entries of `providers`, which have these names, with several in place of each
        that is swept.
        """
        for index, sweep in enumerate(self.sweeps):
            if sweep.provider not in names:
                text = unknown("provider", sweep.provider, names)
                self.problems.append(self.written[index]["provider"].problem(text))
        return [
            point
            for entry, name in zip(entries, names, strict=True)
            for point in self._points(entry, name)
        ]

    def expand_names(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return names of providers with those of all its variants in place of each that is
        swept.
        """
        return tuple(each for name in names for each in self._names.get(name, [name]))

    def _points(self, entry: Written, name: str) -> list[Written]:
        sweeps = [
            (index, sweep) for index, sweep in enumerate(self.sweeps) if sweep.provider == name
        ]
        if not sweeps:
            return [entry]
        if not isinstance(entry.value, dict):
            text = f"{name} is an object: write this provider as the mapping of the YAML, or each variant by itself"
            self.problems += [self.written[index]["provider"].problem(text) for index, _ in sweeps]
            return [entry]
        points = [
            point
            for index, sweep in sweeps
            for point in self._grid(sweep, entry, name, self.written[index])
        ]
        self._names[name] = [point.value["name"] for point in points]
        return points

    def _grid(self, sweep: Sweep, entry: Written, name: str, written: Written) -> Iterator[Written]:
        grid = written["grid"]
        before = len(self.problems)
        places = {key: self._place(key, entry, grid) for key in sweep.grid}
        if prod(map(len, sweep.grid.values())) > MAX_POINTS:
            self.problems.append(
                grid.problem(f"more than {MAX_POINTS} variants: leave out some values")
            )
        if len(self.problems) > before:
            return
        for values in product(*sweep.grid.values()):
            point = entry
            for key, value in zip(sweep.grid, values, strict=True):
                point = _set(point, places[key], value, grid[key].line)
            settings = zip(sweep.grid, values, strict=True)
            label = " ".join(
                f"{places[key][-1]}={_label(value, sweep.grid[key])}" for key, value in settings
            )
            yield _set(point, ("name",), f"{name} {label}", entry["name"].line)

    def _place(self, key: str, entry: Written, grid: Written) -> tuple[str, ...]:
        """Return the place of a key of the grid: a setting of the provider, or one of its
        `params`.
        """
        kind = entry.value.get("type")
        cls = PROVIDERS.get(kind) if isinstance(kind, str) else None
        keys = keys_of(cls) if cls else ()
        first, *rest = key.split(".")
        if first in keys and first != "name":
            return (first, *rest)
        if "params" in keys:
            return ("params", first, *rest)
        if cls:
            text = unknown("setting", first, sorted(keys))
            self.problems.append(Problem(grid.file, grid[key].line, grid.path, text))
        return (first, *rest)


def _set(written: Written, place: Sequence[str], value: Any, line: int | None) -> Written:
    """Return a copy of a mapping with one value inside set, which is written in another line."""
    first, *rest = place
    inner = (
        _set(written[first], rest, value, line)
        if rest
        else Written(value, Lines(line), written.file)
    )
    mapping = {**(written.value if isinstance(written.value, Mapping) else {}), first: inner.value}
    lines = Lines(
        written.lines.line, {**written.lines.inside, first: Lines(line, inner.lines.inside)}
    )
    return Written(mapping, lines, written.file, written.path)


def _label(value: Any, values: Sequence[Any]) -> str:
    """Return a value as part of a name, which has no comma; a list or mapping by its number."""
    if isinstance(value, Mapping | list):
        return f"#{values.index(value) + 1}"
    text = str(value)
    return (text.lower() if isinstance(value, bool) else "null" if value is None else text).replace(
        ",", ";"
    )
