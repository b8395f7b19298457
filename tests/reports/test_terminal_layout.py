"""Text laid out in the cells of a terminal."""

import random
from itertools import pairwise

import pytest

from ci_evals.reports.terminal_layout import Paragraph, Part, Table, drawn, plain, styled, width_of, wrapped


def lines_of(part: Part, width: int = 80, *, color: bool = False) -> list[str]:
    return [drawn(line, color=color) for line in part.lines(width)]


def wrapped_lines(text: str, width: int) -> list[str]:
    return lines_of(Paragraph(plain(text)), width)


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("", 0),
        ("refund", 6),
        ("größe – “x” … ▲ ✗ ─", 19),
        ("東京", 4),
        ("한국어", 6),
        ("\u1112\u1161\u11ab", 2),  # one syllable of three letters
        ("\uff46\uff55", 4),  # fullwidth letters
        ("e\u0301", 1),
        ("\u0928\u093f", 1),  # a vowel sign of Devanagari
        ("a\u200bb\u2060\u200f", 2),
        ("soft\u00adhyphen", 11),
        ("👍", 2),
        ("👍🏽", 2),
        ("👩\u200d💻", 2),
        ("👨\u200d👩\u200d👧\u200d👦", 2),
        ("❤", 1),
        ("❤\ufe0f", 2),
        ("❤\ufe0f\u200d🔥", 2),
        ("1\ufe0f\u20e3", 2),
        ("🇫🇷", 2),
        ("\U0001faf8", 2),  # of a later Unicode than that of Python 3.11
        ("\u0378", 1),  # of no Unicode yet
        ("\u0301", 0),
    ],
)
def test_a_text_takes_as_many_cells_as_a_terminal_shows(text: str, cells: int) -> None:
    assert width_of(text) == cells


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", [""]),
        ("one two", ["one two"]),
        ("one two three", ["one two", "three"]),
        ("one  two   three  ", ["one  two", "three"]),
        ("  indented", ["  indented"]),
        ("abcdefghijklmnopqrstuvwxyz", ["abcdefghij", "klmnopqrst", "uvwxyz"]),
        ("a abcdefghijkl b", ["a", "abcdefghij", "kl b"]),
        ("abcdefghijklmnopqrst uv", ["abcdefghij", "klmnopqrst", "uv"]),
        ("東京都の天気予報", ["東京都の天", "気予報"]),
        ("a東京都の天気予報", ["a東京都の", "天気予報"]),
        ("👩\u200d💻" * 6, ["👩\u200d💻" * 5, "👩\u200d💻"]),
        ("abcdefghie\u0301x", ["abcdefghie\u0301", "x"]),
    ],
)
def test_lines_break_at_words_and_longer_words_are_folded(text: str, lines: list[str]) -> None:
    assert wrapped_lines(text, 10) == lines


def test_a_figure_and_its_unit_are_one_word() -> None:
    lines = wrapped(plain("a pass rate of 33.8 % is low"), 19)
    assert ["".join(span.text for span in line) for line in lines] == ["a pass rate of", "33.8 % is low"]


def test_nothing_is_lost_and_no_line_is_too_wide() -> None:
    chance = random.Random(7)
    for _ in range(300):
        text = "".join(chance.choices("ab é東👍e\u0301\u200d\ufe0f ", k=chance.randint(0, 60)))
        width = chance.randint(2, 30)
        lines = wrapped_lines(text, width)
        assert "".join("".join(lines).split()) == "".join(text.split())
        assert max(map(width_of, lines)) <= width


def test_a_style_goes_on_in_the_next_line() -> None:
    text = plain("go to ") + styled("the capital", "bold") + plain(" now")
    lines = [drawn(line, color=True) for line in wrapped(text, 11)]
    assert lines == ["go to \x1b[1mthe\x1b[0m", "\x1b[1mcapital\x1b[0m now"]


def test_there_are_codes_only_where_color_is_asked_for() -> None:
    text = styled("FAIL", "bold red") + plain(" so ") + styled("dim", "dim")
    assert drawn(text, color=True) == "\x1b[1;31mFAIL\x1b[0m so \x1b[2mdim\x1b[0m"
    assert drawn(text, color=False) == "FAIL so dim"


def test_further_lines_stand_below_the_text_of_the_first() -> None:
    assert lines_of(Paragraph(plain("one two three"), start=plain("✗ ")), 10) == ["✗ one two", "  three"]
    assert lines_of(Paragraph(plain("one two"), start=plain("東 ")), 8) == ["東 one", "   two"]


def test_columns_line_up_whatever_is_in_them() -> None:
    rows = [["東京", "1"], ["refund", "2"], ["👩\u200d💻", "3"]]
    lines = lines_of(Table([[plain(text) for text in row] for row in rows]))
    assert lines == ["東京    1", "refund  2", "👩\u200d💻      3"]


def test_figures_are_flush_right_below_a_rule_and_long_headers_fold_upwards() -> None:
    table = Table(
        [[plain("pass rate"), plain("50 % ▲"), plain("7 %")]],
        header=[plain(""), styled("a long name", "bold"), styled("b", "bold")],
        gap=3,
        figures=True,
        widths=[9, 6, 4],
    )
    assert lines_of(table) == [
        "            a long",
        "              name      b",
        "─────────────────────────",
        "pass rate   50 % ▲    7 %",
    ]
    assert lines_of(table, color=True)[1].endswith("\x1b[1mname\x1b[0m      \x1b[1mb\x1b[0m")


def test_the_widest_column_gives_way() -> None:
    rows = [[plain("PASS"), plain("a name of many words"), plain("50 %")]]
    assert lines_of(Table(rows), 30) == ["PASS  a name of many      50 %", "      words"]


@pytest.mark.parametrize("width", [1, 5, 12, 40])
def test_a_table_is_no_wider_than_the_terminal_as_long_as_each_column_has_a_cell(width: int) -> None:
    table = Table([[plain("x" * 30), plain("many words " * 5)], [plain("short"), plain("z" * 50)]])
    lines = lines_of(table, width)
    assert max(map(width_of, lines)) <= max(width, 4)
    assert "".join("".join(lines).split()).count("z") == 50


def test_lines_have_no_blanks_at_their_end() -> None:
    table = Table([[plain("a"), plain("")], [plain("b"), plain("c  ")]])
    assert lines_of(table, color=True) == ["a", "b  c"]


def test_pieces_of_a_text_keep_their_order() -> None:
    text = tuple(span for number in range(9) for span in styled(f"{number} ", "dim" if number % 2 else "bold"))
    shown = [span for line in wrapped(text, 6) for span in line]
    assert all(int(a.text) + 1 == int(b.text) for a, b in pairwise(shown))
    assert {span.style for span in shown} == {"bold", "dim"}


def test_a_column_without_a_text_takes_no_cell() -> None:
    rows = [[plain("a"), plain(""), plain("many words")], [plain("bc"), (), plain("")]]
    assert lines_of(Table(rows)) == ["a     many words", "bc"]
    assert max(map(width_of, lines_of(Table(rows), 10))) == 10
