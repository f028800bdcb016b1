"""Leases of runs: a dead run's tells where its records are, and none is left for ever."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_aecbench.errors import BackendError
from pytest_aecbench.host import heartbeat, runs
from pytest_aecbench.host.files import shared_directory
from pytest_aecbench.host.owner import Owner
from pytest_aecbench.host.runs import Lease
from tests.stopping import wait_until

pytestmark = pytest.mark.usefixtures("own_machine")

HOUR = 3600.0


def lease_file(run_id: str) -> Path:
    return shared_directory("runs") / f"{run_id}.json"


def begin(run_id: str, ledger_root: Path, **changes: str) -> Lease:
    """Write the lease of a run, and change who has it."""
    lease = Lease(run_id, ledger_root, {"root": "/project", "given": {"a": ["b", "c"]}}, ["KEY"])
    runs.begin(lease)
    labels: Mapping[str, str] = replace(Owner.current(), **changes).labels()
    path = lease_file(run_id)
    path.write_text(json.dumps({**json.loads(path.read_text()), **labels}))
    return lease


def age(path: Path, seconds: float) -> None:
    found = path.stat().st_mtime - seconds
    os.utime(path, (found, found))


def test_leases_are_told_apart_by_their_owners(tmp_path: Path) -> None:
    begin("alive", tmp_path)
    dead = begin("dead", tmp_path, started="1")
    elsewhere = begin("elsewhere", tmp_path, namespace="1")
    assert runs.find_leases() == ([dead], [elsewhere])
    age(lease_file("elsewhere"), 0.9 * HOUR)
    assert runs.find_leases() == ([dead], [elsewhere])
    age(lease_file("elsewhere"), 0.2 * HOUR)
    assert runs.find_leases() == ([dead, elsewhere], [])


def test_a_run_is_known_to_live_or_to_be_dead_only_where_its_process_can_be_seen(
    tmp_path: Path,
) -> None:
    begin("alive", tmp_path)
    begin("dead", tmp_path, started="1")
    begin("elsewhere", tmp_path, namespace="1")
    lease_file("torn").write_bytes(b"{}")
    names = ("alive", "dead", "elsewhere", "torn", "ended")
    assert [runs.is_alive(name) for name in names] == [True, False, None, None, None]


def test_a_lease_has_the_whole_path_of_its_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    begin("dead", Path("ledger"), started="1")
    (lease,) = runs.find_leases().dead
    assert lease.ledger_root == tmp_path / "ledger"


def test_the_end_of_a_run_removes_its_files_and_no_others(tmp_path: Path) -> None:
    begin("one", tmp_path)
    begin("other", tmp_path)
    runs.add_cost("one", 0.5)
    runs.add_cost("one", None)
    assert runs.spent("one") == (0.5, 1)
    assert runs.spent("other") == (0, 0)
    runs.end("one")
    runs.end("one")
    assert [path.name for path in shared_directory("runs").iterdir()] == ["other.json"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"aecbench.pid": "1"}', b"\xff"])
def test_a_torn_lease_is_removed_once_it_is_old(content: bytes) -> None:
    path = lease_file("torn")
    path.write_bytes(content)
    runs.add_cost("torn", 1)
    assert runs.find_leases() == ([], [])
    assert path.exists()
    age(path, 1.1 * HOUR)
    assert runs.find_leases() == ([], [])
    assert list(shared_directory("runs").iterdir()) == []


def test_a_pipe_holds_nothing_up() -> None:
    os.mkfifo(lease_file("pipe"))
    assert runs.find_leases() == ([], [])


def test_a_lease_that_cannot_be_written_stops_the_run(tmp_path: Path) -> None:
    lease_file("run").mkdir()
    with pytest.raises(BackendError, match=r"run\.json: cannot be written, .*; set TMPDIR"):
        runs.begin(Lease("run", tmp_path))
    assert [path.name for path in shared_directory("runs").iterdir()] == ["run.json"]


def test_the_lease_of_a_live_run_is_touched_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "BEAT_SEC", 0.01)
    monkeypatch.setattr(heartbeat, "_HEART", heartbeat._Heart())
    begin("alive", tmp_path)
    age(lease_file("alive"), HOUR)
    wait_until(lambda: heartbeat.silence(lease_file("alive")) < 60)


def test_a_lease_that_another_process_removes_meanwhile_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin("ended", tmp_path)
    unlink = Path.unlink

    def twice(self: Path, missing_ok: bool = False) -> None:
        unlink(self)
        unlink(self, missing_ok)

    monkeypatch.setattr(Path, "unlink", twice)
    runs.end("ended")
    assert not lease_file("ended").exists()


def test_a_cost_that_a_full_disk_has_torn_is_unknown(tmp_path: Path) -> None:
    begin("mine", tmp_path)
    runs.add_cost("mine", 0.25)
    with lease_file("mine").with_suffix(".costs").open("a") as file:
        file.write("0.2")
    runs.add_cost("mine", 0.5)
    runs.add_cost("mine", None)
    assert runs.spent("mine") == runs.Spent(0.25, 2)
