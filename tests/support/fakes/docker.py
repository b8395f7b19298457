#!/usr/bin/env python3
"""A fake `docker`: containers are folders below $FAKE_DOCKER, commands run on this machine.

A container has the processes that are linked in its folder `proc`, and no others of this machine.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

ROOT = Path(os.environ["FAKE_DOCKER"])
PLACES = ("/tests", "/logs", "/proc/")


def inside(name: str, text: str) -> str:
    for place in PLACES:
        text = text.replace(place, f"{ROOT / name}{place}")
    return text


def outside(place: str) -> str:
    name, colon, path = place.partition(":")
    return inside(name, path) if colon else place


def copy(source: str, target: str) -> int:
    if target == "-":
        place = Path(outside(source))
        if not os.path.lexists(place):
            print(f"Could not find the file {place}", file=sys.stderr)
            return 1
        with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as archive:
            archive.add(place, place.name)
        return 0
    shutil.copytree(outside(source).removesuffix("/."), outside(target), dirs_exist_ok=True)
    return 0


def execute(words: list[str]) -> int:
    variables = []
    while words[0].startswith("--"):
        if words.pop(0) == "--env":
            variables.append(words.pop(0))
    name, *argv = words
    env = {**os.environ, **{each: inside(name, os.environ[each]) for each in variables}}
    work = ROOT / name / "work"
    return subprocess.run(
        [inside(name, word) for word in argv], cwd=work, env=env, check=False
    ).returncode


def main(command: str, *words: str) -> int:
    with (ROOT / "commands.jsonl").open("a") as log:
        log.write(json.dumps([command, *words]) + "\n")
    match command:
        case "version" if (ROOT / "no-engine").exists():
            print("Cannot connect to the Docker daemon. Is it running?", file=sys.stderr)
            return 1
        case "run":
            for place in ("work", "proc"):
                (ROOT / words[words.index("--name") + 1] / place).mkdir(parents=True)
        case "exec":
            return execute(list(words))
        case "cp":
            return copy(*words)
        case "rm":
            while (ROOT / "busy").exists():
                time.sleep(0.01)
            for name in words:
                shutil.rmtree(ROOT / name, ignore_errors=True)
    return 0


sys.exit(main(*sys.argv[1:]))
