"""Lanes run one at a time, wait side by side, and end in good order."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any

import pytest

from pytest_aecbench.errors import BackendError
from pytest_aecbench.host.hub import Hub
from pytest_aecbench.host.lanes import (
    Lane,
    Mutex,
    away,
    current,
    gather,
    lane_of_thread,
    pause,
    reversible,
    until,
)

PATIENCE_SEC = 30.0


def run(hub: Hub) -> None:
    """Run all lanes to their end."""
    deadline = time.monotonic() + PATIENCE_SEC
    while hub.lanes:
        assert time.monotonic() < deadline, [lane.name for lane in hub.lanes]
        hub.step(1.0)


def results(*calls: Callable[[], object]) -> list[Any]:
    """Run calls in lanes; return what each returned, or the error that it raised."""
    hub = Hub()
    found: list[Any] = [None] * len(calls)

    def call(number: int) -> None:
        try:
            found[number] = calls[number]()
        except BaseException as error:  # noqa: BLE001  (the test's to judge)
            found[number] = error

    for number in range(len(calls)):
        hub.start(str(number), lambda number=number: call(number))  # type: ignore[misc]
    run(hub)
    return found


def test_without_lanes_everything_is_a_plain_call() -> None:
    here = threading.get_ident()
    assert current() is None
    assert lane_of_thread() is None
    assert away(threading.get_ident) == here
    pause(0.01)
    asked = iter([False, False, True])
    until(lambda: next(asked))
    with Mutex(), Mutex():
        pass


def test_calls_are_made_away_and_everything_else_in_one_thread() -> None:
    here = threading.get_ident()

    def call() -> tuple[int, int]:
        elsewhere = away(threading.get_ident)
        return elsewhere, threading.get_ident()

    for elsewhere, back in results(call, call, call):
        assert elsewhere != here
        assert back == here


def test_lanes_wait_side_by_side() -> None:
    met = threading.Barrier(20)
    assert results(*[lambda: away(met.wait, 60.0) >= 0] * 20) == [True] * 20


def test_answers_come_out_of_order() -> None:
    second_is_over = threading.Event()
    order = []

    def first() -> None:
        assert away(second_is_over.wait, 10.0)
        order.append("first")

    def second() -> None:
        away(int)
        order.append("second")
        second_is_over.set()

    results(first, second)
    assert order == ["second", "first"]


def test_an_error_comes_back_with_the_place_where_it_was_raised() -> None:
    def fail() -> None:
        raise ValueError("away")

    (error,) = results(lambda: away(fail))
    assert isinstance(error, ValueError)
    names = []
    trace = error.__traceback__
    while trace is not None:
        names.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    assert names[-1] == "fail"


def test_code_knows_the_lane_that_it_works_for() -> None:
    def call() -> bool:
        lane = current()
        return (
            lane is not None
            and lane_of_thread() is None
            and away(lane_of_thread) is lane
            and away(current) is None
            and away(lambda: away(lane_of_thread)) is lane
        )

    assert results(call, call) == [True, True]
    assert current() is None


def test_contexts_are_those_of_the_lane() -> None:
    variable = contextvars.ContextVar("variable", default="outside")

    def call(name: str) -> tuple[str, str]:
        before = variable.get()
        variable.set(name)
        seen = away(variable.get)
        pause(0.01)
        return f"{before} {seen}", variable.get()

    found = results(lambda: call("a"), lambda: call("b"))
    assert found == [("outside a", "a"), ("outside b", "b")]
    assert variable.get() == "outside"


def test_an_event_loop_keeps_the_floor() -> None:
    async def main() -> int:
        return away(threading.get_ident)

    assert (
        results(lambda: asyncio.run(main()), lambda: asyncio.run(main()))
        == [threading.get_ident()] * 2
    )


def test_the_floor_is_entered_and_left_in_turn() -> None:
    events: list[tuple[str, str]] = []
    hub = Hub(
        lambda lane: events.append(("enter", lane.name)),
        lambda lane: events.append(("leave", lane.name)),
    )

    def call() -> None:
        away(int)
        pause(0.0)
        away(int)

    for name in "abc":
        hub.start(name, call)
    run(hub)
    assert len(events) == 3 * 2 * 4
    for (entered, one), (left, other) in zip(events[::2], events[1::2], strict=True):
        assert (entered, left) == ("enter", "leave")
        assert one == other


def test_an_error_ends_its_lane_alone() -> None:
    hub = Hub()

    def fail() -> None:
        away(int)
        raise SystemExit("no")

    failing, other = hub.start("failing", fail), hub.start("other", lambda: pause(0.05))
    run(hub)
    assert isinstance(failing.error, SystemExit)
    assert other.error is None
    assert failing.is_over
    assert other.is_over


class Endless:
    """Calls that end when they are told to."""

    def __init__(self) -> None:
        self.end = threading.Event()
        self.began = threading.Event()

    def __call__(self) -> str:
        self.began.set()
        assert self.end.wait(PATIENCE_SEC)
        return "late"


WAITS: dict[str, Callable[[Endless], object]] = {
    "away": lambda endless: away(endless),
    "pause": lambda endless: pause(3600),
    "until": lambda endless: until(lambda: False),
    "gather": lambda endless: gather(lambda *, requests: [], Share("x")),
}


@pytest.mark.parametrize("kind", WAITS)
def test_a_lane_can_be_interrupted_in_each_kind_of_wait(kind: str) -> None:
    hub, endless = Hub(), Endless()
    seen: list[str] = []

    def call() -> None:
        try:
            WAITS[kind](endless)
        except ValueError as error:
            seen.append(str(error))
        seen.append(away(lambda: "goes on"))

    lane = hub.start("lane", call)
    hub.throw(lane, ValueError("interrupted"))
    endless.end.set()
    run(hub)
    hub.drain(PATIENCE_SEC)
    assert seen == ["interrupted", "goes on"]  # a late answer is not taken for another
    hub.throw(lane, ValueError("after its end"))


def test_a_lane_that_waits_for_its_turn_can_be_interrupted() -> None:
    hub, mutex, order = Hub(), Mutex(), []

    def call(name: str) -> None:
        with mutex:
            order.append(name)
            pause(0.05)

    lanes = [hub.start(name, lambda name=name: call(name)) for name in "abc"]  # type: ignore[misc]
    hub.throw(lanes[1], ValueError())
    run(hub)
    assert order == ["a", "c"]
    assert isinstance(lanes[1].error, ValueError)


def test_turns_are_in_the_order_in_which_lanes_came_and_may_be_nested() -> None:
    hub, mutex, order = Hub(), Mutex(), []

    def call(name: str) -> None:
        for _ in range(2):
            with mutex, mutex:
                away(int)
                order.append(name)

    for name in "abc":
        hub.start(name, lambda name=name: call(name))  # type: ignore[misc]
    run(hub)
    assert order == [*"abcabc"]


def test_a_turn_that_came_too_late_is_handed_on() -> None:
    hub, mutex, order = Hub(), Mutex(), []

    def first() -> None:
        with mutex:
            pause(0.0)
        # The second has its turn by now, but not the floor.
        hub.after(0.0, lambda: hub.throw(lanes["second"], ValueError()))

    def call(name: str) -> None:
        with mutex:
            order.append(name)

    lanes = {"first": hub.start("first", first)}
    for name in ("second", "third"):
        lanes[name] = hub.start(name, lambda name=name: call(name))  # type: ignore[misc]
    run(hub)
    assert "third" in order


def test_lanes_that_wait_for_each_other_are_an_error_and_not_a_hang() -> None:
    hub, one, other = Hub(), Mutex(), Mutex()

    def call(first: Mutex, second: Mutex) -> None:
        with first:
            pause(0.0)
            with second:
                pass

    lanes = [hub.start("a", lambda: call(one, other)), hub.start("b", lambda: call(other, one))]
    with pytest.raises(RuntimeError, match="waits for another"):
        run(hub)
    for lane in lanes:
        hub.throw(lane, ValueError())
    run(hub)


def test_a_thread_whose_lane_was_interrupted_stops_at_its_next_call() -> None:
    hub, endless = Hub(), Endless()
    ended: list[type[BaseException]] = []

    def agent() -> None:
        try:
            away(endless)  # such as a command in a sandbox
            ended.append(Exception)
        except BaseException as error:
            ended.append(type(error))
            raise

    lane = hub.start("lane", lambda: away(agent))
    assert endless.began.wait(10)
    hub.throw(lane, ValueError())
    endless.end.set()
    hub.drain(PATIENCE_SEC)
    assert ended == [KeyboardInterrupt]


@pytest.mark.parametrize("is_nested", [False, True])
def test_a_result_that_comes_too_late_is_undone(is_nested: bool) -> None:
    hub, endless = Hub(), Endless()
    undone: list[str] = []

    def launch() -> str:
        if is_nested:
            return away(lambda: reversible(undone.append, endless))
        return reversible(undone.append, endless)

    lane = hub.start("lane", launch)
    assert endless.began.wait(10)
    hub.throw(lane, ValueError())
    endless.end.set()
    hub.drain(PATIENCE_SEC)
    assert undone == ["late"]


def test_a_result_that_is_there_when_its_lane_is_interrupted_is_undone() -> None:
    hub = Hub()
    undone: list[str] = []
    made = threading.Event()

    def make() -> str:
        made.set()
        return "made"

    lane = hub.start("lane", lambda: reversible(undone.append, make))
    assert made.wait(10)
    time.sleep(0.05)  # for the answer, which is not taken before a step
    hub.throw(lane, ValueError())
    hub.drain(PATIENCE_SEC)
    assert undone == ["made"]


def test_a_result_in_time_is_not_undone() -> None:
    undone: list[str] = []
    assert results(lambda: reversible(undone.append, lambda: "made")) == ["made"]
    assert undone == []


def test_stopping_interrupts_all_but_shielded_lanes_also_those_that_wait_later() -> None:
    hub = Hub()
    ended: list[str] = []

    def call(name: str) -> None:
        try:
            pause(0.05 if name == "shielded" else 3600)
        except KeyboardInterrupt:
            ended.append(f"{name} interrupted")
        lane = current()
        assert lane is not None
        lane.is_shielded = False
        try:
            away(ended.append, f"{name} began more")
        except KeyboardInterrupt:
            ended.append(f"{name} refused")

    for name in ("one", "shielded"):
        hub.start(name, lambda name=name: call(name)).is_shielded = name == "shielded"  # type: ignore[misc]
    hub.stop(KeyboardInterrupt)
    run(hub)
    assert ended == ["one interrupted", "one refused", "shielded refused"]
    hub.resume()
    hub.start("later", lambda: away(ended.append, "later"))
    run(hub)
    assert ended[-1] == "later"


def test_a_timer_that_is_cancelled_does_nothing() -> None:
    hub = Hub()
    called: list[int] = []
    hub.after(0.01, lambda: called.append(1))
    hub.after(0.0, lambda: called.append(2)).cancel()
    hub.start("lane", lambda: pause(0.05))
    run(hub)
    assert called == [1]


def test_an_error_in_a_condition_is_that_of_the_lane() -> None:
    asked = []

    def is_over() -> bool:
        asked.append(1)
        if len(asked) > 2:
            raise OSError("gone")
        return False

    (error,) = results(lambda: until(is_over))
    assert isinstance(error, OSError)


def test_a_signal_can_wake_the_hub() -> None:
    hub, endless = Hub(), Endless()
    hub.start("lane", lambda: away(endless))
    threading.Timer(0.1, hub.wake).start()
    hub.step()
    endless.end.set()
    run(hub)


@dataclass(frozen=True)
class Share:
    trial_id: str


class Batch:
    """A job that yields outcomes as it is told to."""

    def __init__(self, outcomes: Callable[[Sequence[Share]], Iterator[tuple[str, Any]]]) -> None:
        self.outcomes = outcomes
        self.jobs: list[list[str]] = []

    def submit(self, *, requests: Sequence[Share]) -> Iterator[tuple[str, Any]]:
        self.jobs.append([request.trial_id for request in requests])
        return self.outcomes(requests)


def gathered(batch: Batch, *names: str) -> list[Any]:
    """Let lanes gather, and submit when all of them have; return what each got."""
    hub = Hub()
    found: dict[str, Any] = {}

    def call(name: str) -> None:
        away(int)
        try:
            found[name] = gather(batch.submit, Share(name))
        except BackendError as error:
            found[name] = error

    for name in names:
        hub.start(name, lambda name=name: call(name))  # type: ignore[misc]
    while hub.lanes:
        if hub.gathered and hub.all_gathered():
            hub.submit()
        hub.step(PATIENCE_SEC)
    return [found[name] for name in names]


def test_lanes_that_gather_are_one_job() -> None:
    batch = Batch(lambda requests: ((one.trial_id, one.trial_id.upper()) for one in requests[::-1]))
    assert gathered(batch, *"abcdef") == [*"ABCDEF"]
    assert [sorted(job) for job in batch.jobs] == [[*"abcdef"]]


def test_an_error_of_one_trial_is_not_that_of_others() -> None:
    batch = Batch(lambda requests: iter([("a", BackendError("preempted")), ("b", "fine")]))
    a, b = gathered(batch, "a", "b")
    assert str(a) == "preempted"
    assert b == "fine"


def test_a_job_that_ends_early_is_an_error_of_all_that_still_wait() -> None:
    batch = Batch(lambda requests: iter([("a", 1)]))
    a, b, c = gathered(batch, "a", "b", "c")
    assert a == 1
    assert isinstance(b, BackendError)
    assert "ended before" in str(c)


def test_a_job_that_fails_is_an_error_of_all_that_still_wait() -> None:
    def outcomes(requests: Sequence[Share]) -> Iterator[tuple[str, Any]]:
        yield "b", 2
        raise BackendError("quota")

    a, b = gathered(Batch(outcomes), "a", "b")
    assert b == 2
    assert str(a) == "quota"


def test_outcomes_of_strangers_and_second_outcomes_are_left_aside() -> None:
    batch = Batch(lambda requests: iter([("z", 0), ("a", 1), ("a", 2), ("b", 3)]))
    assert gathered(batch, "a", "b") == [1, 3]


def test_a_trial_that_is_tried_again_joins_the_next_job() -> None:
    hub = Hub()
    batch = Batch(
        lambda requests: iter(
            [(one.trial_id, BackendError("preempted") if one.trial_id == "a1" else 1)
             for one in requests]
        )
    )  # fmt: skip
    found: list[int] = []

    def call(name: str) -> None:
        try:
            found.append(gather(batch.submit, Share(f"{name}1")))
        except BackendError:
            found.append(gather(batch.submit, Share(f"{name}2")))

    for name in "ab":
        hub.start(name, lambda name=name: call(name))  # type: ignore[misc]
    while hub.lanes:
        if hub.gathered and hub.all_gathered():
            hub.submit()
        hub.step(PATIENCE_SEC)
    assert found == [1, 1]
    assert batch.jobs == [["a1", "b1"], ["a2"]]


def test_without_lanes_a_job_has_one_trial() -> None:
    batch = Batch(lambda requests: iter([("a", 1)]))
    assert gather(batch.submit, Share("a")) == 1
    with pytest.raises(BackendError, match="ended before"):
        gather(batch.submit, Share("b"))
    assert batch.jobs == [["a"], ["b"]]


THOUSAND = """
import re, threading
from pathlib import Path
from pytest_aecbench.host.hub import Hub
from pytest_aecbench.host.lanes import away, pause

