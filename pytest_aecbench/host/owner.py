"""The owner of a resource: the process that made it, and whether that process is still alive."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_aecbench.host.heartbeat import silence

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["LABEL_PREFIX", "PID_LABEL", "Owner", "is_abandoned", "is_out_of_sight"]

LABEL_PREFIX = "aecbench."
PID_LABEL = f"{LABEL_PREFIX}pid"

# How long the heartbeat of a process must have been silent before the process counts as dead, if
# it cannot be looked up: after another boot of its machine, and in any other case.
_REBOOTED_SEC = 90.0
_SILENT_SEC = 3600.0


@dataclass(frozen=True, slots=True)
class Owner:
    """A process, told apart from any other that had or will have its number.

    A resource carries its owner as labels. Other processes may remove it only once the owner is
    known to be dead. Processes of the same boot and pid namespace can look it up. Host names,
    machine ids and process numbers may be the same elsewhere, so they prove nothing.
    """

    host: str
    boot: str
    pid: str
    started: str
    machine: str = ""
    namespace: str = ""

    @classmethod
    def current(cls) -> Owner:
        """Return this process as an owner."""
        pid = os.getpid()
        return cls(socket.gethostname(), _boot(), str(pid), _started(pid), _machine(), _namespace())

    @classmethod
    def from_labels(cls, labels: Mapping[str, str]) -> Owner | None:
        """Return the owner that the labels name, or None if they name none."""
        found = {
            field.name: str(labels[LABEL_PREFIX + field.name])
            for field in fields(cls)
            if LABEL_PREFIX + field.name in labels
        }
        try:
            return cls(**found)
        except TypeError:
            return None

    def labels(self) -> dict[str, str]:
        """Return the labels that name this owner."""
        return {LABEL_PREFIX + name: value for name, value in asdict(self).items()}

    @property
    def short(self) -> str:
        """A short form of the owner, which fits into a name."""
        return f"{self.boot[:8]}.{self.namespace}.{self.pid}.{re.sub(r'[^0-9]', '', self.started)}"

    @staticmethod
    def is_dead_by_its_short(short: str) -> bool:
        """Return whether the process is known to have ended; False if it cannot be looked up."""
        boot, namespace, pid, started = (*short.split("."), "", "", "", "")[:4]
        if not (boot and namespace and (boot, namespace) == (_boot()[:8], _namespace())):
            return False
        return pid.isdecimal() and not _is_running(int(pid), started)

    def is_in_sight(self) -> bool:
        """Return whether this process can look the owner up."""
        if not (self.boot and self.namespace):
            return False
        return (self.boot, self.namespace) == (_boot(), _namespace())

    def is_dead(self, heartbeat: Path | None = None) -> bool:
        """Return whether the process is known to have ended.

        A process that cannot be looked up is dead once its ``heartbeat`` has been silent for long.
        """
        if self.is_in_sight():
            return not self.pid.isdecimal() or not _is_running(int(self.pid), self.started)
        if heartbeat is None:
            return False
        return silence(heartbeat) > (_REBOOTED_SEC if self._is_of_another_boot() else _SILENT_SEC)

    def _is_of_another_boot(self) -> bool:
        """Return whether everything says that this machine was booted since."""
        here = (_machine(), socket.gethostname())
        if not (self.machine and self.boot and _boot()) or (self.machine, self.host) != here:
            return False
        return self.boot != _boot()


def is_abandoned(labels: Mapping[str, str], *, is_overdue: bool = False) -> bool:
    """Return whether a resource with these labels is one of ours whose process is known dead.

    If the process cannot be looked up, the only evidence is that the resource ``is_overdue``.
    """
    owner = Owner.from_labels(labels)
    if owner is None:
        return False
    return owner.is_dead() if owner.is_in_sight() else is_overdue


def is_out_of_sight(labels: Mapping[str, str]) -> bool:
    """Return whether a resource with these labels is one of ours whose process cannot be seen."""
    owner = Owner.from_labels(labels)
    return owner is not None and not owner.is_in_sight()


@lru_cache(maxsize=1)
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return _output("sysctl", "-n", "kern.bootsessionuuid")  # macOS


@lru_cache(maxsize=1)
def _machine() -> str:
    """Return a digest of the machine's id, which is not to be made public; empty if unknown."""
    try:
        found = Path("/etc/machine-id").read_bytes().strip()
    except OSError:
        return ""
    return sha256(b"aecbench\0" + found).hexdigest()[:16] if found else ""


@lru_cache(maxsize=1)
def _namespace() -> str:
    """Return the namespace that process numbers belong to; empty if they cannot be looked up."""
    try:
        status = Path("/proc/self/status").read_text()
        name = Path("/proc/self/ns/pid").readlink().name
    except OSError:
        return "" if Path("/proc").is_dir() else "only"
    # With the /proc of an outer namespace there are several numbers, and ours is not the first.
    numbers = re.search(r"^NSpid:(.*)$", status, re.MULTILINE)
    if numbers is None or numbers[1].split() != [str(os.getpid())]:
        return ""
    return re.sub(r"[^0-9]", "", name)


def _is_running(pid: int, started: str) -> bool:
    """Return whether a process of this namespace runs that started then."""
    if found := _started(pid):
        return re.sub(r"[^0-9]", "", found) == re.sub(r"[^0-9]", "", started)
    try:
        os.kill(pid, 0)
    except PermissionError:
        return not Path(f"/proc/{pid}").exists()  # another user's, which /proc may hide
    except (ProcessLookupError, OverflowError):
        return False
    return False  # it has ended, but its parent has not taken note


def _started(pid: int) -> str:
    """Return the process's start time in the system's own unit; empty if it does not run."""
    try:
        # The name, which comes before, may contain anything but ends with the last bracket.
        found = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        if Path("/proc/self/stat").exists():
            return ""
        return _output("ps", "-o", "lstart=", "-p", str(pid))
    state, start_time = found[0], found[19]
    return "" if state in "ZX" else start_time


def _output(*argv: str) -> str:
    try:
        shown = subprocess.run(argv, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return shown.stdout.strip()
