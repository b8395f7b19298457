"""Entries of `providers` and `judges` into options: those that were selected, with their keys."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from ci_evals.errors import Place, Problem
from ci_evals.graders.base import AskingOptions
from ci_evals.graders.scoring import asker
from ci_evals.model.case import Case
from ci_evals.model.fields import Secret
from ci_evals.providers import PROVIDERS
from ci_evals.providers.base import ProviderOptions
from ci_evals.providers.python import Function, Python
from ci_evals.suite.environment import Interpolation
from ci_evals.suite.problems import Written, check, is_object, keys_of, settle, unknown
from ci_evals.suite.types import Sweep
from ci_evals.suite.yaml import Lines

MAX_POINTS = 1000


class ProviderReader:
    """Reads the entries of one list of providers.

    Afterwards `names` has all of them, selected or not, `entries` and `by_name` what each of these is, `knows_names` is
    whether none of those is a guess, and `places` says where what a provider or stage stands for is written.

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

    def read(
        self, written: Written, selected: Sequence[str] | None = None, sweeps: "Sweeps | None" = None
    ) -> tuple[ProviderOptions, ...]:
        """Return the selected providers, or all of them; those that are left out need not be complete."""
        if not isinstance(written.value, list | tuple) or not written.value:
            self.problems.append(written.problem("expected a list with at least one provider"))
            return ()
        found: dict[str, ProviderOptions] = {}
        nameless: list[Problem] = []
        self.knows_names = True
        entries = list(written.items())
        if sweeps is not None:
            entries = sweeps.applied(entries, self._name)
            selected = selected and sweeps.selected(selected)
        for entry in entries:
            before = len(self.problems)
            provider = self.entry(entry)
            name = str(provider.name) if provider else _guess_name(entry.value)
            self.names.append(name)
            self.entries.setdefault(name, entry)
            if provider:
                self.by_name[name] = provider
            is_guess = provider is None and not (isinstance(entry.value, dict) and entry.value.get("name"))
            self.knows_names &= not is_guess
            if selected is not None and name not in selected:
                if is_guess:
                    nameless += self.problems[before:]
                del self.problems[before:]
            elif name in found:
                self.problems.append(entry.problem(f"a second provider called {name!r}: give one of them a `name`"))
            elif provider is not None:
                found[name] = provider
        if selected is not None:
            self._check_selection(selected, nameless, written)
        return tuple(found.values())

    def player(self, written: Written) -> ProviderOptions | None:
        """Return the provider that plays a user: one of the suite's by name, selected or not, or one of its own."""
        given = written.value
        if not isinstance(given, str):
            return self.entry(written)
        found = self.by_name.get(given)
        if found is None and given not in self.names:
            self.problems.append(written.problem(unknown("provider", given, self.names)))
        return found

    def entry(self, written: Written) -> ProviderOptions | None:
        """Check one provider; None if it is so wrong that it has no name."""
        filled = written if is_object(written.value) else self.interpolation.fill(written)
        options = self._of_object(filled) if is_object(filled.value) else self._of_mapping(filled)
        named = options and self._named(options, written)
        if named is None:
            return None
        target = filled["target"] if "target" in filled else filled  # noqa: SIM401  no dict: it has places
        self.places.setdefault(str(named.name), target.place)
        for key in ("before", "after"):
            for index, name in enumerate(getattr(named, key)):
                self.places.setdefault(name, filled[key][index].place)
        return named

    def _of_mapping(self, written: Written) -> ProviderOptions | None:
        kind = written.value.get("type") if isinstance(written.value, Mapping) else None
        if kind is None:
            self.problems.append(written.problem(f"expected a mapping with a `type`: {', '.join(PROVIDERS)}"))
            return None
        cls = PROVIDERS.get(kind) if isinstance(kind, str) else None
        if cls is None:
            self.problems.append(written["type"].problem(unknown("provider type", str(kind), PROVIDERS)))
            return None
        return settle(check(cls, written, self.problems, unread=("type",)))  # type: ignore[no-any-return]

    def _of_object(self, written: Written) -> ProviderOptions | None:
        given = written.value
        if not isinstance(given, ProviderOptions):
            if not callable(given) and not callable(getattr(given, "answer", None)):
                what = f"got a {type(given).__name__}"
                text = f"expected a provider, a function, or an object with a method `answer`, {what}"
                self.problems.append(written.problem(text))
                return None
            given = Function.of(given)
        return check(type(given), written.having(given), self.problems)

    def _named(self, options: ProviderOptions, written: Written) -> ProviderOptions | None:
        """The options with a name and a key; None if they cannot be named."""
        self.problems += map(written.problem, options.problems(self.folder))
        try:
            name = options.name or options.default_name
        except ValueError:
            return None  # what cannot be named is among the problems above
        if options.name and "," in options.name:
            text = f"the name {name!r} has a comma, which stands between names in --providers: give it another `name`"
            self.problems.append(written.problem(text))
        return replace(self._with_key(options, written), name=name)

    def _with_key(self, options: ProviderOptions, written: Written) -> ProviderOptions:
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
        """What an entry is called, whatever else is wrong with it."""
        before = len(self.problems)
        provider = self.entry(written)
        del self.problems[before:]
        return str(provider.name) if provider else _guess_name(written.value)

    def _check_selection(self, selected: Sequence[str], nameless: list[Problem], written: Written) -> None:
        option = Written(None, written.lines, written.file, "--providers")
        if not selected:
            self.problems.append(option.problem(f"none is named; known: {', '.join(self.names)}"))
        strangers = [name for name in selected if name not in self.names]
        self.problems += [option.problem(unknown("provider", name, self.names)) for name in strangers]
        if strangers:  # one of those without a name may be meant
            self.problems.extend(nameless)


