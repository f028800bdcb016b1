"""The hub of lanes: gives the floor to one lane after another, and waits for their answers."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections import deque
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import greenlet

from pytest_aecbench.host.lanes import FLOOR, POLL_SEC, Lane, Request, Submit, Wait, follow, work
from pytest_aecbench.host.threads import run_in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Hub", "Timer"]


class Timer:
    """A call that the hub makes at a time, unless it is cancelled."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.call: Callable[[], object] | None = call

    def cancel(self) -> None:
        """Do not make the call."""
        self.call = None


class Hub:
    """Runs lanes in the thread that made it.

    ``on_enter`` and ``on_leave`` are called in a lane's greenlet whenever it gets the floor and
    before it leaves it, also at its start and its end.
    """

    def __init__(
        self,
        on_enter: Callable[[Lane], object] = lambda lane: None,
        on_leave: Callable[[Lane], object] = lambda lane: None,
    ) -> None:
        self.thread = threading.get_ident()
        self.lanes: dict[Lane, greenlet.greenlet] = {}  # those that are not over
        self.polls: dict[Wait, Callable[[], object]] = {}
        self.gathered: dict[Wait, tuple[Submit, Request]] = {}
        self._on_enter = on_enter
        self._on_leave = on_leave
        self._greenlet = greenlet.getcurrent()
        self._answers: SimpleQueue[tuple[Wait, Any, BaseException | None] | None] = SimpleQueue()
        self._ready: deque[tuple[Wait, Any, BaseException | None]] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()
        self._calls = 0  # that threads make and have not answered
        self._submitted = 0  # lanes that wait for their share of a job
        self._next_poll = 0.0
        self._stop: Callable[[], BaseException] | None = None

    def start(self, name: str, call: Callable[[], object], notes: Any = None) -> Lane:
        """Start a lane, and let it run until it waits."""
        lane = Lane(self, name, notes)
        self.lanes[lane] = made = greenlet.greenlet(partial(self._run, lane, call), self._greenlet)
        made.gr_context = copy_context()
        made.switch()
        return lane

    def step(self, patience_sec: float | None = None) -> None:
        """Wait for something to happen, and give the floor to a lane that can go on.

        It also returns when the time is over, and when ``wake`` is called.
        """
        if not self._ready:
            self._await(patience_sec)
        if self._ready:
            wait, value, error = self._ready.popleft()
            if not wait.is_abandoned:
                self._switch(wait.lane, value, error)

    def throw(self, lane: Lane, error: BaseException) -> None:
        """Let what a lane waits for raise an error; do nothing if the lane is over."""
        if lane.wait is not None:
            lane.wait.is_abandoned = True
            self._switch(lane, None, error)

    def stop(self, make_error: Callable[[], BaseException]) -> None:
        """Interrupt every lane that waits, or is going to wait, and is not shielded."""
        self._stop = make_error
        for lane in list(self.lanes):
            if not lane.is_shielded:
                self.throw(lane, make_error())

    def resume(self) -> None:
        """Let lanes wait again after ``stop``."""
        self._stop = None

    def submit(self) -> None:
        """Submit the requests of all lanes that have gathered, in a thread for each kind of job."""
        jobs: dict[Submit, dict[str, Wait]] = {}
        requests: dict[Submit, list[Request]] = {}
        for wait, (submit, request) in self.gathered.items():
            wait.is_submitted = True
            jobs.setdefault(submit, {})[request.trial_id] = wait
            requests.setdefault(submit, []).append(request)
        self._submitted += len(self.gathered)
        self.gathered.clear()
        for submit, waits in jobs.items():
            self._calls += len(waits)
            run_in_thread(partial(follow, submit, requests[submit], partial(self._outcome, waits)))

    @property
    def waiting_for_job(self) -> int:
        """The number of lanes that have gathered or are submitted."""
        return len(self.gathered) + self._submitted

    def all_gathered(self) -> bool:
        """Return whether no lane is on its way to those that have gathered."""
        return self.waiting_for_job == len(self.lanes)

    def after(self, seconds: float, call: Callable[[], object]) -> Timer:
        """Make a call later, while no lane has the floor."""
        timer = Timer(call)
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._numbers), timer))
        return timer

    def answer(self, wait: Wait, value: Any = None, error: BaseException | None = None) -> None:
        """Give a lane what a thread has made for it."""
        self._answers.put((wait, value, error))

    def go_on(self, wait: Wait, error: BaseException | None = None) -> None:
        """Let a lane go on, on its next turn."""
        self._ready.append((wait, None, error))

    def wake(self) -> None:
        """End a ``step`` that waits; a signal handler may call it."""
        self._answers.put(None)

    def look_again(self) -> None:
        """Ask at once for the conditions that lanes wait for; any thread may call it."""
        self._next_poll = 0.0
        self.wake()

    def drain(self, patience_sec: float) -> None:
        """Wait for the threads of lanes that are over, but not for ever."""
        end = time.monotonic() + patience_sec
        while self._calls and (left := end - time.monotonic()) > 0:
            self._await(left)
            self._ready.clear()

    def park(self, wait: Wait, begin: Callable[[], object] = lambda: None) -> Any:
        """Leave the floor until there is an answer; return it, or raise it if it is an error.

        ``begin`` starts what is waited for; it is not called if lanes are stopped.
        """
        lane = wait.lane
        self._on_leave(lane)
        value: Any = None
        error: BaseException | None = None
        if self._stop is not None and not lane.is_shielded:
            wait.is_abandoned = True
            error = self._stop()
        else:
            try:
                begin()
            except OSError as failed:  # no thread can be started
                error = failed
            else:
                lane.wait = wait
                value, error = self._greenlet.switch()
                lane.wait = None
                self._submitted -= wait.is_submitted
        self._on_enter(lane)
        if error is not None:
            raise error
        return value

    def begin_call(self, job: Callable[[], object]) -> None:
        """Run a job in a thread, which is going to answer."""
        run_in_thread(job)
        self._calls += 1

    def _run(self, lane: Lane, call: Callable[[], object]) -> None:
        FLOOR.set(lane)
        try:
            self._on_enter(lane)
            call()
        except BaseException as error:  # noqa: BLE001  (the owner of the hub decides)
            lane.error = error
        self._on_leave(lane)
        lane.is_over = True
        del self.lanes[lane]

    def _switch(self, lane: Lane, value: Any, error: BaseException | None) -> None:
        self.lanes[lane].switch((value, error))

    def _outcome(self, waits: dict[str, Wait], name: str, outcome: object) -> None:
        if isinstance(outcome, BaseException):
            self.answer(waits[name], error=outcome)
        else:
            self.answer(waits[name], outcome)

    def _await(self, patience_sec: float | None) -> None:
        """Wait for an answer, a timer or a poll."""
        now = time.monotonic()
        ends = [now + patience_sec] if patience_sec is not None else []
        if self._timers:
            ends.append(self._timers[0][0])
        if self.polls:
            ends.append(self._next_poll)
        is_nothing_due = not (self._timers or self.polls or self._calls or self.gathered)
        if is_nothing_due and self.lanes:
            raise RuntimeError("every lane waits for another one")  # rather than hang
        with suppress(Empty):
            answer = self._answers.get(timeout=max(0.0, min(ends) - now) if ends else None)
            if answer is not None:
                self._take(*answer)
        self._look_at_clock()

    def _take(self, wait: Wait, value: Any, error: BaseException | None) -> None:
        self._calls -= 1
        undo, wait.undo = wait.undo, None
        if not wait.is_abandoned:
            self._ready.append((wait, value, error))
        elif undo is not None and error is None:
            self.begin_call(partial(work, wait, partial(undo, value)))

    def _look_at_clock(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            timer = heapq.heappop(self._timers)[2]
            if timer.call is not None:
                timer.call()
        if self.polls and self._next_poll <= now:
            self._next_poll = now + POLL_SEC
            for wait, is_over in list(self.polls.items()):
                try:
                    if is_over():
                        self.polls.pop(wait, None)
                        self.go_on(wait)
                except Exception as error:  # noqa: BLE001  (it is that of the lane)
                    self.polls.pop(wait, None)
                    self.go_on(wait, error)
