"""`variants`: one provider entry into as many as a grid of its settings has points."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from ci_evals.config.decode import Decoder, unknown
from ci_evals.config.file_types import SweepEntry
from ci_evals.config.source import Map, line_of
from ci_evals.providers import PROVIDERS

MAX_POINTS = 1000


class Sweeps:
    """The sweeps of a suite.

    Args:
        entries: as decoded.
        raw: the same as parsed, for their lines.
        decoder: gets all problems.
    """

    def __init__(self, entries: Sequence[SweepEntry], raw: Any, decoder: Decoder) -> None:
        self.entries = entries
        self.raw = raw
        self.decoder = decoder
        self._names: dict[str, list[str]] = {}

    def points(self, entry: Any, name: str) -> list[Any]:
        """The entries that stand in place of one entry of `providers`; that entry itself if nothing sweeps it."""
        sweeps = [(index, sweep) for index, sweep in enumerate(self.entries) if sweep.provider == name]
        if not isinstance(entry, Map):
            for index, _ in sweeps:
                text = f"{name} is an object: write this provider as the mapping of the YAML, or each variant by itself"
                self.decoder.problem(line_of(self._raw(index), "provider"), f"variants[{index}].provider", text)
        if not sweeps or not isinstance(entry, Map):
            return [entry]
        points = [point for index, sweep in sweeps for point in self._of(sweep, entry, name, index)]
        self._names[name] = [point["name"] for point in points]
        return points

    def selected(self, names: Sequence[str]) -> tuple[str, ...]:
        """A selection of providers, in which the name of a swept one stands for all that became of it."""
        return tuple(each for name in names for each in self._names.get(name, [name]))

    def check(self, names: Sequence[str]) -> None:
        """Tell of sweeps over what no provider is called."""
        for index, sweep in enumerate(self.entries):
            if sweep.provider not in names:
                line = line_of(self._raw(index), "provider")
                self.decoder.problem(line, f"variants[{index}].provider", unknown("provider", sweep.provider, names))

    def _of(self, sweep: SweepEntry, entry: Map, name: str, index: int) -> Iterator[Map]:
        grid = self._raw(index).get("grid")
        before = len(self.decoder.problems)
        places = {key: self._place(key, entry, line_of(grid, key), index) for key in sweep.grid}
        if prod(map(len, sweep.grid.values())) > MAX_POINTS:
            text = f"more than {MAX_POINTS} variants: leave out some values"
            self.decoder.problem(getattr(grid, "line", None), f"variants[{index}].grid", text)
        if len(self.decoder.problems) > before:
            return
        for values in product(*sweep.grid.values()):
            point = entry
            for key, value in zip(sweep.grid, values, strict=True):
                point = _with(point, places[key], value, line_of(grid, key) or entry.line)
            settings = zip(sweep.grid, values, strict=True)
            label = " ".join(f"{places[key][-1]}={_shown(value, sweep.grid[key])}" for key, value in settings)
            yield _with(point, ("name",), f"{name} {label}", line_of(entry, "name") or entry.line)

    def _place(self, key: str, entry: Map, line: int | None, index: int) -> tuple[str, ...]:
        """Where a key of the grid belongs: a setting of the provider, or one of its `params`."""
        kind = entry.get("type")
        cls = PROVIDERS.get(kind) if isinstance(kind, str) else None
        fields = cls.__struct_fields__ if cls else ()
        first, *rest = key.split(".")
        if first in fields and first != "name":
            return (first, *rest)
        if "params" in fields:
            return ("params", first, *rest)
        if cls:
            self.decoder.problem(line, f"variants[{index}].grid", unknown("setting", first, sorted(fields)))
        return (first, *rest)

    def _raw(self, index: int) -> Map:
        raw = self.raw[index]
        assert isinstance(raw, Map)  # else it would not have been decoded
        return raw


def _with(entry: Any, place: Sequence[str], value: Any, line: int) -> Map:
    """A copy of a mapping with one value, at a place inside, set."""
    changed = Map(getattr(entry, "line", line))
    changed.lines = dict(getattr(entry, "lines", {}))
    changed.update(entry if isinstance(entry, Mapping) else {})
    first, *rest = place
    changed[first] = _with(changed.get(first), rest, value, line) if rest else value
    changed.lines[first] = line
    return changed


def _shown(value: Any, values: Sequence[Any]) -> str:
    """A value as part of a name: no comma, which stands between names; a list or mapping by its number."""
    if isinstance(value, Mapping | list):
        return f"#{values.index(value) + 1}"
    text = str(value)
    return (text.lower() if isinstance(value, bool) else "null" if value is None else text).replace(",", ";")
