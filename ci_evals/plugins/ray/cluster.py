"""An executor on a Ray cluster: each call of the team's own code is a task there."""

import asyncio
import os
import pickle
import shutil
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from threading import Event
from typing import Any

import ray
from ray import cloudpickle
from ray.exceptions import (
    NodeDiedError,
    ObjectLostError,
    ObjectStoreFullError,
    OutOfDiskError,
    OutOfMemoryError,
    RayError,
    RuntimeEnvSetupError,
    WorkerCrashedError,
)

from ci_evals.engine.calls import discount
from ci_evals.engine.resources import LOCAL
from ci_evals.errors import (
    ConfigError,
    GradingError,
    Place,
    Problem,
    ProviderError,
    StorageError,
    describe_exception,
)
from ci_evals.executors import ExecutorSuite, Portable
from ci_evals.faults import ErrorKind
from ci_evals.format import one_line
from ci_evals.model.grading import Finding, Grader
from ci_evals.model.request import Answer, Request, sendable_request
from ci_evals.model.response import Response
from ci_evals.plugins.ray import worker
from ci_evals.plugins.ray.options import Ray, check_address, shipped_folder
from ci_evals.plugins.ray.worker import MAX_BYTES, RemoteOutcome, Site
from ci_evals.providers.base import Provider, ProviderOptions, Resources
from ci_evals.user_code.folders import CodeFolders
from ci_evals.user_code.threads import call_in_thread

_REACH_S = 5.0
_CONNECT_S = 60.0
_NODE_S = 300.0  # the time for an autoscaler to add a node with room
_POLL_S = 2.0
_GRACE_S = 5.0
_MOST_LOST = 5  # nodes that may die during one call
_PACKAGES = ("pip", "uv", "conda", "container", "image_uri")
_NEVER_SHIPPED = (".env", ".git", "__pycache__")


@asynccontextmanager
async def connect(
    options: Ray, suite: ExecutorSuite, portable: Portable, files: Path | None
) -> AsyncIterator["RayExecutor"]:
    """Connect to a suite's cluster, ship the suite's folder, and check that its code works there.

    Args:
        options: the cluster, and the resources of a run.
        suite: the suite.
        portable: its providers and graders that will run there.
        files: the results folder, for files that runs leave behind; None keeps none.

    Raises:
        ConfigError: there is no such cluster, it has no room, or the code cannot be loaded there.
    """
    place = Place(suite.file, None, "settings.executor")
    address = options.address or os.environ.get("RAY_ADDRESS") or "local"
    environment = runtime_env(options, suite, is_own=address == "local")
    async with _connection(address, environment, place):
        executor = RayExecutor(options, suite, files)
        await executor.check(portable, place, is_own=address == "local")
        yield executor


@asynccontextmanager
async def _connection(
    address: str, environment: Mapping[str, Any], place: Place
) -> AsyncIterator[None]:
    if ray.is_initialized():
        text = "this process is connected to a Ray cluster already: call `ray.shutdown()` first"
        raise _problem(place, text)
    start = "start one with `ray start --head`, or remove `address` for one on this machine"
    await _check_reachable(address, place, start)
    options: dict[str, Any] = {}
    if address == "local":
        options["include_dashboard"] = False
    loop = asyncio.get_running_loop()
    connected = asyncio.Event()
    over = Event()

    # In one thread, because processes that Ray starts on this machine end with the thread that
    # started them.
    def hold() -> None:
        ray.init(
            address,
            runtime_env=environment,
            log_to_driver=False,
            logging_level="ERROR",
            **options,
        )
        loop.call_soon_threadsafe(connected.set)
        over.wait()
        ray.shutdown()

    holding = asyncio.ensure_future(call_in_thread(hold))
    waiting = asyncio.ensure_future(connected.wait())
    is_open = False
    try:
        async with asyncio.timeout(_CONNECT_S):
            await asyncio.wait([holding, waiting], return_when=asyncio.FIRST_COMPLETED)
        if holding.done():
            holding.result()
        is_open = True
    except asyncio.CancelledError:
        over.set()
        # Otherwise, processes that Ray has started so far would outlive this one.
        await asyncio.wait([holding], timeout=_CONNECT_S)
        raise
    except (ConnectionError, TimeoutError) as error:
        why = one_line(str(error), 200) or "no answer in time"
        text = f"no Ray cluster could be reached at {address} ({why}): {start}"
        raise _problem(place, text) from error
    except Exception as error:
        why = describe_exception(error)
        text = f"the cluster at {address} cannot be used: {why:.500}"
        raise _problem(place, text) from error
    finally:
        waiting.cancel()
        if not is_open:
            over.set()  # ends a connection that succeeds later
    try:
        yield
    finally:
        over.set()
        await holding


