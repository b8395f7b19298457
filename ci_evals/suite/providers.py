"""Reads the entries of `providers` and `judges`, with their keys, names and grids."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from ci_evals.errors import Place, PluginError, Problem
from ci_evals.format import closest
from ci_evals.model.fields import Secret
from ci_evals.providers.base import PROVIDERS, ProviderOptions
from ci_evals.providers.pricing import price_problem
from ci_evals.suite.environment import Interpolation
from ci_evals.suite.keys import keys_of
from ci_evals.suite.nodes import Node, Reading, collect
from ci_evals.suite.problems import check, is_object, resolve_texts, unknown
from ci_evals.suite.types import Grid
from ci_evals.suite.yaml import Lines
from ci_evals.user_code.targets import missing_target, target_parts

MAX_POINTS = 1000  # of a grid
_SURELY = 0.75  # similarity at which `opnai:gpt` is no module
_EXPECTED = "expected a provider, a function, or an object with a method `answer`"


@dataclass(frozen=True, slots=True)
class ProviderEntry:
    """One entry of a list of providers.

    Args:
        node: the entry as it is written.
        options: its options, with a name; None if they cannot be read or named.
        problems: its problems.
        places: its place and those of its stages, by name.
    """

    node: Node
    options: ProviderOptions | None
    problems: Sequence[Problem]
    places: Mapping[str, Place]

    @property
    def name(self) -> str:
        """Its name; a guess if it is invalid."""
        if self.options is not None:
            return str(self.options.name)
        return _guess_name(self.node.value)


def _guess_name(entry: Any) -> str:
    if isinstance(entry, str):
        return entry
    if not isinstance(entry, dict):
        return "?"
    if entry.get("name"):
        return str(entry["name"])
    if entry.get("model"):
        return f"{entry.get('type')}:{entry['model']}"
    return str(entry.get("type"))


@dataclass(frozen=True)
class ProviderList:
    """The entries of `providers` or `judges`, of which some are selected to run.

    Args:
        node: the list as it is written.
        entries: all entries, selected or not.
        selection: the names of the selected entries; None for all.
    """

    node: Node
    entries: Sequence[ProviderEntry] = ()
    selection: Sequence[str] | None = None

    @cached_property
    def names(self) -> Sequence[str]:
        """The names of all entries."""
        return [entry.name for entry in self.entries]

    @cached_property
    def by_name(self) -> Mapping[str, ProviderOptions]:
        """The options of every readable entry, selected or not."""
        return {entry.name: entry.options for entry in self.entries if entry.options is not None}

    @cached_property
    def selected(self) -> tuple[ProviderOptions, ...]:
        """The selected providers; of several with the same name, the first one."""
        chosen: dict[str, ProviderOptions] = {}
        for entry in self.entries:
            if entry.options is not None and self.is_selected(entry.name):
                chosen.setdefault(entry.name, entry.options)
        return tuple(chosen.values())

    @cached_property
    def places(self) -> Mapping[str, Place]:
        """The places of providers and stages, by name."""
        places: dict[str, Place] = {}
        for entry in self.entries:
            for name, place in entry.places.items():
                places.setdefault(name, place)
        return places

    def is_selected(self, name: str) -> bool:
        return self.selection is None or name in self.selection

    def find(self, name: str) -> ProviderEntry:
        """Return the first entry of a name.

        Raises:
            KeyError: there is no such entry.
        """
        for entry in self.entries:
            if entry.name == name:
                return entry
        raise KeyError(name)

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of the selected entries and of the selection.

        Entries that are not selected may be incomplete.
        """
        seen: set[str] = set()
        for entry in self.entries:
            if not self.is_selected(entry.name):
                continue
            yield from entry.problems
            if entry.name in seen:
                text = f"a second provider called {entry.name!r}: give one of them a `name`"
                yield entry.node.problem(text)
            elif entry.options is not None:
                seen.add(entry.name)
        if self.selection is not None:
            yield from self._check_selection(self.selection)

    def _check_selection(self, selection: Sequence[str]) -> Iterator[Problem]:
        option = Node(None, self.node.lines, self.node.file, "--providers")
        if not selection:
            yield option.problem(f"none is named; known: {', '.join(self.names)}")
        strangers = [name for name in selection if name not in self.names]
        for name in strangers:
            yield option.problem(unknown("provider", name, self.names))
        if not strangers:
            return
        # The name of an invalid entry is a guess, so an unknown name may mean such an entry.
        for entry in self.entries:
            if entry.options is None and not self.is_selected(entry.name):
                yield from entry.problems


