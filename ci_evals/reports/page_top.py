"""The first screen of report.html: named cases, the next command, and the parts of the matrix."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from statistics import fmean

from ci_evals.format import one_line, percent
from ci_evals.gate.bars import ScopeKind, ScopeVerdict
from ci_evals.gate.compare import RateChange
from ci_evals.gate.wording.comparisons import coverage_clause, newest_reports_text
from ci_evals.model.rules import Gate
from ci_evals.reports.charts import Scale, scale_of
from ci_evals.reports.findings import Findings, base_now_clause, brief_chance, brief_tally
from ci_evals.reports.groups import (
    CellGroup,
    ForeignText,
    GroupItem,
    Quotation,
    Sentence,
    case_subject,
    case_tallies,
    join_sentence,
)
from ci_evals.reports.page_cases import NAME_CHARACTERS
from ci_evals.reports.summary import Summary, base_noise
from ci_evals.reports.variants import variant_reports
from ci_evals.reports.view import (
    CaseView,
    CellView,
    address_of,
    case_views,
    cell_views,
    fragment,
    run_again,
)
from ci_evals.stats.thresholds import MIN_COMPARED_SHARE

_MOST_CASES = 6  # of a tag, or without one
_FEWEST_OF_TAG = 2  # a tag with fewer worse cases explains nothing
_MOST_REASONS = 4
_MOST_ENTRIES = 10  # of the evidence
_FEW_PARTS = 6  # of the matrix, seen at once
_COMMAND_CHARACTERS = 140  # a longer command does not name its cases
_SUITE_ENDINGS = (".yaml", ".yml", ".json")


# The parts of the matrix.


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Some cells of a report together: those of a tag, a variant, a prompt or a provider.

    Attributes:
        name: the name of the tag, variant, prompt or provider.
        also: further tags of exactly the same cells.
        address: the fragment of the page's URL that shows only its cases; may be empty.
        rate: its mean pass rate, with the bounds `lower` and `upper`; None if nothing was graded.
        base: the mean pass rate of the same cells on the baseline; None if too few were compared.
        base_reports: `newest 4 reports`, if `base` is not of all reports.
        change: the change since then, if a case of it is named, or if it passes less often and this
            was tested.
        verdict: the gate's verdict on it, if it has a bar.
    """

    name: str
    also: Sequence[str] = ()
    address: str = ""
    rate: float | None
    lower: float | None
    upper: float | None
    base: float | None = None
    base_reports: str = ""
    change: RateChange | None = None
    verdict: ScopeVerdict | None = None

    @property
    def bar(self) -> float | None:
        return self.verdict.bar if self.verdict else None

    @property
    def is_bad(self) -> bool:
        """Return True if it is surely worse, or misses its bar."""
        misses = self.verdict is not None and self.verdict.status in ("fail", "error")
        return misses or self.change == "worse"

    @property
    def rank(self) -> tuple[bool, float, float]:
        """The sort key: bad parts first, then those with the deepest fall and the lowest rate."""
        rate = 1.0
        if self.rate is not None:
            rate = self.rate
        rise = 0.0
        if self.base is not None:
            rise = rate - self.base
        return not self.is_bad, rise, rate


def parts_of(summary: Summary) -> dict[str, list[Slice]]:
    """Return the tags, the variants if there are several, and prompts and providers if both vary.

    Broken parts come first. As in the gate, cases in quarantine are left out, unless there are no
    others.
    """
    judged = set(summary.report.judged_cells)
    tags: dict[str, list[CellView]] = {}
    prompts: dict[str, list[CellView]] = {}
    providers: dict[str, list[CellView]] = {}
    for cell in cell_views(summary):
        if cell.cell not in judged:
            continue
        prompts.setdefault(cell.variant.prompt or "", []).append(cell)
        providers.setdefault(cell.variant.provider, []).append(cell)
        for tag in dict.fromkeys(cell.case.tags):
            tags.setdefault(tag, []).append(cell)
    found = {"tag": _tags(summary, tags)}
    if len(summary.report.plan.variants) > 1:
        found["variant"] = _variants(summary)
    if len(prompts) > 1 and len(providers) > 1:
        found["prompt"] = _all_of("prompt", prompts, summary, {})
        found["provider"] = _all_of("provider", providers, summary, _bars(summary, "provider"))
    return {by: sorted(parts, key=attrgetter("rank")) for by, parts in found.items() if parts}


def _all_of(
    by: str,
    cells_of: Mapping[str, Sequence[CellView]],
    summary: Summary,
    bars: Mapping[str, ScopeVerdict],
) -> list[Slice]:
    parts = []
    for name, cells in cells_of.items():
        part = _part(summary, name, cells, address=_filter(by, name), verdict=bars.get(name))
        parts.append(part)
    return parts


