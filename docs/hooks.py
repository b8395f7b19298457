"""Hooks of the docs site: its links, its dark pictures, its live report, and its search."""

import os
import posixpath
import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File
from report_fields import PLACEHOLDER, fields_of_reports

from ci_evals.release import ACTION

ROOT = Path(__file__).resolve().parents[1]
REPOSITORY = ACTION.partition("@")[0]
DEMO = "examples/policy_change/evals.yaml"

_LINK = re.compile(r"\]\(([^)\s:]+)\)")
_PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\.png\)")


def on_config(config: Any, **_: Any) -> Any:
    """Link to the repository in the header, once the repository has an owner."""
    if not REPOSITORY.startswith("OWNER/"):
        config.repo_name = REPOSITORY
        config.repo_url = f"https://github.com/{REPOSITORY}"
    return config


def on_files(files: Any, *, config: Any, **_: Any) -> Any:
    """Add the report that the landing page shows."""
    files.append(File.generated(config, "demo/report.html", content=demo_report()))
    return files


@cache
def demo_report() -> str:
    """Return the page of an example's change, compared with the example as it is."""
    with tempfile.TemporaryDirectory() as folder:
        run_demo(Path(folder, "main"), policy="old")
        change = Path(folder, "change")
        baseline = Path(folder, "main", "report.json")
        run_demo(change, "--baseline", str(baseline), policy="new")
        return Path(change, "report.html").read_text(encoding="utf-8")


def run_demo(out: Path, *options: str, policy: str) -> None:
    """Run the example; its gate may be red."""
    command = (sys.executable, "-m", "ci_evals", "run", "-c", DEMO, "--out", str(out))
    ended = subprocess.run(  # noqa: S603  our own command
        (*command, *options),
        env={**os.environ, "POLICY": policy},
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    if ended.returncode not in (0, 1):
        raise PluginError(f"{DEMO}: {ended.stderr}")


def on_page_markdown(markdown: str, *, page: Any, files: Any, **_: Any) -> str:
    """Link files outside the site in the repository, pair each picture with its dark twin, show the
    fields of report.json, and list recipes first among the results of a search.
    """
    folder = posixpath.dirname(page.file.src_uri)
    if folder == "recipes":
        page.meta["search"] = {"boost": 2}

    def link(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs", folder, found[1]))
        if path.startswith("docs/") and not path.startswith("docs/decisions/"):
            return found[0]
        return f"](https://github.com/{REPOSITORY}/blob/main/{path})"

    def pair(found: re.Match[str]) -> str:
        dark = posixpath.normpath(posixpath.join(folder, f"{found[2]}-dark.png"))
        if files.get_file_from_path(dark) is None:
            return found[0]
        light = f"![{found[1]}]({found[2]}.png#only-light)"
        return f"{light}![{found[1]}]({found[2]}-dark.png#only-dark)"

    linked = _PICTURE.sub(pair, _LINK.sub(link, markdown))
    return linked.replace(PLACEHOLDER, fields_of_reports())