end = threading.Event()
hub = Hub()
waiting = []

def call():
    waiting.append(1)
    away(end.wait, 60)

for number in range(1000):
    hub.start(str(number), call)
assert len(waiting) == 1000
end.set()
while hub.lanes:
    hub.step(10)
# Not getrusage, which also counts the memory of the process that started this one.
print(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])
"""


def test_a_thousand_lanes_need_little_memory() -> None:
    argv = [sys.executable, "-c", THOUSAND]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 150 * 1024


def test_lanes_have_names_and_notes() -> None:
    hub = Hub()
    seen: list[Lane | None] = []
    lane = hub.start("one", lambda: seen.append(current()), notes={"key": 1})
    assert seen == [lane]
    assert (lane.name, lane.notes) == ("one", {"key": 1})


@pytest.mark.parametrize("allowed", [0, 1, 3])
def test_where_threads_are_few_calls_wait_for_them(
    monkeypatch: pytest.MonkeyPatch, allowed: int
) -> None:
    for name, value in (
        ("_jobs", SimpleQueue()),
        ("_idle", threading.Semaphore(0)),
        ("_late", threading.Semaphore(0)),
        ("_threads", []),
    ):
        monkeypatch.setattr(f"pytest_aecbench.host.threads.{name}", value)
    started: list[threading.Thread] = []
    start = threading.Thread.start

    def start_few(thread: threading.Thread) -> None:
        if len(started) == allowed:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_few)
    hub, done = Hub(), []

    def call(number: int) -> None:
        for _ in range(3):
            away(time.sleep, 0.001)
        done.append(number)

    lanes = [hub.start(str(number), partial(call, number)) for number in range(6)]
    while hub.lanes:
        hub.step(30)
    if allowed:
        assert sorted(done) == [*range(6)]
        assert len(started) == allowed
    else:
        assert done == []
        assert {type(lane.error) for lane in lanes} == {BlockingIOError}
