"""The options of `executor: ray`."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, Field

from ci_evals.errors import ConfigError, Problem
from ci_evals.executors import Executor, ExecutorOptions, ExecutorSuite, Portable
from ci_evals.model.case import Case
from ci_evals.model.fields import NonEmpty, NonNegative, Positive

_NOT_INSTALLED = (
    "needs Ray, which is not installed: `pip install 'ci-evals[ray]'`, or ray[client] 2.60 or later"
)
_SETTINGS = {  # Ray reads these when it is imported
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # the future default; without it, Ray warns
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # keeps logs of nodes out of the progress
}
_ADDRESS = r"auto|(ray://)?([^\s/:\[\]]+|\[[^\s/\[\]]+\]):[0-9]+"


def check_address(text: str) -> str:
    """Return the address of a cluster unchanged.

    Raises:
        ValueError: the text is not an address.
    """
    if not re.fullmatch(_ADDRESS, text):
        raise ValueError(f"expected host:6379, ray://host:10001 or auto, got {text!r:.100}")
    return text


def _check_optional_address(text: str | None) -> str | None:
    if text is None:
        return None
    return check_address(text)


def _check_runtime_env(value: Mapping[str, Any]) -> Mapping[str, Any]:
    variables = value.get("env_vars") or {}
    if not isinstance(variables, Mapping) or not all(
        isinstance(each, str) for each in variables.values()
    ):
        raise ValueError("expected text for each of `env_vars`, as in `env_vars: {MODEL: small}`")
    return {**value, "env_vars": {str(name): str(text) for name, text in variables.items()}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ray(ExecutorOptions):
    """A Ray cluster.

    `executor: ray` and `executor: ray://head:10001` are short for a mapping.
    """

    short_form: ClassVar[str] = "ray://host:port"

    address: Annotated[
        NonEmpty | None,
        AfterValidator(_check_optional_address),
        Field(
            description=(
                "`host:port`, `ray://host:port` or `auto`;"
                " default: RAY_ADDRESS, else a cluster on this machine."
            )
        ),
    ] = None
    num_cpus: Annotated[NonNegative, Field(description="CPUs that one run needs.")] = 1.0
    num_gpus: Annotated[NonNegative, Field(description="GPUs that one run needs.")] = 0.0
    memory_mb: Annotated[Positive | None, Field(description="Memory that one run needs.")] = None
    runtime_env: Annotated[
        Mapping[str, Any],
        AfterValidator(_check_runtime_env),
        Field(
            description=(
                "Ray's runtime environment; `working_dir` is the suite's folder unless it is set."
            )
        ),
    ] = field(default_factory=dict)

    @classmethod
    def parse(cls, name: str, text: str) -> Self | None:
        """Return the options of `ray` or `ray://host:port`."""
        if text.startswith("ray://"):
            return cls(address=check_address(text))
        return cls() if text == name else None

    def filled_from(self, suite: ExecutorOptions) -> ExecutorOptions:
        """Return these options with the resources that the suite sets for a run."""
        if not isinstance(suite, Ray):
            return self
        return replace(suite, address=self.address or suite.address)

    def problems(
        self, folder: Path, cases: Sequence[Case], *, is_called: bool
    ) -> Iterator[tuple[Sequence[str], str]]:
        """Yield problems: Ray is missing, or the suite or a task is outside the shipped folder."""
        if is_called and find_spec("ray") is None:
            yield (), _NOT_INSTALLED
        shipped = shipped_folder(self, folder)
        if shipped is None:
            return
        place = ("runtime_env", "working_dir") if self.runtime_env.get("working_dir") else ()
        if not shipped.is_dir():
            yield place, f"there is no folder {shipped}"
            return
        if not folder.resolve().is_relative_to(shipped):
            yield (
                place,
                f"the suite is not in {shipped}, and nothing else is shipped to the cluster",
            )
            return
        for case in cases:
            if case.task and not case.task.folder.resolve().is_relative_to(shipped):
                remedy = "name a folder with both, as in `runtime_env: {working_dir: ..}`"
                yield place, f"the task {case.id} is not in {shipped}, which is shipped: {remedy}"
                return

    def open(
        self, suite: ExecutorSuite, portable: Portable, files: Path | None
    ) -> AbstractAsyncContextManager[Executor]:
        """Connect to the cluster; Ray itself is imported here, and nowhere else."""
        for name, value in _SETTINGS.items():
            os.environ.setdefault(name, value)
        try:
            connect = resolve_name("ci_evals.plugins.ray.cluster:connect")
        except ImportError as error:
            if error.name != "ray":
                raise
            raise ConfigError(
                [Problem(suite.file, None, "settings.executor", _NOT_INSTALLED)]
            ) from error
        return connect(self, suite, portable, files)  # type: ignore[no-any-return]


def shipped_folder(options: Ray, folder: Path) -> Path | None:
    """Return the folder that is shipped to the cluster; None if it is a remote package."""
    named = options.runtime_env.get("working_dir")
    if isinstance(named, str) and "://" in named:
        return None
    return (folder / str(named or "")).resolve()
