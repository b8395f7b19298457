"""What things of ours are called on GitHub."""

from typing import Final

RESULTS: Final = "ci-evals-results"
"""What the results of a job are uploaded as, unless it is told otherwise."""
