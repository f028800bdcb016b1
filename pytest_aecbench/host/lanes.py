"""Lanes: calls that run side by side in one thread and wait in others.

A lane is a greenlet. The one that runs *has the floor*; no other runs meanwhile, so code on the
floor need not be thread-safe. A lane that waits leaves the floor: what it waits for runs in another
thread (``away``), or is a point in time (``pause``), a condition (``until``), a turn (``Mutex``)
or its share of a common job (``gather``). Without lanes these are plain calls. ``hub`` runs them.

The thread of a lane that was interrupted is not killed. It gets KeyboardInterrupt the next time
that it calls one of these functions.
"""

from __future__ import annotations

import sys
import threading
import time
from contextvars import ContextVar, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from pytest_aecbench.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytest_aecbench.host.hub import Hub

__all__ = [
    "FLOOR",
    "POLL_SEC",
    "Bell",
    "Lane",
    "Mutex",
    "Request",
    "Submit",
    "Wait",
    "away",
    "current",
    "follow",
    "gather",
    "lane_of_thread",
    "pause",
    "reversible",
    "until",
    "work",
]

_P = ParamSpec("_P")
_T = TypeVar("_T")
POLL_SEC = 0.05
_ENDED = "the job ended before it gave an outcome for the trial"


class Request(Protocol):
    """A lane's share of a common job."""

    @property
    def trial_id(self) -> str:
        """The name under which its outcome comes back."""
        ...


class Submit(Protocol):
    """Starts a job for all requests, and yields each outcome, or error, under its name."""

    def __call__(self, *, requests: Sequence[Any]) -> Iterable[tuple[str, Any]]:
        """Start the job."""
        ...


class Lane:
    """A call that runs beside others; ``notes`` is for the owner of the hub."""

    def __init__(self, hub: Hub, name: str, notes: Any = None) -> None:
        self.hub = hub
        self.name = name
        self.notes = notes
        self.is_shielded = False  # ``Hub.stop`` lets it go on
        self.is_over = False
        self.error: BaseException | None = None  # with which it ended
        self.wait: Wait | None = None  # for which it has left the floor


class Wait:
    """One wait of a lane, which is over when it is answered or the lane is interrupted.

    ``undo`` gets a result that comes too late.
    """

    def __init__(self, lane: Lane, undo: Callable[[Any], object] | None = None) -> None:
        self.lane = lane
        self.undo = undo
        self.is_abandoned = False
        self.is_submitted = False


# The owner of this code: the lane on the floor, or the wait that its thread works for.
FLOOR: ContextVar[Lane | None] = ContextVar("aecbench_floor", default=None)
_WORK: ContextVar[Wait | None] = ContextVar("aecbench_work", default=None)


def current() -> Lane | None:
    """Return the lane that has the floor; None outside of lanes, and in their threads."""
    lane = FLOOR.get()
    if lane is None or lane.hub.thread != threading.get_ident():
        return None
    # An event loop belongs to the thread, so nothing else may run before it has ended.
    asyncio = sys.modules.get("asyncio")
    return None if asyncio and asyncio._get_running_loop() else lane


def lane_of_thread() -> Lane | None:
    """Return the lane that this thread works for; None on the floor, and outside of lanes."""
    wait = _WORK.get()
    return None if wait is None else wait.lane


