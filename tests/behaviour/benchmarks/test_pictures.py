"""The pictures of the docs are in step with the code that makes them."""

import re
from pathlib import Path
from xml.dom import minidom

from factories import QUESTION, RIGHT, WRONG
from screenshots import comment_texts, page_text, terminal_picture

from benchmarks.pictures import FOLDER, write_pictures

ROOT = Path(__file__).resolve().parents[3]


def test_the_pictures_in_the_docs_are_those_that_the_code_draws(tmp_path: Path) -> None:
    write_pictures(tmp_path)
    drawn = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert {path.name: path.read_text() for path in FOLDER.iterdir()} == drawn, (
        "run `python -m benchmarks.pictures`"
    )
    page = (ROOT / "docs" / "statistics.md").read_text()
    assert set(re.findall(r"\(pictures/([^)]+)\)", page)) == set(drawn)


def test_every_picture_in_the_repository_is_xml() -> None:
    """GitHub shows what a browser would forgive as a broken picture."""
    pictures = [path for path in ROOT.glob("*/**/*.svg") if ".venv" not in path.parts]
    assert pictures
    for path in pictures:
        minidom.parse(str(path))


def test_each_picture_shows_a_situation_with_texts_of_its_own() -> None:
    pictured = {**comment_texts(), "page": page_text(), "terminal": terminal_picture()}
    usual = []
    for name, text in pictured.items():
        shown = text.replace("&#160;", " ")
        usual += [(name, each) for each in (QUESTION, RIGHT, WRONG) if each in shown]
    assert usual == []
