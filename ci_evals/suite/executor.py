"""The `executor` of a suite: the place where the team's own code runs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, GetPydanticSchema

from ci_evals.format import closest
from ci_evals.model.fields import NonEmpty, NonNegative, Options, Positive

NO_RAY = "needs Ray, which is not installed: install ci-evals with its extra `ray`, or ray[client] 2.60 or later"


_ADDRESS = re.compile(r"auto|(ray://)?([^\s/:\[\]]+|\[[^\s/\[\]]+\]):[0-9]+")


def check_address(text: str) -> str:
    """Return the address of a cluster as it is.

    Raises:
        ValueError: it is none.
    """
    if not _ADDRESS.fullmatch(text):
        raise ValueError(f"expected host:6379, ray://host:10001 or auto, got {text!r:.100}")
    return text


def _check_runtime_env(value: Mapping[str, Any]) -> Mapping[str, Any]:
    variables = value.get("env_vars") or {}
    if not isinstance(variables, Mapping) or not all(
        isinstance(each, str) for each in variables.values()
    ):
        raise ValueError("expected text for each of `env_vars`, as in `env_vars: {MODEL: small}`")
    return {**value, "env_vars": {str(name): str(text) for name, text in variables.items()}}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorOptions(Options):
    """The place where the team's own providers and graders run: this machine, or a Ray cluster.

    `executor: ray` and `executor: ray://head:10001` are short for a mapping.
    """

    type: Annotated[
        Literal["local", "ray"], Field(description="This machine, or a Ray cluster.")
    ] = "local"
    address: Annotated[
        NonEmpty | None,
        AfterValidator(lambda value: value and check_address(value)),
        Field(
            description="`host:port`, `ray://host:port` or `auto`; default: RAY_ADDRESS, else one on this machine."
        ),
    ] = None
    num_cpus: Annotated[NonNegative, Field(description="CPUs that one run takes.")] = 1.0
    num_gpus: Annotated[NonNegative, Field(description="GPUs that one run takes.")] = 0.0
    memory_mb: Annotated[Positive | None, Field(description="Memory that one run takes.")] = None
    runtime_env: Annotated[
        Mapping[str, Any],
        AfterValidator(_check_runtime_env),
        Field(
            description="Ray's runtime environment; `working_dir` is the suite's folder unless it says otherwise."
        ),
    ] = field(default_factory=dict)


LOCAL = ExecutorOptions()


def parse_executor(text: str) -> ExecutorOptions:
    """Return what a short form stands for: `local`, `ray` or `ray://host:port`.

    Raises:
        ValueError: it is none.
    """
    if text == "local":
        return LOCAL
    if text == "ray":
        return ExecutorOptions(type="ray")
    if text.startswith("ray://"):
        return ExecutorOptions(type="ray", address=check_address(text))
    close = closest(text, ("local", "ray"))
    hint = f", did you mean {close!r}?" if close else ""
    raise ValueError(f"expected local, ray or ray://host:port, got {text!r:.100}{hint}")


OrShortExecutor = Annotated[
    ExecutorOptions | Mapping[str, Any] | str,
    GetPydanticSchema(lambda _, handler: handler(ExecutorOptions)),
    BeforeValidator(lambda value: parse_executor(str(value)) if isinstance(value, str) else value),
]
"""An executor, or one of the spellings that stand for it."""


def shipped_folder(options: ExecutorOptions, folder: Path) -> Path | None:
    """Return the folder that is shipped to the cluster; None where that is a package that is
    somewhere already.
    """
    named = options.runtime_env.get("working_dir")
    if isinstance(named, str) and "://" in named:
        return None
    return (folder / str(named or "")).resolve()
