"""Imports configs of promptfoo from YAML or JSON, with the tests and prompts that they name."""

from ci_evals.plugins.importers.promptfoo.config import convert, recognize

__all__ = ["convert", "recognize"]
