"""Images and files in messages; what model APIs are sent of them is in `test_model_apis.py`."""

import json
import sys
from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes.http_server import FakeResources, FakeServer, Scripted, request_of

from ci_evals.errors import ProviderError
from ci_evals.model.response import Message, Part
from ci_evals.providers.base import ProviderOptions
from ci_evals.providers.command import Command
from ci_evals.providers.http import Http
from ci_evals.providers.openai import OpenAI
from ci_evals.providers.parts import find_parts, identify, without_bytes

PNG, PDF = b"\x89PNG\r\n\x1a\n", b"%PDF-1.7"
PNG64, PDF64 = b64encode(PNG).decode(), b64encode(PDF).decode()
URL = "https://example.com/pictures/dog.jpg?size=2"

SAID = (
    Part(text="Compare these."),
    Part(image="pictures/cat.png"),
    Part(image=URL),
    Part(image=PNG, media_type="image/webp"),
    Part(file="terms.pdf"),
    Part(file="notes.txt"),
)


@pytest.fixture
def folder(tmp_path: Path, resources: FakeResources) -> Path:
    """The suite's folder, with the files."""
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "cat.png").write_bytes(PNG)
    (tmp_path / "terms.pdf").write_bytes(PDF)
    (tmp_path / "notes.txt").write_text("Be kind.")
    resources.folder = tmp_path
    return tmp_path


async def sent(
    server: FakeServer,
    resources: FakeResources,
    options: ProviderOptions,
    answer: Any,
    *parts: Part,
) -> Any:
    """The body that is posted for a message with some parts."""
    server.answers(Scripted(answer))
    message = identify(Message("user", parts), resources.folder)
    await options.open(resources).answer(request_of(Message("system", "Be brief."), message))
    return server.seen[0].json


AS_WRITTEN = [
    {"text": "Compare these."},
    {"image": "pictures/cat.png", "media_type": "image/png"},
    {"image": URL},
    {"image": f"data:image/webp;base64,{PNG64}", "media_type": "image/webp"},
    {"file": "terms.pdf", "media_type": "application/pdf"},
    {"file": "notes.txt", "media_type": "text/plain"},
]


async def test_services_and_programs_get_the_parts_as_they_are_written(
    server: FakeServer, resources: FakeResources, folder: Path
) -> None:
    body = await sent(
        server, resources, Http(url=server.url, body={"said": "{{ messages }}"}), "fine", *SAID
    )
    assert body["said"][1] == {"role": "user", "content": AS_WRITTEN}
    program = Command(command=[sys.executable, "-c", "import sys; print(sys.stdin.read())"])
    message = identify(Message("user", SAID), folder)
    response = await program.open(resources).answer(request_of(message, input="x"))
    assert json.loads(response.output)["messages"] == [{"role": "user", "content": AS_WRITTEN}]


async def test_the_address_of_a_file_is_nothing_for_openai(
    server: FakeServer, resources: FakeResources
) -> None:
    part = Part(file="https://example.com/a.pdf")
    with pytest.raises(ProviderError, match="does not accept the URL of a file"):
        await sent(server, resources, OpenAI(model="m", base_url=server.url), {}, part)


async def test_a_file_that_has_gone_since_is_an_error_of_the_run(
    server: FakeServer, resources: FakeResources, folder: Path
) -> None:
    message = identify(Message("user", SAID), folder)
    (folder / "terms.pdf").unlink()
    with pytest.raises(ProviderError, match=r"terms.pdf cannot be read: No such file") as caught:
        await (
            OpenAI(model="m", base_url=server.url)
            .open(resources)
            .answer(request_of(message, input="x"))
        )
    assert caught.value.kind == "rejected"


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        (Part(), "one of `text`, `image` and `file`: it has none of them"),
        (Part(text="a", file="terms.pdf"), "it has text and file"),
        (Part(image="no.png"), "no.png cannot be read: No such file or directory (looked in "),
        (
            Part(image="pictures"),
            "the media type of pictures cannot be guessed from its name: add a `media_type`",
        ),
        (Part(image="pictures", media_type="image/png"), "pictures cannot be read: Is a directory"),
        (Part(image=PNG), "bytes need a `media_type`, such as image/png"),
        (Part(image="data:image/png;base64,%"), "is not a valid data URL"),
        (Part(image="data:image/png"), "is not a valid data URL"),
    ],
)
def test_what_cannot_be_sent_is_found_before_any_call(
    part: Part, problem: str, folder: Path
) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  its text follows
        identify(Message("user", (part,)), folder)
    assert problem in str(caught.value)


def test_a_data_url_becomes_its_bytes_and_a_journal_has_their_digest_alone(folder: Path) -> None:
    message = identify(
        Message("user", (Part(image=f"data:image/gif;base64,{PNG64}"), Part(text="so"))), folder
    )
    assert message.parts[0] == replace(message.parts[0], image=PNG, media_type="image/gif")
    assert message.text == "[image image/gif]\nso"
    (kept,) = without_bytes((message,))
    assert kept.parts[0].image == f"sha256:{message.parts[0].sha256}"


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ([{"text": "a"}, {"image": "b.png"}], (Part(text="a"), Part(image="b.png"))),
        ([Part(text="a")], (Part(text="a"),)),
        ([{"text": "a"}], None),
        ([{"image": "b.png", "id": 1}], None),
        ([{"image": 5}], None),
        (["a"], None),
        ([], None),
        ({"image": "b.png"}, None),
        ("a", None),
    ],
)
def test_an_input_is_parts_only_with_an_image_or_a_file(value: Any, found: Any) -> None:
    assert find_parts(value) == found
