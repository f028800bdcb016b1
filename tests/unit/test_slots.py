"""No more sandboxes at once than slots, whoever asks, and nobody waits for ever."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from pytest_aecbench.host.files import shared_directory
from pytest_aecbench.host.hub import Hub
from pytest_aecbench.host.lanes import pause
from pytest_aecbench.host.slots import cores, file_name, lower, slot

pytestmark = pytest.mark.usefixtures("own_machine")

# Takes a slot again and again until told to stop, and notes when it had one.
TAKER = """
import os, sys, time
from pathlib import Path
from pytest_aecbench.host.files import shared_directory
from pytest_aecbench.host.slots import lower, slot

name, count, log = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
while not log.with_name("stop").exists():
    with slot("box", count):
        with log.open("a") as file:
            file.write(f"{name} + {time.monotonic()}\\n")
        time.sleep(0.01)
        with log.open("a") as file:
            file.write(f"{name} - {time.monotonic()}\\n")
"""


def start(name: str, count: int, log: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", TAKER, name, str(count), str(log)])


def hold() -> subprocess.Popen[bytes]:
    """Start a process that prints a line once it has the only slot, which it keeps."""
    script = "import time; from pytest_aecbench.host.slots import slot\nwith slot('box', 1):\n"
    script += "    print(flush=True); time.sleep(600)"
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)


def kill(holder: subprocess.Popen[bytes]) -> None:
    holder.kill()
    holder.communicate()


def turns(log: Path) -> Counter[str]:
    lines = log.read_text().splitlines() if log.exists() else []
    return Counter(line.split()[0] for line in lines if " + " in line)


def wait_until(condition: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)


def most_at_once(log: Path) -> int:
    events = [(float(at), 1 if sign == "+" else -1) for _, sign, at in map(str.split, lines(log))]
    level = highest = 0
    for _, change in sorted(events):  # an end goes before a beginning at the same time
        level += change
        highest = max(highest, level)
    return highest


def lines(log: Path) -> list[str]:
    return log.read_text().splitlines()


@pytest.mark.parametrize("counts", [(2, 2, 2, 2), (1, 1, 3, 3)], ids=["same", "different"])
def test_there_are_never_more_than_slots_and_everybody_gets_turns(
    tmp_path: Path, counts: tuple[int, ...]
) -> None:
    log = tmp_path / "log"
    takers = [start(f"taker-{i}", count, log) for i, count in enumerate(counts)]
    try:
        wait_until(lambda: len(turns(log)) == len(counts) and min(turns(log).values()) >= 5)
    finally:
        (tmp_path / "stop").touch()
        for taker in takers:
            assert taker.wait(60) == 0
    assert most_at_once(log) <= max(counts)


def test_a_name_of_any_length_has_slots_of_its_own() -> None:
    names = ["model-scripted-" + "/long" * 100 + end for end in "ab"]
    for name in names:
        lower(name, 8)
        with slot(name, 8):
            pass
    assert len(set(map(file_name, [*names, "docker", "model_x"]))) == 4
    assert file_name("docker") == "docker"


def test_a_slot_is_free_when_its_holder_dies(tmp_path: Path) -> None:
    holder = hold()
    assert holder.stdout is not None
    holder.stdout.readline()
    waiter = start("waiter", 1, tmp_path / "log")
    try:
        wait_until(lambda: any(map(_is_locked, _slot_files("*.heir"))))
        assert not turns(tmp_path / "log"), "it waits"
        holder.kill()
        wait_until(lambda: turns(tmp_path / "log"))
    finally:
        (tmp_path / "stop").touch()
        waiter.wait(60)
        kill(holder)


def test_whoever_comes_back_at_once_does_not_overtake_those_who_wait(tmp_path: Path) -> None:
    waiter = None
    mine = 0
    try:
        while not turns(tmp_path / "log"):
            with slot("box", 1):
                if waiter is None:
                    waiter = start("waiter", 1, tmp_path / "log")
                    wait_until(lambda: any(map(_is_locked, _slot_files("*.heir"))))
                mine += 1
        assert mine <= 2
    finally:
        (tmp_path / "stop").touch()
        if waiter is not None:
            waiter.wait(60)


def _slot_files(pattern: str) -> list[Path]:
    return list(shared_directory("slots").glob(pattern))


def _is_locked(path: Path) -> bool:
    import fcntl

    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def test_backends_have_slots_of_their_own() -> None:
    with slot("one", 1), slot("my.backends.Other", 1):
        assert len(_slot_files("*.slot")) == 2


class Clock:
    """What the slots take for the time; others see the real one."""

    sleep = staticmethod(time.sleep)
    monotonic = staticmethod(time.monotonic)

    def __init__(self) -> None:
        self.now = time.time()

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("pytest_aecbench.host.slots.time", clock)
    return clock


def usable(count: int, first: int | None = None) -> int:
    """Return the highest slot that there is to take, which is the one that is taken first."""
    for path in _slot_files("box-*.slot"):
        path.unlink()
    with slot("box", count, first):
        (taken,) = _slot_files("box-*.slot")
    return int(taken.stem.removeprefix("box-")) + 1


def test_a_backend_that_could_not_serve_more_gets_fewer_slots_and_slowly_all_again(
    clock: Clock,
) -> None:
    assert [lower("box", 8) for _ in range(4)] == [4, 2, 1, 1]
    assert usable(8) == 1
    clock.now += 61
    assert usable(8) == 2
    clock.now += 60
    assert usable(8) == 4
    assert lower("box", 8) == 2
    clock.now += 3600
    assert usable(8) == 8


def test_a_clock_that_is_set_back_does_not_keep_slots_lowered(clock: Clock) -> None:
    assert lower("box", 8) == 4
    clock.now -= 86_400
    assert usable(8) == 4
    clock.now += 61
    assert usable(8) == 8


def test_an_heir_that_has_its_slot_is_not_an_heir_any_more() -> None:
    with slot("box", 1):
        heir = hold()
        wait_until(lambda: any(map(_is_locked, _slot_files("*.heir"))))
    assert heir.stdout is not None
    heir.stdout.readline()
    try:
        assert any(map(_is_locked, _slot_files("*.slot")))
        assert not any(map(_is_locked, _slot_files("*.heir"))), "others may wait for it now"
    finally:
        kill(heir)


def test_a_slot_is_taken_without_a_claim_that_stays(tmp_path: Path) -> None:
    with slot("box", 1):
        assert not any(map(_is_locked, _slot_files("*.heir")))
        with pytest.raises(TimeoutError) as raised, slot("box", 1, patience_sec=0.1):
            pass
        assert not any(map(_is_locked, _slot_files("*.heir"))), "who gave up is not an heir"
        assert raised.tb  # refers to the claim, which is not unlocked just because it is forgotten


def test_a_slot_that_has_an_heir_does_not_hide_one_that_is_free() -> None:
    with FileLock(shared_directory("slots") / "box-1.heir"), slot("box", 2, patience_sec=0):
        assert [path.name for path in _slot_files("*.slot")] == ["box-0.slot"]


def test_a_run_begins_with_few_slots(clock: Clock) -> None:
    assert usable(32, first=10) == 10
    clock.now += 5.1
    assert usable(32, first=10) == 20
    clock.now += 5
    assert usable(32, first=10) == 32
    assert usable(32) == 32
    assert lower("box", 32) == 16
    clock.now += 59
    assert usable(32, first=10) == 16  # a lowered number is not raised by the next trial


def test_after_a_pause_a_run_begins_with_few_again(clock: Clock) -> None:
    assert usable(32, first=10) == 10
    clock.now += 500
    assert usable(32, first=10) == 32
    (limit,) = _slot_files("box.limit")
    os.utime(limit, (clock.now - 500, clock.now - 500))
    assert usable(32, first=10) == 32
    assert time.time() - limit.stat().st_mtime < 60, "each use ends the pause"
    os.utime(limit, (clock.now - 601, clock.now - 601))
    assert usable(32, first=10) == 10


def test_a_process_does_not_try_the_slots_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    class Counting(FileLock):
        def acquire(self, *args: Any, **kwargs: Any) -> Any:
            tried.append(self.lock_file)
            return super().acquire(*args, **kwargs)

    monkeypatch.setattr("pytest_aecbench.host.slots.FileLock", Counting)
    with ExitStack() as held:
        for _ in range(100):
            held.enter_context(slot("box", 100))
        assert len(tried) == 200  # each slot, and the place of its heir
        with pytest.raises(TimeoutError):
            held.enter_context(slot("box", 100, patience_sec=0.1))
    with slot("box", 100):
        pass


class Level:
    """How many have a slot, and how many ever had one at once."""

    def __init__(self, slots: int, *, meet: bool = False) -> None:
        self.slots = slots
        self.now = self.highest = self.done = 0
        self._lock = threading.Lock()
        self._all = threading.Barrier(slots if meet else 1, timeout=60)

    def take(self, times: int = 1) -> None:
        """Have a slot so many times, and each time meet those that have the others."""
        for _ in range(times):
            with slot("box", self.slots):
                self._change(1)
                self._all.wait()
                pause(0.001)
                self._change(-1)

    def _change(self, by: int) -> None:
        with self._lock:
            self.now += by
            self.highest = max(self.highest, self.now)
            self.done += by < 0


@pytest.fixture
def no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let those that wait for a slot look again only when they hear that one is free."""
    for module in ("hub", "lanes"):
        monkeypatch.setattr(f"pytest_aecbench.host.{module}.POLL_SEC", 3600)


