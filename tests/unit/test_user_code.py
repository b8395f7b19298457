"""The team's own functions: found in the suite's folder, and called in threads."""

import asyncio
import inspect
import sys
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue

import pytest

from ci_evals.user_code.folders import importable
from ci_evals.user_code.targets import NamesakeError, load, load_module, missing_target
from ci_evals.user_code.threads import call_in_thread

LONG_S = 60.0


@pytest.fixture(autouse=True)
def _forgotten(tmp_path: Path) -> Iterator[None]:
    """Modules that a test loaded are not there for the next one."""
    before = dict(sys.modules)
    yield
    for name, module in tuple(sys.modules.items()):
        if before.get(name) is not module and str(tmp_path) in (
            getattr(module, "__file__", None) or ""
        ):
            del sys.modules[name]


def test_the_suites_folder_comes_before_what_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "cmarkgfm", raising=False)
    (tmp_path / "cmarkgfm.py").write_text("import wording\nhere = wording.here")
    (tmp_path / "wording.py").write_text("here = 'suite'")
    with importable(tmp_path):
        assert load_module("cmarkgfm").here == load("wording:here") == "suite"


def test_afterwards_the_folder_is_not_importable(tmp_path: Path) -> None:
    path = list(sys.path)
    with importable(tmp_path):
        pass
    assert sys.path == path


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("own:word", "there is no 'word' in own, did you mean 'words'"),
        ("own:words.nofn", "no 'nofn' in own.words$"),
    ],
)
def test_what_a_module_lacks_is_told_with_the_closest(
    target: str, told: str, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text("def words(): ...")
    with importable(tmp_path), pytest.raises(AttributeError, match=told):
        load(target)


@pytest.mark.parametrize("name", ["json", "pytest"])
def test_a_module_with_the_name_of_a_loaded_one_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.py").write_text("")
    told = f"a module '{name}' was already loaded from .*{name}.*: give one of them another name"
    with importable(tmp_path), pytest.raises(NamesakeError, match=told):
        load_module(name)
    assert "was already loaded from" in (missing_target(f"{name}:answer", tmp_path) or "")


def test_a_module_of_the_standard_library_is_pythons_for_all_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    (tmp_path / "colorsys.py").write_text("")
    with importable(tmp_path):
        assert hasattr(import_module("colorsys"), "rgb_to_hls")
        with pytest.raises(NamesakeError, match="'colorsys' was already loaded"):
            load_module("colorsys")


def test_pythons_own_tests_are_not_in_the_way_of_a_projects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "test", raising=False)
    (tmp_path / "test.py").write_text("here = 'suite'")
    with importable(tmp_path):
        assert load("test:here") == "suite"


def test_a_folder_of_data_hides_no_module(tmp_path: Path) -> None:
    (tmp_path / "json").mkdir()
    with importable(tmp_path):
        assert load_module("json") is import_module("json")


def test_suites_one_after_the_other_may_have_modules_of_the_same_name(tmp_path: Path) -> None:
    for suite in ("a", "b"):
        (tmp_path / suite / "parts").mkdir(parents=True)
        (tmp_path / suite / "own_words.py").write_text("from parts.words import here")
        (tmp_path / suite / "parts" / "__init__.py").write_text("")
        (tmp_path / suite / "parts" / "words.py").write_text(f"here = {suite!r}")
    for suite in ("a", "b", "a"):
        with importable(tmp_path / suite):
            assert load_module("own_words").here == suite


def test_a_module_stays_loaded_unless_another_suite_has_its_name(tmp_path: Path) -> None:
    for suite in ("a", "b"):
        (tmp_path / suite).mkdir()
    (tmp_path / "a" / "own_words.py").write_text("")
    with importable(tmp_path / "a"):
        loaded = load_module("own_words")
    with importable(tmp_path / "b"):
        pass
    with importable(tmp_path / "a"):
        assert load_module("own_words") is loaded


def test_suites_at_the_same_time_may_not_have_modules_of_the_same_name(tmp_path: Path) -> None:
    for suite in ("a", "b"):
        (tmp_path / suite).mkdir()
        (tmp_path / suite / "own_words.py").write_text("")
    with importable(tmp_path / "a"):
        load_module("own_words")
        with (
            importable(tmp_path / "b"),
            pytest.raises(NamesakeError, match="'own_words' was already loaded from"),
        ):
            load_module("own_words")


async def test_a_call_that_hangs_does_not_hold_up_the_next_one() -> None:
    stop = threading.Event()
    try:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await call_in_thread(stop.wait)
        assert await call_in_thread(lambda: 5) == 5
    finally:
        stop.set()


async def test_a_coroutine_that_comes_as_the_caller_gives_up_is_closed() -> None:
    made = []

    async def later() -> None:
        """Is never awaited."""

    def give() -> object:
        made.append(later())
        return made[0]

    before = set(threading.enumerate())
    calling = asyncio.create_task(call_in_thread(give))
    await asyncio.sleep(0)
    for thread in set(threading.enumerate()) - before:
        thread.join(LONG_S)
    asyncio.get_running_loop().call_soon(calling.cancel)  # in the iteration that has the result
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert inspect.getcoroutinestate(made[0]) == inspect.CORO_CLOSED


def test_a_call_that_ends_after_its_event_loop_leaves_neither_coroutine_nor_thread() -> None:
    made = []
    seen: SimpleQueue[threading.Thread] = SimpleQueue()
    closed = threading.Event()

    async def later() -> None:
        raise AssertionError

    def call() -> object:
        seen.put(threading.current_thread())
        closed.wait(LONG_S)
        made.append(later())
        return made[0]

    async def give_up() -> threading.Thread:
        task = asyncio.create_task(call_in_thread(call))
        thread = await asyncio.to_thread(seen.get, timeout=LONG_S)
        task.cancel()
        return thread

    thread = asyncio.run(give_up())
    closed.set()
    thread.join(LONG_S)
    assert not thread.is_alive()
    assert inspect.getcoroutinestate(made[0]) == inspect.CORO_CLOSED
