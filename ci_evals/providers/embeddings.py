"""Any OpenAI-compatible embeddings endpoint: `POST {base_url}/embeddings`. Its answer is a list of vectors, as JSON."""

from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from ci_evals.errors import ProviderError
from ci_evals.model import Request
from ci_evals.providers.base import Provider, Resources
from ci_evals.providers.openai import OpenAI
from ci_evals.providers.wire import Endpoint
from ci_evals.response import Response, Usage


class Embeddings(OpenAI, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="embeddings"):
    """OpenAI's embeddings, or any endpoint that speaks like them: one vector for each text of the input."""

    reserved: ClassVar[tuple[str, ...]] = ("model", "input", "encoding_format")
    embeds: ClassVar[bool] = True

    def open(self, resources: Resources) -> Provider:
        return _Live(self.opened(resources, "embeddings"))


class _Vector(Struct):
    embedding: list[float]
    index: int = 0


class _Usage(Struct):
    prompt_tokens: int | None = None


class _Answer(Struct):
    data: list[_Vector] | None = None
    model: str | None = None
    usage: _Usage | None = None


_decoder = msgspec.json.Decoder(_Answer)


class _Live:
    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    async def answer(self, request: Request) -> Response:
        given: Any = request.input
        texts = [str(text) for text in given] if isinstance(given, list | tuple) else [str(given)]
        answer = await self._endpoint.ask({"input": texts}, _decoder, request.timeout_s)
        vectors = sorted(answer.data or (), key=lambda vector: vector.index)
        if len(vectors) != len(texts):
            text = f"{self._endpoint.url.host} answered with {len(vectors)} embeddings of {len(texts)} texts"
            raise ProviderError("bad_answer", f"{text}: is this an embeddings endpoint?")
        return Response(
            msgspec.json.encode([vector.embedding for vector in vectors]).decode(),
            usage=Usage(answer.usage.prompt_tokens or 0) if answer.usage else None,
            model=answer.model,
        )
