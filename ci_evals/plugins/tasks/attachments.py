"""Images and files of a case: put into the working copy, and named in the instruction."""

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ci_evals.format import one_line
from ci_evals.model.request import Request
from ci_evals.model.response import Part
from ci_evals.plugins.tasks.sandboxes import Sandbox, additions
from ci_evals.providers.answer import encode_json
from ci_evals.providers.parts import is_url


def attachment_problems(request: Request) -> Iterator[str]:
    """Yield why images and files of a request cannot be put into a working copy."""
    paths: dict[str, str] = {}
    for part in _attachments(request):
        if not isinstance(part.source, str):
            yield "a file without a path cannot be put into the working copy"
        elif is_url(part.source):
            yield f"{one_line(part.source)} is not a file of this machine: use a path"
        else:
            name = Path(part.source).name
            other = paths.setdefault(name, part.source)
            if other != part.source:
                yield f"{other} and {part.source} are both {name} in the working copy: rename one"


def instruction(request: Request) -> str:
    """Return the instruction of an agent: the input, with images and files by their names."""
    if isinstance(request.input, str):
        return request.input
    if len(request.messages) == 1 and any(_attachments(request)):
        return "\n".join(_with_name(part).shown for part in request.messages[0].parts)
    return encode_json(request.input).decode()


async def put_attachments(sandbox: Sandbox, request: Request, folder: Path) -> None:
    """Copy the images and files of a request into a working copy.

    Args:
        sandbox: has the working copy.
        request: has their paths.
        folder: where the paths start.

    Raises:
        ProviderError: they could not be copied.
    """
    sources = [folder / str(part.source) for part in _attachments(request)]
    if sources:
        async with additions(sandbox, "a case with files") as work:
            for source in sources:
                await asyncio.to_thread(shutil.copy, source, work / source.name)


def _attachments(request: Request) -> Iterator[Part]:
    for message in request.messages:
        for part in message.parts:
            if part.source is not None:
                yield part


def _with_name(part: Part) -> Part:
    if part.image is not None:
        return replace(part, image=Path(str(part.image)).name)
    if part.file is not None:
        return replace(part, file=Path(str(part.file)).name)
    return part
