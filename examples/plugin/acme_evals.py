"""What ACME adds to ci-evals: a grader, a provider, a report format and a command."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from io import StringIO
from pathlib import Path
from typing import ClassVar

import click

from ci_evals import Answer, Finding, Request, Response
from ci_evals.graders.base import GraderOptions, failed, passed
from ci_evals.model.fields import Above0, NonEmpty
from ci_evals.providers.base import Provider, ProviderOptions, Resources
from ci_evals.reports.files import Format
from ci_evals.reports.summary import Summary


@dataclass(frozen=True, slots=True)
class WordRatio(GraderOptions):
    """The answer has at most `value` words for each word of the question."""

    value: Above0

    def grade(self, answer: Answer) -> Finding:
        asked = len(str(answer.request.input).split())
        answered = len(answer.response.output.split())
        if answered <= self.value * asked:
            return passed(f"at most {self.value:g} words for each word of the question")
        return failed(
            f"more than {self.value:g} words for each word of the question",
            sentence=f"{answered} words for {asked}, at most {self.value:g} for each allowed",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Faq(ProviderOptions):
    """Answers with the entry of a FAQ whose question is most like the input.

    Args:
        file: lines of `question = answer`, from the suite's folder.
    """

    kind: ClassVar[str] = "faq"
    own_code: ClassVar[bool] = True

    file: NonEmpty

    @property
    def default_name(self) -> str:
        return f"faq:{self.file}"

    def open(self, resources: Resources) -> Provider:
        return FaqReader(read_entries(resources.folder / self.file))


class FaqReader:
    """The live provider."""

    def __init__(self, entries: dict[str, str]) -> None:
        self._entries = entries

    async def answer(self, request: Request) -> Response:
        found = get_close_matches(str(request.input), self._entries, n=1, cutoff=0.0)
        return Response(self._entries[found[0]])


def read_entries(path: Path) -> dict[str, str]:
    entries = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        question, _, answer = line.partition(" = ")
        entries[question] = answer
    return entries


def render_csv(summary: Summary) -> Iterator[bytes]:
    lines = StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(("case", "variant", "passed", "graded"))
    for cell in summary.cells:
        counts = cell.counts
        writer.writerow((cell.case.id, str(cell.variant), counts.passed, counts.graded))
    yield lines.getvalue().encode()


CSV = Format("results.csv", render_csv, beginning=b"case,variant,passed,graded\n")


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True))
def questions(file: Path) -> None:
    """List the questions of a FAQ."""
    for question in read_entries(file):
        click.echo(question)
