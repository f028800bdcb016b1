"""Homes: directories of sandboxes on this machine, each naming the process that owns it.

The owner is in the home's name and in a file in it, so that other processes can remove the home
once its owner is dead. The file is the owner's heartbeat.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from pytest_aecbench.host.files import read_regular, shared_directory
from pytest_aecbench.host.heartbeat import beat, silence
from pytest_aecbench.host.owner import Owner

__all__ = [
    "Homes",
    "abandoned_homes",
    "find_homes",
    "is_maker_dead",
    "keep",
    "make_home",
    "remove_tree",
    "stored_bytes",
]

_OWNER_FILE = "owner.json"
_KEPT_FILE = "kept"
# A home without an owner's file is being made or removed, perhaps by a process of another host.
_NAMELESS_SEC = 3600
_MAX_OWNER_BYTES = 1 << 16


class Homes(NamedTuple):
    """Homes that can be removed, and those whose owner cannot be proved dead."""

    abandoned: list[Path]
    out_of_sight: list[Path]


def make_home(kind: str) -> Path:
    """Make a home that belongs to this process."""
    owner = Owner.current()
    prefix = f"{kind}-{owner.short}-"
    home = Path(tempfile.mkdtemp(prefix=prefix, dir=shared_directory("homes")))
    (home / _OWNER_FILE).write_text(json.dumps(owner.labels()))
    beat(home / _OWNER_FILE)
    return home


def keep(home: Path) -> None:
    """Mark a home as the user's own, so that no process removes it."""
    (home / _KEPT_FILE).touch()


def find_homes(kind: str) -> Homes:
    """Return the homes of that kind whose owner can no longer remove them, or is out of sight."""
    found = Homes([], [])
    for home in sorted(shared_directory("homes").glob(f"{kind}-*")):
        if (home / _KEPT_FILE).exists():
            continue
        owner = _owner_of(home)
        if owner is None:
            if _is_left_by_its_maker(home):
                found.abandoned.append(home)
        elif owner.is_dead(heartbeat=home / _OWNER_FILE):
            found.abandoned.append(home)
        elif not owner.is_in_sight():
            found.out_of_sight.append(home)
    return found


def abandoned_homes(kind: str) -> list[Path]:
    """Return the homes of that kind whose owner can no longer remove them."""
    return find_homes(kind).abandoned


def _owner_of(home: Path) -> Owner | None:
    try:
        return Owner.from_labels(json.loads(read_regular(home / _OWNER_FILE, _MAX_OWNER_BYTES)))
    except (OSError, TypeError, ValueError):
        return None


def _is_left_by_its_maker(home: Path) -> bool:
    """Return whether a home without an owner's file will not get one any more."""
    return is_maker_dead(home.name) or silence(home) > _NAMELESS_SEC


def is_maker_dead(home: str) -> bool:
    """Return whether the process that made a home of this name is known to have ended."""
    return Owner.is_dead_by_its_short(home.rpartition("-")[0].rpartition("-")[2])


def remove_tree(directory: Path) -> None:
    """Remove a tree, also a read-only or very deep one; do nothing if it is gone."""
    while directory.exists():
        try:
            shutil.rmtree(directory)
        except FileNotFoundError:
            continue  # another process removes it too
        except (OSError, RecursionError):
            for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
                subprocess.run([*command, "--", directory], stderr=subprocess.DEVNULL, check=False)
            return


def stored_bytes(*directories: Path) -> int:
    """Return how much of their disks directories take up, whatever an agent has put into them."""
    # Directories may be unreadable, or deeper than a path can be long, and files full of holes.
    for command in (["chmod", "-R", "u+rwX"], ["du", "-skxc"]):
        done = subprocess.run([*command, "--", *directories], capture_output=True, check=False)
    total = done.stdout.rpartition(b"\n")[0].rpartition(b"\n")[2].split()
    return int(total[0]) * 1024 if total else 0
