"""The loop that runs trials in lanes: it starts them, the longest first, and ends them in order."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from pytest_aecbench.host.hub import Hub
from pytest_aecbench.host.lanes import current
from pytest_aecbench.plugin._pytest_lanes import Belongings, Surroundings, write_no_paths
from pytest_aecbench.plugin._pytest_setup import OwnFixtures, SetupTree, shared_parameters
from pytest_aecbench.plugin.items import SandboxItem
from pytest_aecbench.plugin.state import state_of

if TYPE_CHECKING:
    from collections.abc import Hashable

    import pytest

    from pytest_aecbench.host.lanes import Lane

__all__ = ["LaneLoop"]

# After this long, trials that have gathered do not wait for others that are still being built.
_GATHER_SEC = 60.0
# How long a run that is stopped waits for calls that its trials have left to themselves.
_DRAIN_SEC = 5.0


class LaneLoop:
    """Runs the tests of a session: ordinary ones one by one, then trials in lanes."""

    def __init__(self, session: pytest.Session, lanes: int, on_the_way: int | None = None) -> None:
        """Run ``lanes`` trials at once, of which all but ``on_the_way`` may wait for a job."""
        config = session.config
        self._session = session
        self._lanes = lanes
        self._on_the_way = lanes if on_the_way is None else on_the_way
        self._interrupts = state_of(config).interrupts
        self._surroundings = Surroundings(config)
        self._fixtures = OwnFixtures()
        self._hub = Hub(self._enter, self._leave)
        self._tree = SetupTree(session.items, self._running, self._fixtures.forget)
        self._alone: pytest.Item | None = None
        order = [session.items[number] for number in state_of(config).order]
        self._ordinary = [item for item in session.items if not isinstance(item, SandboxItem)]
        self._pending = [item for item in order if isinstance(item, SandboxItem)]
        self._parameters: dict[pytest.Item, dict[Hashable, int]] = {}  # of those in flight
        self._cut_short: list[pytest.Item] = []
        self._failure: BaseException | None = None
        self._gathered_at: float | None = None

    def run(self) -> None:
        """Run all tests; raise what stops the run as pytest's own loop does."""
        self._session._setupstate = self._tree
        for number, item in enumerate(self._ordinary):
            self._run_alone(item, [*self._ordinary[number + 1 :][:1], *self._pending][:1])
        write_no_paths(self._session.config)
        self._interrupts.on_pending = self._hub.wake
        held_back = self._interrupts.hold_back(True)
        try:
            with self._surroundings.prepared():
                self._run_trials()
        finally:
            self._interrupts.hold_back(held_back)
        self._raise_failure()

    def _run_alone(self, item: pytest.Item, following: list[pytest.Item]) -> None:
        self._alone = item
        self._fixtures.give(item)
        try:
            nextitem = following[0] if following else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
        finally:
            self._alone = None
            self._fixtures.take_back(item)
        self._raise_failure()

    def _raise_failure(self) -> None:
        session = self._session
        if self._failure is not None:
            raise self._failure
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)

    def _running(self) -> pytest.Item | None:
        lane = current()
        return self._alone if lane is None else lane.notes.item

    def _run_trials(self) -> None:
        hub = self._hub
        try:
            while (self._pending or hub.lanes) and not self._is_stopped():
                self._start_more()
                self._submit()
                if hub.lanes:
                    hub.step(_GATHER_SEC if hub.gathered else None)
        except BaseException as error:  # noqa: BLE001  (the lanes have to end before it goes on)
            self._failure = error
        self._end()

    def _is_stopped(self) -> bool:
        if self._interrupts.take_pending():
            self._failure = self._failure or KeyboardInterrupt()
        session = self._session
        return bool(self._failure or session.shouldfail or session.shouldstop)

    def _start_more(self) -> None:
        """Start trials while there is room and none of them waits for a slot."""
        for item in list(self._pending) if self._has_room() else ():
            if not self._has_room() or self._is_stopped():
                return
            parameters = shared_parameters(item)
            if self._agrees(parameters):
                self._pending.remove(item)
                self._parameters[item] = parameters
                self._hub.start(item.nodeid, partial(self._run_one, item), Belongings(item))

    def _has_room(self) -> bool:
        hub = self._hub
        if len(hub.lanes) >= self._lanes or hub.polls:
            return False
        return len(hub.lanes) - hub.waiting_for_job < self._on_the_way

    def _agrees(self, parameters: dict[Hashable, int]) -> bool:
        return all(
            others.get(name, value) == value
            for name, value in parameters.items()
            for others in self._parameters.values()
        )

    def _run_one(self, item: pytest.Item) -> None:
        self._fixtures.give(item)
        try:
            nextitem = next(iter(self._pending), None)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
        except BaseException as error:  # noqa: BLE001  (it stops the run)
            self._failure = self._failure or error
            self._cut_short.append(item)
        finally:
            self._parameters.pop(item, None)
            self._fixtures.take_back(item)

    def _submit(self) -> None:
        """Submit trials that have gathered, when none is on its way, or after a while."""
        hub, now = self._hub, time.monotonic()
        if not hub.gathered:
            self._gathered_at = None
            return
        self._gathered_at = self._gathered_at or now
        if hub.all_gathered() or now - self._gathered_at >= _GATHER_SEC:
            hub.submit()

    def _end(self) -> None:
        """Interrupt the trials in flight, and tear all of them down side by side."""
        hub = self._hub
        self._tree.forget(self._pending)
        self._pending.clear()
        failure = self._failure
        hub.stop(partial(KeyboardInterrupt, "the run was stopped"))
        while hub.lanes:
            hub.step()
        self._failure = failure  # and not that of a trial which was interrupted
        hub.resume()
        for item in self._cut_short:
            hub.start(f"end of {item.nodeid}", partial(self._tear_down, item), Belongings(item))
        while hub.lanes:
            hub.step()
        if self._cut_short:
            hub.drain(_DRAIN_SEC)

    def _tear_down(self, item: pytest.Item) -> None:
        try:
            self._tree.tear_down(item)
        except Exception as error:  # noqa: BLE001  (raised when the session finishes)
            self._tree.late_errors.append(error)

    def _enter(self, lane: Lane) -> None:
        mine: Belongings = lane.notes
        self._surroundings.enter(lane)
        self._interrupts.hold_back(mine.is_held_back)

    def _leave(self, lane: Lane) -> None:
        mine: Belongings = lane.notes
        mine.is_held_back = lane.is_shielded = self._interrupts.hold_back(True)
        self._surroundings.leave(lane)
