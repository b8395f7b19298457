"""Entries of `providers` and `judges` into options: those that were selected, with their keys."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ci_evals.errors import Place, PluginError, Problem
from ci_evals.model.fields import Secret
from ci_evals.providers.base import ProviderOptions
from ci_evals.providers.pricing import price_problem
from ci_evals.providers.python import Function, Python
from ci_evals.registry import PROVIDERS
from ci_evals.suite.environment import Interpolation
from ci_evals.suite.keys import keys_of
from ci_evals.suite.problems import Written, check, is_object, resolve_texts, unknown
from ci_evals.suite.sweeps import Sweeps

_EXPECTED = "expected a provider, a function, or an object with a method `answer`"


class ProviderReader:
    """Reads the entries of one list of providers.

    Afterwards `names` has all of them, selected or not, and `entries` and `by_name` are what these
    stand for; `knows_names` is False if one of them is a guess; `places` has the place of what each
    provider or stage opens.

    Args:
        folder: where relative paths start.
        problems: gets every problem.
        interpolation: fills in variables of the environment.
    """

    def __init__(self, folder: Path, problems: list[Problem], interpolation: Interpolation) -> None:
        self.folder = folder
        self.problems = problems
        self.interpolation = interpolation
        self.names: list[str] = []
        self.entries: dict[str, Written] = {}
        self.by_name: dict[str, ProviderOptions] = {}
        self.places: dict[str, Place] = {}
        self.knows_names = False
        self._users: set[str] = set()

    def read(
        self, written: Written, selected: Sequence[str] | None = None, sweeps: Sweeps | None = None
    ) -> tuple[ProviderOptions, ...]:
        """Return the selected providers, or all of them; those that are left out need not be
        complete.
        """
        if not isinstance(written.value, list | tuple) or not written.value:
            self.problems.append(written.problem("expected a list with at least one provider"))
            return ()
        found: dict[str, ProviderOptions] = {}
        nameless: list[Problem] = []
        self.knows_names = True
        entries = list(written.items())
        if sweeps is not None and sweeps.sweeps:
            entries = sweeps.expand(entries, [self._name(entry) for entry in entries])
            selected = selected and sweeps.expand_names(selected)
        for entry in entries:
            before = len(self.problems)
            provider = self.read_entry(entry)
            name = str(provider.name) if provider else _guess_name(entry.value)
            self.names.append(name)
            self.entries.setdefault(name, entry)
            if provider:
                self.by_name[name] = provider
            is_guess = provider is None and not (
                isinstance(entry.value, dict) and entry.value.get("name")
            )
            self.knows_names &= not is_guess
            if selected is not None and name not in selected:
                if is_guess:
                    nameless += self.problems[before:]
                del self.problems[before:]
            elif name in found:
                self.problems.append(
                    entry.problem(f"a second provider called {name!r}: give one of them a `name`")
                )
            elif provider is not None:
                found[name] = provider
        if selected is not None:
            self._check_selection(selected, nameless, written)
        return tuple(found.values())

    def read_user(self, written: Written) -> ProviderOptions | None:
        """Return the provider that plays a user: one of the suite's by name, selected or not, or
        one of its own.
        """
        given = written.value
        if not isinstance(given, str):
            return self.read_entry(written)
        if given not in self.names:
            self.problems.append(written.problem(unknown("provider", given, self.names)))
        elif given not in self._users:
            self._users.add(given)
            self.read_entry(self.entries[given])  # for what is wrong with one that was not selected
        return self.by_name.get(given)

    def read_entry(self, written: Written) -> ProviderOptions | None:
        """Check one provider; None if it is so wrong that it has no name."""
        filled = written if is_object(written.value) else self.interpolation.fill(written)
        options = (
            self._read_object(filled) if is_object(filled.value) else self._read_mapping(filled)
        )
        named = options and self._add_name(options, written)
        if named is None:
            return None
        target = filled["target"] if "target" in filled else filled  # noqa: SIM401  no dict: it has places
        self.places.setdefault(str(named.name), target.place)
        for key in ("before", "after"):
            for index, name in enumerate(getattr(named, key)):
                self.places.setdefault(name, filled[key][index].place)
        return named

    def _read_mapping(self, written: Written) -> ProviderOptions | None:
        kind = written.value.get("type") if isinstance(written.value, Mapping) else None
        if kind is None:
            expected = f"expected a mapping with a `type`: {', '.join(PROVIDERS)}"
            name, _, model = (
                written.value.partition(":") if isinstance(written.value, str) else ("", "", "")
            )
            if name in PROVIDERS and model and "model" in keys_of(PROVIDERS[name]):
                expected = f"expected a mapping: write `{{type: {name}, model: {model}}}`"
            if written.in_code and not isinstance(written.value, Mapping):
                expected = f"{_EXPECTED}, got {written.value!r:.80}"
            self.problems.append(written.problem(expected))
            return None
        try:
            cls = PROVIDERS.get(kind) if isinstance(kind, str) else None
        except PluginError as error:
            self.problems.append(written["type"].problem(str(error)))
            return None
        if cls is None:
            self.problems.append(
                written["type"].problem(
                    unknown(
                        "provider type", kind if isinstance(kind, str) else str(kind), PROVIDERS
                    )
                )
            )
            return None
        return resolve_texts(check(cls, written, self.problems, unread=("type",)))  # type: ignore[no-any-return]

    def _read_object(self, written: Written) -> ProviderOptions | None:
        given = written.value
        if not isinstance(given, ProviderOptions):
            if not callable(given) and not callable(getattr(given, "answer", None)):
                self.problems.append(written.problem(f"{_EXPECTED}, got a {type(given).__name__}"))
                return None
            given = Function.of(given)
        for key in ("before", "after"):
            stages = getattr(given, key)
            if is_object(stages) or (
                isinstance(stages, list | tuple) and any(map(is_object, stages))
            ):
                text = f"stages go by name, which the cache needs: {key}=['module:function'], or the name of a provider"
                self.problems.append(written[key].problem(text))
                return None
        return check(type(given), written.having(given), self.problems)

    def _add_name(self, options: ProviderOptions, written: Written) -> ProviderOptions | None:
        """Return the options with a name and a key; None if they cannot be named."""
        self.problems += map(written.problem, options.problems(self.folder))
        if options.serve:
            self.problems += map(written["serve"].problem, options.serve.problems(self.folder))
        if wrong := price_problem(options):
            self.problems.append(written["price"].problem(wrong))
        if (token := getattr(options, "token", None)) and not self.interpolation.offline:
            self.problems += map(written["token"].problem, token.problems(self.folder))
        try:
            name = options.name or options.default_name
        except ValueError:
            return None  # what cannot be named is among the problems above
        if options.name and "," in options.name:
            text = f"the name {name!r} has a comma, which stands between names in --providers: give it another `name`"
            self.problems.append(written.problem(text))
        return replace(self._add_key(options, written), name=name)

    def _add_key(self, options: ProviderOptions, written: Written) -> ProviderOptions:
        """Fill in the vendor's usual key variable where the config names none."""
        variable = options.key_variable
        if variable is None or self.interpolation.offline:
            return options
        value = self.interpolation.environ.get(variable)
        if not value:
            text = f"no key: set the variable {variable} (export it, or write it into {self.folder / '.env'})"
            self.problems.append(written["api_key"].problem(text))
            return options
        self.interpolation.named[variable] = value
        return replace(options, api_key=Secret(value, variable))  # type: ignore[call-arg]  # all that have a variable

    def _name(self, written: Written) -> str:
        """Return the name of an entry, whatever else is wrong with it."""
        before = len(self.problems)
        provider = self.read_entry(written)
        del self.problems[before:]
        return str(provider.name) if provider else _guess_name(written.value)

    def _check_selection(
        self, selected: Sequence[str], nameless: list[Problem], written: Written
    ) -> None:
        option = Written(None, written.lines, written.file, "--providers")
        if not selected:
            self.problems.append(option.problem(f"none is named; known: {', '.join(self.names)}"))
        strangers = [name for name in selected if name not in self.names]
        self.problems += [
            option.problem(unknown("provider", name, self.names)) for name in strangers
        ]
        if strangers:  # one of those without a name may be meant
            self.problems.extend(nameless)


def _guess_name(entry: Any) -> str:
    """Return a name for a provider that is wrong, to tell if it was selected."""
    if not isinstance(entry, dict):
        return "?"
    model = entry.get("model")
    return str(
        entry.get("name") or (f"{entry.get('type')}:{model}" if model else entry.get("type"))
    )


def stage_options(
    providers: Sequence[ProviderOptions], known: Mapping[str, ProviderOptions]
) -> Mapping[str, ProviderOptions]:
    """Return the provider for each stage that others name; `known` are the suite's providers,
    selected or not.
    """
    names = dict.fromkeys(name for each in providers for name in (*each.before, *each.after))
    if not names:
        return {}
    plain = {name: replace(options, before=(), after=()) for name, options in known.items()}
    return {name: plain.get(name) or Python(name=name, target=name) for name in names}
