"""Secrets that are planted in a suite and in what its code says."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from processes import Finished, ci_evals
from suites import write_suite

NAMED = 'Zx9/"quoted" pass+word%41'  # every encoding of it differs
DOTENV = "dotenv-value-Qm77xK2p"
SHAPED = "sk-proj-Ab3dEf6hIj9kLmN0pQrStUvWx"
IN_URL = "AIzaSyB1c2D3e4F5g6H7i8J9k0"

FORMATS = {"formats": ["json", "junit", "markdown", "html"]}
PLANTED = (
    NAMED,
    quote(NAMED, safe=""),
    quote(NAMED),
    json.dumps(NAMED)[1:-1],
    DOTENV,
    SHAPED,
    IN_URL,
)
FORMS = (*PLANTED, *(json.dumps(planted)[1:-1] for planted in PLANTED))


async def run(folder: Path, *arguments: str, **variables: str) -> Finished:
    """Run the suite of a folder where all secrets are known."""
    (folder / ".env").write_text(f"UNRELATED={DOTENV}\n")
    environ = {
        "NAMED_KEY": NAMED,
        "URL_KEY": IN_URL,
    }
    return await ci_evals(folder, "run", *arguments, environ=environ | variables)


def failing_suite(folder: Path, provider: dict[str, Any]) -> None:
    """Cases that fail, since failures are shown everywhere; one has an expectation of its own."""
    expect = [{"equals": "something else"}, {"tool_call": {"tool": "other"}}, {"is_json": True}]
    cases = [{"id": f"case-{n}", "input": "hi", "expect": expect} for n in range(2)]
    provider = {"retries": 0, **provider}
    write_suite(folder, cases, providers=[provider], report=FORMATS)


def everything() -> str:
    """A text with every secret in every form."""
    return " | ".join(
        [
            *PLANTED,
            f"https://host/?key={quote(NAMED, safe='')}",
            f"Bearer {DOTENV}",
            f"user:{SHAPED}@host",
        ]
    )


def name_keys(folder: Path) -> None:
    config = json.loads((folder / "evals.yaml").read_text())
    config["description"] = "${NAMED_KEY} ${URL_KEY}"
    (folder / "evals.yaml").write_text(json.dumps(config))
