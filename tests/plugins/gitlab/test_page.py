"""The job of docs/ci/gitlab.md, which people copy."""

import re
from pathlib import Path
from typing import Any

import yaml

from ci_evals.plugins.gitlab.quality import FILE
from ci_evals.registry import FORMATS
from ci_evals.suite.types import RESULTS

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "ci" / "gitlab.md").read_text(encoding="utf-8")


def job() -> Any:
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return yaml.safe_load(text)["evals"]


def test_the_page_shows_the_file_that_people_copy() -> None:
    example = yaml.safe_load((ROOT / "examples/gitlab/gitlab-ci.yml").read_text("utf-8"))
    assert example == {"evals": job()}


def test_the_job_keeps_what_the_next_pipelines_and_the_merge_request_read() -> None:
    artifacts = job()["artifacts"]
    assert artifacts["when"] == "always"
    assert artifacts["paths"] == [RESULTS]
    assert artifacts["reports"] == {
        "junit": f"{RESULTS}/{FORMATS['junit'].file}",
        "codequality": f"{RESULTS}/{FILE}",
    }
