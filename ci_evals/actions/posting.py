"""How a verdict is made known in GitHub Actions."""

from typing import Literal

from msgspec import Struct

from ci_evals.github.names import RESULTS
from ci_evals.verdict.gate import FailOn

CommentMode = Literal["auto", "off", "new"]


class Posting(Struct, frozen=True):
    """What becomes of a verdict outside of the results folder.

    Args:
        artifact: what the results are uploaded as.
        comment: whether the pull request's comment is edited (`auto`), left alone (`off`), or a new one made (`new`).
        comment_progress: whether the comment is there while the run still lasts.
        fail_on: which verdicts end in a failure; None leaves that to the suite.
    """

    artifact: str = RESULTS
    comment: CommentMode = "auto"
    comment_progress: bool = False
    fail_on: FailOn | None = None
