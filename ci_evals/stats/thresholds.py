"""The thresholds of the gate: every number that a statistician could have chosen otherwise.

Each one says what it means, what holds it, and what another value costs. Tests that hold it fail if
it moves; those that hold it against more, or against less, fail only if it moves that way. Double
quotes have rows and tables of docs/statistics.md, whose figures it moves. To see what a change
costs, set the number here and print these tables again:

    python -m benchmarks.simulate       pull requests
    python -m benchmarks.drift          the warning of drift
    python -m benchmarks.several_bars   bars that are written one by one

A name ends in its unit. `_P` is a p-value, and its rule applies at this value or below; `_SHARE` is
a fraction of 1; the others are counts. Numbers that follow from a formula, bound the size of a
report or round a figure are where they are used.
"""

from fractions import Fraction

# Confidence.

CONFIDENCE = 0.95
"""The confidence of every bound, unless `gate.confidence` says otherwise.

`model` imports nothing of `stats`, so `Gate` has the number again.
Held by `test_the_gate_has_the_confidence_of_the_table` in tests/statistics/test_thresholds.py,
which keeps both equal, `test_a_tag_keeps_its_own_error` in tests/statistics/test_several_bars.py
against less, and `test_what_a_gate_can_see` in tests/statistics/test_power.py.
Higher: fewer unchanged reports are red, and fewer drops are detected. A tag 20 points below its bar
fails in 78 % of reports; if eight tags shared the error (99.4 % each), in 49 %.
"""
ALPHA = 0.05
"""The accepted chance of a false alarm: 1 - `CONFIDENCE`, without its rounding error.

Held by `test_the_gate_has_the_confidence_of_the_table` in tests/statistics/test_thresholds.py and
"nothing changed": 0.9 to 3 % of these pull requests are red, up to 1.4 % name a case.
"""

# Bars.

ADDED_FLIPPED_RUNS = 3
"""Flipped runs that are added to those seen when the noise within cells is measured.

Without them, bounds are too narrow where a few flaky cells happen to agree with themselves.
Held by tests/statistics/test_rates.py, where `test_a_steady_suite_at_its_bar_hardly_ever_fails`
enumerates suites and `test_a_fixed_suite_is_known_better_than_its_number_of_runs_suggests` has a
known answer.
Lower: of 700 suites (5 to 100 cases, 2 to 10 runs, 1 to 4 flaky cases at any rate, the bar at the
truth), the worst fails wrongly in 5.1 %; with 2 in 6.9 %, with 1 in 16.8 %.
Higher: less is detected. A true rate of 86 % under a bar of 90 % (40 cases × 3 runs) is red in 47 %
of reports, with 1 in 55 %, with 5 in 38 %.
"""
POPULATION_MIN_CASES = 5
"""Graded cases below which nothing is said about new cases like these.

Held by `test_fewer_than_five_graded_cases_say_nothing_of_new_ones` in
tests/statistics/test_rates.py. Not simulated: the figure is shown and decides nothing.
"""
RATCHET_REPORTS = 3
"""Successive reports of the base branch whose rate, taken together, counts as held.

Held by `test_a_rate_is_held_when_three_reports_in_a_row_had_it` in tests/unit/gate/test_rules.py.
Not simulated.
Lower: luck of a single report counts as held. Higher: the ratchet starts later.
"""

# The history of a cell, and the pool of a variant.

POOLED_RUNS = 30
"""Runs of a cell on the base branch that are enough: older reports are not pooled.

Held by `test_no_more_reports_are_pooled_than_it_takes` in tests/unit/gate/test_compare.py.
Lower: fewer cases are named: compare "one of 40 dies" with "one of 40 dies, 1 base report".
Higher: what the base branch was like longer ago counts.
"""
KEPT_REPORTS = 10
"""Earlier reports whose evidence a report hands on, even if fewer have enough runs.

Common luck is measured over them.
Held by `test_a_report_hands_on_what_its_successors_need_and_no_more` in
tests/unit/gate/test_baseline.py against more; nothing holds it against fewer. The rows of
"nothing changed, common luck" have ten.
Lower: common luck is known less well. Higher: `report.json` is longer.
"""
POOL_CUT_ABOVE_P = 0.01
"""The pool of a variant ends where newer reports are, as a whole, above all older ones.

Held by `test_less_evidence_ends_the_pool_where_main_fell_than_where_it_improved` in
tests/unit/gate/test_compare.py against more. No row simulates a base branch that improved.
Lower: a change that takes back what main gained passes. Without this cut, such a change is red in
27 instead of 78 %, where main gained 10 points three reports before (150 pull requests).
Higher: by chance, the base looks better than it is.
"""
MAX_EXACT_CUT_SUPPORT = 60
"""Values of a weighted sum up to which reports of the base branch are compared exactly.

Above, the normal approximation of the variant's test is used. No test holds it.
Higher: time, as every age of a history is tested. Lower: less exact where few cells vary.
"""

