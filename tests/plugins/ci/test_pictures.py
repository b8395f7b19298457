"""The pictures of the docs are in step with the code that makes them."""

import re
from pathlib import Path
from xml.dom import minidom

from factories import QUESTION, RIGHT, WRONG
from PIL import Image
from screenshots import comment_texts, digest, page_text, sources, terminal_picture

from benchmarks.pictures import FOLDER, read_rules, write_pictures

ROOT = Path(__file__).resolve().parents[3]
IMAGES = ROOT / "docs" / "images"


def test_the_pictures_in_the_docs_are_those_that_the_code_draws(tmp_path: Path) -> None:
    write_pictures(tmp_path)
    drawn = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert {path.name: path.read_text() for path in FOLDER.iterdir()} == drawn, (
        "run `python -m benchmarks.pictures`"
    )
    pages = [
        ROOT / "docs" / name for name in ("comparing.md", "statistics.md", "main-alongside.md")
    ]
    shown = [re.findall(r"\(pictures/([^)]+)\)", page.read_text()) for page in pages]
    assert {name for each in shown for name in each} == set(drawn)


def test_every_image_is_shown_somewhere() -> None:
    pages = [*ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "mkdocs.yml"]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    images = [path.name for path in ROOT.glob("docs/images/*")]
    assert [name for name in images if name.replace("-dark.png", ".png") not in text] == []


def test_pictures_of_comments_and_pages_show_what_is_posted() -> None:
    shown = {}
    for path in IMAGES.glob("*.png"):
        with Image.open(path) as image:
            shown[path.stem] = image.info.get("shows")
    expected = {name: digest(html) for name, html in sources().items()}
    assert shown == expected, "run `make images`"
    assert (IMAGES / "terminal.svg").read_text() == terminal_picture(), "run `make images`"


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


def test_the_rates_on_the_first_pages_are_those_of_the_tables() -> None:
    tables = (ROOT / "docs" / "statistics.md").read_text()
    first_page = " ".join((ROOT / "docs" / "index.md").read_text().split())
    readme = " ".join((ROOT / "README.md").read_text().split())
    rules = read_rules(tables)
    false_alarm, missed_case, _, missed_fall = rules["ci-evals"]
    any_flip, *_ = rules["any flip: a case passed on main and fails here"]
    assert f"{10 * false_alarm:.0f} in 1,000 pull requests are red" in first_page
    assert f"fail now is red in {round(10 * any_flip, -1):.0f} of them" in first_page
    assert f"found {100 - missed_case:.0f} times in 100" in first_page
    assert (
        f"by 10 points stays green once in {round(100 / missed_fall, -1):.0f} times" in first_page
    )
    seen = re.search(r"^\| main runs: all fall by 5 points \| ([\d.]+) ±", tables, re.MULTILINE)
    assert seen is not None
    assert round((100 - float(seen[1])) / 10) == 4
    assert "and by 5 points four times in ten" in first_page
    _, missed_by_fall, *_ = rules["fall: more than 5 points below main's newest report"]
    assert f"misses a dead case in {missed_by_fall:.0f} %" in readme


def test_the_rates_of_common_luck_are_those_of_its_table() -> None:
    page = (ROOT / "docs" / "statistics.md").read_text()
    for full, short in (
        ("groups of 4 cases share 70 % of their luck", "groups of 4, 3 base reports"),
        ("groups of 10 cases share 70 % of their luck", "groups of 10, 3 base reports"),
        ("the pass rate wobbles by 4 points", "a wobble of 4 points, 3 base reports"),
    ):
        rates = []
        for row in (short, full):
            measured = re.search(rf"^\| {row} \| ([\d.]+) ±", page, re.MULTILINE)
            assert measured is not None
            rates.append(f"{float(measured[1]):.0f} %")
        assert f"  | {full} | {rates[0]} | {rates[1]} |" in page
