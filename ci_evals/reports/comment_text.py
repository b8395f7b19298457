"""The comment's template: each piece of its text is a macro."""

from functools import cache
from typing import TYPE_CHECKING, Any

from ci_evals.reports import figures, templates
from ci_evals.reports.markdown_text import Markdown, code, finalize, kept, link

if TYPE_CHECKING:
    from jinja2.environment import TemplateModule


def write(macro: str, **values: Any) -> Markdown:
    """What a macro of the template makes of the values."""
    return Markdown(getattr(_macros(), macro)(**values).strip("\n"))


@cache
def _macros() -> "TemplateModule":
    environment = templates.environment(finalize)
    environment.filters |= {
        "code": code,
        "kept": kept,
        "link": link,
        "number_of": figures.number_of,
        "rate": figures.rate,
        "seconds": figures.seconds,
        "with_interval": figures.rate_with_interval,
    }
    return environment.get_template("comment.md.j2").module