def _part(
    summary: Summary,
    name: str,
    cells: Sequence[CellView],
    *,
    address: str = "",
    change: RateChange | None = None,
    verdict: ScopeVerdict | None = None,
) -> Slice:
    rate, lower, upper = None, None, None
    noise = base_noise(summary)
    estimate = noise.estimate({cell.cell: cell.counts.tally for cell in cells})
    if estimate is not None:
        rate = float(estimate.rate)
        luck = max(noise.overdispersion.values(), default=1.0)
        confidence = (summary.gate or Gate()).confidence
        lower, upper = estimate.widen(luck).bounds(confidence)
    if any(cell.found and cell.found.kind == "regressed" for cell in cells):
        change = "worse"
    return Slice(
        name=name,
        address=address,
        rate=rate,
        lower=lower,
        upper=upper,
        base=base_rate(cells),
        change=change,
        verdict=verdict,
    )


def base_rate(cells: Sequence[CellView]) -> float | None:
    """Return the mean pass rate of cells on the baseline; None if too few were compared."""
    rates = [cell.found.base.rate for cell in cells if cell.found and cell.found.p is not None]
    if not rates or len(rates) < MIN_COMPARED_SHARE * len(cells):
        return None
    return fmean(rates)


def _tags(summary: Summary, cells_of: Mapping[str, Sequence[CellView]]) -> list[Slice]:
    bars = _bars(summary, "tag")
    compared = {}
    if summary.compared is not None:
        compared = {tag.tag: tag for tag in summary.compared.tags}
    same: dict[tuple[int, ...], list[str]] = {}
    for tag, cells in cells_of.items():
        same.setdefault(tuple(cell.cell for cell in cells), []).append(tag)
    parts = []
    for tag, *also in same.values():
        cells = cells_of[tag]
        change: RateChange | None = None
        if summary.compared is not None and tag in compared:
            tested = compared[tag]
            found = [cell.found for cell in cells if cell.found is not None]
            change = summary.compared.change_of_tag(tested, found)
            change = _loss(change, tested.head_rate, tested.base_rate)
        address = _filter("tag", tag)
        part = _part(summary, tag, cells, address=address, change=change, verdict=bars.get(tag))
        parts.append(replace(part, also=also))
    return parts


def _variants(summary: Summary) -> list[Slice]:
    comparison = summary.compared
    compared = {}
    if comparison is not None:
        compared = {each.variant: each for each in comparison.variants}
    bars = _bars(summary, "variant")
    parts = []
    for variant in variant_reports(summary):
        base = None
        base_reports = ""
        change: RateChange | None = None
        found = compared.get(variant.variant)
        if comparison is not None and found and not coverage_clause(comparison, found):
            base = found.base_rate
            base_reports = newest_reports_text(comparison.newest_reports(found))
            change = comparison.change_of_variant(found)
            change = _loss(change, found.head_rate, found.base_rate)
        name = str(variant.variant)
        part = Slice(
            name=name,
            address=_filter("variant", name),
            rate=variant.pass_rate,
            lower=variant.lower,
            upper=variant.upper,
            base=base,
            base_reports=base_reports,
            change=change,
            verdict=bars.get(name),
        )
        parts.append(part)
    return parts


def _loss(change: RateChange, here: float, base: float) -> RateChange | None:
    """Return a change if something is worse, or may be; None if the pass rate did not fall."""
    return change if change == "worse" or here < base else None


def _bars(summary: Summary, kind: ScopeKind) -> dict[str, ScopeVerdict]:
    scopes = summary.verdict.scopes
    return {scope.name: scope for scope in scopes if scope.kind == kind and scope.bar is not None}


def _filter(name: str, value: str) -> str:
    """Return the fragment of the page's URL that chooses an option of a filter."""
    return fragment(**{name: one_line(value, NAME_CHARACTERS)})


# What broke, by name.


@dataclass(frozen=True, slots=True)
class NamedCase:
    """A case that broke or got better, with its passed runs on the baseline (empty if not
    compared), here, and on main in the same minutes (empty if there are none).
    """

    id: str
    critical: bool
    base: str
    here: str
    base_now: str
    where: str = ""

    @property
    def address(self) -> str:
        """The fragment of the page's URL for the case."""
        return address_of(self.id)