# Suspects, and the runs that name them.

SUSPECT_CELL_P = 0.30
"""A cell below its base is a suspect, by Fisher's test of its planned runs: it runs again.

Held by `test_kinds` in tests/unit/gate/test_compare.py against less, and the calls of "nothing
changed".
Lower: fewer broken cases are named. Higher: more calls.
"""
SUSPECT_SINGLE_RUN_P = 0.50
"""The same for a cell with a single planned run, of which p is rarely less.

Held by `test_a_single_failed_run_is_suspect_wherever_others_pass` in
tests/unit/gate/test_compare.py against less.
Lower: with one base report, a case that dies is no suspect. Higher: more calls.
"""
SUSPECT_CASE_P = 0.05
"""A case below its base is a suspect, by the stratified test over its variants.

Held by the rows of "several variants", as "3 variants, 1 base report: 10 % fall to half on all"; no
test holds it.
Lower: fewer cases are named. Higher: more calls, as a suspect runs again on every variant.
"""
MAX_SUSPECTS = 20
"""Suspects that run again, unless `MAX_SUSPECTS_SHARE` allows more; of cases, and of cells.

Critical ones come first, then those least likely by chance; the others stay suspects.
Held by `test_of_many_suspects_the_critical_and_the_surest_are_run_again` in
tests/unit/gate/test_compare.py.
Lower: fewer names where much breaks. All such pull requests are red anyway.
"""
MAX_SUSPECTS_SHARE = Fraction(1, 5)
"""The share of all cells that may run again, where that is more than `MAX_SUSPECTS`.

No test holds it. It matters from 100 cells on: "100 cases", "500 cases" and "several variants".
Lower: suspects of large suites stay undecided. Higher: an unchanged suite may cost more calls.
"""
SUSPECT_RUNS = 4
"""How often a suspect runs again before more is spent on it; a case as often over its variants.

Held by `test_a_suspect_runs_again_a_few_times_first` in tests/unit/gate/test_compare.py.
Lower: more suspects get the runs that name a case. Higher: every suspect costs more.
"""
CANDIDATE_P = 0.05
"""A suspect is a candidate if it still looks worse with these runs: it gets those that name it.

Held by `test_a_suspect_that_recovers_gets_no_more_runs` in tests/unit/gate/test_compare.py.
Lower: fewer broken cases are named. Higher: more calls.
"""
CANDIDATE_FEW_RUNS_P = 0.20
"""The same for a cell whose base has fewer than `FEW_BASE_RUNS` runs.

Held by `test_with_few_runs_on_main_a_suspect_is_easily_a_candidate` in
tests/unit/gate/test_compare.py.
"""
FEW_BASE_RUNS = 10
"""Pooled runs of a cell from which on they can show a drop by themselves.

Held by the same test.
"""
CONFIRM_RUNS = 10
"""The runs that name a candidate, unless `confirm_runs` says otherwise; a case gets twice as many,
over its variants.

Held by `test_a_case_that_always_fails_is_named` in tests/unit/gate/test_compare.py.
Lower: with one base report, no case can be named. Higher: each candidate costs more.
"""

MAX_DROPPED_SHARE = Fraction(1, 5)
"""The share of main's cases that are asked although the change has deleted or reworded them.

At least one is; critical ones come first. Held by
`test_of_many_deleted_cases_the_critical_ones_are_asked` in
tests/behaviour/against/test_dropped_cases.py. A matter of cost: there is nothing to simulate.
Lower: more of them go unasked, which the report says. Higher: a rewritten suite costs twice.
"""

# The variant as a whole.

