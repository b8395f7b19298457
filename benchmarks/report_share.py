"""Runs a suite through the library, then judges it and writes its reports. Prints the CPU seconds of both, as JSON."""

import asyncio
import json
import sys
import time
from pathlib import Path

from ci_evals import conclusion, evaluate


async def main(suite: Path) -> None:
    report = await evaluate(suite)
    run_s = time.process_time()
    conclusion.write_reports(report.judged, suite.parent, ("json", "junit", "markdown"))
    print(json.dumps({"run_s": run_s, "reports_s": time.process_time() - run_s}))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