@dataclass(frozen=True, slots=True)
class NamedCases:
    """Cases that are named together: worse ones of a tag, worse ones that no tag explains, or those
    that got better.

    Attributes:
        tag: the tag, if there is one.
        cases: the cases.
    """

    tag: Slice | None
    cases: Sequence[NamedCase]

    @property
    def shown(self) -> Sequence[NamedCase]:
        return self.cases[:_MOST_CASES]

    @property
    def more(self) -> int:
        return len(self.cases) - len(self.shown)


class Top:
    """The first screen of a summary: broken cases, the next command, and the parts of the matrix.

    Attributes:
        parts: the parts by tag, variant, prompt and provider, broken ones first.
        base: the mean pass rate on the baseline, if most cells were compared.
        base_reports: `newest 4 reports`, if `base` is not of all reports.
        base_name: the name of the baseline as a column's heading; empty without a comparison.
    """

    def __init__(self, found: Findings) -> None:
        self._found = found
        self._summary = found.summary
        self.parts = parts_of(found.summary)
        if "tag" in self.parts:
            places = {tag.tag: place for place, tag in enumerate(found.broken_tags)}
            self.parts["tag"].sort(key=lambda part: places.get(part.name, len(places)))
        judged = set(found.summary.report.judged_cells)
        views = cell_views(found.summary)
        self.base = base_rate([cell for cell in views if cell.cell in judged])
        self.base_reports = ""
        comparison = found.summary.compared
        if comparison is not None and self.base is not None:
            base = comparison.base_rate(comparison.cells)
            if base is not None:
                self.base = base.rate
                self.base_reports = newest_reports_text(base.newest_reports)
        self.base_name = found.summary.base_heading

    @staticmethod
    def rows_of(parts: Sequence[object]) -> int:
        """Return the number of parts that are not folded; a single one is not worth a fold."""
        if len(parts) == _FEW_PARTS + 1:
            return len(parts)
        return _FEW_PARTS

    def address_of(self, scope: ScopeVerdict) -> str:
        """Return the fragment of the page's URL that shows the cases of a scope; may be empty."""
        match scope.kind:
            case "tag" | "variant" | "provider" if scope.kind in self.parts:
                return _filter(scope.kind, scope.name)
            case "case":
                return address_of(scope.name)
            case _:
                return ""

    @cached_property
    def scale(self) -> Scale:
        """The axis of all charts of a pass rate, so that they can be compared."""
        rates = [self.base]
        for scope in self._summary.verdict.scopes:
            rates += [scope.rate, scope.lower, scope.bar]
        for parts in self.parts.values():
            for part in parts:
                rates += [part.rate, part.lower, part.base]
        return scale_of([rate for rate in rates if rate is not None])

    @cached_property
    def broken(self) -> Sequence[NamedCases]:
        """The tags most of whose cases fell, then the cases that neither a tag nor a shared reason
        explains.
        """
        broken = list(self._broken_tags)
        explained = {cell.case.id for reason in self.reasons for cell in reason.cells}
        rest = [case for case in self._untagged_cases if case.case.id not in explained]
        if rest:
            broken.append(NamedCases(None, [self._named_case(case) for case in rest]))
        return broken

    @cached_property
    def better(self) -> NamedCases:
        """The cases that got better; none if no case got worse."""
        cases: Sequence[CaseView] = ()
        if self._found.cells["regressed"]:
            cases = case_views(self._found.cells["fixed"])
        return NamedCases(None, [self._named_case(case) for case in cases])

    @cached_property
    def reasons(self) -> Sequence[GroupItem]:
        """The reasons that several cases share, if a list of names would be too long."""
        group = self._found.group(self._kind)
        if group is None or len(self._untagged_cases) <= _MOST_CASES:
            return ()
        shared = [entry for entry in group.entries if len(entry.cells) > 1]
        return shared[:_MOST_REASONS]

    @property
    def further_reasons(self) -> Sequence[GroupItem]:
        """The shared reasons; none if there is only one, and the headline quotes its answer."""
        quotes = any(isinstance(piece, Quotation) for piece in self._found.headline)
        if quotes and len(self.reasons) == 1:
            return ()
        return self.reasons

    @property
    def names_what_broke(self) -> bool:
        return bool(self.broken or self.reasons)

    @cached_property
    def _untagged_cases(self) -> Sequence[CaseView]:
        """The worse cases that no broken tag explains."""
        tagged = {case.id for each in self._broken_tags for case in each.cases}
        worse = case_views(self._found.cells[self._kind])
        return [case for case in worse if case.case.id not in tagged]

    @cached_property
    def _kind(self) -> CellGroup:
        """The group of broken cases: the regressed ones, or the failing ones if the gate is red
        without a regression.
        """
        if self._summary.verdict.status == "fail" and not self._found.cells["regressed"]:
            return "failing"
        return "regressed"

    @cached_property
    def _broken_tags(self) -> Sequence[NamedCases]:
        """The tags that fell, with their regressed cases, or their fallen ones if none regressed.

        A green gate only shows tags with regressed cases.
        """
        regressed = case_views(self._found.cells["regressed"])
        if not regressed and self._summary.verdict.status == "pass":
            return ()
        broken = []
        tags = {part.name: part for part in self.parts.get("tag", ())}
        for tag in self._found.broken_tags:
            if tag.tag not in tags:
                continue  # another tag has the same cells
            if regressed:
                cases = [case for case in regressed if tag.tag in case.case.tags]
                if len(cases) < _FEWEST_OF_TAG:
                    continue
            else:
                cells = [cell for cell in cell_views(self._summary) if tag.tag in cell.case.tags]
                cases = [case for case in case_views(cells) if _has_fallen(case)]
                cases.sort(key=lambda case: case.head.rate - case.base.rate)
            broken.append(NamedCases(tags[tag.tag], [self._named_case(case) for case in cases]))
        return broken

    def _named_case(self, case: CaseView) -> NamedCase:
        base, here = case_tallies(self._summary, case)
        before = ""
        if base.graded:
            before = brief_tally(base)
        where = join_sentence(case_subject(self._summary, case)[1:], name=str)
        return NamedCase(
            id=case.case.id,
            critical=case.critical,
            base=before,
            here=brief_tally(here),
            base_now=base_now_clause(self._summary, case),
            where=where.strip(),
        )

    @cached_property
    def evidence(self) -> Sequence[Sentence]:
        """The reasons for the verdict in sentences: its figures, tests and assumptions."""
        found = self._found
        sentences: list[Sentence] = []
        if self.names_what_broke and found.evidence:
            sentences.append((found.evidence,))
        tags = [broken.tag for broken in self.broken if broken.tag is not None]
        sentences += [self._evidence_of(tag) for tag in tags]
        if group := found.group("regressed"):
            sentences += [entry.text for entry in group.entries[:_MOST_ENTRIES]]
        sentences += [(str(fact),) for fact in found.basis]
        if found.expected:
            sentences.append((found.expected,))
        return sentences

    def _evidence_of(self, tag: Slice) -> Sentence:
        """`tag refund: 97.2 % on main, 0 % here; p < 0.001, adjusted for 10 tags`."""
        assert self._summary.compared is not None
        tags = self._summary.compared.tags
        (compared,) = [each for each in tags if each.tag == tag.name]
        base = percent(compared.base_rate, compared.head_rate)
        here = percent(compared.head_rate, compared.base_rate)
        rates = f": {base} on {self._summary.base}, {here} here; "
        chance = brief_chance(compared.adjusted_p)
        return "tag ", ForeignText(tag.name), f"{rates}{chance}, adjusted for {len(tags)} tags"

    # The next steps.

    @cached_property
    def command(self) -> str | None:
        """The command that runs the broken cases again; None without any, or without a file."""
        file = self._summary.report.suite.file
        if not self.names_what_broke or not file.endswith(_SUITE_ENDINGS):
            return None
        tags = [broken.tag.name for broken in self.broken if broken.tag is not None]
        cases = [case.id for broken in self.broken for case in broken.cases]
        words = []
        if not self._untagged_cases and not any("," in tag for tag in tags):
            words = ["--tags", ",".join(tags)]
        elif not self.reasons:
            for case in cases:
                words += ["--case", case]
        command = run_again(file, *words)
        if not words or len(command) > _COMMAND_CHARACTERS:
            return run_again(file, "--failed")
        return command

    @property
    def how_to_accept(self) -> str:
        """Advice on accepting a worse result. A merge does not help if a bar is missed."""
        advice = "Change what the cases expect"
        missed = [scope for scope in self._summary.verdict.scopes if scope.status == "fail"]
        gate = self._summary.gate or Gate()
        if any(scope.kind != "suite" or gate.min_pass_rate is not None for scope in missed):
            advice += ", or lower the bar that is missed"
        elif not missed:
            advice += ", or merge, and the next comparison is with the new answers"
        return advice

    @property
    def meets_bar_but_fails(self) -> bool:
        """Return True if the gate is red although the bar of the suite is met."""
        verdict = self._summary.verdict
        return verdict.status == "fail" and verdict.scopes[0].status == "pass"

    @property
    def can_be_accepted(self) -> bool:
        """Return True if something is worse than before, which may be intentional."""
        return bool(self._found.cells["regressed"]) or any(each.tag for each in self.broken)


def _has_fallen(case: CaseView) -> bool:
    return bool(case.base.graded) and case.head.rate < case.base.rate
