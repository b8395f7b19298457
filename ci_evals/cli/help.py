"""The help of commands with many rows: commands and options are listed by purpose."""

from collections.abc import Mapping, Sequence

import click

_WIDEST_NAME = 24


def write_sections(
    formatter: click.HelpFormatter,
    sections: Mapping[str, Sequence[str]],
    rows: Mapping[str, tuple[str, str]],
) -> None:
    """Write the rows of a help text by section, with the same columns in each.

    Args:
        formatter: gets the text.
        sections: the names of the rows of each section, by its title. Empty sections are left out.
        rows: the first column and the help of each row; rows of no section come last.
    """
    with_section = {name for names in sections.values() for name in names}
    others = [name for name in rows if name not in with_section]
    longest = max(len(first) for first, _ in rows.values())
    width = min(_WIDEST_NAME, longest)
    for title, names in {**sections, "Others": others}.items():
        found = [rows[name] for name in names if name in rows]
        if found:
            with formatter.section(title):
                padded = [(first.ljust(width), text) for first, text in found]
                formatter.write_dl(padded, col_max=width)