async def _check_reachable(address: str, place: Place, start: str) -> None:
    if ":" not in address:
        return
    try:
        host, _, port = check_address(address).removeprefix("ray://").rpartition(":")
        async with asyncio.timeout(_REACH_S):  # Ray itself would try for minutes
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        writer.close()
    except ValueError as error:
        raise _problem(place, f"RAY_ADDRESS: {error}") from None
    except OSError:
        raise _problem(place, f"no Ray cluster answers at {address}: {start}") from None


def _problem(place: Place, text: str) -> ConfigError:
    return ConfigError([Problem(*place, text)])


def runtime_env(options: Ray, suite: ExecutorSuite, *, is_own: bool) -> dict[str, Any]:
    """Return the runtime environment of the job: the suite's folder, its requirements, and the
    suite's own settings.

    It has no variables, because Ray writes it to logs; they are sent with the calls. A cluster of
    our own on this machine uses the packages that are installed here.
    """
    folder = suite.folder
    environment = dict(options.runtime_env)
    environment.pop("env_vars", None)
    shipped = shipped_folder(options, folder)
    if shipped is not None:
        environment["working_dir"] = str(shipped)
        excludes = [*environment.get("excludes", ()), *_NEVER_SHIPPED]
        results = suite.out.resolve()
        if results.is_relative_to(shipped) and results != shipped:
            inside = results.relative_to(shipped).as_posix()
            excludes.append(f"/{inside}")
        environment["excludes"] = excludes
    names_packages = not environment.keys().isdisjoint(_PACKAGES)
    has_requirements = (folder / "requirements.txt").is_file()
    if has_requirements and not names_packages and not is_own:
        environment["pip"] = "requirements.txt"
    for key in ("pip", "uv"):
        packages = environment.get(key)
        if isinstance(packages, str):
            environment[key] = str(folder / packages)
        elif not packages:  # the suite asks for no packages
            environment.pop(key, None)
    return environment


def _shipped(folders: Sequence[Path], shipped: Path | None) -> tuple[Path, ...]:
    """Return the folders inside the shipped folder, relative to it."""
    if shipped is None:
        return ()
    inside = [each for each in folders if each.is_relative_to(shipped)]
    return tuple(each.relative_to(shipped) for each in inside)


