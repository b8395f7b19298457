"""Child processes beside threads that work with files."""

import asyncio
import shutil
import tempfile
from pathlib import Path

import pytest

from ci_evals.providers.process import exchange

PROGRAMS_AT_ONCE, ROUNDS = 4, 40


def test_no_file_is_closed_that_another_thread_has_opened_meanwhile(tmp_path: Path) -> None:
    """As uvloop does with pipes that it was given as files: it closes their numbers twice."""
    uvloop = pytest.importorskip("uvloop")
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in range(20):
        (folder / str(number)).write_bytes(b"whole")

    def copy() -> None:
        with tempfile.TemporaryDirectory(dir=tmp_path) as target:
            shutil.copytree(folder, Path(target, "copy"))

    async def run_programs() -> None:
        for _ in range(ROUNDS):
            run = exchange(["true"], b"", cwd=tmp_path, env=None, timeout_s=60, max_bytes=100)
            ended, _ = await asyncio.gather(run, asyncio.to_thread(copy))
            assert ended.status == 0

    async def several_at_once() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(PROGRAMS_AT_ONCE):
                group.create_task(run_programs())

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(several_at_once())