@dataclass(frozen=True, slots=True)
class ProviderReader:
    """Reads providers.

    Args:
        folder: where relative paths start.
        interpolation: fills in variables of the environment.
    """

    folder: Path
    interpolation: Interpolation

    def read_list(
        self, node: Node, selection: Sequence[str] | None = None
    ) -> Reading[ProviderList]:
        """Read the entries of a list, each with its own problems.

        Args:
            node: the list.
            selection: the names of the providers that are selected to run; None for all.
        """
        if not isinstance(node.value, list | tuple) or not node.value:
            yield node.problem("expected a list with at least one provider")
            return ProviderList(node)
        entries: list[ProviderEntry] = []
        variants: dict[str, Sequence[str]] = {}
        for written in node.items():
            if "grid" not in written:
                entries.append(self.read_entry(written))
                continue
            entry = self.read_entry(_without_grid(written))
            points = yield from self._read_grid(entry, written["grid"])
            of_grid = [self.read_entry(point) for point in points]
            variants[entry.name] = [each.name for each in of_grid]
            entries += of_grid
        if selection is not None:
            selection = _expand_names(selection, variants)
        return ProviderList(node, entries, selection)

    def _read_grid(self, entry: ProviderEntry, node: Node) -> Reading[Sequence[Node]]:
        """Return the nodes of a provider's variants; the provider itself if its grid is wrong."""
        node = yield from self.interpolation.fill(node)
        grid = yield from check(Grid, node)
        if grid is None:
            return [entry.node]
        return (yield from _expand_grid(entry, resolve_texts(grid), node))

    def read_entry(self, node: Node) -> ProviderEntry:
        """Read one provider."""
        node = self._expand_short(node)
        (options, places), problems = collect(self._read(node))
        return ProviderEntry(node, options, problems, places)

    def _expand_short(self, node: Node) -> Node:
        """Return the mapping that a short form means: a URL, `openai:gpt-4o-mini`, `agent:answer`.

        A type of a model API wins over a module of the same name; anything else stays as it is.
        """
        text = node.value
        if not isinstance(text, str):
            return node
        if text.startswith(("http://", "https://")):
            return node.with_value({"type": "http", "url": text})
        if text in PROVIDERS:
            return node.with_value({"type": text})
        kind, _, model = text.partition(":")
        if model and _calls_model(kind):
            return node.with_value({"type": kind, "model": model})
        if target_parts(text) is None:
            return node
        if missing_target(text, self.folder) is not None and _is_like_type(kind):
            return node
        return node.with_value({"type": "python", "target": text})

    def _read(self, node: Node) -> Reading[tuple[ProviderOptions | None, Mapping[str, Place]]]:
        if is_object(node.value):
            options = yield from self._read_object(node)
        else:
            node = yield from self.interpolation.fill(node)
            options = yield from self._read_mapping(node)
        if options is not None:
            options = yield from self._add_name(options, node)
        if options is None:
            return None, {}
        places = {str(options.name): node.place}
        if "target" in node:
            places = {str(options.name): node["target"].place}
        for key in ("before", "after"):
            for index, name in enumerate(getattr(options, key)):
                places.setdefault(name, node[key][index].place)
        return options, places

    def _read_mapping(self, node: Node) -> Reading[ProviderOptions | None]:
        kind = node["type"].value
        if not isinstance(node.value, Mapping) or kind is None:
            yield node.problem(_describe_provider(node))
            return None
        if lack := PROVIDERS.missing_clause(kind):
            yield node["type"].problem(f"provider type {kind!r} {lack}")
            return None
        if not isinstance(kind, str) or kind not in PROVIDERS:
            yield node["type"].problem(unknown("provider type", _as_text(kind), PROVIDERS))
            return None
        try:
            cls = PROVIDERS[kind]
        except PluginError as error:
            yield node["type"].problem(str(error))._replace(cause=str(error))
            return None
        options = yield from check(cls, node, unread=("type",))
        if options is None:
            return None
        return resolve_texts(options)  # type: ignore[no-any-return]

    def _read_object(self, node: Node) -> Reading[ProviderOptions | None]:
        options = node.value
        if not isinstance(options, ProviderOptions):
            from ci_evals.providers.python import Function

            if not callable(options) and not callable(getattr(options, "answer", None)):
                yield node.problem(f"{_EXPECTED}, got a {type(options).__name__}")
                return None
            options = Function.of(options)
        for key in ("before", "after"):
            stages = getattr(options, key)
            if not isinstance(stages, list | tuple):
                stages = [stages]
            if any(map(is_object, stages)):
                names = "'module:function', 'module:object.method' or the name of a provider"
                text = (
                    f"stages are given by name, which the cache needs: write {key}=[…] with {names}"
                )
                yield node[key].problem(text)
                return None
        return (yield from check(type(options), node.with_value(options)))

    def _add_name(self, options: ProviderOptions, node: Node) -> Reading[ProviderOptions | None]:
        """Return the options with a name and a key; None if they cannot be named."""
        yield from map(node.problem, options.problems(self.folder))
        if options.serve:
            yield from map(node["serve"].problem, options.serve.problems(self.folder))
        wrong_price = price_problem(options)
        if wrong_price:
            yield node["price"].problem(wrong_price)
        token = getattr(options, "token", None)
        if token and not self.interpolation.offline:
            yield from map(node["token"].problem, token.problems(self.folder))
        try:
            name = options.name or options.default_name
        except ValueError:
            return None  # the value that it would be named after is one of the problems above
        if options.name and "," in options.name:
            yield node.problem(
                f"the name {name!r} has a comma, which separates names in --providers:"
                " give it another `name`"
            )
        options = yield from self._add_key(options, node)
        return replace(options, name=name)

    def _add_key(self, options: ProviderOptions, node: Node) -> Reading[ProviderOptions]:
        """Fill in the vendor's usual key variable where the config names none."""
        variable = options.key_variable
        if variable is None or self.interpolation.offline:
            return options
        value = self.interpolation.environ.get(variable)
        if not value:
            where = self.folder / ".env"
            text = f"no key: set the variable {variable} (export it, or write it into {where})"
            yield node["api_key"].problem(text)._replace(cause=variable)
            return options
        self.interpolation.used[variable] = value
        return replace(options, api_key=Secret(value, variable))  # type: ignore[call-arg]  # every provider with a key variable has the field


