"""Help texts with many rows: commands and options are listed by purpose."""

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
        rows: the first column and the help of each row; rows without a section come last.
    """
    others = set(rows)
    for names in sections.values():
        others.difference_update(names)
    in_order = [name for name in rows if name in others]
    longest = max(len(first) for first, _ in rows.values())
    width = min(_WIDEST_NAME, longest)
    for title, names in {**sections, "Others": in_order}.items():
        padded = []
        for name in names:
            if name in rows:
                first, text = rows[name]
                padded.append((first.ljust(width), text))
        if padded:
            with formatter.section(title):
                formatter.write_dl(padded, col_max=width)
