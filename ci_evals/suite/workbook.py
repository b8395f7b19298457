"""Reads the rows of an Excel workbook in the form of a CSV file's."""

from collections.abc import Iterator
from datetime import date, datetime, time
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import openpyxl
from openpyxl.utils.exceptions import InvalidFileException

from ci_evals.errors import ConfigError, Problem


def read_workbook(path: Path, shown: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of the first sheet with their numbers; a blank row has no cells.

    Cells are text; formulas have their last value. The header sets the number of columns.

    Raises:
        ConfigError: the file cannot be read.
    """
    try:
        workbook = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
        raise ConfigError([Problem(shown, None, "", reason)]) from error
    except (BadZipFile, InvalidFileException, KeyError, ValueError) as error:
        raise ConfigError([Problem(shown, None, "", f"not a workbook: {error}")]) from error
    try:
        sheet = workbook.worksheets[0]
        columns = 0
        for number, values in enumerate(sheet.iter_rows(values_only=True), 1):
            cells = [_text(value) for value in values]
            if number == 1:
                while cells and not cells[-1]:
                    cells.pop()
                columns = len(cells)
            elif not any(cells):
                cells = []
            elif not any(cells[columns:]):
                cells = cells[:columns] + [""] * (columns - len(cells))
            yield number, cells
    finally:
        workbook.close()


def _text(value: Any) -> str:
    """Return the value of a cell as Excel would export it to CSV."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case float() if value.is_integer():  # Excel stores every number as a float
            return str(int(value))
        case datetime() if value.time() == time():  # and every date with a time
            return value.date().isoformat()
        case datetime() | date() | time():
            return value.isoformat()
    return str(value)
