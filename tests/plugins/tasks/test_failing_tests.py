"""The failing test in what a verifier prints."""

import pytest

from ci_evals.plugins.tasks.failing_tests import MAX_LINES, find_test_failure


@pytest.mark.parametrize(
    ("printed", "test"),
    [
        ("FAILED tests/test_cart.py::test_total - assert 3 == 4", "test_total"),
        ("FAILED tests/test_cart.py::TestCart::test_total[USD]", "test_total[USD]"),
        ("FAIL: test_total (tests.Cart.test_total)", "test_total"),
        ("    --- FAIL: TestTotal/usd (0.00s)", "TestTotal/usd"),
        ("test cart::total ... FAILED", "total"),
        ("not ok 2 - adds up", "adds up"),
        ("  ● Cart adds up", "Cart adds up"),
        ("\x1b[31mFAILED\x1b[0m a.py::\x1b[1mtest_total\x1b[0m - no", "test_total"),
        ("FAILED a.py::test_a\nFAILED a.py::test_b\nFAILED a.py::test_a", "test_a and 1 more"),
        ("all 3 tests ran", None),
    ],
)
def test_the_test_is_named_as_its_framework_names_it(printed: str, test: str | None) -> None:
    assert find_test_failure(printed, "").test == test


def test_the_last_lines_are_kept_without_the_commands_of_a_terminal() -> None:
    lines = [f"\x1b[32mline {number}\x1b[0m\n\n" for number in range(100)]
    output = find_test_failure("".join(lines), "").output
    assert output.splitlines() == [f"line {number}" for number in range(100 - MAX_LINES, 100)]


def test_the_stream_that_names_a_test_is_shown() -> None:
    assert find_test_failure("building\n", "FAIL: test_total (a.B)\n").output.startswith("FAIL: ")
    assert find_test_failure("0.5\n", "a warning\n").output == "0.5"
    assert find_test_failure("", "a warning\n").output == "a warning"
