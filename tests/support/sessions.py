"""Sessions of pytest inside of tests, with the plug-ins that they name and no others."""

import pytest


def session(
    pytester: pytest.Pytester, *arguments: str, plugins: tuple[str, ...] = (), ini: str = ""
) -> pytest.RunResult:
    """Run pytest in a tester's folder with ci-evals and some other plug-ins, by their entry points.

    It runs in this process, but for sessions with workers, which are processes of their own in any
    case.
    """
    pytester.makeini(f"[pytest]\naddopts = -p no:cacheprovider --strict-markers\n{ini}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        named = [word for name in ("ci_evals", *plugins) for word in ("-p", name)]
        start = (
            pytester.runpytest_subprocess if "xdist" in plugins else pytester.runpytest_inprocess
        )
        return start(*named, *arguments)