class RayExecutor:
    """Runs what is portable as tasks of the cluster that this process is connected to; see
    `executors.Executor`.

    Args:
        options: the cluster, and the resources of a run.
        suite: the suite.
        files: the results folder; None keeps nothing.
    """

    def __init__(self, options: Ray, suite: ExecutorSuite, files: Path | None) -> None:
        shipped = shipped_folder(options, suite.folder)
        relative = "."
        if shipped is not None:
            relative = suite.folder.resolve().relative_to(shipped).as_posix()
        site = Site(
            shipped=str(shipped or ""),
            folder=relative,
            code_folders=CodeFolders(
                named=_shipped(suite.code_folders.named, shipped),
                usual=_shipped(suite.code_folders.usual, shipped),
            ),
            max_concurrency=suite.max_concurrency,
            keeps_files=files is not None,
            variables=options.runtime_env.get("env_vars", {}),
        )
        self._site = pickle.dumps(site)
        self._shipped = shipped
        self._files = files
        self._amounts = _amounts(options)
        limits = {"num_cpus": options.num_cpus, "num_gpus": options.num_gpus}
        if options.memory_mb is not None:
            limits["memory"] = options.memory_mb * 1024**2
        # A worker dies because of the code that it runs, so its task is not retried; for a node
        # that dies, see `call`.
        self._remote = partial(ray.remote, max_retries=0, **limits)
        self._answer = self._remote()(worker.answer)
        self._grade = self._remote()(worker.grade)
        # Pickled once, because workers identify them by their bytes.
        self._graders: dict[int, tuple[Grader, bytes]] = {}

    async def check(self, portable: Portable, place: Place, *, is_own: bool) -> None:
        """Check that the cluster has room, and that providers and graders can be opened there.

        Args:
            portable: the providers and graders that will run there.
            place: where the suite names the cluster.
            is_own: True if it was started for this suite, so that no nodes will be added.

        Raises:
            ConfigError: all problems.
        """
        own = version("ci-evals")

        def versions() -> str | None:  # nested, so pickled by value: nodes may lack ci-evals
            from importlib import metadata  # noqa: PLC0415

            try:
                return metadata.version("ci-evals")
            except metadata.PackageNotFoundError:
                return None

        theirs = await self._first(self._remote()(versions), place, is_own=is_own)
        if theirs != own:
            has = "lack ci-evals"
            if theirs:
                has = f"have ci-evals {theirs}, and this is {own}"
            remedy = "install this version in their image, or name it in `runtime_env: {pip: […]}`"
            raise _problem(place, f"the nodes of the cluster {has}: {remedy}")
        providers: list[bytes] = []
        graders: list[bytes] = []
        places_of_providers: list[Place] = []
        places_of_graders: list[Place] = []
        problems: list[Problem] = []
        for each, where in portable:
            try:
                pickled = _dump(each)
            except ConfigError as error:
                problems += [problem.seen_from(where) for problem in error.problems]
                continue
            if isinstance(each, ProviderOptions):
                providers.append(pickled)
                places_of_providers.append(where)
            else:
                graders.append(pickled)
                places_of_graders.append(where)
        try:
            problems_of_each = await self._run(self._remote()(worker.check), providers, graders)
        except ProviderError as error:
            text = f"the suite's code cannot be loaded there: {error.message}"
            raise _problem(place, text) from error
        places = [*places_of_providers, *places_of_graders]
        for where, problems_there in zip(places, problems_of_each, strict=True):
            problems += [problem.seen_from(where) for problem in problems_there]
        if problems:
            raise ConfigError(dict.fromkeys(problems))

    async def _first(self, remote: Any, place: Place, *, is_own: bool) -> Any:
        """Return the result of the first task, or fail if no node has room for it."""
        start = time.monotonic()
        waiting = asyncio.ensure_future(self._result(remote.remote()))
        try:
            while True:
                await asyncio.wait([waiting], timeout=_POLL_S)
                if waiting.done():
                    return waiting.result()
                has_waited = is_own or time.monotonic() - start > _NODE_S
                nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
                if has_waited and not any(map(self._fits, nodes)):
                    wanted = {name: amount for name, amount in self._amounts.items() if amount}
                    has = "; ".join(map(_describe, nodes))
                    text = f"no node has room for a run, which needs {_list_amounts(wanted)}"
                    raise _problem(place, f"{text}: the nodes have {has}")
        except RuntimeEnvSetupError as error:
            traceback = str(error).strip().splitlines() or [""]
            why = one_line(traceback[-1], 500)
            raise _problem(place, f"runtime_env could not be set up on a node: {why}") from error
        except RayError as error:
            why = one_line(str(error), 500)
            raise _problem(place, f"the cluster runs no task: {why}") from error
        finally:
            waiting.cancel()

    def _fits(self, node: Mapping[str, float]) -> bool:
        """Return True if the resources of a node suffice for a run."""
        return all(node.get(name, 0) >= amount for name, amount in self._amounts.items())

    def open(self, options: ProviderOptions, resources: Resources) -> Provider:
        if not options.portable:
            return LOCAL.open(options, resources)
        return _RemoteProvider(self, _dump(options))

    def prepare(self, grader: Grader) -> None:
        if not getattr(grader, "portable", False):  # `check` has prepared portable ones there
            LOCAL.prepare(grader)

    async def grade(self, grader: Grader, answer: Answer) -> Finding:
        if not getattr(grader, "portable", False):
            return await LOCAL.grade(grader, answer)
        if id(grader) not in self._graders:
            self._graders[id(grader)] = (grader, _dump(grader))
        _, pickled = self._graders[id(grader)]
        sent = replace(answer, request=self._sent(answer.request))
        try:
            outcome = await self.call(self._grade, pickled, cloudpickle.dumps(sent))
        except ProviderError as error:
            raise GradingError(error.message) from error
        if outcome.error is not None:
            raise outcome.error
        assert isinstance(outcome.value, Finding)
        return outcome.value

    async def answer(self, options: bytes, request: Request) -> Response:
        """Return the answer of a provider, given its pickled options.

        Raises:
            ProviderError: the provider or the cluster failed.
            StorageError: a file that the run left behind cannot be written.
        """
        sent = cloudpickle.dumps(self._sent(request))
        outcome = await self.call(self._answer, options, sent)
        if outcome.files and self._files is not None:
            await asyncio.to_thread(_write_files, self._files, outcome.files)
        if outcome.error is not None:
            raise outcome.error
        assert isinstance(outcome.value, Response)
        return outcome.value

    def _sent(self, request: Request) -> Request:
        """Return a request for the cluster: without expectations, other providers and keys."""
        request = sendable_request(request)
        task = request.case.task
        if task is None or self._shipped is None:
            return request
        folder = task.folder.resolve().relative_to(self._shipped)
        case = replace(request.case, task=replace(task, folder=folder))
        return replace(request, case=case)

    async def call(self, remote: Any, called: bytes, given: bytes) -> RemoteOutcome:
        """Run a task of `worker`, again if its node died, and return its outcome.

        Time spent waiting for a worker, or lost with a node, is excluded from the latency.

        Raises:
            ProviderError: the cluster failed, or the worker died.
        """
        if len(given) > MAX_BYTES:
            size_mb = len(given) / 1024**2
            most_mb = MAX_BYTES // 1024**2
            text = (
                f"the request has {size_mb:,.0f} MB,"
                f" more than the limit of {most_mb} MB for a worker"
            )
            raise ProviderError("environment", text)
        start = time.perf_counter()
        outcome: RemoteOutcome = await self._run(remote, called, given)
        discount(time.perf_counter() - start - outcome.duration_s)
        return outcome

    async def _run(self, remote: Any, *arguments: Any) -> Any:
        for _ in range(_MOST_LOST):
            try:
                pickled = await self._result(remote.remote(self._site, *arguments))
                return pickle.loads(pickled)
            except (NodeDiedError, ObjectLostError):
                continue
            except RayError as error:
                raise _lost(error) from error
        text = f"{_MOST_LOST} nodes of the cluster died one after the other"
        raise ProviderError("environment", text)

    async def _result(self, reference: Any) -> Any:
        """Return the result of a task; a cancellation cancels it, by force if it does not end."""
        future = asyncio.wrap_future(reference.future())
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            ray.cancel(reference)
            try:
                await asyncio.wait([future], timeout=_GRACE_S)
            finally:
                if not future.done():
                    ray.cancel(reference, force=True)
                # Retrieves the exception, or asyncio would warn about it.
                future.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            raise
        return future.result()


