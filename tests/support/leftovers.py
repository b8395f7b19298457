"""What a run leaves behind in its folder, read back."""

import json
from pathlib import Path
from typing import Any


def journal_lines(folder: Path) -> list[dict[str, Any]]:
    """Every whole line of a journal, headers too."""
    lines = (folder / "results.jsonl").read_bytes().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


def journaled(folder: Path) -> list[dict[str, Any]]:
    """The results in a journal, in the order of finishing."""
    return [line for line in journal_lines(folder) if "fingerprint" in line]


def journaled_answers(folder: Path) -> list[dict[str, Any]]:
    """The answers that a journal has from before they were graded."""
    return [line["answered"] for line in journal_lines(folder) if "answered" in line]


def report_in(folder: Path) -> dict[str, Any]:
    document = json.loads((folder / "report.json").read_bytes())
    assert isinstance(document, dict)
    return document


def comparable(folder: Path) -> dict[str, Any]:
    """A report without what differs between equal runs: times, revision, run id, resumed counts."""
    report = report_in(folder)
    for name in ("id", "started_at", "duration_s", "resumption"):
        del report[name]
    report["suite"].pop("revision", None)
    report["suite"].pop("run_id", None)
    for variant in report["variants"]:
        for figure in ("latency_mean_s", "latency_p50_s", "latency_p95_s"):
            del variant["figures"][figure]
    for result in report["results"]:
        del result["started_at"], result["latency_s"]
    return report
