"""What the tests of this project evaluate."""

import random
from collections.abc import Callable

import pytest
from agent import answer


@pytest.fixture
def evals_target() -> Callable[[str], dict[str, object]]:
    random.seed(7)  # an agent on a model would need no such thing
    return answer