def run_threads(work: Callable[[], object], count: int) -> None:
    threads = [threading.Thread(target=work, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads), "some wait for ever"


@pytest.mark.usefixtures("no_polls")
def test_threads_that_seek_at_once_use_all_slots_and_never_more() -> None:
    level = Level(4, meet=True)
    run_threads(level.take, 24)
    assert (level.done, level.highest) == (24, 4)


@pytest.mark.usefixtures("no_polls")
def test_a_thread_has_a_slot_as_soon_as_another_frees_it() -> None:
    level = Level(2)
    run_threads(lambda: level.take(25), 8)
    assert (level.done, level.highest) == (200, 2)


@pytest.mark.usefixtures("no_polls")
def test_lanes_wait_for_slots_in_turn() -> None:
    hub, level = Hub(), Level(2)
    for number in range(6):
        hub.start(str(number), level.take)
    while hub.lanes:
        hub.step(10)
    assert (level.done, level.highest) == (6, 2)


def test_a_thread_with_a_smaller_limit_holds_up_no_other() -> None:
    with slot("box", 1):
        first = threading.Thread(target=Level(1).take, daemon=True)
        first.start()
        wait_until(lambda: any(map(_is_locked, _slot_files("*.heir"))))
        with slot("box", 2, patience_sec=0):
            pass
    first.join(60)
    assert not first.is_alive()


def test_who_waits_for_a_slot_that_is_not_used_any_more_waits_for_another() -> None:
    low, high = (FileLock(shared_directory("slots") / f"box-{number}.slot") for number in (0, 1))
    waiter = threading.Thread(target=Level(2).take, daemon=True)
    with low:
        with high:
            waiter.start()
            wait_until(lambda: any(map(_is_locked, _slot_files("box-1.heir"))))
            assert lower("box", 2) == 1
            # Until then it may look once more with the limit of before.
            wait_until(lambda: any(map(_is_locked, _slot_files("box-0.heir"))))
        waiter.join(0.3)
        assert waiter.is_alive()
    waiter.join(60)
    assert not waiter.is_alive()


def test_a_slot_of_this_process_that_is_freed_too_late_is_not_used_any_more() -> None:
    high, low = ExitStack(), ExitStack()
    for held in (high, low):  # the highest number is taken first
        held.enter_context(slot("box", 2))
    waiter = threading.Thread(target=Level(2).take, daemon=True)
    waiter.start()
    wait_until(lambda: any(map(_is_locked, _slot_files("box-*.heir"))))
    assert lower("box", 2) == 1
    wait_until(lambda: any(map(_is_locked, _slot_files("box-0.heir"))))
    high.close()
    waiter.join(0.3)
    assert waiter.is_alive()
    low.close()
    waiter.join(60)
    assert not waiter.is_alive()


def test_cores_are_those_that_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert cores() == 1
    finally:
        os.sched_setaffinity(0, allowed)
    monkeypatch.delattr(os, "sched_getaffinity")  # as on macOS
    assert cores() == os.cpu_count()
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cores() == 1