USUAL_PASSES_PER_FAILURE = 2
"""Passes per failure, on both sides together, from which on a cell usually passes.

A failure of such a cell counts `USUAL_FAILURE_WEIGHT` times.
Held by `test_known_weighted_strata` and `test_the_weighted_p_value_is_that_of_full_enumeration` in
tests/statistics/test_exact_tests.py.
"""
USUAL_FAILURE_WEIGHT = 2
"""How often a failure of a cell that usually passes counts.

Held by the same tests of tests/statistics/test_exact_tests.py, and "all fall by 5 points, ICC 0.5".
Lower: with equal weights, that row is red in 52 instead of 65 % (300 pull requests).
Higher: weights up to 5, by the root of the odds, see more there and less where all cases fall by
one odds ratio.
"""
DOUBT_P = 0.10
"""A variant whose planned runs fell with a p at or below this is in doubt: it gets further rounds.

Held by `test_a_variant_in_doubt_gets_further_rounds_of_all_its_cells` in
tests/unit/gate/test_compare.py against less, and the calls of "nothing changed".
Lower: less is seen of falls that all cases share. Higher: with 0.2, where main can't be run, "all
fall by 5 points, ICC 0.5" is red in 72 instead of 68 %, and "ICC 0.5" in 2.5 instead of 1.9 %, for
5 more calls (300 and 800 pull requests).
"""
FURTHER_ROUNDS = 3
"""Rounds of all its cells that a variant in doubt gets, beyond the plan.

Held by `test_a_variant_in_doubt_gets_further_rounds_of_all_its_cells` in
tests/unit/gate/test_compare.py, and "all fall by 5 points, ICC 0.5".
Lower: less is seen of falls that all cases share. Higher: more calls where nothing changed.
"""
MAX_EXACT_SUPPORT = 1000
"""Values of a weighted sum up to which the distribution is computed.

Above, it is taken as normal, with corrections for continuity and, of weighted sums, skewness.
tests/statistics/test_exact_tests.py holds the approximation to 1 % of the exact p-value, and to
10 % where it is skewed; no test holds the number.
Higher: time. Lower: p-values of small suites are less exact.
"""

# A change that helps: `on_regression: net`.

LIKELY_RISE_P = 0.30
"""A variant on which cases are named gets further rounds if its planned runs rose, p at or below
this: z of 0.524 or more.

Held by `test_a_likely_rise_gets_further_rounds` in tests/unit/gate/test_rises.py.
Lower: fewer names are waived. Higher: more calls for changes that are red anyway.
"""
RISE_P = 0.05
"""A variant is better as a whole if its planned and further runs rose, p at or below this: z of
1.645 or more.

Held by `test_a_sure_rise_waives_what_is_worse` in tests/unit/gate/test_rises.py and "a change that
helps, or not".
Lower: real upgrades are red more often. Higher: changes that gain nothing waive what they break.
"""
RISE_ROUNDS = 3
"""Rounds of all its cells that such a variant then makes on both sides, where main's code runs.

Held by `test_where_main_rose_as_well_nothing_is_waived` in tests/unit/gate/test_rises.py.
Higher: what main gained itself is told more surely from what the change gained, for more calls.
"""
RISE_NOW_P = 0.50
"""Where main's code runs, the variant must also be above main now, p below this: z above 0.

Held by `test_where_main_rose_as_well_nothing_is_waived` in tests/unit/gate/test_rises.py and "a
change that helps, or not".
Lower: with 0.3, "upgrades of 4 points or more: net" is red in 31 instead of 26 %, and "the vendor
made all rise by 5 points, and one of 40 dies: net" waives what is worse in 1 instead of 6 %.
Higher: without this test, it does in 37 % (150 pull requests).
"""

# Common luck.

OVERDISPERSION_MIN_REPORTS = 5
"""Reports of the base branch from which on common luck is known; with fewer, runs are independent.

Held by `test_fewer_than_five_reports_say_nothing` in tests/statistics/test_overdispersion.py, and
the rows of "nothing changed, common luck".
Higher: for longer, 7 to 17 % of unchanged pull requests are red where cases share their luck, as
with 3 base reports; 4 to 7 % are with ten. Lower: few pairs of reports widen bounds by chance.
"""
OVERDISPERSION_PRIOR_PAIRS = 5
"""Pairs of reports that vary just as independent runs do, added to those seen.

Held by `test_it_is_the_ratio_of_variances_between_successive_reports` in
tests/statistics/test_overdispersion.py, and the rows of "nothing changed, common luck".
Lower: by chance, bounds are widened more often, which costs 2 to 3 points of power at a fall of 5
points now. Higher: with 20, "the pass rate wobbles by 4 points" is red in 9.5 instead of 6 to 7 %
(200 pull requests).
"""
OVERDISPERSION_MAX_TERM = 10
"""The most that one pair of reports counts for, in variances of independent runs.

Held by `test_no_pair_of_reports_counts_for_more_than_ten` in
tests/statistics/test_overdispersion.py.
Higher: a step of the base branch widens every bound for as long as it is among the last reports.
Lower: luck that whole reports share is known less well.
"""
SHARED_LUCK_PRIOR_VARIANCE = 5
"""The same for luck that a case has on all variants at once, in squared passes.

It is added both to the squared differences of successive reports and to their variance.
Held by `test_luck_that_a_case_has_on_all_variants_widens_its_p_value` in
tests/unit/gate/test_cases.py. No row simulates such luck.
Lower: names of cases are widened by chance. Higher: shared luck makes false names.
"""

