"""From a config file to a `Suite`: parse, fill in the environment, decode, check. Reports every problem at once."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from ci_evals.config.cases import CaseReader
from ci_evals.config.decode import Decoder, unknown
from ci_evals.config.environment import Interpolation, read_environment
from ci_evals.config.file_types import PromptEntry, SuiteEntry
from ci_evals.config.source import Map, line_of, parse, read_text
from ci_evals.errors import ConfigError, Problem, UsageError
from ci_evals.model import Case, Gate, Prompt
from ci_evals.providers import PROVIDERS
from ci_evals.providers.base import ProviderOptions, Secret
from ci_evals.providers.mock import Mock
from ci_evals.suite import Suite, Templates

T = TypeVar("T")
DEFAULT_NAMES = ("evals.yaml", "evals.yml", "evals.json")


class Overrides(Struct, frozen=True, kw_only=True):
    """What the command line or the environment puts in place of the file's values; None leaves them."""

    runs: int | None = None
    max_concurrency: int | None = None
    timeout_s: float | None = None
    retries: int | None = None
    seed: int | None = None
    out: Path | None = None
    providers: tuple[str, ...] | None = None


def find_config(folder: Path) -> Path:
    """The config of a project: `evals.yaml` in the folder or its `.github/`.

    Raises:
        UsageError: there is none.
    """
    for candidate in (folder / place / name for place in ("", ".github") for name in DEFAULT_NAMES):
        if candidate.is_file():
            return candidate
    raise UsageError(
        f"no evals.yaml in {folder} or its .github folder: name one with --config, or start with `ci-evals init`"
    )


def load_suite(path: Path, environ: Mapping[str, str], overrides: Overrides | None = None) -> Suite:
    """Read, decode and check a config.

    Args:
        path: the config file.
        environ: the environment; a `.env` file beside the config adds to it.
        overrides: values that win over the file's.

    Raises:
        ConfigError: with every problem of the file, its datasets and its environment.
    """
    file = path.as_posix()
    root = parse(read_text(path, file), file)
    if not isinstance(root, Map):
        raise ConfigError([Problem(file, 1, "", "expected a mapping with the keys `providers` and `cases`")])
    return _Loader(file, path.resolve().parent, environ).load(root, overrides or Overrides())


def load_mock(path: Path, environ: Mapping[str, str]) -> Mock:
    """The first `mock` provider of a config; the rest of the file need not be complete.

    Raises:
        ConfigError: there is none, or it is wrong.
    """
    file = path.as_posix()
    root = parse(read_text(path, file), file)
    entries = root.get("providers") if isinstance(root, Map) else None
    loader = _Loader(file, path.resolve().parent, environ)
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        if isinstance(entry, dict) and entry.get("type") == "mock":
            provider = loader.provider(entry, f"providers[{index}]", line_of(entries, index))
            if isinstance(provider, Mock) and not loader.problems:
                return provider
    raise ConfigError(loader.problems or [Problem(file, line_of(root, "providers"), "providers", "none is a `mock`")])


def overridden(suite: Suite, overrides: Overrides) -> Suite:
    """A loaded suite with some values replaced.

    Raises:
        UsageError: a provider is named that the suite does not have.
    """
    changes = {
        name: value
        for name in ("runs", "max_concurrency", "timeout_s", "retries", "seed", "out")
        if (value := getattr(overrides, name)) is not None
    }
    if overrides.providers is not None:
        names = [str(provider.name) for provider in suite.providers]
        for name in overrides.providers:
            if name not in names:
                raise UsageError(unknown("provider", name, names))
        changes["providers"] = tuple(each for each in suite.providers if each.name in overrides.providers)
    return msgspec.structs.replace(suite, **changes)


