"""The seam of providers: options as written in the YAML open into something that answers."""

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol

from msgspec import Meta, Struct

from ci_evals.model import Case, Request
from ci_evals.response import Response

if TYPE_CHECKING:
    import aiohttp

    from ci_evals.providers.deadlines import Deadlines


Positive = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0)]
Rate = Annotated[float, Meta(ge=0)]


class Secret:
    """A value that must not be shown: its text is reached only through `reveal`."""

    __slots__ = ("_value", "name")

    def __init__(self, value: str, name: str = "") -> None:
        self._value = value
        self.name = name

    def __repr__(self) -> str:
        return f"Secret(${{{self.name}}})"

    def reveal(self) -> str:
        return self._value


def overriding(case: Case) -> dict[str, Any]:
    """What the team's own code is told of the settings of a case."""
    return {"model": case.overrides.model, "params": case.overrides.params}


class Price(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a provider charges, in USD per million tokens."""

    input_per_mtok: Rate
    output_per_mtok: Rate
    cached_per_mtok: Rate | None = None


class Provider(Protocol):
    """What answers. Raises `ProviderError` when it could not; anything else it raises is a crash."""

    async def answer(self, request: Request) -> Response: ...


class Resources(Protocol):
    """What the engine lends to providers while it runs."""

    @property
    def folder(self) -> Path:
        """The config's folder: relative paths start here."""
        ...

    @property
    def max_concurrency(self) -> int:
        """How many calls of one provider may be under way."""
        ...

    @property
    def stack(self) -> AsyncExitStack:
        """Closed when the run ends."""
        ...

    @property
    def observe(self) -> Callable[[Mapping[str, str]], None]:
        """Takes the headers of each HTTP answer, for what they say of rate limits."""
        ...

    @property
    def files(self) -> Path | None:
        """Where files that a run leaves behind are kept, beside the reports; None where nothing is to be kept."""
        ...

    @property
    def session(self) -> "aiohttp.ClientSession":
        """One HTTP session for everything; it sets no time-outs."""
        ...

    @property
    def deadlines(self) -> "Deadlines":
        """The time-outs of calls."""
        ...


class ProviderOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """What every provider may set.

    Args:
        name: how the provider is called in reports and `--providers`; derived from its settings when left out.
        max_concurrency: calls under way at once, within the suite's own limit.
        timeout_s: seconds a call may take; the suite's value when left out.
        retries: further attempts after a refused or lost call; the suite's value when left out.
        on_error: whether a run without an answer counts as failed (`fail`) or is left out of the rate (`exclude`).
        price: USD per million tokens, for costs that are not publicly listed.
        rpm: requests per minute that the provider allows.
        tpm: tokens per minute that it allows, asked and answered together.
        before: what the input goes through before it is asked, in order: providers by name, or `module:function`.
        after: what the answer goes through, likewise.
        cache: whether what stages made is kept in the results folder and taken from there.
        limit_group: providers of the same group share their `rpm` and `tpm`, as models behind one key do.
    """

    own_code: ClassVar[bool] = False  # whether it calls the team's own code, so that a crash is the change's fault
    retried: ClassVar[bool] = True  # whether the suite's `retries` apply
    embeds: ClassVar[bool] = False  # whether it answers with embeddings instead of text
    works_on_tasks: ClassVar[bool] = False  # whether it works on task folders, and on nothing else

    name: str | None = None
    max_concurrency: Positive | None = None
    timeout_s: Seconds | None = None
    retries: Annotated[int, Meta(ge=0, le=20)] | None = None
    on_error: Literal["fail", "exclude"] | None = None
    price: Price | None = None
    rpm: Annotated[float, Meta(gt=0)] | None = None
    tpm: Annotated[float, Meta(gt=0)] | None = None
    limit_group: str | None = None
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    cache: bool = True

    @property
    def default_name(self) -> str:
        """A name for when the suite gives none: `openai:gpt-4o-mini`."""
        return str(self.__struct_config__.tag)

    @property
    def api_url(self) -> str | None:
        """The endpoint whose public price list applies; None for anything without one."""
        return None

    @property
    def key_variable(self) -> str | None:
        """The environment variable to take the key from; None when the config names one or none is needed."""
        return None

    def problems(self, folder: Path) -> list[str]:
        """What can be seen to be wrong before any call: a missing file, a module that does not exist."""
        return []

    def open(self, resources: Resources) -> Provider:
        """Make the live provider; what it holds open is put on `resources.stack`."""
        raise NotImplementedError
