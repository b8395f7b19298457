"""The gate. What few suites need, such as metrics of labels, loads when it is first used."""

from typing import TYPE_CHECKING

from ci_evals.registry import lazy_attributes

if TYPE_CHECKING:
    from ci_evals.gate.metrics import figures_of as figures_of
    from ci_evals.gate.metrics import label_metric as label_metric
    from ci_evals.gate.metrics import table_of as table_of
    from ci_evals.gate.metrics import tasks_of as tasks_of
    from ci_evals.gate.outages import FailedRound as FailedRound
    from ci_evals.gate.outages import Outage as Outage
    from ci_evals.gate.outages import failed_rounds as failed_rounds
    from ci_evals.gate.outages import find_outages as find_outages
    from ci_evals.gate.power import detectable_sentence as detectable_sentence

__getattr__ = lazy_attributes(
    __name__,
    {
        "FailedRound": "ci_evals.gate.outages",
        "Outage": "ci_evals.gate.outages",
        "detectable_sentence": "ci_evals.gate.power",
        "failed_rounds": "ci_evals.gate.outages",
        "figures_of": "ci_evals.gate.metrics",
        "find_outages": "ci_evals.gate.outages",
        "label_metric": "ci_evals.gate.metrics",
        "table_of": "ci_evals.gate.metrics",
        "tasks_of": "ci_evals.gate.metrics",
    },
)
