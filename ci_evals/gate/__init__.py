"""The gate. What few suites need, such as metrics of labels, loads when it is first used."""

from typing import TYPE_CHECKING

from ci_evals.registry import lazy_attributes

if TYPE_CHECKING:
    from ci_evals.gate.metrics import figures_of as figures_of
    from ci_evals.gate.metrics import label_metric as label_metric
    from ci_evals.gate.metrics import table_of as table_of
    from ci_evals.gate.metrics import tasks_of as tasks_of
    from ci_evals.gate.power import detectable_sentence as detectable_sentence

__getattr__ = lazy_attributes(
    __name__,
    {
        "detectable_sentence": "ci_evals.gate.power",
        "figures_of": "ci_evals.gate.metrics",
        "label_metric": "ci_evals.gate.metrics",
        "table_of": "ci_evals.gate.metrics",
        "tasks_of": "ci_evals.gate.metrics",
    },
)
