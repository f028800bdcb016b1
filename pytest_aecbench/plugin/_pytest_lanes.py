"""Names of pytest that it does not promise to keep: global state of the test that runs.

Each part is taken from a lane that leaves the floor and put back when it has the floor again. The
output, logs and warnings of a thread go to the lane that it works for.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from contextlib import ExitStack, contextmanager
from functools import partial
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, NamedTuple

from _pytest.assertion import util as assertion
from _pytest.warnings import catch_warnings_for_item

from pytest_aecbench.host.lanes import lane_of_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TextIO

    import pytest
    from _pytest.capture import CaptureFixture, CaptureManager, MultiCapture
    from _pytest.logging import LoggingPlugin

    from pytest_aecbench.host.lanes import Lane

__all__ = ["Belongings", "Surroundings", "write_no_paths"]

_CURRENT_TEST = "PYTEST_CURRENT_TEST"


class Belongings:
    """The parts of pytest's state that a lane has while it is away from the floor."""

    def __init__(self, item: pytest.Item) -> None:
        self.item = item
        self.is_held_back = False
        self.parts: dict[type, Any] = {}
        self.printed: list[tuple[str, str]] = []  # by threads, as are the next two
        self.logged: list[logging.LogRecord] = []
        self.warned: list[warnings.WarningMessage] = []


class Surroundings:
    """pytest's global state, which each lane finds as if it were alone."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        find = config.pluginmanager.getplugin
        self._parts: list[_Capture | _Logging | _Warnings | _Variables] = []
        if capture := find("capturemanager"):
            self._parts.append(_Capture(capture))
        if plugin := find("logging-plugin"):
            self._parts.append(_Logging(plugin))
        self._parts += [_Warnings(), _Variables()]

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Watch what threads print, log and warn of."""
        # Threads warn outside of a test's own filters, so those of the run are set here.
        catching = catch_warnings_for_item(
            config=self._config, ihook=self._config.hook, when="runtest", item=None
        )
        with catching, ExitStack() as watching:
            for part in self._parts:
                watching.enter_context(part.watched())
            yield

    def leave(self, lane: Lane) -> None:
        """Take what belongs to the lane out of the way."""
        mine: Belongings = lane.notes
        for part in self._parts:
            mine.parts[type(part)] = part.take()

    def enter(self, lane: Lane) -> None:
        """Put everything back as the lane left it, with what its threads have added."""
        mine: Belongings = lane.notes
        for part in reversed(self._parts):
            if type(part) in mine.parts:
                part.put(mine.parts[type(part)], mine)


class _Captured(NamedTuple):
    is_on: bool
    texts: dict[str, str]
    fixture: CaptureFixture[Any] | None
    is_fixture_on: bool


class _Capture:
    """The captured output; one file has it, so a lane's text is taken out and written back."""

    def __init__(self, manager: CaptureManager) -> None:
        self._manager = manager

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Give what threads print to their lanes."""
        streams = _streams(self._manager._global_capturing)
        _watch(streams)
        try:
            yield
        finally:
            for _, stream in streams:
                vars(stream).pop("write", None)

    def take(self) -> _Captured:
        manager = self._manager
        fixture, manager._capture_fixture = manager._capture_fixture, None
        is_fixture_on = fixture is not None and fixture._is_started()
        if fixture is not None and is_fixture_on:
            _watch(_streams(fixture._capture))  # for when it is on again
            fixture._suspend()
        capture = manager._global_capturing
        if capture is None or not capture.is_started():
            return _Captured(False, {}, fixture, is_fixture_on)
        manager.suspend_global_capture()
        out, err = capture.readouterr()
        return _Captured(True, {"out": out, "err": err}, fixture, is_fixture_on)

    def put(self, state: _Captured, mine: Belongings) -> None:
        manager, fixture = self._manager, state.fixture
        manager._capture_fixture = fixture
        capture = manager._global_capturing
        if not state.is_on or capture is None:
            return
        manager.resume_global_capture()
        for name, text in state.texts.items():
            if text:
                # Not by its own method, which may print it as well.
                TextIOWrapper.write(getattr(capture, name).tmpfile, text)
        if fixture is not None and state.is_fixture_on:
            fixture._resume()
        printed, mine.printed = mine.printed, []
        for name, text in printed:
            getattr(sys, name).write(text)


def _streams(capture: MultiCapture[Any] | None) -> list[tuple[str, TextIO]]:
    """Return the files that what is printed goes to, while it is captured and while it is not."""
    found = []
    for name in ("out", "err"):
        part: Any = getattr(capture, name, None)
        if part is not None:
            part = getattr(part, "syscapture", part)
            found += [(f"std{name}", part.tmpfile), (f"std{name}", part._old)]
    return found


def _watch(streams: list[tuple[str, TextIO]]) -> None:
    """Give what threads write to their lanes.

    A stream of our own would not do, because pytest insists on its types.
    """
    for name, stream in streams:
        if "write" not in vars(stream):
            vars(stream)["write"] = partial(_write, name, stream.write)


def _write(name: str, write: Callable[[str], int], text: str) -> int:
    lane = lane_of_thread()
    if lane is None:
        return write(text)
    lane.notes.printed.append((name, text))
    return len(text)


class _Logged(NamedTuple):
    handlers: list[logging.Handler]
    level: int
    captured: list[tuple[list[logging.LogRecord], Any]]


class _Logging:
    """The captured log: two handlers of the root logger have it, and the logger a level."""

    def __init__(self, plugin: LoggingPlugin) -> None:
        self._root = logging.getLogger()
        self._captures = (plugin.caplog_handler, plugin.report_handler)
        # Shows a record on the terminal, which it must not do in a thread.
        self._handlers: list[logging.Handler] = [*self._captures, plugin.log_cli_handler]
        self._level = plugin.log_level
        self._outside = self._state()

    def _state(self) -> _Logged:
        captured = [(handler.records, handler.stream) for handler in self._captures]
        return _Logged(self._root.handlers, self._root.level, captured)

    def _set(self, state: _Logged) -> None:
        # Another list, and not another content, because threads may be looking through it.
        self._root.handlers = state.handlers
        if self._root.level != state.level:
            self._root.setLevel(state.level)
        for handler, (records, stream) in zip(self._captures, state.captured, strict=True):
            handler.records, handler.stream = records, stream

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Give what threads log to their lanes."""
        before = self._state()
        level = before.level if self._level is None else min(before.level, self._level)
        watching = _ThreadsLog()
        for handler in self._handlers:
            handler.addFilter(_is_not_of_a_thread)
        self._outside = _Logged([*before.handlers, watching], level, before.captured)
        self._set(self._outside)
        try:
            yield
        finally:
            self._set(before)
            for handler in self._handlers:
                handler.removeFilter(_is_not_of_a_thread)

    def take(self) -> _Logged:
        state = self._state()
        outside = self._outside
        self._set(outside._replace(handlers=[*outside.handlers]))
        return state

    def put(self, state: _Logged, mine: Belongings) -> None:
        self._set(state)
        logged, mine.logged = mine.logged, []
        for record in logged:
            for handler in self._handlers:
                if handler in self._root.handlers and record.levelno >= handler.level:
                    handler.handle(record)