def _guess_name(entry: Any) -> str:
    """A name for a provider that is wrong, to tell whether it was selected."""
    if not isinstance(entry, dict):
        return "?"
    model = entry.get("model")
    return str(entry.get("name") or (f"{entry.get('type')}:{model}" if model else entry.get("type")))


class Sweeps:
    """The sweeps of a suite: `variants` in the file.

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

    def applied(self, entries: Sequence[Written], name_of: Callable[[Written], str]) -> list[Written]:
        """Return the entries of `providers` with those that are swept replaced by what the sweeps make of them."""
        if not self.sweeps:
            return list(entries)
        names = [name_of(entry) for entry in entries]
        for index, sweep in enumerate(self.sweeps):
            if sweep.provider not in names:
                text = unknown("provider", sweep.provider, names)
                self.problems.append(self.written[index]["provider"].problem(text))
        return [point for entry, name in zip(entries, names, strict=True) for point in self._points(entry, name)]

    def selected(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return a selection of providers, in which the name of a swept one stands for all that became of it."""
        return tuple(each for name in names for each in self._names.get(name, [name]))

    def _points(self, entry: Written, name: str) -> list[Written]:
        sweeps = [(index, sweep) for index, sweep in enumerate(self.sweeps) if sweep.provider == name]
        if not sweeps:
            return [entry]
        if not isinstance(entry.value, dict):
            text = f"{name} is an object: write this provider as the mapping of the YAML, or each variant by itself"
            self.problems += [self.written[index]["provider"].problem(text) for index, _ in sweeps]
            return [entry]
        points = [point for index, sweep in sweeps for point in self._of(sweep, entry, name, self.written[index])]
        self._names[name] = [point.value["name"] for point in points]
        return points

    def _of(self, sweep: Sweep, entry: Written, name: str, written: Written) -> Iterator[Written]:
        grid = written["grid"]
        before = len(self.problems)
        places = {key: self._place(key, entry, grid) for key in sweep.grid}
        if prod(map(len, sweep.grid.values())) > MAX_POINTS:
            self.problems.append(grid.problem(f"more than {MAX_POINTS} variants: leave out some values"))
        if len(self.problems) > before:
            return
        for values in product(*sweep.grid.values()):
            point = entry
            for key, value in zip(sweep.grid, values, strict=True):
                point = _with(point, places[key], value, grid[key].line)
            settings = zip(sweep.grid, values, strict=True)
            label = " ".join(f"{places[key][-1]}={_shown(value, sweep.grid[key])}" for key, value in settings)
            yield _with(point, ("name",), f"{name} {label}", entry["name"].line)

    def _place(self, key: str, entry: Written, grid: Written) -> tuple[str, ...]:
        """Where a key of the grid belongs: a setting of the provider, or one of its `params`."""
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


