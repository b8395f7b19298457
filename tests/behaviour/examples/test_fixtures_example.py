from pathlib import Path

from example_runs import run_example


def test_every_run_cancels_an_order_of_its_own_database(tmp_path: Path) -> None:
    report = run_example("fixtures", tmp_path)
    results = report["results"]
    assert {result["status"] for result in results} == {"passed"}
    databases = {result["setup_vars"]["database"] for result in results}
    assert len(databases) == len(results) == 10
    assert not any(Path(database).exists() for database in databases)
    asked = {result["messages"][0]["content"] for result in results}
    assert asked == {"Please cancel order 2", "What is the price of order 2"}
