"""The errors of runs without an answer: which have one cause, and what is said of them."""

import re
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence

from ci_evals.faults import ErrorKind
from ci_evals.format import name_of, number_of, percent
from ci_evals.model.case import Variant
from ci_evals.model.report import Counts, SuiteReport
from ci_evals.model.result import RunError, Status

HOW_TO_GO_ON = (
    "once the cause is fixed, run with --resume, or re-run the job in GitHub Actions or GitLab CI:"
    " only runs without a grade are repeated"
)
_VERBS: Mapping[ErrorKind, str] = {
    **dict.fromkeys(("rate_limit", "no_credit", "auth", "not_found"), "refused"),
    **dict.fromkeys(("server", "network", "timeout", "upstream"), "did not answer"),
}
"""What a provider did to a run, by the kind of its error."""
_MOST_READ = 1000  # runs: what is common shows in fewer
_LONGEST = 120
_COMPARED_CHARACTERS = 300
_WITH_DIGIT = (
    r"(?<![\w.-])(?<!answered )(?<!status )(?<!error )[\w.-]*\d[\w.-]*"  # but no `answered 401`
)


def same_reason(error: RunError) -> Hashable:
    """Return a key that is equal for errors of one cause.

    Words with digits count as alike: they are request ids, ports, waiting times; but the digits of
    an outage are the round and the runs that it hit.
    """
    if error.kind == "outage":
        return error.message
    message = error.message
    if error.cause is not None:
        message = error.cause
    return re.sub(_WITH_DIGIT, "#", message[:_COMPARED_CHARACTERS]) or error.kind


def all_errored_sentence(report: SuiteReport) -> str:
    """`all 30 runs errored: api.openai.com answered 401: Incorrect API key provided`."""
    totals = report.gated
    if totals.missing:
        found = f"no run was graded, {totals.errored:,} errored"
    elif totals.errored == 1:
        found = "the only run errored"
    else:
        found = f"all {number_of(totals.errored, 'run')} errored"
    return found + _cause_clause(report, _errors(report, "errored"))


def error_rate_sentence(report: SuiteReport, allowed: float) -> str:
    """`30 of 60 runs errored (50 %, all on gpt), more than the 5 % that the gate allows: …`."""
    gated = report.gated
    where = ", ".join([_error_rate(report, allowed), *_only_variant(report, gated)])
    cause = _cause_clause(report, _errors(report, "errored"))
    return f"{errored_clause(gated)} ({where}), {_limit_clause(allowed)}{cause}"


def limit_sentence(report: SuiteReport, allowed: float) -> str:
    """`50 % of the runs errored, more than the 5 % that the gate allows`."""
    return f"{_error_rate(report, allowed)} of the runs errored, {_limit_clause(allowed)}"


def _error_rate(report: SuiteReport, allowed: float) -> str:
    gated = report.gated
    return percent(gated.errored / (gated.graded + gated.errored), allowed)


def _limit_clause(allowed: float) -> str:
    return f"more than the {percent(allowed, allowed)} that the gate allows"


def errored_headline(report: SuiteReport) -> str:
    """`30 of 60 runs errored, all on gpt`, or the sentence on the outage that most were lost in.

    Of several outages, only their number.
    """
    errors = _errors(report, "errored")
    if errors and _commonest_error(errors).kind == "outage":
        outages = outage_sentences(report)
        if len(outages) == 1:
            return outages[0]
        return f"{errored_clause(report.gated)}: likely {number_of(len(outages), 'outage')}"
    where: list[str] = []
    if report.gated.errored > 1:
        where = _only_variant(report, report.gated)
    return ", ".join([errored_clause(report.gated), *where])


