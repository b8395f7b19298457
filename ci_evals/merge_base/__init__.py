"""Runs main's code alongside the change: finds the commit, checks it out, and asks a child process.

A pull request is compared with what its target branch does in the same minutes. In sentences, that
branch is called main, whatever its name is.
"""
