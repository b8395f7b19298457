"""Where the templates of the reports are, and how they are filled in."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

PACKAGE = Path(__file__).parent.parent


def folder(package: Path = PACKAGE) -> Path:
    """`_templates` inside the package as the wheel has it, else `templates/` beside the package as a checkout does."""
    shipped = package / "_templates"
    return shipped if shipped.is_dir() else package.parent / "templates"


def environment(finalize: Callable[[Any], Any], *, autoescape: bool = False) -> "Environment":
    """An environment in which a name without a value is an error, and every `{{ value }}` goes through `finalize`.

    `finalize` is to formats other than HTML what `autoescape` is to HTML: the one door through which text gets in.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(folder()),
        undefined=StrictUndefined,
        finalize=finalize,
        autoescape=autoescape,  # noqa: S701  without it `finalize` escapes
        optimized=False,  # folding constants takes longer than a template filled in once
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
