"""No more sandboxes at once than slots, whoever asks, and nobody waits for ever."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_aecbench.machine import shared_directory
from pytest_aecbench.slots import lower, slot

pytestmark = pytest.mark.usefixtures("own_machine")

# Takes a slot again and again until told to stop, and notes when it had one.
TAKER = """
import os, sys, time
from pathlib import Path
from pytest_aecbench.machine import shared_directory
from pytest_aecbench.slots import lower, slot

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


def test_a_slot_is_free_when_its_holder_dies(tmp_path: Path) -> None:
    script = "import time; from pytest_aecbench.slots import slot\nwith slot('box', 1):\n"
    script += "    print(flush=True); time.sleep(600)"
    holder = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.readline()
    waiter = start("waiter", 1, tmp_path / "log")
    try:
        time.sleep(0.2)
        assert not turns(tmp_path / "log")
        holder.kill()
        wait_until(lambda: turns(tmp_path / "log"))
    finally:
        (tmp_path / "stop").touch()
        waiter.wait(60)
        holder.kill()
        holder.wait()
        holder.stdout.close()


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
    from pytest_aecbench.machine import shared_directory

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


def test_fewer_slots_are_used_for_a_while_once_a_backend_asks_for_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert lower("box", 4) == 2
    assert lower("box", 4) == 1
    assert lower("box", 4) == 1
    with slot("box", 4):
        taken = {path.name for path in shared_directory("slots").glob("box-*.slot")}
    assert taken == {"box-0.slot"}
    later = time.time() + 3600
    monkeypatch.setattr(time, "time", lambda: later)
    assert lower("box", 8) == 4
