"""Files that answers are made of: kept beside the reports by their content, and out of the journal."""

import os
from hashlib import sha256
from pathlib import Path

import msgspec

from ci_evals.errors import StorageError
from ci_evals.files import write_whole
from ci_evals.response import Content, Response

FOLDER = "files"
_SUFFIXES = {"audio/wav": ".wav", "audio/x-wav": ".wav", "audio/mpeg": ".mp3", "text/plain": ".txt"}


def digest_of(content: Content) -> str:
    """What identifies some content, whatever it is called."""
    return content.sha256 or sha256(content.data).hexdigest()


def keep_file(content: Content, folder: Path | None) -> Content:
    """The same content with its digest and, where there is a results folder, written into `files` there.

    Raises:
        StorageError: it cannot be written.
    """
    digest = digest_of(content)
    if folder is None:
        return msgspec.structs.replace(content, sha256=digest, size=len(content.data))
    name = f"{FOLDER}/{digest}{_suffix(content.media_type)}"
    _write_once(folder / name, content.data)
    return msgspec.structs.replace(content, sha256=digest, size=len(content.data), path=name)


def _write_once(path: Path, data: bytes) -> None:
    if os.path.exists(path):  # noqa: PTH110  which is no error where nobody may look
        return
    try:
        write_whole(path, [data])
    except StorageError:
        if not os.path.exists(path):  # noqa: PTH110  Windows replaces no file that another writer has open
            raise


def keep_files(response: Response, folder: Path | None) -> Response:
    """A response whose files are kept."""
    kept = tuple(content if content.sha256 else keep_file(content, folder) for content in response.files)
    return msgspec.structs.replace(response, files=kept)


def without_data(response: Response) -> Response:
    """A response as a journal may have it: what its files are, and where, but not what is in them."""
    return msgspec.structs.replace(
        response, files=tuple(msgspec.structs.replace(content, data=b"") for content in response.files)
    )


def _suffix(media_type: str) -> str:
    from mimetypes import guess_extension

    return _SUFFIXES.get(media_type) or guess_extension(media_type.partition(";")[0].strip()) or ".bin"
