"""Options are defined without the libraries that only a run needs."""

import subprocess
import sys

import pytest

from ci_evals.registry import PROVIDERS

HEAVY = ("aiohttp", "genai_prices", "opentelemetry", "jsonpath")


@pytest.mark.parametrize("name", PROVIDERS.own)
def test_the_options_of_a_provider_load_no_library_for_running_it(name: str) -> None:
    program = (
        "import sys\n"
        "from ci_evals.registry import PROVIDERS\n"
        f"PROVIDERS[{name!r}]\n"
        f"print([module for module in {HEAVY} if module in sys.modules])\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.stdout, ended.stderr) == ("[]\n", "")
