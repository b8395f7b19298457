"""Sessions of pytest in this process forget what they import, and libraries in C must load once."""

import ci_evals.pytest_plugin.marked
import ci_evals.pytest_plugin.suites  # noqa: F401