class _ThreadsLog(logging.Handler):
    """Keeps what a thread logs for the lane that it works for."""

    def emit(self, record: logging.LogRecord) -> None:
        if lane := lane_of_thread():
            lane.notes.logged.append(record)


def _is_not_of_a_thread(record: logging.LogRecord) -> bool:
    return lane_of_thread() is None


class _Warned(NamedTuple):
    filters: Any
    show: Any
    record: Any


class _Warnings:
    """The filters of warnings, and what records them."""

    def __init__(self) -> None:
        self._outside = self._state()

    def _state(self) -> _Warned:
        record = warnings._showwarnmsg_impl  # type: ignore[attr-defined]
        return _Warned(warnings.filters, warnings.showwarning, getattr(record, "whole", record))

    def _set(self, state: _Warned) -> None:
        warnings.filters = state.filters
        warnings.showwarning = state.show
        warnings._showwarnmsg_impl = _Recording(state.record)  # type: ignore[attr-defined]
        warnings._filters_mutated()  # type: ignore[attr-defined]

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Give what threads warn of to their lanes."""
        self._outside = self._state()
        self._set(self._outside)
        try:
            yield
        finally:
            self._set(self._outside)
            warnings._showwarnmsg_impl = self._outside.record  # type: ignore[attr-defined]

    def take(self) -> _Warned:
        state = self._state()
        self._set(self._outside)
        return state

    def put(self, state: _Warned, mine: Belongings) -> None:
        self._set(state)
        warned, mine.warned = mine.warned, []
        for warning in warned:
            state.record(warning)


class _Recording:
    """Records a warning, with the lane that it is of."""

    def __init__(self, whole: Callable[[warnings.WarningMessage], object]) -> None:
        self.whole = whole

    def __call__(self, message: warnings.WarningMessage) -> None:
        lane = lane_of_thread()
        if lane is None:
            self.whole(message)
        else:
            lane.notes.warned.append(message)


class _Variables:
    """The name of the test that runs, and what explains its assertions."""

    _NAMES = ("_reprcompare", "_assertion_pass", "_config")

    def __init__(self) -> None:
        self._outside = self._explaining()

    def _explaining(self) -> list[Any]:
        return [getattr(assertion, name) for name in self._NAMES]

    def _explain(self, values: list[Any]) -> None:
        for name, value in zip(self._NAMES, values, strict=True):
            setattr(assertion, name, value)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Do nothing, because threads have no part in it."""
        yield

    def take(self) -> tuple[str | None, list[Any]]:
        # The variable stays until another lane sets it: threads read the environment.
        state = os.environ.get(_CURRENT_TEST), self._explaining()
        self._explain(self._outside)
        return state

    def put(self, state: tuple[str | None, list[Any]], mine: Belongings) -> None:
        name, values = state
        if name is None:
            os.environ.pop(_CURRENT_TEST, None)
        elif os.environ.get(_CURRENT_TEST) != name:
            os.environ[_CURRENT_TEST] = name
        self._explain(values)


def write_no_paths(config: pytest.Config) -> None:
    """Let the terminal not write the file of each test, because those of several alternate."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.showfspath = False
