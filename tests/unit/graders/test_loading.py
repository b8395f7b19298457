"""Which libraries graders load, and when."""

import subprocess
import sys

import pytest

LIBRARIES = {"jsonpath", "jsonschema", "rapidfuzz", "regex", "tenacity"}
LOADED = """
import sys
from ci_evals import graders
{use}
print(*sorted({libraries} & sys.modules.keys()))
"""


@pytest.mark.parametrize(
    ("use", "libraries"),
    [
        ("graders.Contains('a'), graders.Equals(1), graders.MaxLength(1)", ""),
        ("graders.IsJson().problems(), graders.ContainsJson().problems()", ""),
        ("graders.ToolCallMatch('a').problems(), graders.Classify('a').problems()", ""),
        (
            "graders.AnyOf([]), graders.Latency(1), graders.grader(len), graders.PythonGrader('a')",
            "",
        ),
        ("graders.Regex('a')", "regex"),
        ("graders.Similar('a')", "rapidfuzz"),
        ("graders.JsonPath('$.a')", ""),
        ("graders.JsonPath('$.a').problems()", "jsonpath regex"),
        ("graders.JsonSchema({})", "jsonschema"),
        ("graders.IsJson(schema={}).problems()", "jsonschema"),
    ],
)
def test_a_library_loads_with_the_grader_that_needs_it(use: str, libraries: str) -> None:
    code = LOADED.format(use=use, libraries=LIBRARIES)
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert ran.stdout.strip() == libraries
