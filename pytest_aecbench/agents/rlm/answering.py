"""Answers to the calls of cells: each is a question to a model, to a child, or to the advisor."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_aecbench.agents.prompts import ADVISOR
from pytest_aecbench.agents.rlm.prompts import SUBCALL
from pytest_aecbench.agents.rlm_config import SUBCALLS
from pytest_aecbench.agents.spending import LimitReached
from pytest_aecbench.agents.workers import Workers
from pytest_aecbench.errors import ContextExceeded, Refused, RequestRejected
from pytest_aecbench.host.lanes import away
from pytest_aecbench.text import did_you_mean

if TYPE_CHECKING:
    from pytest_aecbench.agents.rlm.models import Models, Place
    from pytest_aecbench.providers.calls import Call

__all__ = ["Answering", "Child", "Reply"]

Reply: TypeAlias = dict[str, Any]
# Works on a question in a REPL of its own: the request of the cell and its place.
Child: TypeAlias = Callable[[Mapping[str, Any], "Place"], Reply]

_KINDS = ("llm_query", *SUBCALLS)
# Calls that wait are in the host's memory; a cell's threads could make ever more of them.
_MOST_WAITING = 256 * 1024**2


@dataclass(slots=True)
class _Group:
    """Calls that a cell made together, with their size in bytes."""

    futures: list[Future[Reply]] = field(default_factory=list)
    left: int = 0
    size: int = 0


@dataclass(slots=True)
class Answering:
    """Answers the calls of one REPL's cells, several at a time.

    ``depth_left`` is how deep calls may still go. ``advice`` gives the advisor the end of the
    conversation. ``is_over`` is set when a limit has ended it: its cells can no longer ask.
    """

    models: Models
    depth_left: int
    child: Child
    advice: Callable[[], str]
    is_over: bool = False
    _workers: Workers = field(init=False)
    _groups: dict[int, _Group] = field(default_factory=dict)
    _failure: BaseException | None = None
    _advised: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        self._workers = Workers(self.models.config.execution.max_parallel_workers)

    def begin(self, groups: Mapping[int, Sequence[Mapping[str, Any]]], place: Place) -> None:
        """Start to answer groups of calls."""
        for number, requests in groups.items():
            # A cell can forge a number that there is; the calls of both are answered together.
            group = self._groups.setdefault(number, _Group())
            size = sum(len(repr(request).encode("utf-8", "replace")) for request in requests)
            is_much = sum(other.size for other in self._groups.values()) + size > _MOST_WAITING
            reply = _too_much if is_much else self._reply
            group.size += 0 if is_much else size
            with self._changed:
                group.left += len(requests)
            for request in requests:
                future = self._workers.submit(reply, request, place)
                group.futures.append(future)
                future.add_done_callback(partial(self._note, group))

    def _note(self, group: _Group, future: Future[Reply]) -> None:
        with self._changed:
            group.left -= 1
            if not future.cancelled() and self._failure is None:
                self._failure = future.exception()
            if not group.left or self._failure is not None:
                self._changed.notify_all()

    @property
    def is_busy(self) -> bool:
        """True while a group is not answered."""
        return bool(self._groups)

    def answered(self, within_sec: float) -> dict[int, list[Reply]]:
        """Wait a while for a group; return those that are answered whole.

        Raises:
            ProviderError: a model cannot be reached, which is not the agent's fault.
            DeadlineReached: the agent has no working time left.

        """
        away(self._await_news, within_sec)
        with self._changed:
            if self._failure is not None:
                raise self._failure
            whole = [number for number, group in self._groups.items() if not group.left]
        return {number: [f.result() for f in self._groups.pop(number).futures] for number in whole}

    def _await_news(self, within_sec: float) -> None:
        with self._changed:
            self._changed.wait_for(self._has_news, within_sec)

    def _has_news(self) -> bool:
        return self._failure is not None or not all(one.left for one in self._groups.values())

    def __enter__(self) -> Answering:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Make no further call, and wait for those that are under way.

        Their tokens belong to the record. A run that is interrupted does not wait for them.
        """
        futures = [one for group in self._groups.values() for one in group.futures]
        running = [one for one in futures if not one.cancel()]
        if kind is None or issubclass(kind, Exception):
            wait(running)
        self._groups.clear()

    def _reply(self, request: Mapping[str, Any], place: Place) -> Reply:
        """Answer one call; whatever the model is to blame for is an error in the cell."""
        kind, prompt = request.get("kind"), request.get("prompt")
        if not isinstance(prompt, str) or not prompt.strip():
            return {"error": "the prompt is empty"}
        if self.is_over:
            return {"error": "the run is over; models can no longer be asked"}
        try:
            if kind == "advisor":
                return self._advice(prompt, place)
            if self.depth_left < (2 if kind == "rlm_query" else 1):
                deepest = self.models.config.guardrails.max_subcall_depth
                return {"error": f"{kind} is not allowed here: max_subcall_depth is {deepest}"}
            model = self._model(request.get("model"))
            if kind == "rlm_query":
                return self.child({**request, "model": model}, place)
            kind = kind if kind in _KINDS else "llm_query"
            return _said(self.models.ask("subcall", SUBCALL, prompt, place, model=model, kind=kind))
        except LimitReached as limit:
            return {"error": f"no call was made: the run has {limit}"}
        except (ContextExceeded, Refused, RequestRejected, _BadCallError) as error:
            about = {"call_type": "subcall", "parent": place.parent, "refused": str(error)}
            self.models.trajectory.add("assistant", turn=place.turn, metadata=about)
            return {"error": f"{type(error).__name__.strip('_')}: {error}"}

    def _model(self, given: object) -> str | None:
        """Return the model that a cell asked for; only those that are configured are allowed."""
        if given is None:
            return self.models.config.execution.subcall_model
        if isinstance(given, str) and given in self.models.callers:
            return given
        known = sorted(name for name in self.models.callers if name)
        right = did_you_mean(str(given), known) if known else "leave it out"
        raise _BadCallError(f"{given!r} is not a model of this run; {right}")

    def _advice(self, question: str, place: Place) -> Reply:
        advisor = self.models.config.advisor
        if advisor is None or not advisor.enabled:
            return {"error": "there is no advisor"}
        with self._lock:
            if self._advised >= advisor.max_uses:
                return {"error": f"all {advisor.max_uses} questions are used; go on alone"}
            self._advised += 1
            left = advisor.max_uses - self._advised
        prompt = f"{self.advice()}\n\nThe question:\n{question}".strip()
        call = self.models.ask(
            "advisor",
            ADVISOR,
            prompt,
            place,
            model=advisor.model,
            max_tokens=advisor.max_response_tokens,
        )
        reply = _said(call)
        return {**reply, "text": f"{reply.get('text', '')}\n[{left} questions left]"}


def _too_much(request: Mapping[str, Any], place: Place) -> Reply:
    return {"error": f"over {_MOST_WAITING >> 20} MiB of prompts are waiting; ask for less at once"}


class _BadCallError(Exception):
    """A cell asked for something that there is not."""


def _said(call: Call) -> Reply:
    """Return what a cell gets of a model's answer."""
    text, usage = call.reply.message.text, call.reply.usage
    if call.reply.stop == "refusal":
        return {"error": f"the model refused: {text[:500]}"}
    if not text.strip():
        return {"error": "the model gave an empty answer"}
    return {"text": text, "input_tokens": usage.tokens_in, "output_tokens": usage.tokens_out}
