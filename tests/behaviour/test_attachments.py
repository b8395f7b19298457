"""Images and files in cases and prompts, as users write them."""

from base64 import b64encode
from pathlib import Path
from typing import Any

from fakes.http_server import Scripted, serving
from leftovers import journaled
from processes import ci_evals
from suites import chat, write_suite

from ci_evals import Case, Message, Part, Suite, check_suite, evaluate
from ci_evals.graders import LlmJudge, NotEmpty
from ci_evals.providers import OpenAI

EXPECT = [{"not_empty": True}]
ANSWER = Scripted({"choices": [{"message": {"content": "a cat"}, "finish_reason": "stop"}]})


def url_of(data: bytes) -> str:
    return f"data:image/png;base64,{b64encode(data).decode()}"


def written(folder: Path) -> list[str]:
    """The text of every file of the results."""
    return [path.read_text() for path in folder.iterdir() if path.is_file()]


def image(data: bytes) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url_of(data)}}


async def test_an_input_a_message_and_a_prompt_send_their_images_and_the_journal_names_them(
    tmp_path: Path,
) -> None:
    (tmp_path / "cat.png").write_bytes(b"cat bytes")
    said: list[dict[str, Any]] = [{"text": "What is this?"}, {"image": "cat.png"}]
    cases = [
        {"id": "input", "input": said, "expect": EXPECT},
        {"id": "messages", "messages": [{"role": "user", "content": said}], "expect": EXPECT},
    ]
    async with serving() as server:
        server.answers(ANSWER)
        write_suite(
            tmp_path,
            cases,
            providers=[chat(server.url)],
            report={"formats": ["json", "markdown", "html"]},
        )
        ended = await ci_evals(tmp_path, "run")
        bodies = [seen.json["messages"] for seen in server.seen]
    assert ended.code == 0, ended.out + ended.err
    assert (
        bodies
        == [
            [
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "What is this?"}, image(b"cat bytes")],
                }
            ]
        ]
        * 2
    )
    for result in journaled(tmp_path / "ci-evals-results"):
        (message,) = result["messages"]
        assert message["content"][1]["image"] == "cat.png"
        assert len(message["content"][1]["sha256"]) == 64
    assert not any(
        b64encode(b"cat bytes").decode() in text for text in written(tmp_path / "ci-evals-results")
    )
    assert "[image cat.png]" in (tmp_path / "ci-evals-results" / "report.html").read_text()


async def test_a_prompt_takes_paths_from_vars(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / f"{name}.png").write_bytes(name.encode())
    prompt = {
        "messages": [
            {"role": "user", "content": [{"text": "{{ q }}?"}, {"image": "{{ animal }}.png"}]}
        ]
    }
    cases = [
        {"id": name, "vars": {"q": "What", "animal": name}, "expect": EXPECT}
        for name in ("cat", "dog", "cow")
    ]
    async with serving() as server:
        server.answers(ANSWER)
        write_suite(tmp_path, cases[:2], prompts=[prompt], providers=[chat(server.url)])
        ended = await ci_evals(tmp_path, "run")
        sent = [seen.json["messages"][0]["content"] for seen in server.seen]
        assert ended.code == 0, ended.out + ended.err
        assert sorted(part["image_url"]["url"] for _, part in sent) == [
            url_of(b"cat"),
            url_of(b"dog"),
        ]
        write_suite(tmp_path, cases, prompts=[prompt], providers=[chat(server.url)])
        missing = await ci_evals(tmp_path, "validate")
    assert (
        "the prompt 'prompt 1' does not fit this case: cow.png cannot be read: No such file"
        in missing.err
    )
    assert "1 problem" in missing.err


