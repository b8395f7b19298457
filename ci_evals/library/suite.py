"""A suite for Python: loaded from a file, or written as objects."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ci_evals import suite as checked
from ci_evals.config.code import Answering, Case, Expected, with_ids, written_at
from ci_evals.config.load import load_suite, suite_of
from ci_evals.errors import UsageError
from ci_evals.model import Case as DiscoveredTask
from ci_evals.rules import Budget, Gate
from ci_evals.verdict.words import number_of

UNLIMITED = 2**31 - 1


class Suite:
    """Cases, what answers them, and when the answers are good enough. The arguments are the keys of `evals.yaml`.

    Args:
        cases: each a `Case`, a text (its input), what `discover_tasks` found, or the mapping of the YAML; or the path
            of a dataset.
        providers: what answers: functions, objects with `answer(request)`, or those of `ci_evals.providers`.
        name: how the suite is called in reports; its folder's name unless given.
        expect: graders of every case: those of `ci_evals.graders`, functions, or objects with `grade(answer)`.
        judges: models that only graders ask; they are no columns of the matrix.
        variants: sweeps, each with a `grid` of settings and the name of a `provider` that is given as a mapping.
        prompts: templates to compare, each a text or a mapping with `name`, `system`, `user`; none: the input is sent.
        runs: executions of every cell.
        max_runs: go on up to so many while the verdict is open.
        stop_early: stop as soon as no outcome of the rest can change the verdict.
        max_concurrency: calls under way at once, graders that wait included; `math.inf` for no limit.
        threshold: pass on a weighted mean score of this much instead of on every grader.
        gate: the rules for merging; without any, every run must pass.
        budget: what an invocation may spend.
        timeout_s: seconds that one call may take.
        retries: further attempts after a refused or lost call.
        seed: of the order in which cells run.
        label: kept in reports, to group them by.
        confirm_runs: further runs of a case that looks worse than a baseline.
        description: for a reader.
        report: `formats` of the files in the `out` of `evaluate`; its own `out` is for the command line.
        folder: where relative paths start and `.env` is looked for; the working directory unless given.
        place: the file and line to name in messages; where this is called unless given.

    Raises:
        ConfigError: with every problem; missing keys are only told when the suite is evaluated.
    """

    def __init__(  # noqa: PLR0913  the keys of evals.yaml, set by name
        self,
        *,
        cases: Sequence[Case | DiscoveredTask | str | Mapping[str, Any]] | Mapping[str, Any] | Path,
        providers: Sequence[Answering] | Answering,
        name: str | None = None,
        expect: Sequence[Expected] = (),
        judges: Sequence[Answering] | Answering = (),
        variants: Sequence[Mapping[str, Any]] = (),
        prompts: Sequence[str | Mapping[str, Any]] = (),
        runs: int | None = None,
        max_runs: int | None = None,
        stop_early: bool | None = None,
        max_concurrency: float | None = None,
        threshold: float | None = None,
        gate: Gate | Mapping[str, Any] | None = None,
        budget: Budget | Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
        retries: int | None = None,
        seed: int | None = None,
        label: str | None = None,
        confirm_runs: int | None = None,
        description: str | None = None,
        report: Mapping[str, Any] | None = None,
        folder: Path | str | None = None,
        place: tuple[str, int] | None = None,
    ) -> None:
        self._place = place or written_at(1)
        given = {
            "name": name,
            "description": description,
            "label": label,
            "confirm_runs": confirm_runs,
            "runs": runs,
            "max_runs": max_runs,
            "stop_early": stop_early,
            "max_concurrency": UNLIMITED if max_concurrency == math.inf else max_concurrency,
            "timeout_s": timeout_s,
            "retries": retries,
            "seed": seed,
            "providers": _listed(providers),
            "judges": _listed(judges) or None,
            "variants": list(variants) or None,
            "prompts": list(prompts) or None,
            "cases": _cases(cases, self._place),
            "expect": list(expect) or None,
            "threshold": threshold,
            "gate": gate,
            "budget": budget,
            "report": report,
        }
        self._values = {key: value for key, value in given.items() if value is not None}
        self._folder = Path(folder or Path()).resolve()
        self._suite: checked.Suite = suite_of(self._values, self._place, self._folder, {}, offline=True)
        self._loaded = False

    @classmethod
    def load(cls, path: Path | str, *, environ: Mapping[str, str]) -> "Suite":
        """Read and check a config file.

        Raises:
            ConfigError: with every problem of the file, its datasets and its environment.
        """
        suite = object.__new__(cls)
        suite._suite = load_suite(Path(path), environ)
        suite._loaded = True
        return suite

    def ready(self, environ: Mapping[str, str]) -> checked.Suite:
        """The suite with its keys, ready to run.

        Raises:
            ConfigError: a key is missing.
        """
        if self._loaded:
            return self._suite
        return suite_of(self._values, self._place, self._folder, environ)

    @property
    def name(self) -> str:
        return self._suite.name

    @property
    def runs(self) -> int:
        return self._suite.runs

    @property
    def cases(self) -> Sequence[Any]:
        """The cases as they were understood, with ids."""
        return self._suite.cases

    @property
    def variants(self) -> Sequence[Any]:
        """Every provider with every prompt."""
        return self._suite.variants

    def __repr__(self) -> str:
        sizes = (len(self.cases), "case"), (len(self.variants), "variant"), (self.runs, "run")
        return f"<Suite {self.name!r}: {' × '.join(number_of(*size) for size in sizes)}>"


def _listed(given: Sequence[Answering] | Answering) -> list[Answering]:
    return list(given) if isinstance(given, list | tuple) else [given]


def _cases(given: Any, place: tuple[str, int]) -> Any:
    if isinstance(given, Path):
        return {"file": given.as_posix()}
    if isinstance(given, str):
        raise UsageError(f"cases={given!r:.100}: expected a list of cases, or Path(…) of a dataset")
    return given if isinstance(given, Mapping) else with_ids(given, place)
