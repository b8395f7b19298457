"""A command line agent without a model: it does what it is told, as far as it understands."""

import sys
from pathlib import Path

instruction = sys.stdin.read()
if "hello.txt" in instruction:
    Path("hello.txt").write_text("Hello, world!\n", encoding="utf-8")
    print("I wrote hello.txt.")
else:
    names = Path("names.txt").read_text(encoding="utf-8").split()
    names[:2] = sorted(names[:2])  # and no further: it is easily distracted
    Path("names.txt").write_text("\n".join(names) + "\n", encoding="utf-8")
    print("I sorted the names.")
