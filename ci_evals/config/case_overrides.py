"""What a case sets about its providers: recorded answers that are there, and settings that a provider takes."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from ci_evals.config.decode import Decoder
from ci_evals.config.rows import Found
from ci_evals.config.source import line_of
from ci_evals.errors import Problem
from ci_evals.model import NO_OVERRIDES, Case, Cassette
from ci_evals.providers.base import ProviderOptions
from ci_evals.suite import overridden_options


class CassetteReader:
    """Finds the files that `overrides.recorded` names and takes their digests, of each file once.

    Args:
        folder: where relative paths start.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._digests: dict[Path, str] = {}

    def read(self, name: str, found: Found, decoder: Decoder) -> Cassette | None:
        """The recording of a case; None if it cannot be read, which `decoder` is told."""
        from hashlib import blake2b, file_digest

        path = self.folder / name
        path = path / "results.jsonl" if path.is_dir() else path
        try:
            if path not in self._digests:
                with path.open("rb") as file:
                    self._digests[path] = file_digest(file, lambda: blake2b(digest_size=16)).hexdigest()
        except (OSError, ValueError) as error:  # a NUL in the name is a ValueError
            where = f"{found.path}.overrides.recorded".removeprefix(".")
            reason = getattr(error, "strerror", None) or str(error)
            text = f"the recording {name!r} cannot be read: {reason} (looked in {self.folder})"
            decoder.problem(line_of(found.given("overrides"), "recorded") or found.line, where, text)
            return None
        return Cassette(path, self._digests[path])


def override_misfits(cases: Sequence[Case], providers: Sequence[ProviderOptions], folder: Path) -> Iterator[Problem]:
    """What no provider takes of the settings of a case, or what a provider with them would refuse."""
    changing = [case for case in cases if case.overrides != NO_OVERRIDES and not case.cassette]
    known = [(options, options.problems(folder)) for options in providers] if changing else []
    for case in changing:
        overrides = case.overrides
        for name in ("model", "params"):
            if getattr(overrides, name) and providers and not any(_takes(each, name) for each in providers):
                kinds = ", ".join(sorted({str(each.__struct_config__.tag) for each in providers}))
                text = f"no provider of the suite has a setting {name!r} (they are of type {kinds})"
                yield Problem(case.file, case.line, f"case {case.id!r}: overrides.{name}", text)
        for options, told in known:
            changed = overridden_options(options, overrides)
            for message in changed.problems(folder) if changed is not options else ():
                if message not in told:
                    text = f"{message} (with provider {options.name})"
                    yield Problem(case.file, case.line, f"case {case.id!r}: overrides", text)


def _takes(options: ProviderOptions, name: str) -> bool:
    return options.own_code or name in options.__struct_fields__