def _as_text(kind: Any) -> str:
    if isinstance(kind, str):
        return kind  # not `str(kind)`: an `Interpolated` is not shown in messages
    return str(kind)


def _describe_provider(node: Node) -> str:
    """Return the problem of an entry that is not a provider."""
    if node.in_code and not isinstance(node.value, Mapping):
        return f"{_EXPECTED}, got {node.value!r:.80}"
    if isinstance(node.value, str):
        kind, colon, _ = node.value.partition(":")
        if kind in PROVIDERS:
            return f"expected a mapping: write `{{type: {kind}, …}}`"
        if colon or _is_like_type(kind):
            return unknown("provider type", kind, PROVIDERS)
    forms = "`openai:gpt-4o-mini`, `agent:answer`, a URL, or a mapping with a `type`"
    return f"expected {forms}: {', '.join(PROVIDERS)}"


def _is_like_type(name: str) -> bool:
    """Return True for a misspelt type, and for a vendor's name that is no type."""
    if closest(name, PROVIDERS, cutoff=_SURELY) is not None:
        return True
    from ci_evals.suite.spellings import translate_name

    hint = translate_name("provider type", name, PROVIDERS)
    return hint is not None and not hint.keys


def _calls_model(kind: str) -> bool:
    """Return True for a type of provider that has a `model`, even if its plug-in is missing."""
    if kind in PROVIDERS.missing:
        return True
    if kind not in PROVIDERS or PROVIDERS.problem(kind) is not None:
        return False
    return "model" in keys_of(PROVIDERS[kind])