def _with(written: Written, place: Sequence[str], value: Any, line: int | None) -> Written:
    """A copy of a mapping with one value, at a place inside, set; that value stands in another line."""
    first, *rest = place
    inner = _with(written[first], rest, value, line) if rest else Written(value, Lines(line), written.file)
    mapping = {**(written.value if isinstance(written.value, Mapping) else {}), first: inner.value}
    lines = Lines(written.lines.line, {**written.lines.inside, first: Lines(line, inner.lines.inside)})
    return Written(mapping, lines, written.file, written.path)


def _shown(value: Any, values: Sequence[Any]) -> str:
    """A value as part of a name: no comma, which stands between names; a list or mapping by its number."""
    if isinstance(value, Mapping | list):
        return f"#{values.index(value) + 1}"
    text = str(value)
    return (text.lower() if isinstance(value, bool) else "null" if value is None else text).replace(",", ";")


def stage_options(
    providers: Sequence[ProviderOptions], known: Mapping[str, ProviderOptions]
) -> Mapping[str, ProviderOptions]:
    """What answers for each stage that the providers name; `known` are the suite's providers, selected or not."""
    names = dict.fromkeys(name for each in providers for name in (*each.before, *each.after))
    if not names:
        return {}

    plain = {name: replace(options, before=(), after=()) for name, options in known.items()}
    return {name: plain.get(name) or Python(name=name, target=name) for name in names}


def stage_problems(
    stages: Mapping[str, ProviderOptions], providers: Sequence[str], places: Mapping[str, Place], folder: Path
) -> Iterator[Problem]:
    """Stages that are neither a provider nor a function that can be there; `providers` are the names of all."""
    for name, stage in stages.items():
        if getattr(stage, "target", None) != name:
            continue
        if ":" in name:
            yield from (Problem(*places[name], message) for message in stage.problems(folder))
        else:
            text = unknown("provider", name, providers)
            yield Problem(*places[name], f"{text}; or name a function, as in speech:synthesize")


def askers(cases: Iterable[Case]) -> list[tuple[AskingOptions, Place]]:
    """A grader for each way of naming a model, with the place of the first one."""
    found: dict[tuple[str | None, bool], tuple[AskingOptions, Place]] = {}
    for case in cases:
        for expectation in case.expect:
            if (grader := asker(expectation.grader)) is not None:
                place = expectation.place or Place(case.file, case.line, "expect")
                found.setdefault((grader.provider, grader.embeds), (grader, place))
    return list(found.values())


def unanswerable(
    grader: AskingOptions, judges: Sequence[ProviderOptions], models: Sequence[ProviderOptions]
) -> str | None:
    """Why a grader has no model to ask, or None.

    Args:
        grader: what asks.
        judges: the models among which the only one need not be named.
        models: all that may be named.
    """
    kind = "an `embeddings` model" if grader.embeds else "a model that answers with text"
    if grader.provider is None:
        fitting = [str(judge.name) for judge in judges if judge.embeds == grader.embeds]
        if len(fitting) == 1:
            return None
        if fitting:
            return f"name one of the judges with `provider`: {', '.join(fitting)}"
        return f"needs {kind}: add one to `judges`, or name one of the providers with `provider`"
    named = next((model for model in models if model.name == grader.provider), None)
    if named is None:
        return unknown("judge", grader.provider, [str(model.name) for model in models])
    return None if named.embeds == grader.embeds else f"needs {kind}, and {grader.provider} is none"
