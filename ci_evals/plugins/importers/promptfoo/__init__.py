"""promptfoo: `promptfooconfig.yaml`, as YAML or JSON, with the tests and prompts that it names."""

from ci_evals.plugins.importers.promptfoo.config import convert, recognize

__all__ = ["convert", "recognize"]
