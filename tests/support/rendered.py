"""Summaries as text, in each format."""

from ci_evals.reports import html, junit, markdown, terminal
from ci_evals.reports.markdown import comment_document
from ci_evals.reports.summary import Summary


def terminal_of(summary: Summary, width: int = 100) -> str:
    return terminal.render(summary, width=width, color=False)


def markdown_of(summary: Summary) -> str:
    return b"".join(markdown.render(summary)).decode()


def html_of(summary: Summary) -> str:
    return b"".join(html.render(summary)).decode()


def junit_of(summary: Summary) -> str:
    return b"".join(junit.render(summary)).decode()


def comment_of(summary: Summary) -> str:
    return comment_document(summary).render(60_000)
