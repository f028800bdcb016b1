from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

from pytest_aecbench.host.owner import Owner

PRINT_LABELS = """
import json
from pytest_aecbench.host.owner import Owner
print(json.dumps(Owner.current().labels()), flush=True)
input()
"""


def test_this_process_is_alive() -> None:
    assert not Owner.current().is_dead()


def test_labels_name_the_owner_again() -> None:
    owner = Owner.current()
    assert Owner.from_labels({**owner.labels(), "other": "label"}) == owner
    assert Owner.from_labels({"aecbench.host": "somewhere"}) is None


def test_another_process_is_alive_until_it_is_dead() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PRINT_LABELS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    owner = Owner.from_labels(json.loads(process.stdout.readline()))
    assert owner is not None
    assert not owner.is_dead()
    process.kill()
    process.wait()
    process.stdout.close()
    assert process.stdin is not None
    process.stdin.close()
    assert owner.is_dead()


def test_a_number_that_another_process_has_now_is_not_the_owner() -> None:
    assert replace(Owner.current(), started="1").is_dead()


def test_an_earlier_boot_is_dead() -> None:
    assert replace(Owner.current(), boot="earlier").is_dead()


def test_nobody_is_called_dead_from_another_host() -> None:
    assert not replace(Owner.current(), host="elsewhere", pid="1", started="1").is_dead()


def test_an_owner_is_known_by_few_characters_too() -> None:
    owner = Owner.current()
    assert not Owner.is_dead_by_its_short(owner.short)
    assert Owner.is_dead_by_its_short(replace(owner, started="1").short)
    assert not Owner.is_dead_by_its_short(replace(owner, started="1", boot="another").short)
    assert not Owner.is_dead_by_its_short("k3x9q2vd")
