"""A process is called dead only if that is known, and then at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from pytest_aecbench.host import owner as owner_module
from pytest_aecbench.host.owner import Owner, is_abandoned, is_out_of_sight
from tests.elsewhere import in_another_namespace
from tests.tasks import write_tree

PRINT_LABELS = """
import json
from pytest_aecbench.host.owner import Owner
print(json.dumps(Owner.current().labels()), flush=True)
input()
"""
MINUTE = 60.0


@contextmanager
def process() -> Iterator[tuple[Owner, subprocess.Popen[str]]]:
    """Start a process that waits, as an owner and to be killed."""
    with subprocess.Popen(
        [sys.executable, "-c", PRINT_LABELS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as started:
        assert started.stdout is not None
        owner = Owner.from_labels(json.loads(started.stdout.readline()))
        assert owner is not None
        yield owner, started
        started.kill()


def test_this_process_is_alive() -> None:
    assert Owner.current().is_in_sight()
    assert not Owner.current().is_dead()


def test_labels_name_the_owner_again() -> None:
    owner = Owner.current()
    assert Owner.from_labels({**owner.labels(), "other": "label"}) == owner
    assert Owner.from_labels({"aecbench.host": "somewhere"}) is None


def test_another_process_is_alive_until_it_is_dead() -> None:
    with process() as (owner, started):
        assert not owner.is_dead()
        started.kill()
        os.waitid(os.P_PID, started.pid, os.WEXITED | os.WNOWAIT)
        assert owner.is_dead(), "although its parent has not taken note"
        started.wait()
        assert owner.is_dead()


def test_two_processes_have_different_starts() -> None:
    with process() as (one, _), process() as (other, _):
        assert one.started != other.started
        # As if the second had got the number of the first, after the first had died.
        assert replace(one, pid=other.pid).is_dead()
        assert replace(other, pid=one.pid).is_dead()
        assert not one.is_dead()


REUSE = """
import json, subprocess, sys
from pathlib import Path
from pytest_aecbench.host.owner import Owner

