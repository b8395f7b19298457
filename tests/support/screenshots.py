"""Pictures of comments, report.html and the terminal for the docs: `make images`.

Needs Chromium and a font with emoji.
"""

import asyncio
import io
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import comments
import pages
from browser import browsing, open_page
from github_markdown import page
from PIL import Image
from rendered import html_of
from rich.console import Console
from rich.text import Text

from ci_evals.reports import terminal

MOST_BYTES: Final = 200_000
_WIDTH, _HEIGHT = 806, 1700


def main(folder: Path) -> None:
    """Take a picture of every situation's comment, some of report.html, and one of a terminal."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in comment_texts().items():
        save(cropped(screenshot(page(text))), folder / f"comment-{name}.png")
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch, "report.html")
        source.write_text(page_text(), encoding="utf-8")
        asyncio.run(take_pages(source.as_uri(), folder))
    path = folder / "terminal.svg"
    path.write_text(terminal_picture(), encoding="utf-8")
    print(f"{path}: {path.stat().st_size:,} bytes")  # noqa: T201  a script


def comment_texts() -> Mapping[str, str]:
    """Return the comments that are pictured, by the situation that each is about."""
    texts = {name: comments.text_of(make()) for name, make in comments.SITUATIONS.items()}
    return {**texts, "several-suites": comments.several_suites()}


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


async def take_pages(url: str, folder: Path) -> None:
    """Take pictures of a report.html: its top in light and in dark, and a case on a phone."""
    views = {  # what is looked at, in which colours, in a window of which size
        "page": ("", "light", 1100, 1200),
        "page-dark": ("", "dark", 1100, 1200),
        "page-phone": ("#case=lost-package", "light", 400, 900),
    }
    async with browsing() as tab:
        for name, (fragment, scheme, width, height) in views.items():
            await tab.prefer(scheme)
            await tab.resize(width, height, scale=2)
            await tab.open("about:blank")
            await tab.open(url + fragment)
            save(Image.open(io.BytesIO(await tab.picture())).convert("RGB"), folder / f"{name}.png")


def save(image: Image.Image, path: Path) -> None:
    picture = optimized(image)
    assert len(picture) < MOST_BYTES, f"{path.name}: {len(picture):,} bytes"
    path.write_bytes(picture)
    print(f"{path}: {len(picture):,} bytes")  # noqa: T201  a script


def screenshot(html: str) -> Image.Image:
    """What Chromium shows of a page."""
    with tempfile.TemporaryDirectory() as scratch:
        target = Path(scratch, "page.png")
        open_page(html, (f"--window-size={_WIDTH},{_HEIGHT}", f"--screenshot={target}"))
        return Image.open(io.BytesIO(target.read_bytes())).convert("RGB")


def cropped(image: Image.Image) -> Image.Image:
    """The picture without the white below the comment."""
    inverted = image.point(lambda value: 255 - value)
    box = inverted.getbbox()
    return image.crop((0, 0, image.width, min(image.height, box[3] + 12) if box else image.height))


def optimized(image: Image.Image) -> bytes:
    out = io.BytesIO()
    image.quantize(200, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    return out.getvalue()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
