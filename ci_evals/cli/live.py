"""`view --serve`: a local server with the page of the newest run in a folder, during the run and
afterwards.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

from aiohttp import web
from markupsafe import escape

from ci_evals.engine.journal import headers, is_being_written, journals_at, read_lines, read_results
from ci_evals.errors import CiEvalsError, UsageError
from ci_evals.gate.verdict import Verdict, decide
from ci_evals.model.case import Case, Variant
from ci_evals.model.fingerprint import digest
from ci_evals.model.plan import RunPlan
from ci_evals.model.report import RunRecord, SuiteReport
from ci_evals.reports import html
from ci_evals.reports.report_json import REPORT
from ci_evals.reports.summary import Summary

_LOOK_INTERVAL_S = 2.0  # at which an open page asks whether there is more to show
_HOST = "127.0.0.1"
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",  # the page itself says the rest
    "X-Content-Type-Options": "nosniff",
}


def summarize_journal(path: Path) -> Summary | None:
    """Return what a journal has by now, with counts instead of a verdict; None before a run has
    ended.

    Raises:
        StorageError: the journal is missing or damaged.
    """
    latest: dict[tuple[str, Variant, int], RunRecord] = {}
    ended_at = 0.0
    for offset, result in read_results(path):
        variant = Variant(result.provider, result.prompt)
        latest[result.case, variant, result.run] = RunRecord.of(result, offset)
        ended_at = max(ended_at, result.started_at + result.latency_s)
    if not latest:
        return None
    # The plan is not known here: cases and variants are in the order of their first results.
    rows = {case: number for number, case in enumerate(dict.fromkeys(key[0] for key in latest))}
    variants = list(dict.fromkeys(key[1] for key in latest))
    cells = {key: rows[key[0]] * len(variants) + variants.index(key[1]) for key in latest}
    counts = [0] * (len(rows) * len(variants))
    for key, cell in cells.items():
        counts[cell] = max(counts[cell], key[2])
    started = headers(path)
    suite = started[0].suite
    cases = [Case(id=case, file=suite.file) for case in rows]
    plan = RunPlan(cases, variants, counts, first_runs=[1] * len(counts))
    records = {plan.index(cell, key[2]): latest[key] for key, cell in cells.items()}
    report = SuiteReport(
        suite,
        plan,
        records,
        lines=lambda indices: read_lines(path, (records[index].offset for index in indices)),
        started_at=started[0].started_at,
        duration_s=max(0.0, ended_at - started[0].started_at),
        fingerprints=[""] * len(cases),
    )
    scope = replace(decide(report, None).scopes[0], bar=None, status="pass")
    sentence = _progress(report, started[-1].planned or 0)
    verdict = Verdict(status="error", leading=None, sentence=sentence, scopes=(scope,))
    return Summary(report, verdict, None, is_going_on=is_being_written(path))


def _progress(report: SuiteReport, planned: int) -> str:
    """`3 of 5 runs so far: 1 failed`."""
    ended = len(report.records)
    so_far = f"{ended:,} of {planned:,}" if ended <= planned else f"{ended:,}"
    counts = {"failed": report.failed, "errored": report.errored}
    bad = [f"{count:,} {status}" for status, count in counts.items() if count]
    return f"{so_far} runs so far: {', '.join(bad) or 'all passed'}"


class LivePage:
    """The page of the newest run in a folder: of its report, or of its journal until there is one.

    Args:
        folder: a results folder, or one with those of several suites.
        read_report: returns the summary of the report in a results folder.
    """

    def __init__(self, folder: Path, read_report: Callable[[Path], Summary]) -> None:
        self._folder = folder
        self._read_report = read_report
        self._version = ""
        self._content = b""
        self._making = asyncio.Lock()

    def newest_version(self) -> str:
        """Return a key of the state of the files."""
        journal = self._newest_journal()
        found = []
        for path in (journal, journal.with_name(REPORT)):
            with suppress(FileNotFoundError):
                status = path.stat()
                found.append(f"{path.parent.name} {status.st_size} {status.st_mtime_ns}")
        return digest([found, is_being_written(journal)])

    def _newest_journal(self) -> Path:
        return max(
            journals_at(self._folder),
            key=lambda path: path.stat().st_mtime if path.is_file() else 0,
        )

    async def content(self) -> bytes:
        """Return the page, rendered again if there is more to show."""
        async with self._making:
            version = self.newest_version()
            if version != self._version:
                self._content = await asyncio.to_thread(self._render, version)
                self._version = version
        return self._content

    def _render(self, version: str) -> bytes:
        journal = self._newest_journal()
        message = f"Waiting for a run in {self._folder.as_posix()} …"
        try:
            summary = None
            if journal.with_name(REPORT).is_file():
                summary = self._read_report(journal.parent)
            elif journal.is_file():
                summary = summarize_journal(journal)
                message = "No run has ended yet …"
            if summary:
                return b"".join(html.render(summary, version=version))
        except (CiEvalsError, OSError, ValueError) as error:  # another run may replace the files
            message = str(error)
        page = (
            '<!doctype html><html lang="en"><meta charset="utf-8">'
            '<meta http-equiv="refresh" content="1">'
            f"<title>ci-evals</title><p>{escape(message)}"
        )
        return page.encode("utf-8", "replace")


@asynccontextmanager
async def run_server(page: LivePage, port: int = 0) -> AsyncIterator[str]:
    """Serve a page on loopback until the context ends; gives its URL.

    Args:
        page: what is shown.
        port: where to listen; 0 takes any port that is free.

    Raises:
        UsageError: the port is taken.
    """

    async def show(_: web.Request) -> web.Response:
        return web.Response(
            body=await page.content(), content_type="text/html", charset="utf-8", headers=_HEADERS
        )

    async def send_changes(request: web.Request) -> web.StreamResponse:
        stream = web.StreamResponse(headers={**_HEADERS, "Content-Type": "text/event-stream"})
        await stream.prepare(request)
        with suppress(ConnectionError):  # the page was closed
            while True:
                await stream.write(f"data: {page.newest_version()}\n\n".encode())
                await asyncio.sleep(_LOOK_INTERVAL_S)
        return stream

    @web.middleware
    async def refuse_other_hosts(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Keep pages of other sites, whose name may be made to lead here, from reading answers."""
        if request.url.host not in (_HOST, "localhost"):
            raise web.HTTPForbidden(text=f"only http://{_HOST} leads here")
        return await handler(request)

    app = web.Application(middlewares=[refuse_other_hosts])
    app.add_routes([web.get("/", show), web.get("/changes", send_changes)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, _HOST, port).start()
        except OSError as error:
            raise UsageError(
                f"cannot listen on {_HOST}:{port}: {error.strerror}; try another --port"
            ) from error
        yield f"http://{_HOST}:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()