def refusal_sentence(report: SuiteReport) -> str:
    """`not checked: gpt refused 30 of 60 runs (429)`.

    Empty unless all errors are one provider's, which did the same to all runs.
    """
    errors = _errors(report, "errored")
    errored = [
        variant
        for variant in report.plan.variants
        if report.counts(report.gated_cells_of(variant)).errored
    ]
    providers = {variant.provider for variant in errored}
    if not errors or len(providers) != 1:
        return ""
    # What was not called any more was lost to what came before.
    called = [error for error in errors if error.kind != "given_up"] or errors
    verbs = {_VERBS.get(error.kind) for error in called}
    verb = verbs.pop()
    if verbs or verb is None:
        return ""
    counts = report.gated
    if counts.errored == counts.graded + counts.errored:
        runs = f"all {number_of(counts.errored, 'run')}"
        if counts.errored == 1:
            runs = "the only run"
    else:
        runs = f"{counts.errored:,} of {number_of(counts.graded + counts.errored, 'run')}"
    sentence = f"not checked: {name_of(providers.pop())} {verb} {runs}"
    status, *other_statuses = {error.status for error in called}
    if status is not None and not other_statuses:
        sentence += f" ({status})"
    return sentence


def errored_cause(report: SuiteReport) -> str:
    """`429: slow down`, what most errored runs ended with; empty if that was an outage."""
    errors = _errors(report, "errored")
    if not errors:
        return ""
    error = _commonest_error(errors)
    if error.kind == "outage":
        return ""
    return error.message or error.kind


def errored_clause(counts: Counts) -> str:
    """`30 of 60 runs errored`; empty if none did."""
    if not counts.errored:
        return ""
    return f"{counts.errored:,} of {number_of(counts.graded + counts.errored, 'run')} errored"


def _only_variant(report: SuiteReport, counts: Counts) -> list[str]:
    """Return `all on gpt` if all errors are of one variant among several; else nothing."""
    variants = report.plan.variants
    errored = [each for each in variants if report.counts(report.gated_cells_of(each)).errored]
    if len(variants) == 1 or len(errored) != 1:
        return []
    on = "on" if counts.errored == 1 else "all on"
    return [f"{on} {name_of(errored[0])}"]


def no_answer_clause(report: SuiteReport) -> str:
    """`: no answer from localhost:8000: …` if all runs failed without an answer; else empty."""
    if report.totals.passed:
        return ""
    failed = report.indices("failed")[:_MOST_READ]
    errors = _errors(report, "failed")
    if len(errors) < len(failed):
        return ""
    return _cause_clause(report, errors)


def _errors(report: SuiteReport, status: Status) -> list[RunError]:
    """Return the errors of the first runs that ended so, without those that have an answer."""
    results = report.results(report.indices(status)[:_MOST_READ])
    return [result.error for result in results if result.error is not None]


def outage_sentences(report: SuiteReport) -> list[str]:
    """`gpt: all 40 failures were in run 2, and all 80 other runs passed: likely an outage`.

    There is one for each time that runs of a variant were withdrawn. The variant is named if there
    are several.
    """
    found: dict[str, None] = {}
    for result in report.results(report.indices("errored")[:_MOST_READ]):
        if result.error is not None and result.error.kind == "outage":
            sentence = result.error.message
            if len(report.plan.variants) > 1:
                sentence = f"{name_of(Variant(result.provider, result.prompt))}: {sentence}"
            found[sentence] = None
    return list(found)


def _cause_clause(report: SuiteReport, errors: Sequence[RunError]) -> str:
    """`; most often: 429: slow down`, or `: 429: slow down` if all errors are alike."""
    if not errors:
        return ""
    error = _commonest_error(errors)
    alike = len({same_reason(each) for each in errors}) == 1
    if error.kind == "outage":
        outages = outage_sentences(report)
        message = outages[0]
        if len(outages) > 1:
            message = f"likely {number_of(len(outages), 'outage')}"
            alike = all(each.kind == "outage" for each in errors)
    else:
        message = name_of(" ".join(error.message.split()) or error.kind, _LONGEST)
    if alike:
        return f": {message}"
    return f"; most often: {message}"


def _commonest_error(errors: Sequence[RunError]) -> RunError:
    """Return an error of the commonest reason, one that was not given up if there is such."""
    alike: dict[Hashable, list[RunError]] = defaultdict(list)
    for error in errors:
        alike[same_reason(error)].append(error)
    commonest = max(alike.values(), key=len)
    for error in commonest:
        if error.kind != "given_up":
            return error
    return commonest[0]
