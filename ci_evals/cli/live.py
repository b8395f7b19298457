"""`view --serve`: a local server with the page of the newest run in a folder."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from aiohttp import web
from markupsafe import Markup

from ci_evals.engine.journal import headers, is_being_written, journals_at, read_results
from ci_evals.errors import CiEvalsError, UsageError
from ci_evals.gate.baseline import reported_cells
from ci_evals.gate.verdict import Verdict, decide
from ci_evals.model.fingerprint import digest
from ci_evals.model.report import SuiteReport
from ci_evals.reports import html
from ci_evals.reports.report_json import REPORT
from ci_evals.reports.saved import report_so_far
from ci_evals.reports.summary import Summary

_LOOK_INTERVAL_S = 2.0  # between looks at the files for an open page
_HOST = "127.0.0.1"
_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",  # the page itself says the rest
    "X-Content-Type-Options": "nosniff",
}
_WAITING = Markup(
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="1">'
    "<title>ci-evals</title><p>{}"
)


def summarize_journal(path: Path) -> Summary | None:
    """Return a summary of a journal so far, with counts for a verdict; None without results."""
    started = headers(path)
    if not started:
        return None
    results = (result for _, result in read_results(path))
    report = report_so_far(started[0].suite, started[0].started_at, results)
    if report is None:
        return None
    planned = max(started[-1].planned or 0, len(report.records))
    scope = replace(decide(report, None).scopes[0], bar=None, status="pass")
    sentence = _progress(report, planned)
    verdict = Verdict(status="error", leading=None, sentence=sentence, scopes=(scope,))
    cells = reported_cells(report, None)
    return Summary(report, cells, verdict, None, is_going_on=is_being_written(path))


def _progress(report: SuiteReport, planned: int) -> str:
    """`3 of 5 runs so far: 1 failed`."""
    counts = {"failed": report.failed, "errored": report.errored}
    bad = [f"{count:,} {status}" for status, count in counts.items() if count]
    outcome = "all passed"
    if bad:
        outcome = ", ".join(bad)
    return f"{len(report.records):,} of {planned:,} runs so far: {outcome}"


@dataclass(frozen=True)
class LivePage:
    """The page of the newest run in a folder: its report, or its journal until there is one.

    Args:
        folder: a results folder, or a folder with the results folders of several suites.
        read_report: returns the summary of the report in a results folder.
    """

    folder: Path
    read_report: Callable[[Path], Summary]

    def newest_version(self) -> str:
        """Return a key that changes with the files."""
        journal = self._newest_journal()
        states = []
        for path in (journal, journal.with_name(REPORT)):
            with suppress(FileNotFoundError):
                status = path.stat()
                states.append(f"{path.parent.name} {status.st_size} {status.st_mtime_ns}")
        return digest([states, is_being_written(journal)])

    def _newest_journal(self) -> Path:
        journals = journals_at(self.folder)
        return max(journals, key=lambda path: path.stat().st_mtime if path.is_file() else 0)

    def render(self) -> bytes:
        """Return the page, or one that says what it waits for."""
        # Taken before the files are read: a change meanwhile is shown next, not missed.
        version = self.newest_version()
        journal = self._newest_journal()
        message = f"Waiting for a run in {self.folder.as_posix()} …"
        try:
            summary = None
            if journal.with_name(REPORT).is_file():
                summary = self.read_report(journal.parent)
            elif journal.is_file():
                summary = summarize_journal(journal)
                message = "No run has ended yet …"
            if summary:
                return b"".join(html.render(summary, version=version))
        except (CiEvalsError, OSError, ValueError) as error:  # another run may replace the files
            message = str(error)
        return _WAITING.format(message).encode("utf-8", "replace")


@asynccontextmanager
async def run_server(page: LivePage, port: int = 0) -> AsyncIterator[str]:
    """Serve a page on loopback until the context ends; yield its URL. Port 0 is any free port.

    Raises:
        UsageError: the port is taken.
    """

    async def show(_: web.Request) -> web.Response:
        content = await asyncio.to_thread(page.render)  # a big report would block the server
        return web.Response(body=content, headers=_HEADERS)

    async def send_changes(request: web.Request) -> web.StreamResponse:
        stream = web.StreamResponse(headers=_HEADERS | {"Content-Type": "text/event-stream"})
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
        """Keep pages of other sites from reading answers: a site may make its own name resolve to
        this machine (DNS rebinding).
        """
        if request.url.host not in (_HOST, "localhost"):
            raise web.HTTPForbidden(text=f"only http://{_HOST} is served")
        return await handler(request)

    app = web.Application(middlewares=[refuse_other_hosts])
    app.add_routes([web.get("/", show), web.get("/changes", send_changes)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await _listen(runner, port)
        yield f"http://{_HOST}:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()


async def _listen(runner: web.AppRunner, port: int) -> None:
    try:
        await web.TCPSite(runner, _HOST, port).start()
    except OSError as error:
        problem = f"cannot listen on {_HOST}:{port}: {error.strerror}"
        raise UsageError(f"{problem}; try another --port") from error
