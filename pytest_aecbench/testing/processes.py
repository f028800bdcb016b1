"""The tests of deadlines, and of the processes that a command leaves behind."""
# ruff: noqa: D102  (a test's name states its requirement)

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_aecbench.testing.sandbox import RunningSandbox

__all__ = ["ProcessConformance", "start_strays"]

# Each leaves a process behind that writes its number to $1.
_STRAYS = {
    "background": "(echo $BASHPID > $1; exec sleep 1000) &",
    "session": "setsid bash -c 'echo $$ > $1; exec sleep 1000' bash $1 &",
    "deaf": """bash -c 'trap "" HUP INT TERM; echo $$ > $1; while :; do sleep 1; done' bash $1 &""",
    "twice-forked": "(setsid bash -c 'echo $$ > $1; exec sleep 1000' bash $1 >/dev/null 2>&1 &)",
}
_GONE = (
    "for i in {1..200}; do kill -0 $(cat %s.pid) 2>/dev/null || exit 0; sleep 0.05; done; exit 1"
)
# The same by a part of what the process runs.
_UNKNOWN = "! cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -q '%s'"
_NAMES = dict.fromkeys(_STRAYS, "[s]leep 1000") | {"deaf": "[t]rap .. HUP"}


def start_strays() -> str:
    """Return a command that leaves processes behind, each with its number in a file."""
    starts = [f"set -- {name}.pid; {command}" for name, command in _STRAYS.items()]
    waits = [f"until [ -s {name}.pid ]; do :; done" for name in _STRAYS]
    return "\n".join([*starts, *waits, "echo started"])


class ProcessConformance:
    """A deadline ends a command's processes, an exclusive request all others.

    Where no process outlives its command, ``keeps_processes`` is False.
    """

    keeps_processes = True

    def test_a_deadline_bounds_time_and_keeps_what_was_printed(
        self, sandbox: RunningSandbox
    ) -> None:
        started = time.monotonic()
        result = sandbox.run("echo out; echo err >&2; sleep 1000", timeout_sec=1.5)
        assert time.monotonic() - started < 15
        assert result.timed_out
        assert result.returncode is None
        assert (result.stdout, result.stderr) == ("out\n", "err\n")
        assert result.duration_sec >= 1.5

    def test_a_deadline_ends_everything_the_command_started(self, sandbox: RunningSandbox) -> None:
        result = sandbox.run(f"{start_strays()}; sleep 1000", timeout_sec=3)
        assert result.timed_out
        assert result.stdout == "started\n"
        for name in _STRAYS:
            self._assert_gone(sandbox, name)

    def test_a_deadline_spares_what_earlier_commands_started(self, sandbox: RunningSandbox) -> None:
        sandbox.output(start_strays())
        assert sandbox.run("sleep 1000", timeout_sec=0.5).timed_out
        if not self.keeps_processes:
            self._assert_gone(sandbox, "session")
            return
        sandbox.output("kill -0 $(cat session.pid) && kill -0 $(cat twice-forked.pid)")

    def test_a_command_that_prints_for_ever_is_ended(self, sandbox: RunningSandbox) -> None:
        result = sandbox.run("trap '' TERM; while :; do echo y; done", timeout_sec=1)
        assert result.timed_out
        assert result.stdout.startswith("y\ny\n")

    def test_what_a_command_leaves_running_lives_on(self, sandbox: RunningSandbox) -> None:
        started = time.monotonic()
        assert sandbox.output(start_strays()) == "started\n"
        assert time.monotonic() - started < 15
        for name in _STRAYS:
            if self.keeps_processes:
                sandbox.output(f"kill -0 $(cat {name}.pid)")
            else:
                self._assert_gone(sandbox, name)

    def test_what_is_left_running_can_go_on_printing(self, sandbox: RunningSandbox) -> None:
        sandbox.output("(for i in {1..30000}; do echo 0123456789; done; touch done) &")
        if self.keeps_processes:
            sandbox.output("until [ -e done ]; do :; done", timeout_sec=30)

    def test_an_exclusive_request_is_alone(self, sandbox: RunningSandbox) -> None:
        sandbox.output(start_strays())
        assert sandbox.output("echo alone", exclusive=True) == "alone\n"
        for name in _STRAYS:
            self._assert_gone(sandbox, name)

    def test_an_exclusive_request_ends_processes_that_multiply(
        self, sandbox: RunningSandbox
    ) -> None:
        # 1 becomes 32, each of which is replaced by another all the time.
        more = "grow $(($1 - 1)) & grow $(($1 - 1)) &"
        grow = f": >alive; sleep 0.1; if [ $1 -gt 0 ]; then {more} else grow 0 & fi"
        storm = f"grow() {{ {grow}; }}; (grow 5) >/dev/null 2>&1 &"
        sandbox.output(f"{storm} sleep 1; rm -f alive; until [ -e alive ]; do sleep 0.1; done")
        assert sandbox.output("echo alone", exclusive=True) == "alone\n"
        sandbox.output("rm -f alive; sleep 1; [ ! -e alive ]")

    def _assert_gone(self, sandbox: RunningSandbox, name: str) -> None:
        """Wait until the process is gone that left its number in a file."""
        if self.keeps_processes:
            sandbox.output(_GONE % name)
        else:  # another process may have that number by now
            sandbox.output(_UNKNOWN % _NAMES[name])
