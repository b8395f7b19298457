"""Images and files in messages: found and identified when a suite is loaded, read when they are
sent.
"""

import base64
import binascii
import hashlib
import mimetypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

from ci_evals.errors import ProviderError
from ci_evals.model.response import Message, Part

MAX_BYTES = 50 * 1024 * 1024
_KEYS = {"text", "image", "file", "media_type"}


def find_parts(value: Any) -> tuple[Part, ...] | None:
    """Return the parts that a case's input is a list of; None of any other value.

    It must have an image or a file: a list of texts may be anything.
    """
    if not isinstance(value, list | tuple) or not value:
        return None
    if all(isinstance(each, Part) for each in value):
        return tuple(value)
    if not all(isinstance(each, Mapping) and each.keys() <= _KEYS for each in value):
        return None
    if not any(isinstance(each.get(key), str) for each in value for key in ("image", "file")):
        return None
    return tuple(Part(**each) for each in value)


def identify(message: Message, folder: Path) -> Message:
    """Return a message whose images and files are known by their media type and content.

    Raises:
        ValueError: one is missing, or not what it should be; the text says what to try.
    """
    if isinstance(message.content, str):
        return message
    return replace(message, content=tuple(_identify(part, folder) for part in message.content))


def _identify(part: Part, folder: Path) -> Part:
    given = [key for key in ("text", "image", "file") if getattr(part, key) is not None]
    if len(given) != 1:
        found = f"it has {' and '.join(given)}" if given else "it has none of them"
        raise ValueError(f"a part of a message has one of `text`, `image` and `file`: {found}")
    source = part.source
    if source is None or (isinstance(source, str) and is_url(source)):
        return part
    media_type = part.media_type
    if isinstance(source, str) and source.startswith("data:"):
        source, told = _decode(source)
        media_type = media_type or told
    if isinstance(source, str):
        media_type = media_type or mimetypes.guess_type(source)[0]
        if media_type is None:
            raise ValueError(
                f"the media type of {source} is not known by its name: add a `media_type`"
            )
        content = _read(source, folder)
        return replace(part, media_type=media_type, sha256=hashlib.sha256(content).hexdigest())
    if media_type is None:
        raise ValueError("bytes need a `media_type`, such as image/png")
    known = replace(part, media_type=media_type, sha256=hashlib.sha256(source).hexdigest())
    return replace(known, file=source) if part.image is None else replace(known, image=source)


def _decode(url: str) -> tuple[bytes, str]:
    """Return what a data URL (RFC 2397) holds, and its media type."""
    head, comma, data = url.removeprefix("data:").partition(",")
    media_type, *options = head.split(";")
    try:
        decoded = (
            base64.b64decode(data, validate=True) if "base64" in options else unquote_to_bytes(data)
        )
    except binascii.Error:
        comma = ""
    if not comma:
        raise ValueError("is not a valid data URL: write data:image/png;base64,…")
    return decoded, media_type or "text/plain"


def _read(path: str, folder: Path) -> bytes:
    try:
        whole = folder / path
        if whole.stat().st_size > MAX_BYTES:
            raise ValueError(f"{path} has more than {MAX_BYTES // 1024**2} MB")
        return whole.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror} (looked in {folder})") from error


def is_url(source: str) -> bool:
    """Return True for the address of a file elsewhere."""
    return source.startswith(("http://", "https://", "gs://"))


@dataclass(frozen=True, slots=True)
class Attachment:
    """An image or a file as it is sent: its `url`, or its bytes in `base64`."""

    is_image: bool
    media_type: str | None
    name: str
    url: str | None = None
    base64: str = ""

    @property
    def data_url(self) -> str:
        return self.url or f"data:{self.media_type};base64,{self.base64}"

    @property
    def text(self) -> str:
        return base64.b64decode(self.base64).decode("utf-8", "replace")


def attach(part: Part, folder: Path) -> Attachment:
    """Read what a part sends.

    Raises:
        ProviderError: its file is gone.
    """
    source, is_image = part.source, part.image is not None
    assert source is not None
    if isinstance(source, bytes):
        return Attachment(
            is_image, part.media_type, "file", base64=base64.b64encode(source).decode()
        )
    if is_url(source):
        path = PurePosixPath(urlsplit(source).path)
        media_type = part.media_type or mimetypes.guess_type(path.name)[0]
        return Attachment(is_image, media_type, path.name, url=source)
    try:
        encoded = base64.b64encode(_read(source, folder)).decode()
    except ValueError as error:
        raise ProviderError("rejected", str(error)) from error
    return Attachment(is_image, part.media_type, Path(source).name, base64=encoded)


def without_bytes(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return messages as a journal may have them: with what their files are, but not what is in
    them.
    """
    return tuple(
        message
        if isinstance(message.content, str)
        else replace(message, content=tuple(map(_without_bytes, message.content)))
        for message in messages
    )


def _without_bytes(part: Part) -> Part:
    if not isinstance(part.source, bytes):
        return part
    digest = f"sha256:{part.sha256}"
    return replace(part, file=digest) if part.image is None else replace(part, image=digest)
