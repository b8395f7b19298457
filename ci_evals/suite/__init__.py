"""The suite. What few suites need, such as configs of other tools, loads when it is first used."""

from typing import TYPE_CHECKING

from ci_evals.registry import lazy_attributes

if TYPE_CHECKING:
    from ci_evals.suite.dependencies import find_dependencies as find_dependencies
    from ci_evals.suite.dependencies import fits_any_file as fits_any_file
    from ci_evals.suite.fixtures import fixture_name as fixture_name
    from ci_evals.suite.fixtures import fixture_problems as fixture_problems
    from ci_evals.suite.foreign import translate as translate
    from ci_evals.suite.prompt_functions import make_prompts as make_prompts
    from ci_evals.suite.prompts import read_prompts as read_prompts
    from ci_evals.suite.spellings import translate_name as translate_name

__getattr__ = lazy_attributes(
    __name__,
    {
        "find_dependencies": "ci_evals.suite.dependencies",
        "fits_any_file": "ci_evals.suite.dependencies",
        "fixture_name": "ci_evals.suite.fixtures",
        "fixture_problems": "ci_evals.suite.fixtures",
        "make_prompts": "ci_evals.suite.prompt_functions",
        "read_prompts": "ci_evals.suite.prompts",
        "translate": "ci_evals.suite.foreign",
        "translate_name": "ci_evals.suite.spellings",
    },
)
