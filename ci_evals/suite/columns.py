"""`map`: how the columns of a data set become cases."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from jinja2 import TemplateError

from ci_evals.errors import Problem
from ci_evals.model.case import Case
from ci_evals.suite.file_values import FileValues, file_named
from ci_evals.suite.keys import keys_of
from ci_evals.suite.problems import Written, and_more, unknown
from ci_evals.templating import Render, describe_error, is_template, json_renderer

_COLUMNS = frozenset({"id", "description", "input", "vars", "tags", "metadata"})
"""The keys whose plain text names a column. Elsewhere it is what it says."""
_FILES = frozenset({"vars", "matrix"})
"""The keys of which `{file: …}` is the content of a file."""


class ColumnMap:
    """Makes cases of rows, by the value of `map`: a case with columns, and templates over `row`,
    for values.

    Args:
        written: the map.
        problems: gets every problem of the map itself.
        files: reads the files that values name.
    """

    def __init__(self, written: Written, problems: list[Problem], files: FileValues) -> None:
        self.written = written
        self.files = files
        self._fields: dict[str, Render] = {}
        self._misfits: dict[Problem, list[str]] = {}
        for key in written.value:
            if key not in keys_of(Case):
                text = unknown("key", str(key), keys_of(Case))
                problems.append(written[key].problem(text)._replace(path=written.path))
                continue
            try:
                self._fields[key] = self._renderer(written[key], key)
            except TemplateError as error:
                problems.append(written[key].problem(f"not a valid template: {error}"))

    def fill(self, row: Written) -> Written | None:
        """Return a row as a case; None if it has no value for one of the fields, or is no row."""
        if not isinstance(row.value, Mapping):
            self._note(self.written, "expected rows with columns: a mapping for each", row)
            return None
        case: dict[str, Any] = {}
        for key, render in self._fields.items():
            try:
                value = render({"row": row.value})
            except _MisfitError as error:
                self._note(error.place, str(error), row)
            except Exception as error:  # noqa: BLE001  a user's template can raise anything
                self._note(
                    self.written[key],
                    describe_error(error, [f"row.{column}" for column in row.value]),
                    row,
                )
            else:
                case[key] = _as_field(key, value)
        return row.having(case) if len(case) == len(self._fields) else None

    def problems(self) -> list[Problem]:
        """Return what is wrong with rows, once for each mistake, with the place of the first
        one.
        """
        return [
            problem._replace(message=f"{problem.message} ({first}{and_more(len(others))})")
            for problem, (first, *others) in self._misfits.items()
        ]

    def _note(self, place: Written, message: str, row: Written) -> None:
        where = f"{row.file}:{row.line}" if row.line else row.file
        self._misfits.setdefault(place.problem(message), []).append(where)

    def _renderer(self, written: Written, field: str) -> Render:
        value = written.value
        if isinstance(value, str):
            return (
                partial(_column, written)
                if field in _COLUMNS and not is_template(value)
                else json_renderer(value)
            )
        if field in _FILES and file_named(value):
            return partial(self._file, json_renderer(value), written)
        if isinstance(value, Mapping):
            fields = {key: self._renderer(written[key], field) for key in value}
            return lambda names: {key: render(names) for key, render in fields.items()}
        if isinstance(value, list | tuple):
            items = [self._renderer(item, field) for item in written.items()]
            return lambda names: [render(names) for render in items]
        return lambda _: value

    def _file(self, render: Render, written: Written, names: Mapping[str, Any]) -> Any:
        problems: list[Problem] = []
        value = self.files.fill(written.having(render(names)), problems)
        if problems:
            raise _MisfitError("; ".join(problem.message for problem in problems), written)
        return value


class _MisfitError(Exception):
    """A row does not have what a place in the map asks for."""

    def __init__(self, message: str, place: Written) -> None:
        super().__init__(message)
        self.place = place


def _column(written: Written, names: Mapping[str, Any]) -> Any:
    name, row = written.value, names["row"]
    if name not in row:
        raise _MisfitError(unknown("column", name, map(str, row)), written)
    return row[name]


def _as_field(key: str, value: Any) -> Any:
    """Return the value of a field as a case has it: ids and tags of any data set are text."""
    match key:
        case "id":
            return "" if value is None else str(value)
        case "description":
            return None if value is None else str(value)
        case "tags":
            return as_tags(value)
    return value


def as_tags(value: Any) -> Any:
    """Return tags as a list: those in one text are separated by comma or semicolon."""
    if isinstance(value, list | tuple):
        return [tag for item in value for tag in as_tags(item)]
    return (
        [tag.strip() for tag in str(value).replace(";", ",").split(",") if tag.strip()]
        if value is not None
        else []
    )
