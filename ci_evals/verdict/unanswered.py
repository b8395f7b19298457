"""Why there was no answer to judge, as far as a verdict says it: in one clause."""

import re
from collections import Counter
from collections.abc import Hashable, Iterable
from itertools import islice

from ci_evals.columns import STATUSES
from ci_evals.model import RunError, Status
from ci_evals.percentage import percent
from ci_evals.report import Report
from ci_evals.verdict.words import name_of, number_of

_MOST_READ = 1000  # runs: what is common shows in fewer
_LONGEST = 120
_TOLD_CHARACTERS = 300
_WITH_DIGIT = r"(?<![\w.-])(?<!answered )(?<!status )(?<!error )[\w.-]*\d[\w.-]*"  # but no `answered 401`
_GIVEN_UP = r"given up after \d+ failures in a row: "


def same_reason(error: RunError) -> Hashable:
    """Equal for errors that are told as one: words with digits are request ids, ports and waiting times.

    Runs that were given up have the reason of those before them.
    """
    return re.sub(_WITH_DIGIT, "#", re.sub(_GIVEN_UP, "", error.message)[:_TOLD_CHARACTERS]) or error.kind


def all_errored(report: Report) -> str:
    """`all 30 runs errored: api.openai.com answered 401: Incorrect API key provided`."""
    totals = report.totals
    if totals.missing:
        return f"no run was graded, {totals.errored:,} errored{_commonest(_errors(report, 'errored'))}"
    runs = f"all {number_of(totals.errored, 'run')}" if totals.errored > 1 else "the only run"
    return f"{runs} errored{_commonest(_errors(report, 'errored'))}"


def too_many_errored(report: Report, share: float, allowed: float) -> str:
    """`30 of 60 runs errored (50 %, all on gpt), more than the 5 % that the gate allows: …`."""
    totals = report.totals
    errored = [each for each in report.matrix.variants if report.counts(report.cells_of(each)).errored]
    of = "all on" if totals.errored > 1 else "on"
    where = f", {of} {name_of(str(errored[0]))}" if len(errored) == 1 < len(report.matrix.variants) else ""
    found = f"{totals.errored:,} of {number_of(totals.graded + totals.errored, 'run')} errored"
    limit = f"more than the {percent(allowed, allowed)} that the gate allows"
    return f"{found} ({percent(share, allowed)}{where}), {limit}{_commonest(_errors(report, 'errored'))}"


def why_none_passed(report: Report) -> str:
    """`: no answer from localhost:8000: …` where all runs failed without an answer; else nothing."""
    errors = [] if report.totals.passed else _errors(report, "failed")
    return _commonest(errors) if all(errors) else ""


def _errors(report: Report, status: Status) -> list[RunError | None]:
    """What the first runs that ended so have for an answer."""
    code = STATUSES.index(status)
    slots = islice((slot for slot, each in enumerate(report.columns.status) if each == code), _MOST_READ)
    return [result.error for result in report.results(slots)]


def _commonest(found: Iterable[RunError | None]) -> str:
    """The commonest reason as a clause, in the words of a run that was not given up, if there is one."""
    errors = list(filter(None, found))
    if not errors:
        return ""
    (reason, _), *others = Counter(map(same_reason, errors)).most_common()
    alike = (error for error in errors if same_reason(error) == reason)
    first = min(alike, key=lambda error: error.kind == "given_up")
    told = name_of(" ".join(first.message.split()) or first.kind, _LONGEST)
    return f"; most often: {told}" if others else f": {told}"
