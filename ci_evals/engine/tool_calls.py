"""Runs whose model calls tools: the loop of model calls and tool calls, up to an answer."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ci_evals.engine.calls import (
    ONE_ATTEMPT,
    Attempts,
    CallResult,
    Calls,
    LostError,
    Stopwatch,
)
from ci_evals.engine.slots import Slot
from ci_evals.errors import ProviderError
from ci_evals.model.request import Request
from ci_evals.model.response import Message, Passage, Response, Step, ToolCall, Usage
from ci_evals.providers.answer import MAX_STEPS, as_steps
from ci_evals.providers.base import NativeMessage, ToolRequest
from ci_evals.providers.pricing import Pricer, total_usd
from ci_evals.providers.tools import Toolbox


class CallsWithTools(Calls):
    """Makes the calls to a provider whose model calls tools.

    A call goes on until the model answers: each call of the model is paced and retried by itself,
    and the tools that one answer asks for run at once.

    Args:
        provider: what answers.
        limiter: see `Calls`.
        toolbox: the tools, which are started.
        max_steps: how often the model may be called for one answer.
        declares_others: whether the model is offered further tools, which nobody carries out: an
            answer that calls only those is the last one.
        price: prices an answer of the model.
        settings: further arguments of `Calls`.
    """

    def __init__(
        self,
        provider: Any,
        limiter: Any,
        *,
        toolbox: Toolbox,
        max_steps: int,
        declares_others: bool,
        price: Pricer,
        **settings: Any,
    ) -> None:
        super().__init__(provider, limiter, **settings)
        self._toolbox = toolbox
        self._max_steps = max_steps
        self._declares_others = declares_others
        self._price = price

    async def call(self, request: Request, slot: Slot, *, continued: bool = False) -> CallResult:
        """Call model and tools until the model answers.

        Raises:
            LostError: a call of the model got no answer, a tool's server is gone, or the model does
                not answer within `max_steps` calls, or takes more steps than are kept.
            StoppedError: the run was stopped before the first call.
            StorageError: a file in the answer can't be kept.
        """
        exchange = _Exchange(self._price)
        asked = replace(request, tools=self._toolbox.definitions)
        for number in range(self._max_steps):
            try:
                made = await super().call(asked, slot, continued=continued or number > 0)
            except LostError as lost:
                raise exchange.lost(lost) from lost
            exchange.add_answer(made)
            response = made.response
            if self._is_last(response):
                return exchange.result
            if number + 1 == self._max_steps:  # nobody would read the results of these tools
                break
            if not exchange.has_room_for(response.tool_calls):
                text = f"the model called too many tools: an answer has at most {MAX_STEPS:,} steps"
                raise exchange.failed(ProviderError("max_steps", text))
            with Stopwatch() as watch:
                uses = await self._toolbox.use(response.tool_calls, asked)
            exchange.add_tools([use.step for use in uses], watch.elapsed_s)
            for use in uses:
                if use.lost is not None:
                    raise exchange.failed(use.lost)
            # A model that thinks between its calls needs its thoughts to go on.
            text = response.thoughts + response.output
            said = Message("assistant", text, response.tool_calls)
            # Some APIs want their own message back, with signatures or ids that we don't know.
            if isinstance(response, ToolRequest):
                said = NativeMessage("assistant", text, response.tool_calls, native=response.native)
            results = [use.result for use in uses]
            asked = replace(asked, messages=(*asked.messages, said, *results))
        text = f"the model was still calling tools after `max_steps: {self._max_steps}`"
        raise exchange.failed(ProviderError("max_steps", text))

    def _is_last(self, response: Response) -> bool:
        if not response.tool_calls:
            return True
        return self._declares_others and not self._toolbox.has_any(response.tool_calls)


class _Exchange:
    """The calls of the model and of tools that led to one answer, so far."""

    def __init__(self, price: Pricer) -> None:
        self._price = price
        self._made: list[CallResult] = []
        self._steps: list[Step] = []
        self._tools_s = 0.0

    def add_answer(self, made: CallResult) -> None:
        self._made.append(made)
        response = made.response
        duration_s = round(made.latency_s, 6)
        if response.steps is None:
            step = Step("model_request", response.model or "", usage=response.usage)
            self._steps.append(replace(step, result=response.output or None, duration_s=duration_s))
            return
        for step in response.steps:  # an API that carries out tools of its own
            if step.kind == "model_request":
                self._steps.append(replace(step, duration_s=duration_s))
            else:
                self._steps.append(step)

    def has_room_for(self, calls: Sequence[ToolCall]) -> bool:
        """Return True if there is room for the steps of these calls and of the next answer."""
        return len(self._steps) + len(calls) < MAX_STEPS

    def add_tools(self, steps: Sequence[Step], elapsed_s: float) -> None:
        self._steps += steps
        self._tools_s += elapsed_s

    @property
    def result(self) -> CallResult:
        """The last answer, with the steps, tokens, costs and time of all calls."""
        started_at = self._made[0].started_at
        return CallResult(self._response, started_at, self._latency_s, self._attempts)

    @property
    def _response(self) -> Response:
        first, last = self._made[0], self._made[-1]
        return Response(
            output=last.response.output,
            thoughts=last.response.thoughts,
            tool_calls=last.response.tool_calls,
            usage=self._usage,
            model=last.response.model,
            finish_reason=last.response.finish_reason,
            cost_usd=self._cost_usd,
            steps=as_steps(self._steps[:MAX_STEPS]),
            context=self._context,
            metadata=last.response.metadata,
            first_token_s=first.response.first_token_s,
        )

    def lost(self, lost: LostError) -> LostError:
        """Return the error of a call of the model, with the calls before it."""
        if not self._made:
            return lost
        lost.error.partial = self._response
        attempts = self._attempts.number + lost.attempts - 1
        latency_s = self._latency_s + lost.latency_s
        return LostError(lost.error, lost.cause, self._made[0].started_at, latency_s, attempts)

    def failed(self, error: ProviderError) -> LostError:
        """Return an error that ends the loop, with all calls so far."""
        error.partial = self._response
        started_at = self._made[0].started_at
        return LostError(error, error, started_at, self._latency_s, self._attempts.number)

    @property
    def _usage(self) -> Usage | None:
        total = Usage()
        for made in self._made:
            if made.response.usage is None:
                return None
            total += made.response.usage
        return total

    @property
    def _context(self) -> tuple[Passage, ...] | None:
        """The passages that the API retrieved for all answers; None if it does not report them."""
        contexts = [
            made.response.context for made in self._made if made.response.context is not None
        ]
        if not contexts:
            return None
        return tuple(passage for context in contexts for passage in context)

    @property
    def _cost_usd(self) -> float | None:
        return total_usd(self._price(made.response) for made in self._made)

    @property
    def _latency_s(self) -> float:
        return self._tools_s + sum(made.latency_s for made in self._made)

    @property
    def _attempts(self) -> Attempts:
        attempts = ONE_ATTEMPT
        for made in self._made:
            if made.attempts.repeated_for:
                number = attempts.number + made.attempts.number - 1
                attempts = made.attempts._replace(number=number)
        return attempts
