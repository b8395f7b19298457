"""report.json read back: what any format makes of it is what it made of the original."""

import json
import random
from collections.abc import Callable
from typing import Any

import comments
import pytest
from comments import SITUATIONS
from factories import report_of

from ci_evals.report import Looks
from ci_evals.reports import json_report, json_summary, junit, markdown
from ci_evals.reports.comment import Comment
from ci_evals.reports.json_brief import render_json
from ci_evals.reports.summary import Summary, summarize


def written(summary: Summary) -> bytes:
    return b"".join(json_report.render(summary))


@pytest.mark.parametrize("name", SITUATIONS)
def test_the_comment_is_the_same_from_the_saved_report(name: str) -> None:
    summary = SITUATIONS[name]()
    again = json_summary.read(written(summary))
    assert comments.text_of(again) == comments.text_of(summary)


@pytest.mark.parametrize("render", [json_report.render, junit.render])
def test_so_is_every_other_format_that_does_not_show_what_was_asked(render: Callable[[Summary], Any]) -> None:
    summary = comments.regression()
    again = json_summary.read(written(summary))
    assert b"".join(render(again)) == b"".join(render(summary))


def test_what_ended_a_run_early_is_known() -> None:
    report = report_of({"a": "PPP...", "b": "PF...."}, interrupted="SIGTERM", looks=Looks((3, 6), 1), settled="fail")
    again = json_summary.read(written(summarize(report, None))).report
    assert (again.interrupted, again.looks, again.settled) == ("SIGTERM", Looks((3, 6), 1), "fail")
    assert again.totals == report.totals
    assert again.id == report.id


def test_hostile_reports_are_shown_or_refused(hostile: Summary) -> None:
    again = json_summary.read(written(hostile))
    assert b"".join(markdown.render(again))
    assert render_json(again)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema_version",), 3),
        (("started_at",), 1e15),
        (("started_at",), -1.0),
        (("cells", 0, "planned"), 10**12),
        (("cells", 0, "planned"), -1),
        (("cells", 0, "bar"), 7.0),
        (("cells", 0, "comparison", "base"), [5, 3]),
        (("cells", 0, "comparison", "head"), [-5, 3]),
        (("cells", 0, "comparison", "p"), -0.5),
        (("cells", 0, "comparison", "base"), [0, 0]),
        (("cells", 0, "comparison", "kind"), "<script>"),
        (("cells", 0, "provider"), "nobody"),
        (("results", 0, "run"), 0),
        (("results", 0, "run"), 10**9),
        (("results", 0, "run"), 10**30),
        (("results", 0, "latency_s"), 1e308),
        (("results", 0, "cost_usd"), -1e308),
        (("results", 0, "score"), 1e308),
        (("results", 0, "judging"), {"calls": 1, "cost_usd": 1e308}),
        (("results", 0, "grades", 0, "score"), 1e308),
        (("results", 0, "case"), "nobody's"),
        (("results", 0, "status"), "superb"),
        (("comparison", "alpha"), 0.0),
        (("comparison", "baseline"), []),
        (("comparison", "variants", 0, "p"), 1.5),
        (("history", "reports", 0, "id"), "nobody's"),
        (("history", "trend", 0, "variants", 0, "pass_rate"), -3.0),
        (("looks",), {"rounds": [], "taken": 0}),
        (("looks",), {"rounds": [3, 6], "taken": 3}),
        (("looks",), {"rounds": [3, 6], "taken": -1}),
        (("verdict", "status"), "great"),
        (("variants",), []),
        (("cells",), None),
    ],
)
def test_what_contradicts_itself_is_refused(path: tuple[str | int, ...], value: Any) -> None:
    document = json.loads(written(comments.regression()))
    _put(document, path, value)
    with pytest.raises(ValueError, match=r"."):
        json_summary.read(json.dumps(document).encode())


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"results": [1e999]}'])
def test_what_is_no_report_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        json_summary.read(content)


def test_any_change_is_refused_or_rendered() -> None:
    """Whatever stands in a report, reading it raises nothing but `ValueError`, and what was read can be shown."""
    original = written(comments.regression())
    seeded, refused, shown = random.Random(7), 0, 0
    for _ in range(400):
        document = json.loads(original)
        path = _somewhere(document, seeded)
        _put(document, path, seeded.choice([None, -1, 0, 10**25, 1e300, -0.5, "", "x" * 300, [], {}, True, "\ud800"]))
        try:
            summary = json_summary.read(json.dumps(document).encode())
        except ValueError:
            refused += 1
            continue
        assert len(Comment(summary).render(2_000).encode()) <= 2_000, path
        shown += 1
    assert refused > 50
    assert shown > 50


def _put(document: Any, path: tuple[str | int, ...], value: Any) -> None:
    *parents, last = path
    for key in parents:
        document = document[key]
    document[last] = value


def _somewhere(document: Any, seeded: random.Random) -> tuple[str | int, ...]:
    path: tuple[str | int, ...] = ()
    while isinstance(document, dict | list) and document and (not path or seeded.random() < 0.9):
        keys: list[Any] = list(document) if isinstance(document, dict) else list(range(len(document)))
        key = seeded.choice(keys)
        path, document = (*path, key), document[key]
    return path
