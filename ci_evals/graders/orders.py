"""Detects answers that give orders to the model that judges them."""

import re
import unicodedata
from functools import cache

_MAX_CHARACTERS = 200_000  # of an answer to search

_JUDGE = r"(?:judge|grader|evaluator|examiner|assessor|rater)s?\b"
_VERDICT = r"\b(?:verdict|score|grade|rating|result|mark)s?\b"
_GOOD = r"\b(?:pass(?:ed|ing)?|correct|full|perfect|top|highest|maximum|best|10/10|5/5|100 ?%|a\+)"
_GIVE = r"\b(?:give|assign|award|return|output|respond with|reply with|answer with|set)\b.{0,40}"
_MARK = r"\b(?:mark|grade|rate|score|judge|label|classify|consider|accept)\s+(?:this|the|my)\s+"
_DISMISS = r"\b(?:ignore|disregard|forget|override|overrule)\b.{0,40}"
_RULES = r"\b(?:instructions?|rubrics?|rules|criteria|prompts?|guidelines|above|previous|prior)"
_ADDRESS = r"\b(?:dear|attention|hey|hello|hi|note (?:to|for)|message (?:to|for)|as|to|you are)\s+"

_PATTERNS = (
    _DISMISS + _RULES,
    _ADDRESS + r"(?:an?\s+|the\s+|all\s+)?(?:\w+\s+)?" + _JUDGE,
    _JUDGE
    + r"\s*[,:]\s*(?:please|you|mark|give|assign|return|output|respond|pass|score|grade|rate)\b",
    _MARK + r"(?:answer|response|output|submission|reply|text)\b.{0,40}" + _GOOD,
    _GIVE + _GOOD + r"\b.{0,20}" + _VERDICT,
    _GIVE + _VERDICT + r".{0,20}" + _GOOD,
    _VERDICT + r"[\"']?\s*[:=]\s*[\"']?(?:" + _GOOD + r"|(?:1|1\.0|5|10|100|yes|true)\b)",
    r"</?\s*(?:data|answer|reference|rubric|instructions?|system|user|assistant)[\w-]*\s*>",
    r"<\|(?:im_start|im_end|system|endoftext|eot_id)\|?>|\[/?inst\]|<<sys>>",
    (
        r"(?:^|\n)\s*#{0,6}\s*(?:new |updated |real )?(?:system|developer)"
        r"(?: prompt| message| instructions?)?\s*:"
    ),
    (
        r"\b(?:new|updated|real|actual)\s+(?:system\s+)?(?:instructions?|rubric|criteria|task)"
        r"\s*(?::|are|is)"
    ),
    (
        r"\bend of (?:the )?"
        r"(?:data|answer|response|submission|text to (?:be )?(?:graded|judged|evaluated))"
    ),
)


def find_orders(text: str) -> str | None:
    """Return the words of a text that seem to give orders to its judge; None if there are none.

    Case, look-alikes of ASCII (NFKC), invisible characters and white space are ignored.
    """
    plain = unicodedata.normalize("NFKC", text[:_MAX_CHARACTERS])
    visible = "".join(char for char in plain if unicodedata.category(char) not in ("Cf", "Mn"))
    folded = re.sub(r"[^\S\n]+", " ", visible.casefold())
    # With line breaks for patterns of a line's start, and without, for orders that span lines.
    for form in (folded, " ".join(folded.split())):
        match = _expression().search(form)
        if match is not None:
            return match[0].strip()
    return None


@cache
def _expression() -> re.Pattern[str]:
    return re.compile("|".join(_PATTERNS))
