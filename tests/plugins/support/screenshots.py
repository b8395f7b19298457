"""Pictures of comments, report.html and the terminal for the docs: `make images`.

Needs Chromium and a font with emoji.
"""

import asyncio
import hashlib
import io
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import comments
import pages
from browser import Tab, browsing
from github_markdown import page
from joint_comments import several_suites
from PIL import Image, ImageChops
from PIL.PngImagePlugin import PngInfo
from rendered import html_of
from rich.console import Console
from rich.text import Text

from ci_evals.reports import terminal

MOST_BYTES: Final = 200_000
_COMMENT_SIZE: Final = (806, 1700)
_IN_THE_DARK: Final = ("regression", "pass")
"""The comments that pages of the docs show, and so need in the dark, too."""
_PAGES: Final = {
    "page": ("", "light", 1240, 1250),
    "page-dark": ("", "dark", 1240, 1250),
    "page-phone": ("#case=lost-package", "light", 400, 900),
}
"""What is looked at in a report.html, in which colours, and the width and height of the window."""


def main(folder: Path) -> None:
    """Take a picture of every situation's comment, some of report.html, and one of a terminal."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        asyncio.run(take_pictures(Path(scratch), folder))
    path = folder / "terminal.svg"
    path.write_text(terminal_picture(), encoding="utf-8")
    print(f"{path}: {path.stat().st_size:,} bytes")  # noqa: T201  a script


async def take_pictures(scratch: Path, folder: Path) -> None:
    async with browsing() as tab:
        for name, text in comment_texts().items():
            source = scratch / f"{name}.html"
            source.write_text(page(text), encoding="utf-8")
            await take_comment(tab, source, "light", folder / f"comment-{name}.png")
            if name in _IN_THE_DARK:
                await take_comment(tab, source, "dark", folder / f"comment-{name}-dark.png")
        source = scratch / "report.html"
        source.write_text(page_text(), encoding="utf-8")
        await take_pages(tab, source, folder)


def sources() -> Mapping[str, str]:
    """Return the page that each picture shows, by the name of the picture."""
    pictured = {f"comment-{name}": page(text) for name, text in comment_texts().items()}
    pictured |= {f"comment-{name}-dark": pictured[f"comment-{name}"] for name in _IN_THE_DARK}
    return pictured | dict.fromkeys(_PAGES, page_text())


def digest(html: str) -> str:
    """Return what a picture says about the page that it shows, so that it is known to be old."""
    return hashlib.sha256(html.encode()).hexdigest()


def comment_texts() -> Mapping[str, str]:
    """Return the comments that are pictured, by the situation that each is about."""
    pictured = {**comments.SITUATIONS}
    del pictured["many-regressions"]  # it is there for its size
    texts = {name: comments.text_of(make()) for name, make in pictured.items()}
    return {**texts, "several-suites": several_suites()}


def page_text() -> str:
    """Return the report.html that is pictured."""
    return html_of(pages.support_bot())


def terminal_picture() -> str:
    """Draw what a run ends with in a terminal, in whatever fonts the reader has."""
    width = 120
    console = Console(record=True, width=width, file=io.StringIO())
    console.print(
        Text.from_ansi(terminal.render(pages.support_bot(), width=width, color=True)), end=""
    )
    svg = console.export_svg(title="ci-evals run", unique_id="terminal")
    # Fonts would be loaded from elsewhere.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    return re.sub(
        r"[ \t]+$",
        "",
        svg.replace("Fira Code", "ui-monospace, Menlo, Consolas"),
        flags=re.MULTILINE,
    )


async def take_comment(tab: Tab, source: Path, scheme: str, path: Path) -> None:
    """Take a picture of a comment, as GitHub shows it."""
    await tab.prefer(scheme)
    await tab.resize(*_COMMENT_SIZE)
    await tab.open(source.as_uri())
    save(cropped(await picture(tab)), path, source)


async def take_pages(tab: Tab, source: Path, folder: Path) -> None:
    """Take pictures of a report.html: its top in light and in dark, and a case on a phone."""
    for name, (fragment, scheme, width, height) in _PAGES.items():
        await tab.prefer(scheme)
        await tab.resize(width, height, scale=2)
        await tab.open("about:blank")
        await tab.open(source.as_uri() + fragment)
        save(await picture(tab), folder / f"{name}.png", source)


async def picture(tab: Tab) -> Image.Image:
    """Return what is in the tab's window."""
    return Image.open(io.BytesIO(await tab.picture())).convert("RGB")


def save(image: Image.Image, path: Path, source: Path) -> None:
    picture = optimized(image, digest(source.read_text(encoding="utf-8")))
    assert len(picture) < MOST_BYTES, f"{path.name}: {len(picture):,} bytes"
    path.write_bytes(picture)
    print(f"{path}: {len(picture):,} bytes")  # noqa: T201  a script


def cropped(image: Image.Image) -> Image.Image:
    """Return the picture without the empty part below the comment."""
    empty = Image.new("RGB", image.size, image.getpixel((0, 0)))
    box = ImageChops.difference(image, empty).getbbox()
    assert box is not None, "nothing is shown"
    return image.crop((0, 0, image.width, min(image.height, box[3] + 12)))


def optimized(image: Image.Image, shows: str) -> bytes:
    out = io.BytesIO()
    info = PngInfo()
    info.add_text("shows", shows)
    image.quantize(200, dither=Image.Dither.NONE).save(out, "PNG", optimize=True, pnginfo=info)
    return out.getvalue()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
