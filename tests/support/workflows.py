"""The workflow that `ci-evals init` writes."""

from pathlib import Path
from typing import Any

import yaml


def job_of(root: Path) -> Any:
    """On which pushes the workflow starts, and the steps of its job."""
    text = (root / ".github/workflows/evals.yml").read_text("utf-8")
    assert "#%" not in text
    assert "<<" not in text
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {}
    return workflow[True]["push"], workflow["jobs"]["evals"]["steps"]