class _RemoteProvider:
    def __init__(self, executor: RayExecutor, options: bytes) -> None:
        self._executor = executor
        self._options = options

    async def answer(self, request: Request) -> Response:
        return await self._executor.answer(self._options, request)


def _amounts(options: Ray) -> Mapping[str, float]:
    memory = (options.memory_mb or 0) * 1024**2
    return {
        "CPU": options.num_cpus,
        "GPU": options.num_gpus,
        "memory": memory,
    }


def _describe(node: Mapping[str, float]) -> str:
    return _list_amounts({name: node.get(name, 0) for name in ("CPU", "GPU", "memory")})


def _list_amounts(amounts: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {amount:g}" for name, amount in amounts.items())


def _lost(error: RayError) -> ProviderError:
    """Return the error of a call whose worker or node has died."""
    kind: ErrorKind = "environment"
    match error:
        case WorkerCrashedError():
            kind = "crash"
            text = "the worker process died: the code, or what it calls, ended it or crashed"
        case OutOfMemoryError():
            text = "the node ran out of memory: set `memory_mb` to what a run needs"
        case ObjectStoreFullError() | OutOfDiskError():
            text = "the cluster has no room for the request or the answer"
        case _:
            text = f"the cluster could not run it: {one_line(str(error), 300)}"
    return ProviderError(kind, text)


def _dump(called: Any) -> bytes:
    """Pickle a provider's options or a grader.

    Raises:
        ConfigError: it has a value that cannot be sent to another machine.
    """
    try:
        return bytes(cloudpickle.dumps(called))
    except Exception as error:
        why = one_line(str(error), 200)
        remedy = "name a function, as in `module:function`"
        text = f"cannot be sent to the cluster ({why}): {remedy}"
        raise ConfigError([Problem("", None, "", text)]) from error


def _write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    try:
        if len(files) > 1:  # their folder may have files of an earlier run
            shutil.rmtree(folder / os.path.commonpath(files), ignore_errors=True)
        for name, data in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    except OSError as error:
        raise StorageError(f"{folder}: cannot be written: {error.strerror}") from error
