"""What the runner obeys in a log."""

import io

import pytest

from ci_evals.actions.log import Log


def test_own_commands_go_between_what_is_stopped_and_every_word_is_used_once() -> None:
    stream = io.StringIO()
    log = Log(stream)
    with log.stopped():
        log.obey("::error::ours\n")
    first, resumed, ours, second, end = stream.getvalue().splitlines()
    assert first == f"::stop-commands::{resumed.strip(':')}"
    assert ours == "::error::ours"
    assert second == f"::stop-commands::{end.strip(':')}"
    assert resumed != end


def test_commands_are_resumed_after_a_crash() -> None:
    stream = io.StringIO()
    log = Log(stream)
    with pytest.raises(RuntimeError), log.stopped():
        raise RuntimeError
    start, end = stream.getvalue().splitlines()
    assert start == f"::stop-commands::{end.strip(':')}"


def test_a_group_is_closed_once() -> None:
    stream = io.StringIO()
    log = Log(stream)
    log.open_group("a\nb")
    log.close_group()
    log.close_group()
    assert stream.getvalue() == "::group::a b\n::endgroup::\n"


def test_what_is_said_is_no_command() -> None:
    stream = io.StringIO()
    Log(stream).say(["::error::quoted", "fine ##[error]old\r::debug::cr"])
    assert not any(line.startswith("::") or "##[" in line for line in stream.getvalue().splitlines())
