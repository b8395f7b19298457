"""The templates that a suite writes: prompts, requests, commands, scripted answers.

Those of the reports are ours and have an environment of their own (`reports/templates.py`): there it is the text going
in that needs guarding, by the escaping of each format; here it is the template itself.
"""

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2.sandbox import SandboxedEnvironment


@cache
def sandboxed(*, lists_may_grow: bool = False, keep_last_newline: bool = False) -> "SandboxedEnvironment":
    """An environment that reaches nothing but its values, in which a name without a value is an error.

    Nothing is escaped: what is made is no HTML.

    Args:
        lists_may_grow: whether a template may change lists and mappings, as prompts do that build one of their own.
        keep_last_newline: whether a line feed at the very end stays, as in the body of a request.
    """
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedEnvironment

    kind = SandboxedEnvironment if lists_may_grow else ImmutableSandboxedEnvironment
    return kind(undefined=StrictUndefined, autoescape=False, keep_trailing_newline=keep_last_newline)
