"""Sessions of pytest inside of tests: processes of their own, with the plug-ins that they name and no others."""

import pytest


def session(
    pytester: pytest.Pytester, *arguments: str, plugins: tuple[str, ...] = (), ini: str = ""
) -> pytest.RunResult:
    """Run pytest in a tester's folder with ci-evals and some other plug-ins, by their entry points."""
    pytester.makeini(f"[pytest]\naddopts = -p no:cacheprovider --strict-markers\n{ini}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        named = [word for name in ("ci_evals", *plugins) for word in ("-p", name)]
        return pytester.runpytest_subprocess(*named, *arguments)
