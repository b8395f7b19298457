"""Records the spans of an instrumented agent in this process. Needs opentelemetry-sdk."""

from contextvars import ContextVar, Token
from dataclasses import replace
from functools import cache
from threading import Lock
from weakref import WeakSet

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace import Span as LiveSpan

from ci_evals.errors import ProviderError
from ci_evals.model.response import Response
from ci_evals.providers.emitters import read_attributes
from ci_evals.providers.spans import Span, context_of, steps_of

_Id = tuple[int, int]


class Recording:
    """The spans of one run."""

    def __init__(self) -> None:
        self.begun: list[_Id] = []
        self.ended: list[ReadableSpan] = []
        self.token: Token[Recording | None] | None = None

    def complete(self, response: Response) -> Response:
        """Return a response completed by the steps and the context of the spans.

        Raises:
            ProviderError: there are too many steps, or they have another shape.
        """
        if not self.begun:
            return response
        spans = [_plain(span) for span in self.ended]
        steps, context = response.steps, response.context
        try:
            if steps is None:
                steps = steps_of(spans) or None
            if context is None:
                context = context_of(spans)
        except ValueError as error:
            text = f"the agent's spans are not valid steps: {error}"
            raise ProviderError("bad_answer", text) from None
        return replace(response, steps=steps, context=context)


_current: ContextVar[Recording | None] = ContextVar("ci_evals_recording", default=None)


class SpanRecorder(SpanProcessor):
    """Adds each span to the recording of the context in which it began.

    A thread that the agent started has another context: there, the parent span decides.
    """

    def __init__(self) -> None:
        self._listened_to: WeakSet[object] = WeakSet()
        self.recordings: dict[_Id, Recording] = {}
        self._lock = Lock()  # spans begin and end in the agent's threads, too

    def attach(self) -> None:
        """Listen to the tracer provider of this process; set one if the agent's code has not."""
        provider = trace.get_tracer_provider()
        if isinstance(provider, trace.ProxyTracerProvider):
            provider = TracerProvider()
            trace.set_tracer_provider(provider)
        # Providers other than the SDK's wrap it and have the method, too.
        add_processor = getattr(provider, "add_span_processor", None)
        if add_processor is not None and provider not in self._listened_to:
            add_processor(self)
            self._listened_to.add(provider)

    def start(self) -> Recording:
        """Start to record the spans of this context."""
        recording = Recording()
        recording.token = _current.set(recording)
        return recording

    def stop(self, recording: Recording) -> None:
        """End a recording; spans that are still open are dropped."""
        assert recording.token is not None
        _current.reset(recording.token)
        if recording.begun:
            with self._lock:
                for key in recording.begun:
                    self.recordings.pop(key, None)

    def on_start(self, span: LiveSpan, parent_context: Context | None = None) -> None:
        recording = _current.get()
        with self._lock:
            if recording is None and span.parent is not None:
                recording = self.recordings.get((span.parent.trace_id, span.parent.span_id))
            if recording is None:
                return
            key = (span.context.trace_id, span.context.span_id)
            recording.begun.append(key)
            self.recordings[key] = recording

    def on_end(self, span: ReadableSpan) -> None:
        with self._lock:
            recording = self.recordings.get((span.context.trace_id, span.context.span_id))
            if recording is not None:
                recording.ended.append(span)


@cache
def _recorder() -> SpanRecorder:
    return SpanRecorder()


def attach_recorder() -> SpanRecorder:
    """Return the recorder of this process, which listens to its tracer provider."""
    recorder = _recorder()
    recorder.attach()
    return recorder


def _plain(span: ReadableSpan) -> Span:
    events = [(event.name, event.attributes or {}) for event in span.events]
    attributes = read_attributes(span.attributes or {}, events)
    error = None
    if span.status.status_code is trace.StatusCode.ERROR:
        error = span.status.description or str(attributes.get("error.type") or "failed")
    parent_id = None
    if span.parent is not None:
        parent_id = f"{span.parent.span_id:016x}"
    return Span(
        trace_id=f"{span.context.trace_id:032x}",
        span_id=f"{span.context.span_id:016x}",
        parent_id=parent_id,
        name=span.name,
        attributes=attributes,
        start_ns=span.start_time or 0,
        end_ns=span.end_time or 0,
        error=error,
    )