# Outages.

FAILED_ROUND_P = 0.001
"""A round failed as one: its p-value against the other rounds, times the number of rounds.

Held by `test_anything_else_is_no_failed_round` in tests/unit/gate/test_outages.py against more, and
"an outage on the pull request".
Lower: fewer outages are seen. Of "a quarter of a round", 23 % are, and 19 % are red; with 0.0001 it
is 8 and 20 %, with 0.01 48 and 13 % (200 pull requests). Higher: rounds are set aside although
nothing was out, now in 0.0 to 0.2 % of pull requests.
"""
OUTAGE_REPORT_P = 1e-6
"""A base report is an outage if it is below all others together, p below this.

Held by `test_the_report_that_had_an_outage_is_the_known_one` in tests/unit/gate/test_outages.py,
and "2 of 5 runs of a stored report failed, and all fall by 10 points".
Lower: outages count as history, and hide what falls after them. Higher: reports of which nothing
is wrong are left out; none is of 1,000 unchanged histories.
"""
PASSLESS_REPORT_P = 0.001
"""The same for a report without a pass, against the others that have some.

Held by `test_a_single_case_that_fails_now_and_then_is_no_outage` in
tests/unit/gate/test_outages.py, but only against 0.4 and more.
Higher: one flaky case with one run is taken for an outage whenever it fails, and a base that forgot
all its failures makes the next one red. Lower: outages of small suites count as history.
"""
BROKEN_BASE_REPORTS = 2
"""Outages in a row, the newest report included, after which the base branch is broken.

Held by `test_two_in_a_row_mean_that_the_base_branch_is_broken` in tests/unit/gate/test_outages.py
against more, and by "the newest report was out".
Lower: one outage leaves pull requests without a comparison, as that row shows. Higher: until the
third, everything is held against a level that main has left, and every pull request is red.
"""
MIN_UNANSWERED_SHARE = Fraction(1, 4)
"""The share of a base report's runs without an answer from which on these runs do not count.

Held by `test_a_quarter_of_runs_without_an_answer_does_not_count_as_a_baseline` in
tests/unit/gate/test_outages.py. Not simulated: "5 % of all runs crash, on both sides" is below it.
Lower: crashes of the code under test are forgiven on main only. Higher: outages count as history.
"""

# Where main's code runs, too: `gate/both_sides.py`.

BOTH_SIDES_CELLS_P = 0.05
"""A candidate is named only if it is below main now, too, by the procedure of Benjamini and
Hochberg over the candidates.

Held by `test_known_pull_requests_have_the_answers_of_the_reference` in
tests/unit/gate/test_both_sides.py.
Lower: fewer broken cases are named. Higher: what main or the provider did is named.
"""
BOTH_SIDES_CASES_P = 0.03
"""The same for cases over their variants, by Holm's method.

Held by `test_known_variants_have_the_answers_of_the_reference` in
tests/unit/gate/test_both_sides.py.
"""
WOULD_BE_RED_P = 0.05
"""A variant in doubt makes rounds on both sides if its further rounds leave p at or below this.

Held by the same tests.
Lower: less is seen of falls that all cases share. Higher: main runs more often.
"""
BOTH_SIDES_LOOKS = ((3, 0.03), (6, 0.06))
"""The rounds on both sides after which a variant is red, p at or below the number beside them.

Held by the same tests.
Lower levels: less is seen. Higher: what main or the provider did is put down to the change.
"""
FUTILE_P = 0.40
"""A variant makes no more rounds on both sides if the first ones leave a higher p.

Held by the same tests.
"""
MIN_TESTED_SHARE = Fraction(1, 3)
"""Holm's method counts at least this share of all variants, however few are tested on both sides.

Held by `test_known_variants_have_the_answers_of_the_reference` in
tests/unit/gate/test_both_sides.py.
"""
MAIN_FELL_P = 0.05
"""Main itself is said to fail a case if its runs now are below its reports, p at or below this.

Held by `test_where_main_fails_now_too_the_change_is_cleared` in tests/unit/gate/test_both_sides.py.
Such a case is not named in any case: this only chooses the sentence.
"""
MAIN_COLLAPSED_MIN_CELLS = 3
"""Cells of a variant that main has run now, below which nothing is said about main as a whole.

Half of the variant's cells are needed, too. Held by
`test_what_the_vendor_changed_since_the_report_is_not_put_down_to_the_change` in
tests/plugins/actions/test_main_alongside.py against less. Not simulated.
Lower: a case that main fails, too, leaves pull requests without a verdict. Higher: an outage of a
small suite is not seen.
"""
MAIN_COLLAPSED_P = 0.01
"""Main's runs now are an outage if they are below half of its newest report, p at or below this.

Held by `test_main_that_fails_as_a_whole_now_is_no_verdict` in tests/unit/gate/test_both_sides.py.
"""

