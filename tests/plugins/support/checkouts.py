"""A checkout that jobs of a CI system use one after the other."""

import subprocess
from pathlib import Path
from typing import Any

from suites import write_suite

RESULTS = "ci-evals-results"
SETTLED = {
    "ci_evals.plugins.ci.comment.SETTLE_S": 0.05,
    "ci_evals.plugins.ci.comment.WRITE_SPACING_S": 0.05,
}
"""The waits of a job that writes its comment alone."""
CASES = ("capital", "river", "mountain", "poem")


class Checkout:
    """A folder with a suite, and whatever commit is checked out."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def git(self, *arguments: str) -> str:
        """What git prints in the checkout."""
        user = ("-c", "user.name=octocat", "-c", "user.email=octocat@example.org")
        command = ("git", "-C", str(self.folder), *user, *arguments)
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def check_out(self, sha: str) -> None:
        """Commit the files as they are under a commit id of our choice, as its only one."""
        if not (self.folder / ".git").exists():
            self.git("init", "--quiet")
            ignored = (".runner-*", "ci-evals-*", "__pycache__")
            (self.folder / ".git" / "info" / "exclude").write_text("\n".join(ignored))
        self.git("add", "--all")
        commit = self.git("commit-tree", self.git("write-tree"), "-m", "a state of the app")
        replaced = self.folder / ".git" / "refs" / "replace"
        replaced.mkdir(exist_ok=True)
        (replaced / sha).write_text(f"{commit}\n")
        (self.folder / ".git" / "HEAD").write_text(f"{sha}\n")

    def suite(
        self, wrong: tuple[str, ...] = (), cases: tuple[str, ...] = CASES, **settings: Any
    ) -> None:
        """Write a suite whose provider answers some cases wrongly."""
        answers = {case: "no idea" if case in wrong else f"the {case}" for case in cases}
        entries = [
            {"id": case, "input": case, "expect": [{"contains": f"the {case}"}]} for case in cases
        ]
        providers = [{"name": "agent", "type": "mock", "answers": answers}]
        write_suite(
            self.folder,
            entries,
            **{"name": "geography", "runs": 5, "providers": providers, **settings},
        )
