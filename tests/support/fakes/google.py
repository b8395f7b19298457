"""A Google service account whose tokens come from a stand-in, and what Vertex AI is sent."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from fakes.http_server import Respond

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "data" / "vertex-generate-content.schema.json").read_text("utf-8")
)


def check_vertex(value: Any, kind: str) -> None:
    """Check a `request` or a `response` against the published reference."""
    jsonschema.validate(value, {**SCHEMA, "$ref": f"#/$defs/{kind}"})


@cache
def private_key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


def write_key_file(path: Path, token_url: str) -> None:
    """Write the key of a service account, whose tokens `token_url` gives."""
    account = {
        "type": "service_account",
        "project_id": "shop",
        "private_key_id": "key-1",
        "private_key": private_key(),
        "client_email": "evals@shop.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": token_url,
    }
    path.write_text(json.dumps(account))


def giving_tokens(answer: Respond, *, lifetime_s: int = 3600) -> Respond:
    """Gives another token each time it is asked at /token, and leaves the rest to `answer`."""
    given = 0

    async def respond(request: web.Request) -> web.StreamResponse:
        nonlocal given
        if not request.path.endswith("/token"):
            return await answer(request)
        given += 1
        token = {
            "access_token": f"ya29-google-{given}-Zx9qPw",
            "expires_in": lifetime_s,
            "token_type": "Bearer",
        }
        return web.json_response(token)

    return respond