async def test_a_prompt_takes_up_an_input_with_an_image(tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(b"cat bytes")
    cases = [
        {"id": "cat", "input": [{"text": "What is this?"}, {"image": "cat.png"}], "expect": EXPECT}
    ]
    async with serving() as server:
        server.answers(ANSWER)
        write_suite(
            tmp_path,
            cases,
            prompts=[{"system": "Be brief.", "user": "{{ input }}"}],
            providers=[chat(server.url)],
        )
        ended = await ci_evals(tmp_path, "run")
        assert ended.code == 0, ended.out + ended.err
        assert server.seen[0].json["messages"] == [
            {"role": "system", "content": "Be brief."},
            {
                "role": "user",
                "content": [{"type": "text", "text": "What is this?"}, image(b"cat bytes")],
            },
        ]
        write_suite(tmp_path, cases, prompts=["Now: {{ input }}"], providers=[chat(server.url)])
        wrong = await ci_evals(tmp_path, "validate")
    assert (
        "the case's input has an image or a file, which `{{ input }}` cannot put into text"
        in wrong.err
    )
    assert "1 problem" in wrong.err


async def test_validate_tells_of_files_and_keys_that_are_wrong(tmp_path: Path) -> None:
    def asking(number: int, *parts: Any) -> dict[str, Any]:
        return {
            "id": f"case-{number}",
            "messages": [{"role": "user", "content": list(parts)}],
            "expect": EXPECT,
        }

    wrong = [{"image": "dog.png"}, {"imag": "cat.png"}, "cat.png", {"text": "a", "image": "b"}]
    cases = [asking(number, part) for number, part in enumerate(wrong)]
    write_suite(
        tmp_path, [*cases, {"id": "input", "input": [{"image": "no.png"}], "expect": EXPECT}]
    )
    ended = await ci_evals(tmp_path, "validate")
    told = [line.removeprefix("evals.yaml:1: ") for line in ended.err.splitlines()[:-2]]
    assert told == [
        (
            "cases[0].messages[0]: dog.png cannot be read: No "
            f"such file or directory (looked in {tmp_path})"
        ),
        "cases[1].messages[0].content[0]: unknown key 'imag', did you mean 'image'?",
        (
            "cases[2].messages[0].content[0]: expected a mapping with "
            "keys such as text, image, file, got 'cat.png'"
        ),
        (
            "cases[3].messages[0]: a part of a message has "
            "one of `text`, `image` and `file`: it has text and image"
        ),
        f"cases[4].input: no.png cannot be read: No such file or directory (looked in {tmp_path})",
    ]


def test_a_case_without_an_id_is_named_by_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(b"one")
    case = Case(input=[{"text": "What is this?"}, {"image": "cat.png"}], expect=[NotEmpty()])
    suite = check_suite(
        Suite(providers=[OpenAI(model="m", base_url="http://h/v1")], cases=[case], folder=tmp_path)
    )
    assert suite.cases[0].id.startswith("What is this?… ")


def test_a_changed_file_makes_another_question(tmp_path: Path) -> None:
    def fingerprint() -> str:
        case = Case(id="a", input=[{"text": "What?"}, {"image": "cat.png"}], expect=[NotEmpty()])
        suite = Suite(
            providers=[OpenAI(model="m", base_url="http://h/v1")], cases=[case], folder=tmp_path
        )
        return check_suite(suite).case_fingerprint(0)

    (tmp_path / "cat.png").write_bytes(b"one")
    first = fingerprint()
    assert fingerprint() == first
    (tmp_path / "cat.png").write_bytes(b"two")
    assert fingerprint() != first


async def test_python_gives_bytes_which_neither_judges_nor_journals_get(tmp_path: Path) -> None:
    data = b"\x89PNG cat"
    said = Message("user", [Part(text="What?"), Part(image=data, media_type="image/png")])
    async with serving() as server:
        server.answers(
            ANSWER,
            Scripted(
                {"choices": [{"message": {"content": '{"reason": "so", "verdict": "pass"}'}}]}
            ),
        )
        asked, judge = (
            OpenAI(name=name, model="m", base_url=server.url) for name in ("asked", "judge")
        )
        case = Case(id="a", messages=[said], expect=[NotEmpty(), LlmJudge("It names an animal.")])
        report = await evaluate(
            Suite(providers=[asked], judges=[judge], cases=[case], runs=1), out=tmp_path
        )
        question, judged = (seen.body.decode() for seen in server.seen)
    assert report.passed
    assert url_of(data) in question
    assert "[image image/png]" in judged
    encoded = b64encode(data).decode()
    assert encoded not in judged
    (result,) = journaled(tmp_path)
    assert result["messages"][0]["content"][1]["image"].startswith("sha256:")
    assert not any(encoded in text for text in written(tmp_path))
