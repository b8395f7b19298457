"""Runs the command lines from stdin one by one in this process; prints their exit codes as JSON."""

import json
import sys

from ci_evals.cli.main import group


def main() -> None:
    codes = [group.main(arguments, standalone_mode=False) for arguments in json.load(sys.stdin)]
    sys.stderr.write(json.dumps(codes) + "\n")


if __name__ == "__main__":
    main()
