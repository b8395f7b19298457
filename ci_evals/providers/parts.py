"""Messages with images and files, which are identified when a suite is loaded and read when they
are sent.
"""

import base64
import binascii
import hashlib
import mimetypes
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

from ci_evals.errors import ProviderError
from ci_evals.format import one_line
from ci_evals.model.request import Request
from ci_evals.model.response import Message, Part

MAX_BYTES = 50 * 1024 * 1024
_KEYS = {"text", "image", "file", "media_type"}


def find_parts(value: Any) -> tuple[Part, ...] | None:
    """Return the parts of a case's input; None if it is not a list of parts.

    At least one must be an image or a file: a list of texts may mean anything.
    """
    if not isinstance(value, list | tuple) or not value:
        return None
    parts = []
    has_file = False
    for each in value:
        if isinstance(each, Part):
            has_file = True
            parts.append(each)
        elif isinstance(each, Mapping) and each.keys() <= _KEYS:
            has_file = has_file or isinstance(each.get("image") or each.get("file"), str)
            parts.append(Part(**each))
        else:
            return None
    if not has_file:
        return None
    return tuple(parts)


def identify(message: Message, folder: Path) -> Message:
    """Return a message with the media types and digests of its images and files.

    Raises:
        ValueError: a file is missing or invalid; the text says what to try.
    """
    if isinstance(message.content, str):
        return message
    return replace(message, content=tuple(_identify(part, folder) for part in message.content))


def _identify(part: Part, folder: Path) -> Part:
    given = [key for key in ("text", "image", "file") if getattr(part, key) is not None]
    if len(given) != 1:
        names = " and ".join(given) or "none of them"
        text = "a part of a message has one of `text`, `image` and `file`"
        raise ValueError(f"{text}: it has {names}")
    source = part.source
    if source is None or (isinstance(source, str) and is_url(source)):
        return part
    media_type = part.media_type
    if isinstance(source, str) and source.startswith("data:"):
        source, media_type = _decode_data_url(source)
        media_type = part.media_type or media_type
    if isinstance(source, bytes):
        if media_type is None:
            raise ValueError("bytes need a `media_type`, such as image/png")
        part = _with_source(part, source)
        content = source
    else:
        media_type = media_type or mimetypes.guess_type(source)[0]
        if media_type is None:
            text = f"the media type of {source} cannot be guessed from its name"
            raise ValueError(f"{text}: add a `media_type`")
        content = _read(source, folder)
    return replace(part, media_type=media_type, sha256=hashlib.sha256(content).hexdigest())


def _with_source(part: Part, source: str | bytes) -> Part:
    if part.image is None:
        return replace(part, file=source)
    return replace(part, image=source)


def _decode_data_url(url: str) -> tuple[bytes, str]:
    """Return the content of a data URL (RFC 2397), and its media type."""
    head, comma, data = url.removeprefix("data:").partition(",")
    media_type, *options = head.split(";")
    try:
        if "base64" in options:
            content = base64.b64decode(data, validate=True)
        else:
            content = unquote_to_bytes(data)
    except binascii.Error:
        comma = ""
    if not comma:
        raise ValueError("is not a valid data URL: write data:image/png;base64,…")
    return content, media_type or "text/plain"


def _read(path: str, folder: Path) -> bytes:
    file = folder / path
    try:
        if file.stat().st_size > MAX_BYTES:
            raise ValueError(f"{path} has more than {MAX_BYTES // 1024**2} MB")
        return file.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror} (looked in {folder})") from error


def is_url(source: str) -> bool:
    """Return True for the address of a remote file."""
    return source.startswith(("http://", "https://", "gs://"))


@dataclass(frozen=True, slots=True)
class Attachment:
    """An image or a file in the form that is sent: its `url`, or its bytes in `base64`."""

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
    """Read the image or file of a part.

    Raises:
        ProviderError: the file does not exist any more.
    """
    source = part.source
    is_image = part.image is not None
    assert source is not None
    if isinstance(source, str) and is_url(source):
        name = PurePosixPath(urlsplit(source).path).name
        media_type = part.media_type or mimetypes.guess_type(name)[0]
        return Attachment(is_image, media_type, name, url=source)
    if isinstance(source, bytes):
        name, content = "file", source
    else:
        name = Path(source).name
        try:
            content = _read(source, folder)
        except ValueError as error:
            raise ProviderError("rejected", str(error)) from error
    encoded = base64.b64encode(content).decode()
    return Attachment(is_image, part.media_type, name, base64=encoded)


def address_refused(sent: Attachment, api: str) -> ProviderError:
    """Return the error of a remote file for an API that accepts only content."""
    advice = "put the file next to the suite and use its path"
    text = f"{api} does not accept the URL of a file ({sent.url}): {advice}"
    return ProviderError("rejected", one_line(text, 300))


def without_bytes(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return messages for the journal, with the digests of files instead of their bytes."""
    cleaned = []
    for message in messages:
        if isinstance(message.content, str):
            cleaned.append(message)
        else:
            parts = tuple(_without_bytes(part) for part in message.content)
            cleaned.append(replace(message, content=parts))
    return tuple(cleaned)


def _without_bytes(part: Part) -> Part:
    if isinstance(part.source, bytes):
        return _with_source(part, f"sha256:{part.sha256}")
    return part


def content_fields(message: Message) -> str | list[dict[str, str]]:
    """Return the content of a message: text, or parts with paths from the suite's folder."""
    if isinstance(message.content, str):
        return message.content
    return [_part_fields(part) for part in message.content]


def message_fields(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Return messages in the form of APIs: `role`, `content`, and other fields that are set."""
    return [_message_fields(message) for message in messages]


def _message_fields(message: Message) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "role": message.role,
        "content": content_fields(message),
    }
    if message.tool_calls:
        calls = []
        for call in message.tool_calls:
            call_fields = {"name": call.name, "arguments": call.arguments}
            if call.id is not None:
                call_fields["id"] = call.id
            calls.append(call_fields)
        fields["tool_calls"] = calls
    if message.tool_call_id is not None:
        fields["tool_call_id"] = message.tool_call_id
    return fields


def asks_messages(request: Request) -> bool:
    """Return True if the input of a request is the list of its messages, as in a conversation."""
    return isinstance(request.input, list) and request.input == message_fields(request.messages)


def _part_fields(part: Part) -> dict[str, str]:
    fields: dict[str, str] = {}
    for key in ("text", "image", "file", "media_type"):
        value = getattr(part, key)
        if isinstance(value, bytes):
            encoded = base64.b64encode(value).decode()
            fields[key] = f"data:{part.media_type or ''};base64,{encoded}"  # RFC 2397
        elif value is not None:
            fields[key] = value
    return fields
