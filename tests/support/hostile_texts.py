"""Texts that act on whoever shows them as they are."""

import unicodedata
from pathlib import Path

from suites import write_cases, write_suite

TEXTS = {
    "control characters": "".join(map(chr, [*range(32), *range(127, 160)])),
    "a line of 1 MB": "long " * 200_000,
    "200 KB of lines": "a line\n" * 30_000,
    "no blanks": "x" * 200_000,
    "lone surrogates": "\ud800 \udfff \ude00\ud83d",
    "noncharacters": "\ufffe\uffff\ufdd0\U0001ffff",
    "writing direction": "\u202ereversed\u2066\u2069",
    "markup": "</details></summary></td></table><script>alert(1)</script><details><details>",
    "fences": "```\n````\n~~~\n`````` and ` inline ``",
    "a table": "| a | b |\n|---|---|\n| c \\| d |",
    "workflow commands": (
        "::error::pwned\n  ::set-output name=a::b\n##[command]rm\n::stop-commands::x"
    ),
    "xml": "]]><failure>&lt;&#0;&bogus;<![CDATA[",
    "rich markup": "[bold red]styled[/] [/nothing] [link=http://x]y[/link] :smile: [[",
    "ansi": "\x1b[2J\x1b[31mred\x1b]0;title\x07\x1b]8;;http://x\x07link\x9b31m\rover",
    "templates": "{{ 7 * 7 }} {% raw %} {# c #} ${HOME} %s {0}",
    "mentions": "@octocat #1 https://example.org 0123456789abcdef0123456789abcdef01234567",
    "formats": '{"output": "x"} \\u0000 \\ud800 NaN Infinity',
    "combining": "a" + "\u0301" * 5000,
    "nothing": "",
}


def check_terminal(text: str) -> None:
    """Nothing in it acts on a terminal."""
    acting = [char for char in text if unicodedata.category(char) in ("Cc", "Cs") and char != "\n"]
    assert acting == []
    assert "\u202e" not in text


def check_log(text: str) -> None:
    """Nor does anything command the log of a CI system."""
    check_terminal(text)
    for line in text.splitlines():
        assert not line.lstrip().startswith("::")
        assert "##[" not in line


def write_hostile_suite(folder: Path) -> None:
    """Write a suite with a mistake in each of its cases, whose message quotes a text."""
    rows = [
        {"id": text, text[:100]: text, "expect": [{text[:100]: "x"}]} for text in TEXTS.values()
    ]
    write_cases(folder, rows)
    write_suite(folder, [{"file": "cases.jsonl"}])
