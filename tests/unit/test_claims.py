"""Claims on experiments and trials: one process has each, and the kernel frees what it held."""

from __future__ import annotations

import errno
import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_aecbench.errors import LedgerError
from pytest_aecbench.ledger.claims import Claim, Claims, clear_dead_claims

HOLDER = """
import sys
from pathlib import Path
from pytest_aecbench.ledger.claims import Claims
claims = Claims(Path(sys.argv[1]), "other")
claims.enter(alone=True)
claims.claim("a")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    return tmp_path / "ledger" / "mine"


def enter(claims: Claims, *, alone: bool) -> bool:
    return claims.enter(alone=alone, patience_sec=0)


def claimed(claims: Claims, *name: str) -> Claim:
    claim = claims.claim(*name)
    assert claim is not None
    return claim


def test_a_run_alone_keeps_others_out_until_it_leaves(experiment: Path) -> None:
    first = Claims(experiment, "1")
    assert enter(first, alone=True)
    assert enter(first, alone=True)
    assert not enter(Claims(experiment, "2"), alone=True)
    first.leave()
    assert enter(Claims(experiment, "3"), alone=True)


def test_a_run_that_joined_keeps_others_out_as_well(experiment: Path) -> None:
    first, second = Claims(experiment, "1"), Claims(experiment, "2")
    assert enter(first, alone=True)
    assert enter(second, alone=False)
    first.leave()
    assert not enter(Claims(experiment, "3"), alone=True)
    second.leave()
    assert enter(Claims(experiment, "4"), alone=True)


def test_what_was_refused_stays_refused(experiment: Path) -> None:
    first, second = Claims(experiment, "1"), Claims(experiment, "2")
    assert enter(first, alone=True)
    assert not enter(second, alone=True)
    first.leave()
    assert not enter(second, alone=True)


def test_a_trial_is_claimed_by_one_process_at_a_time(experiment: Path) -> None:
    first, second = Claims(experiment, "1"), Claims(experiment, "2")
    claim = claimed(first, "a", "b")
    assert second.claim("a", "b") is None
    claimed(second, "ab").release(None)
    claim.release(None)
    claimed(second, "a", "b").release(None)


def test_a_later_run_learns_which_record_has_the_reward(experiment: Path) -> None:
    first, second = Claims(experiment, "1"), Claims(experiment, "2")
    claim = claimed(first, "a")
    assert claim.earned_elsewhere() is None
    claim.release("record")
    again = claimed(first, "a")
    assert again.earned_elsewhere() is None  # its own run may run it again
    again.release(None)
    assert claimed(second, "a").earned_elsewhere() == "record"


def test_the_last_run_removes_what_claims_need(experiment: Path) -> None:
    first, second = Claims(experiment, "1"), Claims(experiment, "2")
    claimed(first, "a").release("record")
    assert enter(second, alone=False)
    first.leave()
    assert [path.name for path in experiment.iterdir()] == [".claims"]
    second.leave()
    assert not [*experiment.iterdir()]


def test_a_process_that_dies_frees_all_that_it_held(experiment: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(experiment)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    clear_dead_claims(experiment.parent)
    assert (experiment / ".claims").exists()
    assert not enter(Claims(experiment, "1"), alone=True)
    joined = Claims(experiment, "2")
    assert joined.claim("a") is None
    joined.leave()
    holder.kill()
    holder.communicate()
    clear_dead_claims(experiment.parent)
    assert not (experiment / ".claims").exists()
    claims = Claims(experiment, "3")
    assert enter(claims, alone=True)
    claimed(claims, "a").release(None)


def test_a_filesystem_without_locks_keeps_no_run_out(
    experiment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(file: int, kind: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    first, second = Claims(experiment, "1"), Claims(experiment, "2")
    assert enter(first, alone=True)
    assert enter(second, alone=True)
    assert not second.has_locks
    claimed(first, "a")
    claimed(second, "a").release(None)
    first.leave()


def test_a_directory_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "ledger").write_text("in the way")
    with pytest.raises(LedgerError, match=r"ledger/mine: cannot be written, Not a directory$"):
        Claims(tmp_path / "ledger/mine", "1").enter(alone=True)
