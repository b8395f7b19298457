"""Workflow commands: how a job's log talks to GitHub Actions."""

from typing import Final

from ci_evals.redaction import mask_commands

__all__ = ["ENDGROUP", "command", "group", "mask_commands"]

ENDGROUP: Final = "::endgroup::\n"


def command(name: str, message: str, **properties: str | int | None) -> str:
    """One line that the runner obeys; properties that are None or empty are left out."""
    given = (f"{key}={_property(str(value))}" for key, value in properties.items() if value not in (None, ""))
    parts = ",".join(given)
    return f"::{name}{' ' if parts else ''}{parts}::{_data(message)}\n"


def group(title: str) -> str:
    """Opens a foldable part of the log, until `ENDGROUP`."""
    return command("group", " ".join(title.split()))


def _data(text: str) -> str:
    # `##[` is the old form of a command, obeyed anywhere in a line.
    unarmed = text.replace("##[", "# #[")
    return unarmed.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