def away(call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Make a call that may take long, away from the floor."""
    return reversible(None, call, *args, **kwargs)


def reversible(
    undo: Callable[[_T], object] | None,
    call: Callable[_P, _T],
    *args: _P.args,
    **kwargs: _P.kwargs,
) -> _T:
    """Make a call away from the floor; ``undo`` gets the result if its lane was interrupted."""
    lane = current()
    if lane is None:
        return _here(undo, partial(call, *args, **kwargs))
    wait = Wait(lane, undo)
    job = partial(copy_context().run, work, wait, partial(call, *args, **kwargs))
    result: _T = lane.hub.park(wait, partial(lane.hub.begin_call, job))
    return result


def _here(undo: Callable[[_T], object] | None, call: Callable[[], _T]) -> _T:
    """Make the call in this thread, unless its lane has given up, before or meanwhile."""
    _check_wanted()
    result = call()
    work = _WORK.get()
    if undo is not None and work is not None and work.is_abandoned:
        undo(result)
    _check_wanted()
    return result


def work(wait: Wait, call: Callable[[], object]) -> None:
    """Make the call of a lane in this thread."""
    FLOOR.set(None)
    _WORK.set(wait)
    value = error = None
    try:
        value = call()
        if wait.is_abandoned and wait.undo is not None:
            undo, wait.undo = wait.undo, None
            undo(value)
    except BaseException as raised:  # noqa: BLE001  (it is the lane's)
        error = raised
    wait.lane.hub.answer(wait, value, error)


def _check_wanted() -> None:
    """Raise KeyboardInterrupt in a thread whose lane was interrupted."""
    work = _WORK.get()
    if work is not None and work.is_abandoned:
        raise KeyboardInterrupt("the lane was interrupted")


def pause(seconds: float) -> None:
    """Let time pass."""
    lane = current()
    if lane is not None:
        wait = Wait(lane)
        timer = lane.hub.after(seconds, partial(lane.hub.go_on, wait))
        try:
            lane.hub.park(wait)
        finally:
            timer.cancel()
        return
    end = time.monotonic() + seconds
    while _WORK.get() is not None and end - time.monotonic() > POLL_SEC:
        _check_wanted()
        time.sleep(POLL_SEC)
    time.sleep(max(0.0, end - time.monotonic()))


class Bell:
    """Lets the one that made it, and waits in ``until``, look again at once; any thread rings."""

    def __init__(self) -> None:
        lane = current()
        self._hub = None if lane is None else lane.hub
        self._event = threading.Event()

    def ring(self) -> None:
        """Let it look again, also if it is looking right now."""
        self._event.set()
        if self._hub is not None:
            self._hub.look_again()

    def wait(self) -> None:
        """Wait in a thread until it has rung since this was last called, but not for long."""
        self._event.wait(POLL_SEC)
        self._event.clear()


def until(is_over: Callable[[], object], bell: Bell | None = None) -> None:
    """Wait for a condition, which is asked for again and again in this thread.

    It is asked for at once when the ``bell`` rings.
    """
    if is_over():
        return
    lane = current()
    if lane is None:
        bell = bell or Bell()
        while not is_over():
            _check_wanted()
            bell.wait()
        return
    wait = Wait(lane)
    lane.hub.polls[wait] = is_over
    try:
        lane.hub.park(wait)
    finally:
        lane.hub.polls.pop(wait, None)


def gather(submit: Submit, request: Request) -> Any:
    """Submit a request together with those of all lanes that gather; return its own outcome.

    Raises:
        BackendError: the job ended before this outcome came.

    """
    lane = current()
    if lane is None:
        outcomes: dict[str, Any] = {}
        follow(submit, [request], outcomes.__setitem__)
        if isinstance(outcome := outcomes[request.trial_id], BaseException):
            raise outcome
        return outcome
    wait = Wait(lane)
    lane.hub.gathered[wait] = (submit, request)
    try:
        return lane.hub.park(wait)
    finally:
        lane.hub.gathered.pop(wait, None)


def follow(
    submit: Submit, requests: Sequence[Request], answer: Callable[[str, object], object]
) -> None:
    """Submit the requests, and give exactly one answer to each, whatever the job does.

    An error that the job yields is that of one request; one that it raises is that of all that
    still wait.
    """
    missing = {request.trial_id for request in requests}
    end: BaseException = BackendError(_ENDED)
    try:
        for name, outcome in submit(requests=requests):
            if name in missing:  # else it is a stranger's, or a second outcome
                missing.discard(name)
                answer(name, outcome)
    except BaseException as error:  # noqa: BLE001  (it is that of the lanes)
        end = error
    for name in missing:
        answer(name, end)


class Mutex:
    """Lets lanes have turns, in the order in which they came; a lane may have several at once.

    Outside of lanes it does nothing, because there is nothing to exclude.
    """

    def __init__(self) -> None:
        self._owner: Lane | None = None
        self._depth = 0
        self._waiting: list[Wait] = []  # and not a deque, because most are never waited for

    def __enter__(self) -> None:
        lane = current()
        if lane is None:
            return
        if self._owner is None:
            self._owner = lane
        if self._owner is not lane:
            wait = Wait(lane)
            self._waiting.append(wait)
            try:
                lane.hub.park(wait)
            except BaseException:
                if self._owner is lane:  # its turn had come before it was interrupted
                    self._hand_on()
                raise
        self._depth += 1

    def __exit__(self, *error: object) -> None:
        lane = current()
        if lane is None or self._owner is not lane:
            return
        self._depth -= 1
        if not self._depth:
            self._hand_on()

    def _hand_on(self) -> None:
        self._owner = None
        while self._waiting and self._owner is None:
            wait = self._waiting.pop(0)
            if not wait.is_abandoned:
                self._owner = wait.lane
                wait.lane.hub.go_on(wait)