def start():
    process = subprocess.Popen(
        [sys.executable, "-c", sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    return process, Owner.from_labels(json.loads(process.stdout.readline()))

first, dead = start()
first.kill()
first.wait()
Path("/proc/sys/kernel/ns_last_pid").write_text(str(first.pid - 1))
second, alive = start()
assert alive.pid == dead.pid
print(dead.is_dead(), alive.is_dead())
second.kill()
second.wait()
"""


@pytest.mark.needs("machines")
def test_a_number_that_another_process_has_now_is_not_the_owner() -> None:
    if not Path("/proc/sys/kernel/ns_last_pid").exists():
        pytest.skip("this kernel does not let a test choose the next process number")
    command = in_another_namespace(sys.executable, "-c", REUSE, PRINT_LABELS)
    assert subprocess.check_output(command, text=True) == "True False\n"


def test_what_is_no_number_is_dead() -> None:
    assert replace(Owner.current(), pid="?").is_dead()
    assert replace(Owner.current(), pid=str(1 << 80)).is_dead()


HERE = Owner.current()
ELSEWHERE = {
    "another namespace": replace(HERE, namespace="1"),
    "another machine": replace(HERE, machine="m", boot="b"),
    "another machine with this one's id": replace(HERE, host="h", boot="b"),
    "a machine without an id": replace(HERE, machine="", boot="b"),
    "an older version": replace(HERE, machine="", namespace=""),
    "a process without a boot": replace(HERE, boot=""),
}


@pytest.fixture
def heartbeat(tmp_path: Path) -> Path:
    return tmp_path / "heartbeat"


def silent(heartbeat: Path, seconds: float) -> Path:
    heartbeat.touch()
    os.utime(heartbeat, (time.time() - seconds,) * 2)
    return heartbeat


@pytest.mark.parametrize("owner", ELSEWHERE.values(), ids=ELSEWHERE)
def test_a_process_out_of_sight_is_dead_once_its_heart_was_silent_for_an_hour(
    owner: Owner, heartbeat: Path
) -> None:
    for one in (owner, replace(owner, pid="999999999", started="1")):
        assert not one.is_in_sight()
        assert not one.is_dead(), "although no process here has this number"
        assert not one.is_dead(silent(heartbeat, 59 * MINUTE))
        assert one.is_dead(silent(heartbeat, 61 * MINUTE))


MACHINE_ID = Path("/etc/machine-id")
HAS_ID = MACHINE_ID.exists() and bool(MACHINE_ID.read_text().strip())


@pytest.mark.skipif(not HAS_ID, reason="this machine has no id")
def test_a_machine_is_named_by_a_digest_of_its_id() -> None:
    assert len(HERE.machine) == 16
    assert HERE.machine not in MACHINE_ID.read_text()


@pytest.mark.skipif(not HAS_ID, reason="this machine has no id")
def test_a_process_of_an_earlier_boot_is_dead_after_three_beats(heartbeat: Path) -> None:
    earlier = replace(HERE, boot="earlier")
    assert not earlier.is_dead()
    assert not earlier.is_dead(silent(heartbeat, 1.2 * MINUTE)), "a clone of this machine may live"
    assert earlier.is_dead(silent(heartbeat, 1.7 * MINUTE))


def test_a_process_in_sight_needs_no_heartbeat(heartbeat: Path) -> None:
    assert not HERE.is_dead(silent(heartbeat, 1000 * MINUTE))
    with process() as (owner, started):
        started.kill()
        started.wait()
        assert owner.is_dead(silent(heartbeat, 0))


def test_a_host_name_proves_nothing() -> None:
    assert not replace(HERE, host="elsewhere").is_dead()
    assert replace(HERE, host="elsewhere", started="1").is_dead()


def test_resources_of_the_dead_and_overdue_ones_of_others_are_abandoned() -> None:
    dead, other = replace(HERE, started="1"), ELSEWHERE["another namespace"]
    assert is_abandoned(dead.labels())
    assert not is_abandoned(HERE.labels(), is_overdue=True)
    assert not is_abandoned(other.labels())
    assert is_abandoned(other.labels(), is_overdue=True)
    assert not is_abandoned({}, is_overdue=True)
    found = [is_out_of_sight(one) for one in (dead.labels(), HERE.labels(), other.labels(), {})]
    assert found == [False, False, True, False]


@pytest.mark.needs("machines")
def test_with_the_proc_of_another_namespace_nothing_is_in_sight() -> None:
    code = "from pytest_aecbench.host.owner import Owner as O; print(O.current().is_in_sight())"
    argv = ["unshare", "--pid", "--fork", "--kill-child", sys.executable, "-c", code]
    assert subprocess.check_output(argv, text=True) == "False\n"


@pytest.mark.needs("machines")
def test_what_proc_hides_from_another_user_is_alive(tmp_path: Path) -> None:
    with process() as (owner, _):
        # Another user may not be allowed to start this interpreter, so it becomes one when it runs.
        code = (
            "import os; from pytest_aecbench.host.owner import Owner; "
            f"os.setgroups([]); os.setgid(65534); os.setuid(65534); print({owner}.is_dead())"
        )
        hidden = 'mount -t proc -o hidepid=2 proc /proc && exec "$@"'
        argv = ["unshare", "--mount", "sh", "-c", hidden, "sh", sys.executable, "-c", code]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        assert subprocess.check_output(argv, text=True, env=env) == "False\n"


def test_an_owner_is_known_by_few_characters_too() -> None:
    owner = Owner.current()
    assert not Owner.is_dead_by_its_short(owner.short)
    assert Owner.is_dead_by_its_short(replace(owner, started="1").short)
    assert not Owner.is_dead_by_its_short(replace(owner, started="1", boot="another").short)
    assert not Owner.is_dead_by_its_short(replace(owner, started="1", namespace="1").short)
    assert not Owner.is_dead_by_its_short(replace(owner, started="1", namespace="").short)
    assert not Owner.is_dead_by_its_short("k3x9q2vd")


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory that owners take for /proc; it is yet to be made."""
    fake = tmp_path / "proc"
    monkeypatch.setattr(owner_module, "Path", lambda path: Path(path.replace("/proc", str(fake))))
    forget_this_machine()
    yield fake
    forget_this_machine()


def forget_this_machine() -> None:
    for known in (owner_module._boot, owner_module._machine, owner_module._namespace):
        known.cache_clear()


def test_without_proc_the_system_s_own_programs_tell_who_is_alive(
    proc: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name, code in (
        ("sysctl", '[ "$*" = "-n kern.bootsessionuuid" ] && echo the-boot'),
        ("ps", f'[ "$*" = "-o lstart= -p {os.getpid()}" ] && echo "Wed 18 14:00 2026"'),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{code}\n")
        (tmp_path / name).chmod(0o755)
    owner = Owner.current()
    assert (owner.boot, owner.namespace) == ("the-boot", "only")
    assert owner.started == "Wed 18 14:00 2026"
    assert owner.is_in_sight()
    assert not owner.is_dead()
    assert replace(owner, started="Wed 18 13:00 2026").is_dead()
    assert replace(owner, pid="999999999").is_dead()
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    forget_this_machine()
    assert not Owner.current().is_in_sight()


def test_a_proc_that_tells_nothing_of_this_process_shows_no_other(proc: Path) -> None:
    proc.mkdir()
    assert Owner.current().namespace == ""


@pytest.mark.parametrize(("shown", "dead"), [(None, False), ("7 (a b) Z", True)])
def test_a_process_of_another_user_is_dead_if_proc_shows_that_it_has_ended(
    proc: Path, monkeypatch: pytest.MonkeyPatch, shown: str | None, dead: bool
) -> None:
    files = {
        "sys/kernel/random/boot_id": "the-boot\n",
        "self/status": f"Name:\tx\nNSpid:\t{os.getpid()}\n",
        "self/stat": "1 (x) S",
        "7/stat": shown and f"{shown} {'0 ' * 30}",
    }
    (write_tree(proc, files) / "self" / "ns").mkdir()
    (proc / "self" / "ns" / "pid").symlink_to("pid:[42]")

    def refuse(pid: int, number: int) -> None:
        assert (pid, number) == (7, 0)
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    other = replace(Owner.current(), pid="7")
    assert (other.boot, other.namespace) == ("the-boot", "42")
    assert other.is_dead() is dead


@pytest.mark.parametrize(("text", "known"), [("0123abcd\n", True), ("\n", False), (None, False)])
def test_a_machine_is_known_by_a_digest_of_its_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, known: bool
) -> None:
    write_tree(tmp_path, {"machine-id": text})
    monkeypatch.setattr(
        owner_module, "Path", lambda path: Path(path.replace("/etc", str(tmp_path)))
    )
    forget_this_machine()
    try:
        machine = Owner.current().machine
    finally:
        forget_this_machine()
    assert machine == (sha256(b"aecbench\x000123abcd").hexdigest()[:16] if known else "")
