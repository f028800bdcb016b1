"""Commands started elsewhere: in another pid namespace, under another name, on another machine."""

from __future__ import annotations

import uuid
from pathlib import Path

# Of a process, only these tell one machine from another; its files and its host name stay.
_ANOTHER_MACHINE = """
mount --bind "$1" /proc/sys/kernel/random/boot_id
[ ! -e /etc/machine-id ] || mount --bind "$2" /etc/machine-id
shift 2
exec "$@"
"""
_ANOTHER_NAME = 'echo elsewhere > /proc/sys/kernel/hostname; exec "$@"'


def in_another_namespace(*argv: str) -> list[str]:
    """Return the command for a pid namespace of its own, as a container has."""
    return ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *argv]


def under_another_name(*argv: str) -> list[str]:
    """Return the command for a host name of its own."""
    return ["unshare", "--uts", "sh", "-c", _ANOTHER_NAME, "sh", *argv]


def on_another_machine(directory: Path, *argv: str, machine: str | None = None) -> list[str]:
    """Return the command as if for a machine with this one's host name and files.

    It has its own ids, or those of this ``machine`` after another boot.
    """
    boot, ids = directory / "boot_id", directory / "machine-id"
    boot.write_text(f"{uuid.uuid4()}\n")
    ids.write_text(machine or f"{uuid.uuid4().hex}\n")
    return in_another_namespace("sh", "-ec", _ANOTHER_MACHINE, "sh", str(boot), str(ids), *argv)