# Where main's code can't be run, and its stored reports decide: `gate/history_only.py`.

RECENT_POOL_P = 0.20
"""The recent pool of a cell ends where newer and older runs differ, by Fisher's two-sided test.

Held by `test_a_drop_must_show_against_the_newer_reports_too` in tests/unit/gate/test_compare.py.
Lower: what main broke is put down to the change. Higher: fewer broken cases are named.
"""
RECENT_DROP_P = 0.05
"""It also ends where the newest reports of the variant are, as a whole, below all older ones.

Held by "fell by 10 points in its newest report".
Lower: what main broke is put down to the change. Higher: fewer broken cases are named.
"""
POOL_CUT_BELOW_P = 0.20
"""The pool of a variant ends where newer reports are, as a whole, below all older ones.

Held by `test_less_evidence_ends_the_pool_where_main_fell_than_where_it_improved` in
tests/unit/gate/test_compare.py, and "fell by 5 points in its newest report".
Lower: a fall of main is put down to the change. Higher: less of the history counts.
"""
NO_DROP_P = 0.01
"""Repeats of suspects with a higher p show no drop: their planned runs may have been an outage.

Held by `test_anything_else_is_no_outage` in tests/unit/gate/test_outages.py, and "all three
rounds".
Lower: real drops are taken for an outage. Higher: outages are put down to the change.
"""
RECOVERY_P = 0.05
"""These repeats are also better than the planned runs of the same cells, p at or below this.

Held by the same test and row.
"""
FAILED_REPEATS_P = 0.05
"""Repeats of suspects don't count if they are worse than their planned runs.

Held by `test_repeats_that_are_worse_than_the_planned_runs_name_nothing` in
tests/unit/gate/test_compare.py.
Lower: outages during the repeats are put down to the change. Higher: names are lost by chance.
"""
FAILED_ROUNDS_P = 0.001
"""The same for the repeats of all cells of a variant, most of which are no suspects.

No test holds it.
"""

# Missing evidence.

LOST_REPEATS_SHARE = Fraction(1, 2)
"""The share of a variant's repeats that errored, above which it is not run again.

Held by `test_repeats_end_where_the_provider_refuses_them` in tests/behaviour/test_faults.py against
more. Higher: more calls to a provider that refuses them. Lower: refusals by chance leave a suspect
open.
"""

MIN_COMPARED_SHARE = Fraction(4, 5)
"""The share of the base's cells below which a comparison is incomplete.

Held by `test_the_headline_says_how_many_cases_of_the_base_were_not_compared` in
tests/unit/gate/test_rules.py against more. A matter of policy: there is nothing to simulate.
Lower: cases disappear unseen. Higher: every edit of a few cases is a warning.
"""

# Tags, latency and metrics.

