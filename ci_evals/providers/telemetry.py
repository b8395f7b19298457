"""Spans that an instrumented agent makes in this process, kept apart by run. Needs
opentelemetry-sdk.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from weakref import WeakSet

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace import Span as LiveSpan

from ci_evals.model.response import Passage, Step
from ci_evals.providers.spans import Span, context_of, steps_of

MAX_SPANS = 50_000
"""An agent that makes more goes in circles."""

_Id = tuple[int, int]


class Collection:
    """The spans of one run that have ended."""

    def __init__(self) -> None:
        self.begun: list[_Id] = []
        self._ended: list[ReadableSpan] = []

    def add(self, span: ReadableSpan) -> None:
        self._ended.append(span)

    def steps(self) -> tuple[Step, ...] | None:
        """Return the steps among the spans; None if there are none.

        Raises:
            ValueError: there are more spans or steps than are kept.
        """
        if len(self.begun) > MAX_SPANS:
            raise ValueError(f"it made more than {MAX_SPANS:,} spans")
        return steps_of(list(map(_plain, self._ended))) or None

    def context(self) -> tuple[Passage, ...] | None:
        """Return what was retrieved; None if no span tells, or there are more spans than are kept.

        Raises:
            TypeError: it is of another shape.
            ValueError: there are more documents than are kept.
        """
        return None if len(self.begun) > MAX_SPANS else context_of(list(map(_plain, self._ended)))


_current: ContextVar[Collection | None] = ContextVar("ci_evals_spans", default=None)


class _Collector(SpanProcessor):
    """Hands each span to the run in whose context it began; in a thread of the agent's own, to that
    of its parent.
    """

    def __init__(self) -> None:
        self._collections: dict[_Id, Collection] = {}
        self._lock = Lock()

    def on_start(self, span: LiveSpan, parent_context: Context | None = None) -> None:
        collection = _current.get()
        with self._lock:
            if collection is None and span.parent is not None:
                collection = self._collections.get((span.parent.trace_id, span.parent.span_id))
            if collection is None:
                return
            key = (span.context.trace_id, span.context.span_id)
            collection.begun.append(key)
            if len(collection.begun) <= MAX_SPANS:
                self._collections[key] = collection

    def on_end(self, span: ReadableSpan) -> None:
        with self._lock:
            collection = self._collections.get((span.context.trace_id, span.context.span_id))
            if collection is not None:
                collection.add(span)

    def forget(self, collection: Collection) -> None:
        """Let go of a run that is over: whatever its spans still do is nobody's."""
        with self._lock:
            for key in collection.begun:
                self._collections.pop(key, None)


_collector = _Collector()
_attached: WeakSet[object] = WeakSet()


def attach() -> None:
    """Listen to the tracer provider of this process, which is made if the agent's code has set
    none.
    """
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider):
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    listen = getattr(
        provider, "add_span_processor", None
    )  # others than the SDK's wrap it and have it too
    if listen is not None and provider not in _attached:
        listen(_collector)
        _attached.add(provider)


@contextmanager
def collect_spans() -> Iterator[Collection]:
    """Collect the spans that begin in this context while it lasts."""
    collection = Collection()
    token = _current.set(collection)
    try:
        yield collection
    finally:
        _current.reset(token)
        _collector.forget(collection)


def _plain(span: ReadableSpan) -> Span:
    status = span.status
    error = None
    if status.status_code is trace.StatusCode.ERROR:
        error = status.description or str((span.attributes or {}).get("error.type") or "failed")
    return Span(
        trace_id=f"{span.context.trace_id:032x}",
        span_id=f"{span.context.span_id:016x}",
        parent_id=f"{span.parent.span_id:016x}" if span.parent else None,
        name=span.name,
        attributes=span.attributes or {},
        start_ns=span.start_time or 0,
        end_ns=span.end_time or 0,
        error=error,
    )
