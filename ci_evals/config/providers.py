"""Entries of `providers` into options: those that were selected, with their keys."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from ci_evals.config.decode import Decoder, is_written_in_code, unknown
from ci_evals.config.environment import Interpolation
from ci_evals.config.source import line_of
from ci_evals.config.sweeps import Sweeps
from ci_evals.errors import Place, Problem
from ci_evals.providers import PROVIDERS
from ci_evals.providers.base import ProviderOptions, Secret


class ProviderReader:
    """Reads `providers`.

    Afterwards `names` has all of them, selected or not, `knows_names` is whether none of those is a guess, and `places`
    says of each name of a provider or stage where what it stands for is written.

    Args:
        folder: where relative paths start.
        decoder: decodes values of the suite's file, and gets all problems.
        interpolation: fills in variables of the environment.
        key: where they stand in the suite.
    """

    def __init__(self, folder: Path, decoder: Decoder, interpolation: Interpolation, key: str = "providers") -> None:
        self.key = key
        self.folder = folder
        self.decoder = decoder
        self.problems = decoder.problems
        self.interpolation = interpolation
        self.names: list[str] = []
        self.by_name: dict[str, ProviderOptions] = {}
        self.places: dict[str, Place] = {}
        self.knows_names = False

    def read(
        self,
        entries: Any,
        line: int | None,
        selected: Sequence[str] | None = None,
        sweeps: Sweeps | None = None,
    ) -> tuple[ProviderOptions, ...]:
        """The selected providers, or all of them; those that are left out need not be complete."""
        if not isinstance(entries, list) or not entries:
            self.decoder.problem(line, self.key, "expected a list with at least one provider")
            return ()
        found: dict[str, ProviderOptions] = {}
        nameless: list[Problem] = []
        self.knows_names = True
        sweeps = sweeps or Sweeps([], None, self.decoder)
        points = self._points(entries, line, sweeps)
        selected = selected and sweeps.selected(selected)
        for path, entry, entry_line in points:
            before = len(self.problems)
            provider = self.entry(entry, path, entry_line)
            name = str(provider.name) if provider else _guess_name(entry)
            self.names.append(name)
            if provider:
                self.by_name[name] = provider
            is_guess = provider is None and not (isinstance(entry, dict) and entry.get("name"))
            self.knows_names &= not is_guess
            if selected is not None and name not in selected:
                if is_guess:
                    nameless += self.problems[before:]
                del self.problems[before:]
            elif name in found:
                self.decoder.problem(entry_line, path, f"a second provider called {name!r}: give one of them a `name`")
            elif provider is not None:
                found[name] = provider
        if selected is not None:
            self._check_selection(selected, nameless, line)
        return tuple(found.values())

    def player(self, given: Any, path: str, line: int | None, decoder: Decoder) -> ProviderOptions | None:
        """The provider that plays a user: one of the suite's by name, selected or not, or one of its own."""
        if not isinstance(given, str):
            return self.entry(given, path, line)
        found = self.by_name.get(given)
        if found is None and given not in self.names:
            decoder.problem(line, path, unknown("provider", given, self.names))
        return found

    def _points(self, entries: list[Any], line: int | None, sweeps: Sweeps) -> list[tuple[str, Any, int | None]]:
        """Every provider to read, with its path and line: an entry, or what a sweep makes of it."""
        points: list[tuple[str, Any, int | None]] = []
        names = []
        for index, entry in enumerate(entries):
            path, entry_line = f"{self.key}[{index}]", line_of(entries, index) or line
            if sweeps.entries:
                names.append(self._name(entry, path, entry_line))
            points += [(path, point, entry_line) for point in sweeps.points(entry, names[-1] if names else "")]
        sweeps.check(names)
        return points

    def _name(self, entry: Any, path: str, line: int | None) -> str:
        """What an entry is called, whatever else is wrong with it."""
        before = len(self.problems)
        provider = self.entry(entry, path, line)
        del self.problems[before:]
        return str(provider.name) if provider else _guess_name(entry)

    def entry(self, entry: Any, path: str, line: int | None) -> ProviderOptions | None:
        """Decode one provider; None if it is so wrong that it has no name."""
        if is_written_in_code(entry):
            from ci_evals.config.code import provider_of

            given = provider_of(entry, self.decoder, path, line)
            return given and self._placed(self._named(given, path, line), path, line, None)
        filled = self.interpolation.fill(entry, path, line)
        kind = filled.get("type") if isinstance(filled, dict) else None
        if kind is None:
            self.decoder.problem(line, path, f"expected a mapping with a `type`: {', '.join(PROVIDERS)}")
            return None
        cls = PROVIDERS.get(kind) if isinstance(kind, str) else None
        if cls is None:
            text = unknown("provider type", str(kind), PROVIDERS)
            self.decoder.problem(line_of(entry, "type"), f"{path}.type", text)
            return None
        options = self.decoder.struct(filled, cls, path, line, also=("type",))
        return options and self._placed(self._named(options, path, line), path, line, filled)

    def _placed(
        self, options: ProviderOptions | None, path: str, line: int | None, filled: Any
    ) -> ProviderOptions | None:
        """Remember where the target and the stages of a provider are written."""
        if options is None:
            return None
        if isinstance(filled, dict) and "target" in filled:
            self._place(str(options.name), line_of(filled, "target") or line, f"{path}.target")
        else:
            self._place(str(options.name), line, path)
        for key in ("before", "after"):
            listed = filled.get(key) if isinstance(filled, dict) else None
            for index, name in enumerate(getattr(options, key)):
                self._place(name, line_of(listed, index) or line, f"{path}.{key}[{index}]")
        return options

    def _place(self, name: str, line: int | None, path: str) -> None:
        self.places.setdefault(name, Place(self.decoder.file, line, path))

    def _named(self, options: ProviderOptions, path: str, line: int | None) -> ProviderOptions | None:
        """The options with a name and a key; None if they cannot be named."""
        for message in options.problems(self.folder):
            self.decoder.problem(line, path, message)
        try:
            name = options.name or options.default_name
        except ValueError:
            return None  # what cannot be named is among the problems above
        if options.name and "," in options.name:
            text = f"the name {name!r} has a comma, which stands between names in --providers: give it another `name`"
            self.decoder.problem(line, path, text)
        return msgspec.structs.replace(self._with_key(options, path, line), name=name)

    def _with_key(self, options: ProviderOptions, path: str, line: int | None) -> ProviderOptions:
        """Fill in the vendor's usual key variable where the config names none."""
        variable = options.key_variable
        if variable is None or self.interpolation.offline:
            return options
        value = self.interpolation.environ.get(variable)
        if not value:
            text = f"no key: set the variable {variable} (export it, or write it into {self.folder / '.env'})"
            self.decoder.problem(line, f"{path}.api_key", text)
            return options
        self.interpolation.named[variable] = value
        return msgspec.structs.replace(options, api_key=Secret(value, variable))

    def _check_selection(self, selected: Sequence[str], nameless: list[Problem], line: int | None) -> None:
        if not selected:
            self.decoder.problem(line, "--providers", f"none is named; known: {', '.join(self.names)}")
        strangers = [name for name in selected if name not in self.names]
        for name in strangers:
            self.decoder.problem(line, "--providers", unknown("provider", name, self.names))
        if strangers:  # one of those without a name may be meant
            self.problems.extend(nameless)


def _guess_name(entry: Any) -> str:
    """A name for a provider that could not be decoded, to tell whether it was selected."""
    if not isinstance(entry, dict):
        return "?"
    model = entry.get("model")
    return str(entry.get("name") or (f"{entry.get('type')}:{model}" if model else entry.get("type")))
