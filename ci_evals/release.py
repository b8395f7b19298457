"""The version of this package, and where workflows install it from."""

from importlib.metadata import version

__version__ = version("ci-evals")

ACTION = "OWNER/ci-evals@0000000000000000000000000000000000000000"
"""What a workflow `uses`, for the reader to fill in: nothing is released, on GitHub or on a package
index.

Whoever registers a name that we show runs code with our users' secrets. No commit can have this
hash, so a workflow that was not filled in runs nothing. A release puts its own here, and the tests
say where else.
"""