MIN_TAG_DROP_RATIO = 2
"""A tag stands out if its cases fell this many times as far as the others.

No test holds it. Not simulated, and never a reason for red: it chooses what the headline names.
"""
LATENCY_SPREAD_SD = 2
"""A latency is red only above the mean of the base's medians plus this many standard deviations.

Held by `test_more_latency_is_red_only_outside_the_spread_of_the_bases_last_reports` in
tests/unit/gate/test_rules.py against less. Not simulated.
Lower: slow hours of a machine are red. Higher: small increases pass.
"""
LATENCY_MIN_REPORTS = 3
"""Base reports with which the spread of their latencies is known; with fewer, none is red.

Held by the same test and `test_with_few_reports_more_latency_is_shown_and_does_not_block` in
tests/unit/gate/test_rules.py.
"""
LATENCY_MAX_REPORTS = 10
"""The last base reports that the spread of latencies is measured over. No test holds it.

Higher: machines of longer ago count. Lower: the spread is known less well.
"""
JACKKNIFE_GROUPS = 50
"""Groups that cases fall into, to bound a metric of labels by leaving out one at a time.

No test holds it. Higher: time. Lower: wider bounds, as Student's t has fewer degrees of freedom.
"""
JACKKNIFE_MIN_GROUPS = 5
"""Groups below which the bounds of a metric of labels are 0 and 1. No test holds it."""
ADDED_SCORE_RUNS = 1
"""Runs that go wholly the other way, added to each side when scores are compared.

Held by `test_scores_of_zero_and_one_vary_as_passes_do` in tests/statistics/test_differences.py.
Without them, steady cells leave no doubt.
"""

# Drift of the base branch.

DRIFT_BETS = (0.1, 0.2, 0.35, 0.5)
"""The logarithms of the factors by which failures may have become more frequent.

Held by `test_the_levels_are_those_of_the_known_histories` in tests/statistics/test_drift.py.
Smaller bets see a slow loss sooner, larger ones a sudden loss. Each costs two integers for each
cell in `report.json`.
"""
DRIFT_ALARM = 5000.0
"""Evidence at or above which the base branch has lost, times the number of variants.

Held by `test_the_levels_are_those_of_the_known_histories` in tests/statistics/test_drift.py, and
the tables of `benchmarks.drift`.
Lower: more false warnings: 2.0 to 2.6 % of years of 250 reports have one; without shared luck,
no more than 250 in `DRIFT_ALARM` can. Higher: losses are seen later: 2 points a week after
13.4 reports now, 5 points at once after 6.8.
"""
DRIFT_QUIET = 50.0
"""Evidence below which a warning of drift ends.

Held by `test_the_levels_are_those_of_the_known_histories` in tests/statistics/test_drift.py.
Higher: a warning ends although the loss goes on. Lower: it stays after the loss is gone.
"""

# Power: the drops that a suite detects, which are shown and decide nothing.

POWER = 0.8
"""The chance with which a drop that is said to be detected is.

Held by `test_what_a_gate_can_see` in tests/statistics/test_power.py. The usual convention.
"""
ASSUMED_PASSES = 0.6
"""The pass rates of the cases of a suite without history are of a beta distribution: this is its
first parameter. Such suites have cases that always pass, a few that never do, and little between.

No test holds it. `--history` adds what its runs show.
"""
ASSUMED_FAILURES = 0.1
"""The second parameter of that distribution, whose mean is 86 %. No test holds it."""
ASSUMED_CORRELATION = 0.5
"""The share of the variance of single runs that lies between cases, if nothing else is known.

As published for tool-agent benchmarks, which have 0.4 to 0.53.
Held by `test_the_comparison_sees_as_often_as_said` in tests/statistics/test_power.py against less.
Lower: all drops that are said to be detected are larger. Higher: they are smaller.
"""
MAX_SIMULATED = 100
"""Pull requests that `ci-evals power` draws for each of its figures. No test holds it.

Higher: time. Lower: a share of 80 % has a standard error of more than 4 points.
"""
MIN_SIMULATED = 25
"""The same of suites that are so large that drawing more takes long. No test holds it."""
MAX_SIMULATED_CELLS = 4000
"""Cells of these pull requests together. No test holds it. Higher: time."""
DISCRETENESS = 1.1
"""Exact tests need a drop larger by this factor than the normal distribution says.

Passes are whole numbers.
Held by `test_the_comparison_sees_as_often_as_said` in tests/statistics/test_power.py, which allows
for 22 points of power less than there are, and for none more.
"""
ADDED_PLANNED_RUNS = 1
"""Flipped runs that are added to the head's runs, and to single runs of a case.

Held by `test_single_runs_cannot_show_that_their_noise_is_small` in tests/statistics/test_power.py.
"""
MAX_ADVISED_RUNS = 100
"""Runs of a case beyond which no plan is suggested.

Held by `test_runs_that_are_needed_are_more_where_bounds_are_wider` in
tests/unit/gate/test_common_luck.py against less.
"""
