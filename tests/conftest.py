"""Shared by all tests: golden files, reviewed as prose, and generated examples without deadline."""

import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# On a busy machine any example may take its time.
settings.register_profile("quick", max_examples=40, deadline=None)
settings.register_profile("thorough", max_examples=500, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

# Or every process that tests start would compile the package anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

GOLDEN = Path(__file__).parent / "golden"

CompareGolden = Callable[[str, str], None]


# A job in a shell's background ignores SIGINT and one under `nohup` SIGHUP, and so would every
# process that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


SYSTEM = (
    "behaviour/against",
    "behaviour/examples",
    "behaviour/test_baseline.py",
    "behaviour/test_broken_base.py",
    "behaviour/test_changed_graders.py",
    "behaviour/test_crash.py",
    "behaviour/test_every_figure.py",
    "behaviour/test_faults.py",
    "behaviour/test_hanging_graders.py",
    "behaviour/test_javascript.py",
    "behaviour/test_mcp_servers.py",
    "behaviour/test_power.py",
    "behaviour/test_scores.py",
    "behaviour/test_shards.py",
    "behaviour/test_stop.py",
    "behaviour/test_watch.py",
    "plugins/actions",
    "plugins/gitlab",
    "plugins/tasks",
)
"""A sixth of the tests, which take two thirds of the time."""


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    paths = {here / name for name in SYSTEM}
    for item in items:
        if item.path in paths or not paths.isdisjoint(item.path.parents):
            item.add_marker("system")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--renew-golden", action="store_true", help="write golden files anew instead of comparing"
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> CompareGolden:
    """`golden(name, text)` fails if tests/golden/NAME differs; NAME.actual then holds the text."""

    def compare(name: str, text: str) -> None:
        expected = GOLDEN / name
        actual = expected.with_name(f"{expected.name}.actual")
        if request.config.getoption("--renew-golden"):
            expected.parent.mkdir(parents=True, exist_ok=True)
            expected.write_text(text, encoding="utf-8", newline="")
        if not expected.exists() or text != expected.read_bytes().decode():
            actual.write_text(text, encoding="utf-8", newline="")
            pytest.fail(
                f"{expected} is out of step, see {actual.name} beside it; "
                "`--renew-golden` takes it over"
            )
        actual.unlink(missing_ok=True)

    return compare


@pytest.fixture
def port() -> str:
    """A port of loopback where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])
