"""`view --serve`: the page of the newest run in a folder, while it goes on and afterwards, on this
machine only.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from aiohttp import web
from markupsafe import escape

from ci_evals.engine.journal import (
    Header,
    first_header,
    headers,
    is_being_written,
    journals_at,
    read_lines,
    read_results,
)
from ci_evals.errors import CiEvalsError, UsageError
from ci_evals.gate.verdict import Verdict, decide
from ci_evals.model.case import Case, Variant
from ci_evals.model.fingerprint import digest
from ci_evals.model.plan import CellKey, RunPlan
from ci_evals.model.report import RunRecord, SuiteReport
from ci_evals.reports import html
from ci_evals.reports.report_json import REPORT
from ci_evals.reports.summary import Summary

LOOK_INTERVAL_S: Final = 1.0
"""Between two looks at the files."""

_HOST = "127.0.0.1"
_BUSY_SHARE = 0.2  # of the time, at most, goes into making the page
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",  # the page itself says the rest
    "X-Content-Type-Options": "nosniff",
}


class GrowingJournal:
    """The results that a journal has by now. Each look reads only what came since the one
    before.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._first: Header | None = None
        self._last_offset = 0
        self._ended_at = 0.0
        self._records: dict[tuple[CellKey, int], RunRecord] = {}

    def summarize(self) -> Summary | None:
        """Return what there is by now, with counts in the place of a verdict; None before a run has
        ended.

        Raises:
            StorageError: the journal is missing or damaged.
        """
        first = first_header(self.path)
        if first != self._first:  # of another invocation
            self._first, self._last_offset, self._ended_at, self._records = first, 0, 0.0, {}
        for offset, result in read_results(self.path, self._last_offset):
            key = result.case, result.provider, result.prompt
            self._records[key, result.run] = RunRecord.of(result, offset)
            self._last_offset = offset
            self._ended_at = max(self._ended_at, result.started_at + result.latency_s)
        if first is None or not self._records:
            return None
        report = self._report(first)
        ended, planned = len(self._records), headers(self.path)[-1].planned or 0
        counts = {"failed": report.failed, "errored": report.errored}
        found = (
            ", ".join(f"{count:,} {status}" for status, count in counts.items() if count)
            or "all passed"
        )
        so_far = f"{ended:,}{f' of {planned:,}' if ended <= planned else ''} runs so far: {found}"
        suite = replace(decide(report, None).scopes[0], bar=None, status="pass")
        verdict = Verdict(status="error", leading=None, sentence=so_far, scopes=(suite,))
        return Summary(report, verdict, None, is_going_on=is_being_written(self.path))

    def _report(self, header: Header) -> SuiteReport:
        """Return the report of what has ended, of cases and variants in the order of their first
        results.
        """
        cases = {
            case: row
            for row, case in enumerate(dict.fromkeys(case for (case, _, _), _ in self._records))
        }
        variants = list(
            dict.fromkeys(Variant(provider, prompt) for (_, provider, prompt), _ in self._records)
        )
        columns = {variant: column for column, variant in enumerate(variants)}
        runs: dict[tuple[int, int], RunRecord] = {}
        counts = [0] * (len(cases) * len(variants))
        for ((case, provider, prompt), run), record in self._records.items():
            cell = cases[case] * len(variants) + columns[Variant(provider, prompt)]
            runs[cell, run] = record
            counts[cell] = max(counts[cell], run)
        rows = [Case(id=case, file=header.suite.file) for case in cases]
        plan = RunPlan(rows, variants, counts, [1] * len(counts))
        records = {plan.index(cell, run): record for (cell, run), record in runs.items()}
        return SuiteReport(
            header.suite,
            plan,
            records,
            lines=lambda slots: read_lines(self.path, (records[slot].offset for slot in slots)),
            started_at=header.started_at,
            duration_s=max(0.0, self._ended_at - header.started_at),
            fingerprints=[""] * len(rows),
        )


class LivePage:
    """The page of the newest run in a folder: from its report, or from its journal as long as there
    is none.

    Args:
        folder: a results folder, or one with those of several suites.
        read_report: returns the summary of the report in a results folder.
    """

    def __init__(self, folder: Path, read_report: Callable[[Path], Summary]) -> None:
        self._folder = folder
        self._read_report = read_report
        self._journal: GrowingJournal | None = None
        self._version = ""
        self._content = b""
        self._not_before = 0.0
        self._making = asyncio.Lock()

    def newest_version(self) -> str:
        """Return what tells this state of the files from others; that of the page, if it is too
        early for another.
        """
        if time.monotonic() < self._not_before:
            return self._version
        journal, found = self._newest_journal(), []
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
        """Return the page, made anew if there is more to show."""
        async with self._making:
            if (version := self.newest_version()) != self._version:
                start = time.monotonic()
                self._content = await asyncio.to_thread(self._render, version)
                now = time.monotonic()
                self._version, self._not_before = (
                    version,
                    now + max(LOOK_INTERVAL_S, (now - start) / _BUSY_SHARE),
                )
        return self._content

    def _render(self, version: str) -> bytes:
        path, waiting = self._newest_journal(), f"Waiting for a run in {self._folder.as_posix()} …"
        try:
            if path.with_name(REPORT).is_file():
                return b"".join(html.render(self._read_report(path.parent), version=version))
            if path.is_file():
                if self._journal is None or self._journal.path != path:
                    self._journal = GrowingJournal(path)
                if summary := self._journal.summarize():
                    return b"".join(html.render(summary, version=version))
                waiting = "No run has ended yet …"
        except (
            CiEvalsError,
            OSError,
            ValueError,
        ) as error:  # a file is damaged, or another run replaces it
            waiting = str(error)
        refresh = '<meta http-equiv="refresh" content="1">'
        page = f'<!doctype html><html lang="en"><meta charset="utf-8">{refresh}<title>ci-evals</title><p>{escape(waiting)}'
        return page.encode("utf-8", "replace")


@asynccontextmanager
async def run_server(page: LivePage, port: int = 0) -> AsyncIterator[str]:
    """Serve a page on loopback for as long as the context lasts; gives its URL.

    Args:
        page: what is shown.
        port: where to listen; 0 takes any port that is free.

    Raises:
        UsageError: the port is not to be had.
    """

    async def show(_: web.Request) -> web.Response:
        return web.Response(
            body=await page.content(), content_type="text/html", charset="utf-8", headers=_HEADERS
        )

    async def tell_changes(request: web.Request) -> web.StreamResponse:
        stream = web.StreamResponse(headers={**_HEADERS, "Content-Type": "text/event-stream"})
        await stream.prepare(request)
        with suppress(ConnectionError):  # the page was closed
            while True:
                await stream.write(f"data: {page.newest_version()}\n\n".encode())
                await asyncio.sleep(LOOK_INTERVAL_S)
        return stream

    @web.middleware
    async def only_by_this_name(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Refuse a page of elsewhere whose name was made to lead here, so that it can't read the
        answers.
        """
        if request.url.host not in (_HOST, "localhost"):
            raise web.HTTPForbidden(text=f"only http://{_HOST} leads here")
        return await handler(request)

    app = web.Application(middlewares=[only_by_this_name])
    app.add_routes([web.get("/", show), web.get("/changes", tell_changes)])
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
