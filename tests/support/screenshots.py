"""Pictures of comments for the docs: `make images`. Needs Chromium and a font with emoji."""

import io
import sys
import tempfile
from pathlib import Path
from typing import Final

import comments
from browser import open_page
from github_markdown import page
from PIL import Image

MOST_BYTES: Final = 150_000
_WIDTH, _HEIGHT = 806, 1700


def main(folder: Path) -> None:
    """Take a picture of every situation's comment."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {name: comments.text_of(make()) for name, make in comments.SITUATIONS.items()}
    for name, text in {**texts, "several-suites": comments.several_suites()}.items():
        picture = optimized(cropped(screenshot(page(text))))
        assert len(picture) < MOST_BYTES, f"{name}: {len(picture):,} bytes"
        (folder / f"comment-{name}.png").write_bytes(picture)
        print(f"{folder / f'comment-{name}.png'}: {len(picture):,} bytes")  # noqa: T201  a script


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
