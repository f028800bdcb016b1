"""Homes: directories of sandboxes on this machine, each naming the process that owns it.

The owner is in the home's name and in a file in it, so that other processes can remove the home
once its owner is dead.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from pytest_aecbench.host.files import shared_directory
from pytest_aecbench.host.owner import Owner

__all__ = ["abandoned_homes", "keep", "make_home", "remove_tree"]

_OWNER_FILE = "owner.json"
_KEPT_FILE = "kept"
# A home without an owner's file is being made or removed, perhaps by a process of another host.
_NAMELESS_SEC = 3600


def make_home(kind: str) -> Path:
    """Make a home that belongs to this process."""
    owner = Owner.current()
    prefix = f"{kind}-{owner.short}-"
    home = Path(tempfile.mkdtemp(prefix=prefix, dir=shared_directory("homes")))
    (home / _OWNER_FILE).write_text(json.dumps(owner.labels()))
    return home


def keep(home: Path) -> None:
    """Mark a home as the user's own, so that no process removes it."""
    (home / _KEPT_FILE).touch()


def abandoned_homes(kind: str) -> list[Path]:
    """Return the homes of that kind whose owner can no longer remove them."""
    homes = sorted(shared_directory("homes").glob(f"{kind}-*"))
    return [home for home in homes if _is_abandoned(home)]


def _is_abandoned(home: Path) -> bool:
    if (home / _KEPT_FILE).exists():
        return False
    try:
        owner = Owner.from_labels(json.loads((home / _OWNER_FILE).read_text()))
    except (OSError, ValueError):
        owner = None
    if owner is not None:
        return owner.is_dead()
    maker = home.name.rpartition("-")[0].rpartition("-")[2]
    if Owner.is_dead_by_its_short(maker):
        return True
    with suppress(OSError):
        return time.time() - home.stat().st_mtime > _NAMELESS_SEC
    return False


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
