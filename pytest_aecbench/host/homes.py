"""Directories of sandboxes on this machine, each with its owner in it.

The owner is the first thing written to a home, and its name tells it until then. Should the
owner's process die, others know, and remove the home.
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

__all__ = ["give_away", "left_homes", "make_home", "remove_tree"]

_OWNER_FILE = "owner.json"
_KEPT_FILE = "kept"
# One without an owner is being made, or was half removed; by whom may not be known to this host.
_NAMELESS_SEC = 3600


def make_home(kind: str) -> Path:
    """Make a home that belongs to this process."""
    owner = Owner.current()
    prefix = f"{kind}-{owner.short}-"
    home = Path(tempfile.mkdtemp(prefix=prefix, dir=shared_directory("homes")))
    (home / _OWNER_FILE).write_text(json.dumps(owner.labels()))
    return home


def give_away(home: Path) -> None:
    """Leave a home to the user, who alone removes it."""
    (home / _KEPT_FILE).touch()


def left_homes(kind: str) -> list[Path]:
    """Return the homes of that kind that nobody will remove any more."""
    return [home for home in sorted(shared_directory("homes").glob(f"{kind}-*")) if _is_left(home)]


def _is_left(home: Path) -> bool:
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
    """Remove a tree, also a read-only or very deep one; one that is gone is fine."""
    while directory.exists():
        try:
            shutil.rmtree(directory)
        except FileNotFoundError:
            continue  # another process removes it too
        except (OSError, RecursionError):
            for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
                subprocess.run([*command, "--", directory], stderr=subprocess.DEVNULL, check=False)
            return
