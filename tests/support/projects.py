"""A folder with a config in it, loaded as a user would."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from suites import write_suite

from ci_evals.errors import ConfigError
from ci_evals.suite.load import load_suite
from ci_evals.suite.overrides import Overrides
from ci_evals.suite.schema import suite_schema
from ci_evals.suite.types import CheckedSuite

CASE = {"id": "capital", "input": "Capital of France?", "expect": [{"contains": "Paris"}]}


@cache
def schema() -> Mapping[str, Any]:
    """The schema of suites, made once: it takes most of a second."""
    return suite_schema()


class Project:
    """A folder to write files into; `load` reads its `evals.yaml`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "evals.yaml"

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def suite(self, **settings: Any) -> None:
        """Write a config with a mock provider and one case, but for what is given."""
        write_suite(self.folder, **{"cases": [CASE], **settings})

    def load(self, environ: Mapping[str, str] | None = None, **overrides: Any) -> CheckedSuite:
        return load_suite(self.config, environ or {}, Overrides(**overrides))

    def problems(self, environ: Mapping[str, str] | None = None, **overrides: Any) -> list[str]:
        """The problems as `file:line: path: message`, with files relative to the folder."""
        with pytest.raises(ConfigError) as caught:
            self.load(environ, **overrides)
        return [
            str(problem).removeprefix(f"{self.folder.as_posix()}/")
            for problem in caught.value.problems
        ]
