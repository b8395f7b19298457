"""Endpoints that want a token, and the commands that print one."""

from pathlib import Path
from typing import Any

from aiohttp import web
from fakes.chat import completion


def script(path: Path, text: str) -> Path:
    """An executable shell script."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def counting(folder: Path) -> None:
    """`token.sh` prints another token each time."""
    script(
        folder / "token.sh",
        "echo called >> calls\necho ya29-tok-$(wc -l < calls | tr -d ' ')-Zx9qPw",
    )


def accepting(*tokens: str) -> Any:
    """Answers whoever brings one of the tokens with what was sent."""

    async def respond(request: web.Request) -> web.StreamResponse:
        sent = request.headers.get("Authorization", "")
        if sent.removeprefix("Bearer ") not in tokens:
            return web.json_response({"error": {"message": f"{sent} has expired"}}, status=401)
        return web.Response(body=completion(f"you sent {sent}"), content_type="application/json")

    return respond


TOKEN: dict[str, Any] = {"token": {"command": "./token.sh"}}
