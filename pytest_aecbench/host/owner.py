"""The owner of a resource: the process that made it, and whether that process is still alive."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["EXPIRES_LABEL", "LABEL_PREFIX", "Owner", "is_abandoned"]

LABEL_PREFIX = "aecbench."
EXPIRES_LABEL = f"{LABEL_PREFIX}expires"


@dataclass(frozen=True, slots=True)
class Owner:
    """A process, told apart from any other that had or will have its number.

    A resource carries its owner as labels. Other processes may remove it only once the owner is
    known to be dead, which cannot be known from another host.
    """

    host: str
    boot: str
    pid: str
    started: str

    @classmethod
    def current(cls) -> Owner:
        """Return this process as an owner."""
        pid = os.getpid()
        return cls(socket.gethostname(), _boot(), str(pid), _started(pid))

    @classmethod
    def from_labels(cls, labels: Mapping[str, str]) -> Owner | None:
        """Return the owner that the labels name, or None if they name none."""
        try:
            return cls(*(labels[LABEL_PREFIX + name] for name in cls.__slots__))
        except KeyError:
            return None

    def labels(self) -> dict[str, str]:
        """Return the labels that name this owner."""
        return {LABEL_PREFIX + name: value for name, value in asdict(self).items()}

    @property
    def short(self) -> str:
        """A short form of the owner, which fits into a name."""
        return f"{self.boot[:8]}.{self.pid}.{re.sub(r'[^0-9]', '', self.started)}"

    @staticmethod
    def is_dead_by_its_short(short: str) -> bool:
        """Return whether the process is known to have ended; False for another boot's."""
        boot, pid, started = (*short.split("."), "", "", "")[:3]
        ours = bool(boot) and boot == _boot()[:8]
        return ours and pid.isdecimal() and _started(int(pid)) != started

    def is_dead(self) -> bool:
        """Return whether the process is known to have ended."""
        if self.host != socket.gethostname():
            return False
        if self.boot != _boot():
            return True
        return not self.pid.isdecimal() or _started(int(self.pid)) != self.started


def is_abandoned(labels: Mapping[str, str]) -> bool:
    """Return whether a resource with these labels is one of ours whose process is known dead.

    Of a process on another host, the only evidence is that the resource has expired.
    """
    owner = Owner.from_labels(labels)
    if owner is None:
        return False
    if owner.host == socket.gethostname():
        return owner.is_dead()
    expires = labels.get(EXPIRES_LABEL, "")
    return expires.isdecimal() and int(expires) < time.time()


@lru_cache(maxsize=1)
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _started(pid: int) -> str:
    """Return the process's start time in the system's own unit; empty if it does not run."""
    try:
        # The name, which comes before, may contain anything but ends with the last bracket.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        if Path("/proc/self/stat").exists():
            return ""
        shown = subprocess.run(
            ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
        )
        return shown.stdout.strip()
    state, start_time = fields[0], fields[19]
    return "" if state in "ZX" else start_time
