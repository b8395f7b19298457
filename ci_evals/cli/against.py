"""Opens main's side of a comparison, as `--against` or the CI system asks for it."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from ci_evals.cli.run_options import names_main
from ci_evals.errors import HostError
from ci_evals.gate.compare import NoComparison
from ci_evals.git import GitError
from ci_evals.hosts import Host, MainCommit
from ci_evals.merge_base.checkout import CheckoutError
from ci_evals.merge_base.client import Main, MainSide, open_main
from ci_evals.merge_base.commit import find_named, find_root
from ci_evals.suite.overrides import Overrides
from ci_evals.suite.types import CheckedSuite


class SwitchedOff(NoComparison):
    """Main's code is not run, as the command line or the environment says, and not its own file.

    A change may have written that into its workflow.
    """


SWITCHED_OFF = SwitchedOff("main's code is switched off outside of its suite", expected=True)


class OpenMain(NamedTuple):
    """Main's code, as far as it can be had.

    Attributes:
        main: its files; None if they are not wanted, or there are none.
        problem: why a commit that was found could not be checked out; empty if it was.
        is_named: the user names it, so that stored reports play no part.
        is_off: the command line or the environment switches it off.
    """

    main: Main | None = None
    problem: str = ""
    is_named: bool = False
    is_off: bool = False

    def side_of(
        self, suite: CheckedSuite, overrides: Overrides, *, resume: bool
    ) -> MainSide | NoComparison | None:
        """Return main's side of a suite, or why there should be one and is none; None if main plays
        no part, as its own file says, or as there is none.
        """
        if self.is_off and self.problem:
            return None  # what main's file says of that is not known
        if self.main is None:
            return NoComparison(self.problem, expected=True) if self.problem else None
        side = MainSide(self.main, suite, overrides, resume=resume)
        if not self.is_named and side.is_switched_off:
            return None
        if self.is_off:
            return SWITCHED_OFF
        return side


@contextmanager
def open_main_of_job(against: str, configs: Sequence[Path], host: Host) -> Iterator[OpenMain]:
    """Check out what `--against` names, for the duration of the context.

    Args:
        against: `auto` for what the CI system says that the change is merged into, a revision, or
            `off` to look only whether main's file switches it off, too.
        configs: the suite files that will be run.
        host: the CI system.

    Raises:
        UsageError: a revision that is named cannot be compared with.
    """
    folder = configs[0].absolute().parent
    is_named = names_main(against)
    is_off = against == "off"
    commit: MainCommit | None = None
    if is_named:
        commit = find_named(folder, against)
    try:
        root = find_root(folder)
    except GitError:  # a job without a checkout has no main
        yield OpenMain()
        return
    with ExitStack() as stack:
        opened = OpenMain()
        try:
            if not is_named:
                commit = host.find_main(root)
            if commit is not None:
                fetch = None if is_named else host.fetch
                main = stack.enter_context(open_main(commit, root, host.environ, fetch))
                opened = OpenMain(main, is_named=is_named, is_off=is_off)
        except (CheckoutError, GitError, HostError) as error:
            name = commit or "main"
            problem = f"{name} could not be checked out: {error}"
            opened = OpenMain(problem=problem, is_named=is_named, is_off=is_off)
        # Outside of the `try`, which is not about errors of the block.
        yield opened
