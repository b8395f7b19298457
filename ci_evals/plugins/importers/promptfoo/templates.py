"""Translates templates of Nunjucks into those of Jinja2."""

import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from jinja2 import TemplateError
from jinja2.meta import find_undeclared_variables

from ci_evals.plugins.importers.draft import UntranslatableError
from ci_evals.templating import is_template, template_sandbox

_CHANGES = (
    (r"\|\s*dump\b(\(\s*\))?", "| tojson"),
    (r"===", "=="),
    (r"!==", "!="),
    (r"\s*&&\s*", " and "),
    (r"\s*\|\|\s*", " or "),
    (r"!(?=[\w(])", "not "),
    (r"\.length\b", " | length"),
    (r"^(\s*)(?:elseif|else if)\b", r"\1elif"),
)


_HISTORY = (
    "`_conversation` is what was said in the tests before: write a conversation, with `turns`"
)


class TemplateTranslator:
    """Translates templates, and gathers the variables of `env` in them, as `environment`.

    What has no value is empty in Nunjucks, and an error in our Jinja2. So a name that a test may
    lack gets an empty default.
    """

    def __init__(self) -> None:
        self.names: frozenset[str] | None = None
        """The names that surely have a value where the templates are rendered; None for all."""
        self.environment: set[str] = set()
        self._translated: dict[tuple[str, frozenset[str] | None], str] = {}

    def has(self, name: str) -> bool:
        """Return True if a name surely has a value."""
        return self.names is None or name in self.names

    def text(self, text: str) -> str:
        """Return a template as Jinja2 has it.

        Raises:
            UntranslatableError: Jinja2 cannot read it, or it asks for earlier tests.
        """
        if not is_template(text):
            return text
        key = (text, self.names)
        if key not in self._translated:
            self._translated[key] = self._translate(text)
        return self._translated[key]

    def _translate(self, text: str) -> str:
        jinja = re.sub(r"(\{\{-?|\{%-?)(.*?)(-?\}\}|-?%\})", _as_jinja, text, flags=re.DOTALL)
        try:
            names = find_undeclared_variables(template_sandbox().parse(jinja))
        except TemplateError as error:
            raise UntranslatableError(f"not a template that Jinja2 can read: {error}") from None
        if "env" in names:
            self.environment |= set(re.findall(r"\benv\.(\w+)", jinja))
        if "_conversation" in names:
            raise UntranslatableError(_HISTORY)
        lacking = {name for name in names if name != "env" and not self.has(name)}
        if not lacking:
            return jinja
        return _with_defaults(jinja, lacking)

    def inside(self, value: Any) -> Any:
        """Return a value with each text in it as a template."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {key: self.inside(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.inside(item) for item in value]
        return value


def _as_jinja(match: re.Match[str]) -> str:
    start, inside, end = match.groups()
    for pattern, replacement in _CHANGES:
        inside = re.sub(pattern, replacement, inside)
    return f"{start}{inside}{end}"


def quote_dumped(text: str) -> str:
    """Return JSON with templates in it as JSON: `{"q": {{ q | dump }}}` as `{"q": "{{ q }}"}`."""
    return re.sub(
        r'(?<!")\{\{\s*([\w.]+)\s*\|\s*dump\s*(?:\(\s*\))?\s*\}\}(?!")', r'"{{ \1 }}"', text
    )


class _Token(NamedTuple):
    """A part of a template, as Jinja2 cuts it."""

    line: int
    kind: str
    text: str


def _with_defaults(source: str, names: Collection[str]) -> str:
    """Return a template in which names are empty where they have no value.

    A name stays as it is where the template itself asks for its value, and where it is bound.
    """
    sandbox = template_sandbox(keep_last_newline=True)
    tokens = [_Token(*token) for token in sandbox.lex(source)]
    texts = [token.text for token in tokens]
    signs = [place for place, token in enumerate(tokens) if token.kind != "whitespace"]
    for number, place in enumerate(signs):
        token = tokens[place]
        if token.kind != "name" or token.text not in names:
            continue
        before = tokens[signs[number - 1]]
        after = [tokens[other].text for other in signs[number + 1 : number + 4]]
        if _stays(before, after):
            continue
        texts[place] = f"{token.text} | default('')"
        is_all = before.kind == "variable_begin" and after[0] in ("|", "}}", "-}}")
        if not is_all:
            texts[place] = f"({texts[place]})"
    return "".join(texts)


def _stays(before: _Token, after: Sequence[str]) -> bool:
    """Return True if a name between these parts of a template needs no default or has none."""
    if before.text in (".", "|", "is", "for", "set"):
        return True
    match after:
        case [("." | "[" | "="), *_]:
            return True
        case ["|", ("default" | "d"), *_]:
            return True
        case ["is", *check]:
            return not {"defined", "undefined", "none"}.isdisjoint(check)
    return False
