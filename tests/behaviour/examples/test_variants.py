from pathlib import Path

from example_runs import run_example


def test_the_leaderboard_ranks_what_differs_and_ties_what_does_not(tmp_path: Path) -> None:
    run_example("variants", tmp_path)
    board = (
        (tmp_path / "results" / "summary.md")
        .read_text("utf-8")
        .partition("### Leaderboard")[2]
        .partition("###")[0]
    )
    rows = [line.strip("| ").split(" | ") for line in board.splitlines() if "<code>tutor" in line]
    places = {name: place for place, name, *_ in rows}
    assert places == {
        "<code>tutor flakiness=0 seed=1</code>": "1=",
        "<code>tutor flakiness=0 seed=2</code>": "1=",
        "<code>tutor flakiness=0.6 seed=1</code>": "3=",
        "<code>tutor flakiness=0.6 seed=2</code>": "3=",
    }
