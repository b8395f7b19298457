"""The commands. What few runs use loads when it is first used."""

from typing import TYPE_CHECKING

from ci_evals.registry import lazy_attributes

if TYPE_CHECKING:
    from ci_evals.cli.watch import watch_suites as watch_suites

__getattr__ = lazy_attributes(__name__, {"watch_suites": "ci_evals.cli.watch"})
