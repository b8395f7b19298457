"""Chromium, as far as tests and pictures need it: what it makes of a page, without anybody looking."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Final

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
)  # fmt: skip


@cache
def browser() -> str | None:
    """Where it is; None if there is none on this machine."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


def open_page(html: str, arguments: Iterable[str]) -> str:
    """Show a page; returns what the browser prints."""
    path = browser()
    assert path is not None
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch, "page.html")
        source.write_text(html, encoding="utf-8")
        command = [path, *_FLAGS, f"--user-data-dir={scratch}/profile", *arguments, source.as_uri()]
        return subprocess.run(command, check=True, timeout=120, capture_output=True, text=True).stdout


def excess_px(html: str, widths_px: Sequence[int]) -> list[int]:
    """How much wider than a window of each width a page is, and so would have to be scrolled sideways.

    Parts of it that scroll by themselves count as the page does: what is out of sight in them is out of sight.
    """
    frames = "".join(
        f'<iframe style="width:{width}px;height:600px" srcdoc="{escape(html)}"></iframe>' for width in widths_px
    )
    script = """
        addEventListener("load", () => {
            const excess = (each) => each.scrollWidth - each.clientWidth;
            const widest = (page) => Math.max(excess(page.documentElement),
                ...[...page.querySelectorAll("body, body *")].filter((each) => each.clientWidth).map(excess));
            const found = [...document.querySelectorAll("iframe")].map((frame) => widest(frame.contentDocument));
            document.title = found.join(" ");
        });
    """
    page = f"<!doctype html><title>-</title><style>iframe {{ border: 0 }}</style>{frames}<script>{script}</script>"
    dumped = open_page(page, ("--dump-dom", "--virtual-time-budget=10000"))
    return [int(found) for found in dumped.partition("<title>")[2].partition("</title>")[0].split()]
