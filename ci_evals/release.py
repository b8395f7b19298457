"""The version of this package, as its metadata says it."""

from importlib.metadata import version

__version__ = version("ci-evals")
