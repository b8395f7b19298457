"""The code-quality report: failing cases at their lines of a merge request."""

import json
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Final

from ci_evals.format import one_line
from ci_evals.plugins.ci.annotations import Annotation, Level

FILE: Final = "gl-code-quality-report.json"

_SEVERITIES: Final[Mapping[Level, str]] = {"error": "major", "warning": "minor", "notice": "info"}
_MAX_DESCRIPTION = 1_000  # characters


def render(annotations: Iterable[Annotation], suite: str) -> bytes:
    """Return the report. Annotations without a file are left out, since GitLab needs one.

    GitLab recognizes a finding by its fingerprint, and does not show it as new if the base branch
    has it as well. So lines and figures, which change, take no part in it.
    """
    findings = []
    for annotation in annotations:
        if annotation.file is None:
            continue
        identity = f"{suite}\0{annotation.file}\0{annotation.title}"
        description = one_line(f"{annotation.title}: {annotation.message}", _MAX_DESCRIPTION)
        findings.append(
            {
                "description": description,
                "check_name": "ci-evals",
                "fingerprint": sha256(identity.encode()).hexdigest(),
                "severity": _SEVERITIES[annotation.level],
                "location": {"path": annotation.file, "lines": {"begin": annotation.line or 1}},
            }
        )
    return json.dumps(findings, indent=2).encode() + b"\n"
