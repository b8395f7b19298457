"""Translates Nunjucks templates to Jinja2."""

import json
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


_HISTORY = "`_conversation` holds earlier tests: write a conversation, with `turns`"


class TemplateTranslator:
    """Translates templates, and collects the variables of `env` in them as `environment`.

    A name without a value is empty in Nunjucks, but an error in our Jinja2. So names that a test
    may lack get an empty default.
    """

    def __init__(self) -> None:
        self.names: frozenset[str] | None = None
        """The names that always have a value when the templates are rendered; None for all."""
        self.environment: set[str] = set()
        self._translated: dict[tuple[str, frozenset[str] | None], str] = {}

    def has(self, name: str) -> bool:
        """Return True if a name always has a value."""
        return self.names is None or name in self.names

    def text(self, text: str) -> str:
        """Return a template in Jinja2.

        Raises:
            UntranslatableError: Jinja2 cannot read it, or it refers to earlier tests.
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
            raise UntranslatableError(
                f"not a template that Jinja2 can read: {error.message}"
            ) from None
        if "env" in names:
            self.environment |= set(re.findall(r"\benv\.(\w+)", jinja))
        if "_conversation" in names:
            raise UntranslatableError(_HISTORY)
        lacking = {name for name in names if name != "env" and not self.has(name)}
        if not lacking:
            return jinja
        return _with_defaults(jinja, lacking)

    def inside(self, value: Any) -> Any:
        """Translate every text in a value."""
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
    """Quote templates, so that the text is JSON: `{"q": {{ q | dump }}}` is `{"q": "{{ q }}"}`."""
    return re.sub(
        r'(?<!")\{\{\s*([\w.]+)\s*\|\s*dump\s*(?:\(\s*\))?\s*\}\}(?!")', r'"{{ \1 }}"', text
    )


def escape_in_json(text: str) -> str:
    """Return a prompt that is JSON as promptfoo sends it; return any other unchanged.

    Promptfoo indents the JSON, and escapes what templates insert into its texts.
    """
    try:
        value = json.loads(text)
    except ValueError:
        return text
    templates: dict[str, str] = {}

    def hide(part: Any) -> Any:
        if isinstance(part, str) and is_template(part):
            name = f"template {len(templates)}"
            templates[json.dumps(name)] = f"{{% filter tojson %}}{part}{{% endfilter %}}"
            return name
        if isinstance(part, list):
            return [hide(item) for item in part]
        if isinstance(part, dict):
            return {key: hide(item) for key, item in part.items()}
        return part

    indented = json.dumps(hide(value), ensure_ascii=False, indent=2)
    for name, template in templates.items():
        indented = indented.replace(name, template, 1)
    return indented


class _Token(NamedTuple):
    """A token of a template."""

    line: int
    kind: str
    text: str


def _with_defaults(source: str, names: Collection[str]) -> str:
    """Return a template in which `names` default to an empty text.

    A name stays unchanged if the template tests it, gives it a default, or binds it.
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
    """Return True if a name between these tokens needs no default or cannot have one."""
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
