"""Translates templates of Nunjucks into those of Jinja2."""

import re
from typing import Any

from jinja2 import TemplateError
from jinja2.meta import find_undeclared_variables

from ci_evals.importers.draft import UntranslatableError
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


class TemplateTranslator:
    """Translates templates, and gathers the names in them.

    Afterwards `used` has the names, and `environment` the variables of `env`.
    """

    def __init__(self) -> None:
        self.used: set[str] = set()
        self.environment: set[str] = set()

    def text(self, text: str) -> str:
        """Return a template as Jinja2 has it.

        Raises:
            UntranslatableError: Jinja2 cannot read it.
        """
        if not is_template(text):
            return text
        jinja = re.sub(r"(\{\{-?|\{%-?)(.*?)(-?\}\}|-?%\})", _as_jinja, text, flags=re.DOTALL)
        try:
            names = find_undeclared_variables(template_sandbox().parse(jinja))
        except TemplateError as error:
            raise UntranslatableError(f"not a template that Jinja2 can read: {error}") from None
        if "env" in names:
            self.environment |= set(re.findall(r"\benv\.(\w+)", jinja))
        self.used |= names - {"env"}
        return jinja

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
