"""The names that metrics have in a gate."""

from msgspec import Struct

WHOLE = ("accuracy", "macro_f1")
BY_LABEL = ("precision", "recall", "f1", "roc_auc")
USUAL_TASK = "classify"


class Metric(Struct, frozen=True):
    """One figure of one task: `macro_f1`, `recall.refund`, `language/accuracy`."""

    name: str
    label: str | None = None
    task: str = USUAL_TASK


def read_metric(text: str) -> Metric | None:
    """The metric of a name; None if there is none such."""
    task, slash, rest = text.partition("/")
    name, dot, label = (rest if slash else text).partition(".")
    if (name in WHOLE and not dot) or (name in BY_LABEL and label):
        return Metric(name, label or None, task if slash else USUAL_TASK)
    return None