def stage_options(
    named_by: Sequence[ProviderOptions], known: Mapping[str, ProviderOptions]
) -> Mapping[str, ProviderOptions]:
    """Return the provider of each stage that others name.

    Args:
        named_by: the providers that name stages.
        known: the suite's providers, selected or not; other names are functions.
    """
    stages: dict[str, ProviderOptions] = {}
    for provider in named_by:
        for name in (*provider.before, *provider.after):
            if name in known:
                # A provider in the role of a stage has no stages: they could form a circle.
                stages[name] = replace(known[name], before=(), after=())
            else:
                from ci_evals.providers.python import Python

                stages[name] = Python(name=name, target=name)
    return stages


# A grid: an entry of `providers` with every combination of some settings.


def _without_grid(node: Node) -> Node:
    return node.with_value({key: value for key, value in node.value.items() if key != "grid"})


def _expand_names(names: Sequence[str], variants: Mapping[str, Sequence[str]]) -> list[str]:
    """Replace the name of each provider that has a grid by the names of its variants."""
    expanded: list[str] = []
    for name in names:
        expanded += variants.get(name, [name])
    return expanded


def _expand_grid(
    entry: ProviderEntry, grid: Mapping[str, Sequence[Any]], node: Node
) -> Reading[list[Node]]:
    """Return a provider with every combination of the grid's values.

    Args:
        entry: the provider without its grid.
        grid: the values by the key of a setting.
        node: the grid as it is written.
    """
    places: dict[str, tuple[str, ...]] = {}
    for key in grid:
        place = _place_in_provider(key, entry.node)
        if place is None:
            cls = PROVIDERS[entry.node.value["type"]]
            text = unknown("setting", key.partition(".")[0], sorted(keys_of(cls)))
            yield Problem(node.file, node[key].line, node.path, text)
        else:
            places[key] = place
    if prod(map(len, grid.values())) > MAX_POINTS:
        yield node.problem(f"more than {MAX_POINTS} variants: leave out some values")
        return []
    if len(places) < len(grid):
        return []
    points = []
    for values in product(*grid.values()):
        point = entry.node
        labels = [entry.name]
        for key, value in zip(grid, values, strict=True):
            point = _set(point, places[key], value, node[key].line)
            labels.append(f"{places[key][-1]}={_label(value, grid[key])}")
        points.append(_set(point, ("name",), " ".join(labels), entry.node["name"].line))
    return points


def _place_in_provider(key: str, node: Node) -> tuple[str, ...] | None:
    """Return the place of a key of the grid: a setting of the provider, or one of its `params`.

    None if the provider has neither.
    """
    path = tuple(key.split("."))
    kind = node.value.get("type")
    if not isinstance(kind, str) or kind not in PROVIDERS:
        return path  # the entry itself reports the wrong type
    keys = keys_of(PROVIDERS[kind])
    if path[0] in keys and path[0] != "name":
        return path
    if "params" in keys:
        return ("params", *path)
    return None


def _set(node: Node, place: Sequence[str], value: Any, line: int | None) -> Node:
    """Return a copy of a mapping with a nested value set, which is written on another line."""
    first, *rest = place
    if rest:
        inner = _set(node[first], rest, value, line)
    else:
        inner = Node(value, Lines(line), node.file)
    mapping: dict[str, Any] = {}
    if isinstance(node.value, Mapping):
        mapping.update(node.value)
    mapping[first] = inner.value
    inside = {**node.lines.inside, first: Lines(line, inner.lines.inside)}
    return Node(mapping, Lines(node.lines.line, inside), node.file, node.path)


def _label(value: Any, values: Sequence[Any]) -> str:
    """Return a value as part of a name, without commas; a list or mapping as its number."""
    if isinstance(value, Mapping | list):
        return f"#{values.index(value) + 1}"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value).replace(",", ";")
