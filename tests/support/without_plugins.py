"""Skips the examples of plug-ins in a core alone, whose folder of plug-ins is missing."""

from collections.abc import Mapping
from typing import Any

import pytest

from ci_evals.registry import (
    CASE_READERS,
    EXECUTORS,
    PROVIDERS,
    TRANSCRIPTS,
    is_installed,
    missing_clause,
)


def skip_without_plugins(suite: Mapping[str, Any]) -> None:
    """Skip the test if its suite needs a plug-in that is missing, and say which one."""
    lacks = []
    for provider in suite.get("providers", ()):
        if isinstance(provider, str):
            continue
        lacks.append(PROVIDERS.missing_clause(provider.get("type")))
        lacks.append(TRANSCRIPTS.missing_clause(provider.get("transcript")))
    executor = suite.get("settings", {}).get("executor")
    named = executor.get("type") if isinstance(executor, Mapping) else executor
    lacks.append(EXECUTORS.missing_clause(named))
    cases = suite.get("cases")
    if isinstance(cases, Mapping) and "tasks" in cases and not is_installed(CASE_READERS["tasks"]):
        lacks.append(missing_clause(CASE_READERS["tasks"]))
    for lack in filter(None, lacks):
        pytest.skip(f"the suite {lack}")
