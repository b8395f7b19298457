"""The same work in a bare aiohttp loop: the least that it can cost. Prints the cost as JSON."""

import argparse
import asyncio
import json
import os
import random
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import aiohttp
import msgspec


class Expected(msgspec.Struct):
    equals: str


class Case(msgspec.Struct):
    id: str
    input: str
    expect: tuple[Expected]


class Message(msgspec.Struct):
    content: str


class Choice(msgspec.Struct):
    message: Message


class Completion(msgspec.Struct):
    choices: list[Choice]


class Line(msgspec.Struct):
    case: str
    run: int
    passed: bool
    latency_s: float
    output: str


async def worker(
    session: aiohttp.ClientSession, url: str, plan: Iterator[tuple[int, Case]], journal: int
) -> int:
    """Run what is left of the plan that all workers share; return the number of wrong answers."""
    wrong = 0
    decoder = msgspec.json.Decoder(Completion)
    encode = msgspec.json.Encoder().encode
    headers = {"Content-Type": "application/json"}
    for run, case in plan:
        body = encode({"model": "mock", "messages": [{"role": "user", "content": case.input}]})
        started = time.perf_counter()
        async with session.post(url, data=body, headers=headers) as response:
            answer = await response.read()
        output = decoder.decode(answer).choices[0].message.content
        passed = output == case.expect[0].equals
        wrong += not passed
        os.write(
            journal,
            encode(Line(case.id, run, passed, time.perf_counter() - started, output)) + b"\n",
        )
    return wrong


async def retry_each(url: str, cases: Sequence[Case], concurrency: int, retries: int) -> int:
    """Ask each case once; a refused call gives its slot back and waits for its own Retry-After.

    Returns the number of cases without an answer.
    """
    slots, encode = asyncio.Semaphore(concurrency), msgspec.json.Encoder().encode

    async def ask(case: Case) -> bool:
        body = encode({"model": "mock", "messages": [{"role": "user", "content": case.input}]})
        for attempt in range(retries + 1):
            async with (
                slots,
                session.post(
                    url, data=body, headers={"Content-Type": "application/json"}
                ) as response,
            ):
                await response.read()
            if response.status == 200:
                return True
            backoff_s = random.uniform(0, min(30.0, 0.5 * 2**attempt))
            await asyncio.sleep(float(response.headers.get("Retry-After", backoff_s)))
        return False

    connector = aiohttp.TCPConnector(limit=concurrency)
    async with aiohttp.ClientSession(connector=connector) as session, asyncio.TaskGroup() as group:
        asked = [group.create_task(ask(case)) for case in cases]
    return sum(not task.result() for task in asked)


async def run_all(
    url: str, cases: Sequence[Case], runs: int, concurrency: int, journal: int
) -> int:
    """Run every case `runs` times, `concurrency` at a time; return the number of wrong answers."""
    plan = ((run, case) for run in range(1, runs + 1) for case in cases)
    connector, timeout = aiohttp.TCPConnector(limit=concurrency), aiohttp.ClientTimeout(total=None)
    async with (
        aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
        asyncio.TaskGroup() as group,
    ):
        workers = [
            group.create_task(worker(session, url, plan, journal)) for _ in range(concurrency)
        ]
    return sum(task.result() for task in workers)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="of the chat completions endpoint")
    parser.add_argument(
        "cases", type=Path, help="JSON lines with id, input and expect: [{equals: …}]"
    )
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--journal", type=Path, default=Path(os.devnull))
    parser.add_argument(
        "--retries", type=int, help="be a plain retry loop instead, with so many retries"
    )
    options = parser.parse_args()

    cases = msgspec.json.Decoder(Case).decode_lines(options.cases.read_bytes())
    journal = os.open(options.journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    started = time.perf_counter()
    if options.retries is None:
        wrong = asyncio.run(run_all(options.url, cases, options.runs, options.concurrency, journal))
    else:
        wrong = asyncio.run(retry_each(options.url, cases, options.concurrency, options.retries))
    wall_s = time.perf_counter() - started
    os.close(journal)

    spent = resource.getrusage(resource.RUSAGE_SELF)
    figures = {
        "runs": len(cases) * options.runs,
        "wrong": wrong,
        "cpu_s": spent.ru_utime + spent.ru_stime,
        "peak_rss_bytes": spent.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
        "wall_s": wall_s,
    }
    print(json.dumps(figures))
    return 1 if wrong and options.retries is None else 0


if __name__ == "__main__":
    sys.exit(main())
