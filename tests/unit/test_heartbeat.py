"""A live process touches its files; how long one was not touched is known by its filesystem."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_aecbench.host import heartbeat, runs
from pytest_aecbench.host.files import shared_directory
from pytest_aecbench.host.homes import make_home
from pytest_aecbench.ledger import journal
from tests.stopping import wait_until
from tests.unit.test_record import a_record


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "BEAT_SEC", 0.01)
    monkeypatch.setattr(heartbeat, "_HEART", heartbeat._Heart())


def long_ago(path: Path) -> Path:
    path.touch()
    os.utime(path, (0, 0))
    return path


@pytest.mark.usefixtures("fast")
def test_files_are_touched_again_and_again(tmp_path: Path) -> None:
    one, other = long_ago(tmp_path / "one"), long_ago(tmp_path / "other")
    out_of_reach = one / "below-a-file"
    for path in (one, out_of_reach, other):
        heartbeat.beat(path)
    for _ in range(2):
        wait_until(lambda: heartbeat.silence(one) < 60 and heartbeat.silence(other) < 60)
        long_ago(one)
        long_ago(other)


@pytest.mark.usefixtures("fast")
def test_a_file_that_was_removed_is_not_made_again_and_is_forgotten(tmp_path: Path) -> None:
    gone, there = long_ago(tmp_path / "gone"), long_ago(tmp_path / "there")
    heartbeat.beat(gone)
    gone.unlink()
    heartbeat.beat(there)
    wait_until(lambda: heartbeat.silence(there) < 60)
    wait_until(lambda: heartbeat._HEART._files == {there})
    assert not gone.exists()


@pytest.mark.usefixtures("fast", "own_machine")
def test_the_files_of_runs_attempts_and_sandboxes_are_heartbeats(tmp_path: Path) -> None:
    record = a_record()
    runs.begin(runs.Lease("run", tmp_path))
    journal.begin(tmp_path, record)
    home = make_home("local")
    lease = shared_directory("runs") / "run.json"
    note = tmp_path / record.experiment_id / f".{record.trial_id}.running"
    files = [lease, note, home / "owner.json"]
    for path in files:
        long_ago(path)
    wait_until(lambda: all(heartbeat.silence(path) < 60 for path in files))


@pytest.mark.usefixtures("fast")
def test_files_out_of_reach_do_not_keep_others_from_being_touched(tmp_path: Path) -> None:
    files = [long_ago(tmp_path / f"{n}") for n in range(10)]
    for file in files:
        heartbeat.beat(file / "below-a-file")
        heartbeat.beat(file)
    wait_until(lambda: all(heartbeat.silence(file) < 60 for file in files))


def test_one_thread_touches_all_files_and_does_not_keep_the_process(tmp_path: Path) -> None:
    code = """
import sys, threading
from pathlib import Path
from pytest_aecbench.host.heartbeat import beat

for name in sys.argv[1:]:
    beat(Path(name))
print(threading.active_count())
"""
    command = [sys.executable, "-c", code, *(str(long_ago(tmp_path / name)) for name in "abc")]
    assert subprocess.check_output(command, text=True, timeout=60) == "2\n"


def test_three_beats_come_before_anything_is_called_silent() -> None:
    from pytest_aecbench.host import owner

    assert 3 * heartbeat.BEAT_SEC <= owner._REBOOTED_SEC < owner._SILENT_SEC


def test_silence_is_measured_by_the_clock_of_the_filesystem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.touch()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert abs(heartbeat.silence(path)) < 60
    os.utime(path, (0, 0))
    assert heartbeat.silence(path) > 10**9
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_not_there_is_not_called_silent(tmp_path: Path) -> None:
    assert heartbeat.silence(tmp_path / "none") == 0
    assert heartbeat.silence(tmp_path / "no-directory" / "none") == 0
