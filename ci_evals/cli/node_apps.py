"""Finds the HTTP server of a Node.js project, its route for a question, and the command to start
it. The sources are read, not run.
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from ci_evals.cli.web_apps import ANSWERS, PORT, QUESTIONS, WebApp, is_chatty

MANIFEST = "package.json"

_SUFFIXES = (".js", ".mjs", ".cjs", ".ts", ".mts")
_NOT_THE_APP = {"build", "coverage", "dist", "examples", "node_modules", "public", "test", "tests"}
_MOST_FILES = 300
_MOST_BYTES = 1_000_000
_DEEPEST = 3
_LISTENS = re.compile(r"\.listen\(\s*(?:\{[^}]*?\bport:\s*)?(?P<port>\d{2,5})?")
_OF_ENVIRONMENT = re.compile(r"\bprocess\.env\.PORT\b")
_ROUTE = re.compile(r"""\.post\(\s*["'`](?P<path>/[^"'`]*)["'`]""")
_FIELD = re.compile(r"\b(?:req|request|ctx\.request)\.body\??\.(\w+)")
_FIELDS = re.compile(
    r"\{([^{}]*)\}\s*=\s*(?:await\s+)?(?:req|request|c\.req|ctx\.request)\.(?:body|json)\b"
)
_SENT = re.compile(r"(?:\.json|\.send|\bend\(JSON\.stringify|\breturn)\s*\(?\s*\{([^{}]*)\}?")


def find_node_app(folder: Path) -> WebApp | None:
    """Return the server of the project in a folder; None if it has none, or no `package.json`."""
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(manifest, dict):
        return None
    for file in _sources(folder):
        source = _read(folder / file)
        listens = _LISTENS.search(source)
        if listens is None:
            continue
        command = f"node {file.as_posix()}"
        scripts = manifest.get("scripts")
        if isinstance(scripts, dict) and "start" in scripts:
            command = "npm start"
        env = {}
        port = PORT
        if _OF_ENVIRONMENT.search(source):
            env = {"PORT": str(PORT)}
        elif listens["port"]:
            port = int(listens["port"])
        app = WebApp(file.as_posix(), command, port=port, env=env, has_route=False)
        return _with_route(app, source)
    return None


def install_command(folder: Path, inside: str) -> str:
    """Return the command that installs what a Node.js project depends on.

    Args:
        folder: the project.
        inside: its folder in the repository, quoted for a shell.
    """
    prefix = ""
    if inside != ".":
        prefix = f" --prefix {inside}"
    if (folder / "package-lock.json").is_file():
        return f"npm ci{prefix}"
    return f"npm install{prefix}"


def _with_route(app: WebApp, source: str) -> WebApp:
    """Return an app with its route that takes a question; unchanged if there is none."""
    found: list[WebApp] = []
    starts = list(_ROUTE.finditer(source))
    for number, route in enumerate(starts):
        end = len(source)
        if number + 1 < len(starts):
            end = starts[number + 1].start()
        handler = source[route.end() : end]
        question = _preferred(_names_read(handler), QUESTIONS)
        if question is None or ":" in route["path"]:
            continue
        answer = _preferred(_names_sent(handler), ANSWERS)
        output = None
        if answer is not None:
            output = f"$.{answer}"
        found.append(
            WebApp(
                app.name,
                app.command,
                path=route["path"],
                body={question: "{{ input }}"},
                output=output,
                port=app.port,
                env=app.env,
            )
        )
    found.sort(key=is_chatty, reverse=True)  # stable: else the first route in the file
    return next(iter(found), app)


def _names_read(handler: str) -> list[str]:
    """Return the names that a handler takes from the body of its request."""
    names = _FIELD.findall(handler)
    for fields in _FIELDS.findall(handler):
        names += re.findall(r"(\w+)\s*(?:[:=][^,]*)?(?:,|$)", fields)
    return names


def _names_sent(handler: str) -> list[str]:
    """Return the keys of the objects that a handler answers with."""
    names: list[str] = []
    for fields in _SENT.findall(handler):
        names += re.findall(r"(?:^|,)\s*[\"']?(\w+)[\"']?\s*(?=[:,]|$)", fields)
    return names


def _preferred(names: list[str], known: tuple[str, ...]) -> str | None:
    return next((name for name in known if name in names), None)


def _sources(folder: Path) -> Iterator[Path]:
    """Yield the sources below a folder, those nearest to the top first."""
    found: list[tuple[int, Path]] = []
    for place, folders, names in os.walk(folder):
        inside = Path(place).relative_to(folder)
        depth = len(inside.parts)
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name not in _NOT_THE_APP
        )
        if depth == _DEEPEST:
            folders.clear()
        found += [(depth, inside / name) for name in names if name.endswith(_SUFFIXES)]
    found.sort()
    for _, file in found[:_MOST_FILES]:
        yield file


def _read(path: Path) -> str:
    """Return the text of a source; empty if it cannot be read or is too large."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            return ""
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
