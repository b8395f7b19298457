"""What the engine lends to providers."""

import json
import os
import platform
import sys
from pathlib import Path

import pytest
from processes import finished, start

PAGE_FAULTS_OF_READS = """
import asyncio, json, resource, socket


class Reader(asyncio.Protocol):
    def __init__(self):
        self.read = asyncio.Event()

    def data_received(self, data):
        self.read.set()


async def main():
    ours, theirs = socket.socketpair()
    _, reader = await asyncio.get_running_loop().create_connection(Reader, sock=ours)

    async def faults(reads):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(reads):
            theirs.send(b"an answer")
            await reader.read.wait()
            reader.read.clear()
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    await faults(10)
    mapped = await faults(1000)
    from ci_evals.engine.resources import keep_read_buffers  # which may free large blocks, where it is compiled first
    keep_read_buffers()
    await faults(10)
    print(json.dumps([mapped, await faults(1000)]))


asyncio.run(main())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have rules of their own")
@pytest.mark.skipif(
    any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ), reason="malloc was told what to do"
)
async def test_the_memory_of_read_buffers_is_kept(tmp_path: Path) -> None:
    """A block that is mapped anew has pages that the kernel must find first, which it counts."""
    ended = await finished(await start(tmp_path, command=(sys.executable, "-c", PAGE_FAULTS_OF_READS)))
    assert ended.code == 0, ended.err
    mapped, kept = json.loads(ended.out)
    assert mapped >= 1000, "reads map no memory: there is nothing to keep"
    assert kept < mapped / 10
