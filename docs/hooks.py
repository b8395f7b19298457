"""A hook of the docs site: links that lead out of docs/ lead to the repository."""

import posixpath
import re
from typing import Any

from ci_evals.release import ACTION

_OUTSIDE = re.compile(r"\]\(((?:\.\./)+[^)\s]+)\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Rewrite the relative links of a page that leave the folder of the docs."""
    folder = posixpath.dirname(f"docs/{page.file.src_uri}")

    def rewrite(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, found[1]))
        inside = path.startswith("docs/")
        return found[0] if inside else f"](https://github.com/{ACTION}/blob/main/{path})"

    return _OUTSIDE.sub(rewrite, markdown)