class _Loader:
    """One pass over one config."""

    def __init__(self, file: str, folder: Path, environ: Mapping[str, str]) -> None:
        self.file = file
        self.folder = folder
        self.environ = read_environment(folder, environ)
        self.problems: list[Problem] = []
        self.decoder = Decoder(file, self.problems)
        self.interpolation = Interpolation(self.environ, self.decoder.problem)

    def load(self, root: Map, overrides: Overrides) -> Suite:
        entry = self.settings(root)
        providers = self.providers(root, overrides.providers)
        prompts = self.prompts(root)
        reader = CaseReader(self.folder, root.get("expect"), entry.threshold if entry else None, self.decoder)
        cases = reader.read(root["cases"], line_of(root, "cases")) if "cases" in root else ()
        if not self.problems:
            self.check_rendering(cases, prompts, providers)
        if entry and entry.gate:
            self.check_gate(root, entry.gate, cases, providers)
        if self.problems or entry is None:
            raise ConfigError(_in_file_order(self.problems))
        return Suite(
            name=entry.name or self.folder.name,
            description=entry.description,
            file=self.file,
            folder=self.folder,
            runs=_first(overrides.runs, entry.runs),
            max_concurrency=_first(overrides.max_concurrency, entry.max_concurrency),
            timeout_s=_first(overrides.timeout_s, entry.timeout_s),
            retries=_first(overrides.retries, entry.retries),
            seed=_first(overrides.seed, entry.seed),
            providers=tuple(providers),
            prompts=tuple(prompts),
            cases=cases,
            gate=entry.gate,
            out=overrides.out or Path(entry.report.out),
            formats=entry.report.formats,
            named_values=self.interpolation.named,
        )

    def settings(self, root: Map) -> SuiteEntry | None:
        """Everything but what has its own decoding."""
        own = ("providers", "prompts", "cases", "expect")
        head = Map(root.line)
        head.lines = root.lines
        for key, value in root.items():
            head[key] = [] if key in own else self.filled(value, key, line_of(root, key))
        return self.decoder.struct(head, SuiteEntry, "", None)

    def filled(self, value: Any, path: str, line: int | None) -> Any:
        return self.interpolation.fill(value, path, line)

    # Providers.

    def providers(self, root: Map, selected: Sequence[str] | None) -> list[ProviderOptions]:
        entries = root.get("providers", [])
        line = line_of(root, "providers")
        if not isinstance(entries, list) or not entries:
            if "providers" in root:
                self.decoder.problem(line, "providers", "expected a list with at least one provider")
            return []
        found: dict[str, ProviderOptions] = {}
        skipped: list[str] = []
        for index, entry in enumerate(entries):
            path, entry_line = f"providers[{index}]", line_of(entries, index) or line
            before = len(self.problems)
            provider = self.provider(entry, path, entry_line)
            name = str(provider.name) if provider else _guess_name(entry)
            if selected is not None and name not in selected:
                del self.problems[before:]  # an unselected provider need not be complete
                skipped.append(name)
            elif provider is None:
                skipped.append(name)
            elif name in found:
                self.decoder.problem(entry_line, path, f"a second provider called {name!r}: give one of them a `name`")
            else:
                found[name] = provider
        for name in selected or ():
            if name not in found and name not in skipped:
                self.decoder.problem(line, "--providers", unknown("provider", name, [*found, *skipped]))
        return list(found.values())

    def provider(self, entry: Any, path: str, line: int | None) -> ProviderOptions | None:
        filled = self.filled(entry, path, line)
        kind = filled.get("type") if isinstance(filled, dict) else None
        if kind is None:
            self.decoder.problem(line, path, f"expected a mapping with a `type`: {', '.join(PROVIDERS)}")
            return None
        cls = PROVIDERS.get(kind) if isinstance(kind, str) else None
        if cls is None:
            self.decoder.problem(line_of(entry, "type"), f"{path}.type", unknown("provider type", str(kind), PROVIDERS))
            return None
        options = self.decoder.struct(filled, cls, path, line, also=("type",))
        if options is None:
            return None
        for message in options.problems(self.folder):
            self.decoder.problem(line, path, message)
        options = self.with_key(options, path, line)
        return msgspec.structs.replace(options, name=options.name or options.default_name)

    def with_key(self, options: ProviderOptions, path: str, line: int | None) -> ProviderOptions:
        """Fill in the vendor's usual key variable where the config names none."""
        variable = options.key_variable
        if variable is None:
            return options
        value = self.environ.get(variable)
        if not value:
            text = f"no key: set the variable {variable} (export it, or write it into {self.folder / '.env'})"
            self.decoder.problem(line, f"{path}.api_key", text)
            return options
        self.interpolation.named[variable] = value
        return msgspec.structs.replace(options, api_key=Secret(value, variable))

    # Prompts.

    def prompts(self, root: Map) -> list[Prompt]:
        entries = root.get("prompts") or []
        line = line_of(root, "prompts")
        if not isinstance(entries, list):
            self.decoder.problem(line, "prompts", "expected a list of templates")
            return []
        prompts: dict[str, Prompt] = {}
        for index, entry in enumerate(entries):
            path, entry_line = f"prompts[{index}]", line_of(entries, index) or line
            prompt = self.prompt(self.filled(entry, path, entry_line), path, entry_line, index)
            if prompt is None:
                continue
            if prompt.name in prompts:
                self.decoder.problem(
                    entry_line, path, f"a second prompt called {prompt.name!r}: give it another `name`"
                )
            prompts[prompt.name] = prompt
        return list(prompts.values())

    def prompt(self, entry: Any, path: str, line: int | None, index: int) -> Prompt | None:
        if isinstance(entry, str):
            return self.checked(Prompt(f"prompt {index + 1}", (("user", str(entry)),)), path, line)
        decoded = self.decoder.struct(entry, PromptEntry, path, line)
        if decoded is None:
            return None
        if sum((decoded.user is not None, decoded.file is not None, bool(decoded.messages))) != 1:
            self.decoder.problem(line, path, "a prompt has one of `user`, `file` and `messages`")
            return None
        name, source = decoded.name or f"prompt {index + 1}", decoded.user
        if decoded.file is not None:
            try:
                source = read_text(self.folder / decoded.file, decoded.file)
            except ConfigError as error:
                self.decoder.problem(
                    line_of(entry, "file"), f"{path}.file", f"{decoded.file}: {error.problems[0].message}"
                )
                return None
            name = decoded.name or Path(decoded.file).stem
        turns = [(message.role, message.content) for message in decoded.messages]
        if source is not None:
            turns.append(("user", source))
        if decoded.system is not None:
            turns.insert(0, ("system", decoded.system))
        return self.checked(Prompt(name, tuple(turns)), path, line)

    def checked(self, prompt: Prompt, path: str, line: int | None) -> Prompt:
        from jinja2 import TemplateSyntaxError
        from jinja2.sandbox import SandboxedEnvironment

        for _, source in prompt.turns:
            try:
                SandboxedEnvironment().parse(source)
            except TemplateSyntaxError as error:
                self.decoder.problem(line, path, f"not a valid template: {error.message} (line {error.lineno} of it)")
        return prompt

    # Checks across the parts.

    def check_rendering(
        self, cases: Sequence[Case], prompts: Sequence[Prompt], providers: Sequence[ProviderOptions]
    ) -> None:
        """Render every case with every prompt, so that nothing is paid for before all of them are known to work."""
        templates = Templates()
        chat = next((provider for provider in providers if not provider.own_code), None)
        for case in cases:
            if not prompts and chat and case.input is None and not case.messages:
                text = f"has only `vars`, and there are no `prompts` that make a question for {chat.name} of them"
                self.problems.append(Problem(case.file, case.line, case.id, text))
            for prompt in prompts:
                try:
                    templates.render(prompt, case)
                except Exception as error:  # noqa: BLE001  a user's template can raise anything
                    text = f"{prompt.name!r} does not fit this case: {error}"
                    self.problems.append(Problem(case.file, case.line, case.id, text))

    def check_gate(self, root: Map, gate: Gate, cases: Sequence[Case], providers: Sequence[ProviderOptions]) -> None:
        """A bar for a tag or provider that does not exist would never be missed."""
        tags = {tag for case in cases for tag in case.tags}
        names = {str(provider.name) for provider in providers} | set(_guess_names(root.get("providers")))
        for noun, key, bars, known in (
            ("tag", "tags", gate.tags, tags),
            ("provider", "providers", gate.providers, names),
        ):
            place = root["gate"].get(key)
            for name in bars:
                if name not in known:
                    self.decoder.problem(line_of(place, name), f"gate.{key}", unknown(noun, name, sorted(known)))


def _in_file_order(problems: Sequence[Problem]) -> list[Problem]:
    files = list(dict.fromkeys(problem.file for problem in problems))
    return sorted(dict.fromkeys(problems), key=lambda problem: (files.index(problem.file), problem.line or 0))


def _guess_name(entry: Any) -> str:
    """A name for a provider that could not be decoded, to tell whether it was selected."""
    if not isinstance(entry, dict):
        return "?"
    model = entry.get("model")
    return str(entry.get("name") or (f"{entry.get('type')}:{model}" if model else entry.get("type")))


def _guess_names(entries: Any) -> list[str]:
    return [_guess_name(entry) for entry in entries] if isinstance(entries, list) else []


def _first(override: T | None, value: T) -> T:
    return value if override is None else override
