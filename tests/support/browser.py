"""Chromium for tests and pictures: opens pages, sends keys, and reads what is shown."""

import asyncio
import atexit
import base64
import json
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from html import escape
from pathlib import Path
from threading import Thread
from typing import Any, Final

import aiohttp

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars",
)  # fmt: skip


@cache
def browser() -> str | None:
    """Where it is; None if there is none on this machine."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


def excess_px(html: str, widths_px: Sequence[int]) -> list[int]:
    """By how many pixels a page is wider than each window, and so scrolls sideways.

    Parts that scroll by themselves count, too: they hide content. But a `region` may scroll: it
    has a name, and the keyboard leads there.
    """
    frames = "".join(
        f'<iframe style="width:{width}px;height:600px" srcdoc="{escape(html)}"></iframe>'
        for width in widths_px
    )
    script = """(() => {
        const excess = (each) => each.scrollWidth - each.clientWidth;
        const scrolls = (each) => ["auto", "scroll"].includes(getComputedStyle(each).overflowX);
        const widest = (page) => {
            const parts = [...page.querySelectorAll("body *:not([role=region])")];
            return Math.max(...[page.documentElement, ...parts.filter(scrolls)].map(excess));
        };
        const frames = [...document.querySelectorAll("iframe")];
        return frames.map((frame) => widest(frame.contentDocument));
    })()"""
    page = f"<!doctype html><title>-</title><style>iframe {{ border: 0 }}</style>{frames}"
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch, "page.html")
        source.write_text(page, encoding="utf-8")
        found: list[int] = asyncio.run(_evaluate_in(source.as_uri(), script))
        return found


async def _evaluate_in(url: str, script: str) -> Any:
    """Open a page, and return what a script finds in it."""
    async with browsing() as tab:
        await tab.open(url)
        return await tab.evaluate(script)


class Tab:
    """One tab, driven through the DevTools protocol; collects console messages and dialogs."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.logged: list[str] = []
        self._socket = socket
        self._number = 0
        self._loaded: set[str] = set()
        self._downloaded = 0

    async def call(self, method: str, **parameters: Any) -> Any:
        """Call a method of the protocol and return its result."""
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        while True:
            message = json.loads(await self._socket.receive_str())
            if message.get("id") == self._number:
                assert "error" not in message, message["error"]
                return message["result"]
            self._note(message)

    def _note(self, message: Any) -> None:
        match message.get("method"):
            case (
                "Runtime.consoleAPICalled"
                | "Runtime.exceptionThrown"
                | "Log.entryAdded"
                | "Page.javascriptDialogOpening"
            ):
                self.logged.append(json.dumps(message["params"]))
            case "Page.downloadProgress" if message["params"]["state"] == "completed":
                self._downloaded += 1
            case "Page.lifecycleEvent" if message["params"]["name"] == "load":
                self._loaded.add(message["params"]["loaderId"])
            case _:
                pass

    async def open(self, url: str) -> None:
        """Go to a page and wait until it is loaded."""
        found = await self.call("Page.navigate", url=url)
        # Without a loader, only the fragment is another one.
        while "loaderId" in found and found["loaderId"] not in self._loaded:
            self._note(json.loads(await self._socket.receive_str()))

    @property
    def loads(self) -> int:
        """The number of times that a page was loaded, as far as it is known."""
        return len(self._loaded)

    async def load_again(self, loads: int) -> None:
        """Wait until pages were loaded more often than `loads` times: one may do so by itself."""
        async with asyncio.timeout(60):
            while self.loads <= loads:
                self._note(json.loads(await self._socket.receive_str()))

    async def download(self, folder: Path, button: str) -> None:
        """Click on a button, and wait until the file that it saves is in a folder."""
        known = self._downloaded
        await self.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
        await self.evaluate(f"document.querySelector({json.dumps(button)}).click()")
        async with asyncio.timeout(60):
            while self._downloaded == known:
                self._note(json.loads(await self._socket.receive_str()))

    async def evaluate(self, expression: str) -> Any:
        """Evaluate JavaScript in the page, as its console would, and return the value as JSON."""
        found = await self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    async def until(self, condition: str) -> None:
        """Wait until an expression is true, frame by frame."""
        wait = f"""new Promise((resolve) => {{
            const look = () => {{
                if ({condition}) resolve(true);
                else requestAnimationFrame(look);
            }};
            look(); }})"""
        async with asyncio.timeout(60):
            await self.evaluate(wait)

    async def type(self, text: str) -> None:
        """Type text where the focus is."""
        for character in text:
            await self.press(character)

    async def press(self, key: str) -> None:
        """Press and release a key: `j`, `Enter`, `Tab`."""
        text = "\r" if key == "Enter" else key if len(key) == 1 else ""
        code = {"Enter": 13, "Tab": 9, "Escape": 27, " ": 32}.get(key, ord(key.upper()[0]))
        values = {"key": key, "text": text, "windowsVirtualKeyCode": code}
        await self.call("Input.dispatchKeyEvent", type="keyDown", **values)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **values)

    async def resize(self, width: int, height: int, scale: float = 1) -> None:
        """Set the size of the window in CSS pixels."""
        size = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False}
        await self.call("Emulation.setDeviceMetricsOverride", **size)

    async def prefer(self, scheme: str = "light", media: str = "") -> None:
        """Show the page in `light` or `dark`, on the screen or as for `print`."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.call("Emulation.setEmulatedMedia", media=media, features=features)

    async def forget(self) -> None:
        """Leave the page, and forget where one was and what pages have kept.

        Sizes, schemes and scripts that were set are forgotten with the connection.
        """
        await self.open("about:blank")
        await self.call("Page.resetNavigationHistory")
        await self.call("Storage.clearDataForOrigin", origin="file://", storageTypes="all")

    async def picture(self) -> bytes:
        """Take a picture of what is in the window, as PNG."""
        found = await self.call("Page.captureScreenshot", format="png")
        return base64.b64decode(found["data"])


@cache
def _address() -> str:
    """Start a browser that all tabs of this process share; return the address that drives it."""
    path = browser()
    assert path is not None
    scratch = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    flags = (*_FLAGS, f"--user-data-dir={scratch.name}", "--remote-debugging-port=0")
    process = subprocess.Popen((path, *flags), stderr=subprocess.PIPE)

    def end() -> None:
        process.kill()
        process.wait()
        scratch.cleanup()

    atexit.register(end)
    assert process.stderr is not None
    while b"DevTools listening" not in (line := process.stderr.readline()):
        assert line, "the browser ended"
    Thread(target=process.stderr.read, daemon=True).start()
    return line.decode().split()[-1]


_idle: list[str] = []
"""The addresses of tabs that nobody uses. A new one costs as much as a page."""


@asynccontextmanager
async def browsing(*, scripts: bool = True) -> AsyncIterator[Tab]:
    """Open an empty tab with a profile of its own, in which pages' scripts run or not.

    It is one that was used before, and has forgotten everything since, unless its user failed.
    """
    async with aiohttp.ClientSession() as session:
        address = _idle.pop() if _idle else await _new_tab(session)
        async with session.ws_connect(address, max_msg_size=0) as socket:
            tab = Tab(socket)
            for domain in ("Page", "Runtime", "Log"):
                await tab.call(f"{domain}.enable")
            await tab.call("Page.setLifecycleEventsEnabled", enabled=True)
            await tab.call("Emulation.setScriptExecutionDisabled", value=not scripts)
            yield tab
            await tab.forget()
    _idle.append(address)


async def _new_tab(session: aiohttp.ClientSession) -> str:
    """Make a tab with a profile of its own, and return the address that drives it."""
    address = await asyncio.to_thread(_address)
    async with session.ws_connect(address) as socket:
        browser = Tab(socket)
        profile = await browser.call("Target.createBrowserContext")
        made = await browser.call("Target.createTarget", url="about:blank", **profile)
    return f"{address.partition('/devtools/')[0]}/devtools/page/{made['targetId']}"
