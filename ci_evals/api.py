"""The library: run a suite from Python."""

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypedDict, Unpack

from ci_evals import app
from ci_evals.config.load import Overrides
from ci_evals.model import Result
from ci_evals.report import Report
from ci_evals.suite import Suite


class Options(TypedDict, total=False):
    """What `evaluate` takes besides the suite."""

    runs: int
    max_concurrency: int
    providers: Iterable[str]
    out: Path | str
    on_result: Callable[[Result], None]
    environ: Mapping[str, str]


async def evaluate(suite_or_path: Suite | Path | str, **options: Unpack[Options]) -> Report:
    """Run a suite and return its report.

    Args:
        suite_or_path: the config file, or a suite that was loaded from one.
        **options: `runs`, `max_concurrency` and `providers` (names) in place of the suite's values; `out`, a folder
            for the journal and the reports (without it nothing is left on disk); `on_result`, called with each
            finished run in the order of finishing, on the event loop, so keep it short; `environ`, where `${NAME}`
            is looked up.

    Raises:
        ConfigError: the suite cannot be run as it is; nothing was called.
        StorageError: the journal or a report cannot be written.
    """
    providers = options.get("providers")
    overrides = Overrides(
        runs=options.get("runs"),
        max_concurrency=options.get("max_concurrency"),
        providers=None if providers is None else tuple(providers),
    )
    out = options.get("out")
    return await app.evaluate(
        suite_or_path,
        overrides,
        options.get("environ", os.environ),
        out=None if out is None else Path(out),
        on_result=options.get("on_result"),
    )


def evaluate_sync(suite_or_path: Suite | Path | str, **options: Unpack[Options]) -> Report:
    """As `evaluate`, for code without an event loop."""
    return asyncio.run(evaluate(suite_or_path, **options))
