"""Two command line agents without a model: `agent.py careful`, and a hasty `agent.py quick`."""

import sys
from pathlib import Path

instruction = sys.stdin.read()
if "hello.txt" in instruction:
    Path("hello.txt").write_text("Hello, world!\n", encoding="utf-8")
else:
    names = Path("names.txt").read_text(encoding="utf-8").split()
    sorted_names = sorted(names) if sys.argv[1] == "careful" else sorted(names[:2]) + names[2:]
    Path("names.txt").write_text("\n".join(sorted_names) + "\n", encoding="utf-8")
print("done")
