"""Commands run to completion: deadlines, output, what they leave behind."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from pytest_aecbench.backends import BackendExecutionResult
from pytest_aecbench.backends.local.kill import MARKER, kill_group, kill_marked, kill_tree
from pytest_aecbench.backends.shared.output import OUTPUT_CAP
from pytest_aecbench.backends.shared.processes import run
from pytest_aecbench.errors import BackendError

REPO = Path(__file__).resolve().parents[2]


OURS = f"unit-{os.getpid()}.1"  # tests run beside each other


def bash(
    command: str,
    timeout_sec: float | None = 30,
    kill: Callable[[int], None] | None = None,
    marker: str = OURS,
) -> BackendExecutionResult:
    return run(
        ["bash", "-c", command],
        env={"PATH": os.environ["PATH"], MARKER: marker},
        kill=kill or partial(kill_tree, marker=marker),
        timeout_sec=timeout_sec,
    )


def ends(pid: int) -> bool:
    """Wait for a process that is not our child to end."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 10)[0])
    finally:
        os.close(descriptor)


def open_descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def test_output_and_exit_code_are_returned() -> None:
    result = bash("echo out; echo err >&2; exit 3")
    assert (result.returncode, result.stdout, result.stderr) == (3, "out\n", "err\n")
    assert not result.timed_out


@pytest.mark.parametrize("size", [0, 1, OUTPUT_CAP - 1, OUTPUT_CAP])
def test_output_up_to_the_cap_is_whole(size: int) -> None:
    result = bash(f"head -c {size} /dev/zero | tr '\\0' x")
    assert result.stdout == "x" * size
    assert not result.truncated


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_output_beyond_the_cap_loses_its_middle(stream: str) -> None:
    extra = 12345
    command = f"printf a; head -c {OUTPUT_CAP + extra - 2} /dev/zero | tr '\\0' x; printf z"
    result = bash(f"{{ {command}; }} >&2" if stream == "stderr" else command)
    text = getattr(result, stream)
    head, marker, tail = text.split("\n")
    assert marker == f"[{extra} bytes left out]"
    assert head == "a" + "x" * (OUTPUT_CAP // 2 - 1)
    assert tail == "x" * (OUTPUT_CAP // 2 - 1) + "z"
    assert result.truncated


def test_200_mb_of_output_take_little_memory() -> None:
    program = (
        "import resource\n"
        "from tests.unit.test_processes import bash\n"
        "bash('true')\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "result = bash('head -c 200000000 /dev/zero', 60)\n"
        "assert result.truncated\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=REPO, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 32 * 1024  # KiB


def test_a_deadline_keeps_what_was_printed() -> None:
    result = bash("echo early; trap '' TERM; while :; do sleep 1; done", timeout_sec=0.5)
    assert result.returncode is None
    assert result.timed_out
    assert result.stdout == "early\n"
    assert 0.5 <= result.duration_sec < 1.5


def test_a_deadline_holds_while_output_pours() -> None:
    result = bash("yes", timeout_sec=0.5)
    assert result.timed_out
    assert result.truncated
    assert result.duration_sec < 1.5


def test_a_deadline_kills_children_that_left_the_session() -> None:
    result = bash(
        "setsid sleep 1000 & echo $!; (setsid sleep 1000 & echo $!); echo; wait", timeout_sec=0.5
    )
    pids = result.stdout.split()
    assert len(pids) == 2
    assert all(ends(int(pid)) for pid in pids)


def test_a_child_that_cleared_its_environment_is_found_by_descent() -> None:
    result = bash("env -i setsid sleep 1000 & echo $!; wait", timeout_sec=0.5)
    assert ends(int(result.stdout))


def test_a_command_is_not_held_up_by_a_child_with_its_output() -> None:
    started = time.monotonic()
    result = bash("sleep 1000 & echo $!", marker="held-up.1")
    assert time.monotonic() - started < 5
    assert result.returncode == 0
    kill_marked("held-up")
    assert ends(int(result.stdout))


def test_all_output_before_the_exit_is_there() -> None:
    for _ in range(50):
        assert len(bash("sleep 1000 & head -c 60000 /dev/zero", marker="before.1").stdout) == 60000
    kill_marked("before")


def test_kill_marked_finds_only_its_own() -> None:
    mine = bash("sleep 1000 >/dev/null 2>&1 & echo $!", marker="mine.7").stdout
    other = bash("sleep 1000 >/dev/null 2>&1 & echo $!", marker="mine2.7").stdout
    kill_marked("mine")
    assert ends(int(mine))
    os.kill(int(other), 0)
    kill_marked("mine2")
    assert ends(int(other))


def test_an_interruption_kills_the_command() -> None:
    started: list[int] = []

    def interrupt(signum: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(
                ["sleep", "1000"],
                env={"PATH": os.environ["PATH"]},
                kill=partial(kill_tree, marker="interrupted.1"),
                on_start=started.append,
            )
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not Path(f"/proc/{started[0]}").exists()


def test_what_cannot_be_started_is_one_line() -> None:
    def start(*argv: str) -> None:
        run(argv, env={}, kill=lambda pid: None)

    with pytest.raises(
        BackendError, match=r"^command: cannot be started; No such file or directory$"
    ):
        start("/no/such/program")
    with pytest.raises(BackendError, match=r"^command: cannot be started; Argument list too long$"):
        start("true", "x" * 200_000)
    with pytest.raises(BackendError, match=r"^command: cannot be started; embedded null byte$"):
        start("true", "\0")


def test_no_descriptor_or_thread_is_left() -> None:
    bash("true")
    descriptors = open_descriptors()
    for _ in range(5):
        bash("echo x; echo y >&2")
        bash("sleep 5", timeout_sec=0.05)
        with pytest.raises(BackendError):
            run(["/no/such/program"], env={}, kill=lambda pid: None)
    assert open_descriptors() <= descriptors  # those of other tests may be closed meanwhile
    # Servers of other tests in this process have threads that come and go.
    assert not [one for one in threading.enumerate() if one.name.startswith("aec-output")]


def test_the_reader_of_a_lingering_child_ends_with_it() -> None:
    descriptors = open_descriptors()
    bash("sleep 1000 &", marker="lingering.1")
    (reader,) = (thread for thread in threading.enumerate() if thread.name.startswith("aec-output"))
    kill_marked("lingering")
    reader.join(10)
    assert not reader.is_alive()
    assert open_descriptors() <= descriptors  # those of other tests may be closed meanwhile


def test_a_process_that_ends_at_its_deadline_is_not_an_error() -> None:
    def end_and_kill(pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        kill_group(pid)

    assert bash("sleep 1000", timeout_sec=0.1, kill=end_and_kill).timed_out
